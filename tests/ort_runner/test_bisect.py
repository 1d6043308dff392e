"""bisect: the first value that differs, the operation behind it, in few sessions, and without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from fxport.diagnostics import rules
from fxport.ort_runner import Samples
from fxport.ort_runner.bisect import MOST_SESSIONS, Divergence, Reference, bisect
from fxport.ort_runner.cuts import VALUE_KEY, Cuts, Mark
from fxport.ort_runner.parts import Part, kernel_is_wrong
from fxport.ort_runner.session import Runtime
from tests.ort_runner.models import HEADER, RELU, floats, save

HERE = Runtime("cpu", isolate=False)


def marked(path: Path, keys: Mapping[str, str]) -> Path:
    """The same model with the marks that an export writes: name of the value → name in the captured graph."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    for info in (*model.graph.value_info, *model.graph.output):
        if info.name in keys:
            info.metadata_props.add(key=VALUE_KEY, value=keys[info.name])
    onnx.save(model, path)
    return path


def stored(values: Mapping[str, np.ndarray]) -> Reference:
    """A reference of recorded values."""

    def ask(keys: Collection[str], known: Collection[str] | None) -> Samples:
        return Samples("sample", {}, {k: values[k] for k in keys}, {k: values[k].astype(np.float64) for k in keys})

    return Reference(ask, {key: array.nbytes for key, array in values.items()}, {})


CHAIN = """g (float[N, 3] x) => (float[N, 3] d) {
    [a] a = Relu (x)  [b] b = Neg (a)  [c] c = Exp (b)  [d] d = Sqrt (c)
}"""


def chain(x: np.ndarray) -> dict[str, np.ndarray]:
    a = np.maximum(x, 0)
    return {"a": a, "b": -a, "c": np.exp(-a), "d": np.sqrt(np.exp(-a))}


def of_chain(tmp_path: Path, values: dict[str, np.ndarray], x: np.ndarray, **options: int) -> Divergence:
    rows = {name: ["net.py", 10 + i, "net", name] for i, name in enumerate("abcd")}
    model = marked(save(tmp_path, CHAIN, places=rows), {name: name for name in "abcd"})
    return bisect(model, Samples("sample", {"x": x}, {"d": values["d"]}), stored(values), HERE, **options)


@pytest.mark.parametrize("wrong", "abcd")
def test_the_cause_is_told_from_what_it_leads_to(tmp_path: Path, wrong: str) -> None:
    x = floats(4, 3)
    values = chain(x)
    later = {name: np.float32(2) * array for name, array in values.items() if name > wrong}  # nothing after it agrees
    values |= {wrong: values[wrong] + np.float32(0.01)} | later
    found = of_chain(tmp_path, values, x)
    assert found.first is not None
    assert found.first.mark.key == wrong
    assert found.cause is not None
    assert found.cause.mark.key == wrong
    assert found.cause.place.line == 10 + "abcd".index(wrong)
    assert found.cause.verdict.rule is rules.OUTPUT_DRIFT
    assert found.cause.onnx_nodes == (wrong,)
    assert found.sessions == 2


def test_what_is_only_passed_on_is_no_cause(tmp_path: Path) -> None:
    x = floats(4, 3)
    values = chain(x)
    values["b"] = values["b"] + np.float32(0.01)
    values |= {"c": np.exp(values["b"]), "d": np.sqrt(np.exp(values["b"]))}
    found = of_chain(tmp_path, values, x)
    assert [suspect.mark.key for suspect in found.causes] == ["b"]


def test_a_sound_model_has_no_cause(tmp_path: Path) -> None:
    x = floats(4, 3)
    found = of_chain(tmp_path, chain(x), x)
    assert found.first is None
    assert found.cause is None
    assert found.reason == "every operation gives what the captured graph gives"
    assert (found.sessions, found.compared) == (1, 4)


def test_a_file_without_marks_is_told(tmp_path: Path) -> None:
    x = floats(4, 3)
    model = save(tmp_path, CHAIN)
    found = bisect(model, Samples("sample", {"x": x}, {"d": x}), stored(chain(x)), HERE)
    assert found.reason == "the file does not say which of its values are PyTorch's"
    assert found.sessions == 0


def test_shapes_types_and_nan_are_differences(tmp_path: Path) -> None:
    x = floats(4, 3)
    for change, rule in (
        (lambda c: c.astype(np.float64), rules.OUTPUT_TYPE_MISMATCH),
        (lambda c: c[:1], rules.OUTPUT_SHAPE_MISMATCH),
        (lambda c: np.where(c == c.max(), np.float32(np.nan), c), rules.NON_FINITE_OUTPUT),
    ):
        values = chain(x)
        values["c"] = change(values["c"])
        found = of_chain(tmp_path, values, x)
        assert found.first is not None
        assert (found.first.mark.key, found.first.verdict.rule) == ("c", rule)


LENGTH = 1000


