"""One model a rank, with collectives between its parts."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from fxport.exporter.distributed.collectives import device_of
from fxport.ort_runner.cuts import Cuts
from fxport.ort_runner.distributed import DOMAIN, RankSession, Segment, steps_of
from tests.distributed.spawn import spawn
from tests.distributed.tokens import COUNT


def test_two_ranks_generate_what_one_process_does(tmp_path: Path) -> None:
    for outcome in spawn("tests.distributed.tokens", "generated", 2, str(tmp_path)):
        assert outcome.code == 0, outcome.output
        mine, eager, worst, collectives, named = outcome.result
        assert mine == eager
        assert len(mine) == 7 + COUNT
        assert worst < 2e-5
        assert collectives == ["AllReduce"] * 4
        assert named == {"com.microsoft::AllReduce"}
    names = sorted(re.sub(r"[0-9a-f]{16}", "HASH", file.name) for file in tmp_path.iterdir())
    assert names == [f"rank{rank}.onnx{suffix}" for rank in (0, 1) for suffix in ("", ".HASH.data")]


def test_two_ranks_generate_with_their_parts_of_the_cache(tmp_path: Path) -> None:
    for outcome in spawn("tests.distributed.tokens", "generated_with_cache", 2, str(tmp_path)):
        assert outcome.code == 0, outcome.output
        mine, eager, worst, keys = outcome.result
        assert mine == eager
        assert len(mine) == 6 + COUNT
        assert worst < 2e-5
        assert keys == [1, 1, 6 + COUNT - 1, 8]  # one of the two heads


def test_collectives_of_one_s_own(tmp_path: Path) -> None:
    for outcome in spawn("tests.distributed.tokens", "exchanged", 2, str(tmp_path)):
        assert outcome.code == 0, outcome.output
        kinds, worst = outcome.result
        assert kinds == ["AllGather", "AllReduce", "AllToAll", "Broadcast", "ReduceScatter"]
        assert worst < 1e-6


@pytest.mark.parametrize(
    ("backends", "device"), [(["cpu"], "cpu"), (["cpu", "cuda"], "cpu"), (["cuda"], "cuda:1"), (["xpu"], "xpu:1")]
)
def test_tensors_go_where_the_backend_of_their_group_takes_them(
    backends: list[str], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    group = SimpleNamespace(_device_types=[torch.device(kind) for kind in backends])
    assert str(device_of(group)) == device


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = allreduce(x + 1) * x, and z = allreduce(y) - x."""
    nodes = [
        helper.make_node("Add", ["x", "one"], ["a"]),
        helper.make_node("AllReduce", ["a"], ["b"], domain=DOMAIN, ranks=[0, 1], reduce_op="sum"),
        helper.make_node("Mul", ["b", "x"], ["y"]),
        helper.make_node("AllReduce", ["y"], ["c"], domain=DOMAIN, ranks=[0, 1], reduce_op="max"),
        helper.make_node("Sub", ["c", "x"], ["z"]),
    ]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xabcyz"}
    graph = helper.make_graph(
        nodes,
        "g",
        [values["x"]],
        [values["y"], values["z"]],
        [helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])],
        value_info=[values[name] for name in "abc"],
    )
    versions = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=10), path)
    return path


def test_segments_run_between_collectives(model: Path) -> None:
    asked: list[tuple[str, str]] = []

    def double(kind: str, array: np.ndarray, attributes: dict[str, object]) -> np.ndarray:
        asked.append((kind, str(attributes["reduce_op"])))
        assert attributes["ranks"] == [0, 1]
        return array * 2

    x = np.array([1.0, -3.0], np.float32)
    with RankSession(model, double, "cpu") as session:
        found = session.run({"x": x})
    y = (x + 1) * 2 * x
    assert asked == [("AllReduce", "sum"), ("AllReduce", "max")]
    np.testing.assert_array_equal(found["y"], y)
    np.testing.assert_array_equal(found["z"], y * 2 - x)
    assert [path.name for path in model.parent.iterdir()] == ["model.onnx"]


def test_each_node_is_in_one_segment(model: Path) -> None:
    steps = steps_of(Cuts(model))
    numbers = [number for step in steps if isinstance(step, Segment) for number in step.nodes]
    assert numbers == [0, 2, 4]