def long_chain(tmp_path: Path, wrong: int) -> tuple[Path, np.ndarray, dict[str, np.ndarray]]:
    """1,000 nodes in turns Neg and Add of a constant; that of `wrong` is not what the reference has."""
    x = floats(64, 64)
    step = np.float32(0.5)
    values: dict[str, np.ndarray] = {}
    nodes, last = [], "x"
    for i in range(LENGTH):
        name = f"v{i}"
        source = values.get(last, x)
        if i % 2:
            nodes.append(helper.make_node("Add", [last, "wrong" if i == wrong else "step"], [name], name=name))
            values[name] = source + step
        else:
            nodes.append(helper.make_node("Neg", [last], [name], name=name))
            values[name] = -source
        last = name
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, [64, 64])],
        [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("step", 0.5), ("wrong", 0.501))],
    )
    path = tmp_path / "long.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return marked(path, {name: name for name in values}), x, values


@pytest.mark.parametrize("wrong", [1, 501, 999])
def test_a_thousand_nodes_need_few_sessions_and_little_memory(tmp_path: Path, wrong: int) -> None:
    path, x, values = long_chain(tmp_path, wrong)
    one = values["v0"].nbytes
    asked: list[int] = []
    whole = stored(values)

    def ask(keys: Collection[str], known: Collection[str] | None) -> Samples:
        asked.append(sum(values[key].nbytes for key in keys))
        return whole.values(keys, known)

    reference = Reference(ask, whole.sizes, {})
    samples = Samples("sample", {"x": x}, {f"v{LENGTH - 1}": values[f"v{LENGTH - 1}"]})
    found = bisect(path, samples, reference, HERE, batch=10 * one)
    assert found.cause is not None
    assert found.cause.mark.key == f"v{wrong}"
    assert found.sessions <= MOST_SESSIONS
    assert max(asked) <= 10 * one
    everything = bisect(path, samples, reference, HERE)
    assert everything.cause is not None
    assert everything.cause.mark.key == f"v{wrong}"
    assert everything.sessions == 2


def test_a_part_stands_alone_with_its_weights(tmp_path: Path) -> None:
    text = """g (float[N, 3] x) => (float[N, 3] y) <float[3] w> { [a] a = Relu (x)  [y] y = Mul (a, w) }"""
    x, weight = floats(4, 3), np.array([1, 2, 3], np.float32)
    path = save(tmp_path, text)
    model = onnx.load(path)
    tensor = numpy_helper.from_array(weight, "w")
    del model.graph.initializer[:]
    model.graph.initializer.append(tensor)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    loaded = onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False))
    for info in (*loaded.graph.value_info, *loaded.graph.output):
        info.metadata_props.add(key=VALUE_KEY, value=info.name)
    path.write_bytes(loaded.SerializeToString())
    a = np.maximum(x, 0)
    found = bisect(path, Samples("s", {"x": x}, {"y": a}), stored({"a": a, "y": a}), HERE)
    assert found.cause is not None
    assert found.cause.mark.key == "y"
    assert found.part is not None
    assert list(found.part.samples.inputs) == ["a"]
    assert numpy_helper.to_array(found.part.model.graph.initializer[0]).tolist() == [1, 2, 3]
    assert not kernel_is_wrong(found.part)  # by the standard, too, it is not what the reference says
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_bodies_see_what_is_cut(tmp_path: Path) -> None:
    text = """g (float[N] x, bool p) => (float[N] y) {
        [a] a = Neg (x)
        [y] y = If (p) <
            then_branch = t () => (float[N] r) { r = Exp (a) }, else_branch = e () => (float[N] s) { s = Abs (a) }
        >
    }"""
    path = save(tmp_path, text)
    model = onnx.load(path)
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N"]))
    onnx.save(model, path)
    cuts = Cuts(marked(path, {"a": "a", "y": "y"}))
    assert [mark.key for mark in cuts.marks] == ["a", "y"]
    apart = cuts.apart(["y"], {"a", "y"})
    assert [value.name for value in apart.graph.input] == ["a", "p"]
    assert [value.name for value in apart.graph.output] == ["y.made"]
    assert [node.name for node in apart.graph.node] == ["y"]
    assert cuts.feeds(["y"], {"a", "y"}) == ("a",)


def test_a_result_of_a_tuple_is_named_by_its_node() -> None:
    assert Mark("v", "split.1", 0, varies=True).fx_node == "split"
    assert Mark("v", "split_1", 0, varies=True).fx_node == "split_1"


def test_a_kernel_is_wrong_where_the_standard_agrees_with_pytorch() -> None:
    model = parser.parse_model(f"{HEADER} {RELU}")
    x = floats(4, 3)
    assert kernel_is_wrong(Part(model, Samples("s", {"x": x}, {"y": np.maximum(x, 0)})))
    assert not kernel_is_wrong(Part(model, Samples("s", {"x": x}, {"y": x})))
