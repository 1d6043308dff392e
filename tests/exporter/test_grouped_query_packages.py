"""Packages whose attention hides later tokens and those outside of a window by itself: what is proven of masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from fxport import package
from fxport.exporter.language_models import cache_in_place
from fxport.exporter.language_models.cache_in_place import NotInPlaceError
from fxport.exporter.language_models.causal_masks import UnknownMaskError, window_of
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.filling import Filled
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import WINDOW, made
from tests.exporter.test_half_packages import with_genai
from tests.exporter.test_language_packages import generated, small, written

FAMILIES = ("Llama", "Qwen3", "Gemma3", "Phi3", "Mistral, windows")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(small(), tmp_path_factory.mktemp("made") / "package", cache="gqa", steps=4).folder


def test_a_package_without_added_masks_gives_the_tokens_of_generate(folder: Path) -> None:
    """Also of texts of several lengths."""
    model = onnx.load(folder / "model.onnx")
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("GroupQueryAttention") == 1
    assert not {"Attention", "And", "LessOrEqual"} & set(kinds)
    (node,) = (node for node in model.graph.node if node.op_type == "GroupQueryAttention")
    assert len(node.input) == 7
    used = {name for each in model.graph.node for name in each.input}
    assert {each.name for each in model.graph.initializer} <= used
    assert written(folder) == generated(small())


def test_onnxruntime_genai_writes_the_same(folder: Path) -> None:
    assert with_genai(folder, 16) == written(folder)[0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families_in_onnxruntime_genai(name: str, dtype: Any, tmp_path: Path) -> None:
    model = made(name)
    model = model.half() if dtype == "float16" else model
    found = package(model, tmp_path / "package", cache="gqa", dtype=dtype)
    attention = [each for each in onnx.load(found.folder / "model.onnx").graph.node if "Attention" in each.op_type]
    windows = {each.i for node in attention for each in node.attribute if each.name == "local_window_size"}
    assert windows == ({WINDOW} if name in FAMILIES[2:] else set())
    assert written(found.folder) == generated(model)
    assert with_genai(found.folder, 16) == written(found.folder)[0]


@pytest.mark.slow
def test_few_bits_half_precision_and_a_shared_cache(tmp_path: Path) -> None:
    found = package(small().half(), tmp_path / "package", cache="gqa", dtype="float16", weights="int4")
    assert with_genai(found.folder, 16) == written(found.folder)[0]


def test_a_text_that_begins_with_padding_is_refused_by_the_kernel(folder: Path) -> None:
    generator = Generator(folder, "cpu")
    generator._on_right = False
    with pytest.raises(Failure, match="seqlens_k"):
        generator.feed(np.array([[0, 1, 2]]), np.array([[0, 1, 1]]))


def test_texts_of_several_lengths_take_several_tokens(folder: Path) -> None:
    """After a prompt that is filled up, as the runner feeds them: one by one."""
    both, alone = Generator(folder, "cpu"), Generator(folder, "cpu")
    first, second = (
        both.feed(np.array([[1, 2, 3], [0, 4, 5]]), np.array([[1, 1, 1], [0, 1, 1]])),
        both.feed(np.array([[6, 7], [8, 9]])),
    )
    want = np.concatenate([alone.feed(np.array([[4, 5]])), alone.feed(np.array([[8, 9]]))], 1)
    got = np.concatenate([first[1:, 1:], second[1:]], 1)
    np.testing.assert_allclose(got, want, atol=1e-5 * float(np.abs(want).max()))


@pytest.mark.parametrize(
    ("mask", "new"),
    [([[1, 0, 1]], 3), ([[1, 1, 0]], 3), ([[1, 1, 0]], 1), ([[0, 0, 1]], 2)],
)
def test_only_the_beginning_of_a_text_is_filled_up(mask: list[list[int]], new: int) -> None:
    with pytest.raises(PackageError, match="only the beginning of a text"):
        Filled.of(np.ones((1, new), np.int64), np.array(mask))


def test_a_mask_that_is_not_proven_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(mask: ir.Value) -> int | None:
        raise UnknownMaskError("its mask has the operator Or")

    monkeypatch.setattr(cache_in_place, "window_of", unknown)
    told = r"in the layer of 'past_key_values\.0\.key' its mask has the operator Or; choose --cache shared"
    with pytest.raises(NotInPlaceError, match=told):
        package(small(), tmp_path / "package", cache="gqa")
    assert not list(tmp_path.iterdir())


MASK = """
    <ir_version: 10, opset_import: ["": 23]>
    g (int64[B, S] input_ids, int64[B, T] attention_mask, float[B, 2, P, 8] cache)
        => (bool[B, 1, S, T] mask)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 window = {{3}}, int64[1] z = {{0}}, int64[3] left = {{0, 1, 2}},
     int64[3] right = {{0, 1, 3}}, int64[1] flat = {{-1}}, int64[4] wide = {{0, 1, 1, -1}}>
    {{
        batch_1 = Shape <start = 0, end = 1> (input_ids)
        batch = Squeeze (batch_1, z)
        new_1 = Shape <start = 1, end = 2> (input_ids)
        new = Squeeze (new_1, z)
        past_1 = Shape <start = 2, end = 3> (cache)
        past = Squeeze (past_1, z)
        total = Add (past, new)
        columns = Range (zero, total, one)
        rows = Range (zero, new, one)
        shifted = Add (rows, past)
        keys = Unsqueeze (columns, left)
        queries = Unsqueeze (shifted, right)
        texts = Range (zero, batch, one)
        set = Cast <to = 9> (attention_mask)
        of_text = Gather <axis = 0> (set, texts)
        of_key = Gather <axis = 1> (of_text, columns)
        there = Reshape (of_key, wide)
        first = Sub (queries, window)
        causal = LessOrEqual (keys, queries)
        {lines}
    }}
"""


NEXT = ("next = Add (columns, one)", "odd = Gather <axis = 1> (set, next)", "seen = Reshape (odd, wide)")
"""The attention mask one token further."""


def mask_of(*lines: str) -> ir.Value:
    """The mask that the last of these lines computes."""
    graph = ir.from_onnx_text(MASK.format(lines="\n".join(lines))).graph
    graph.inputs[2].name = "past_key_values.0.key"
    for value in graph.initializers.values():
        assert value.const_value is not None
        value.const_value = ir.Tensor(value.const_value.numpy())
    return graph.outputs[0]


@pytest.mark.parametrize(
    ("lines", "window"),
    [
        (["mask = And (causal, there)"], None),
        (["seen = Greater (keys, first)", "both = And (seen, causal)", "mask = And (there, both)"], 3),
        (["seen = GreaterOrEqual (keys, first)", "both = And (seen, causal)", "mask = And (there, both)"], 4),
        (["seen = Less (first, keys)", "both = And (seen, causal)", "mask = And (there, both)"], 3),
        (["later = Add (queries, one)", "less = Less (keys, later)", "mask = And (less, there)"], None),
    ],
)
def test_causal_masks_and_windows_are_proven(lines: list[str], window: int | None) -> None:
    assert window_of(mask_of(*lines)) == window


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["mask = Or (causal, there)"], "the operator Or"),
        (["mask = Expand (there, wide)"], "the operator Expand"),
        (["mask = And (causal, causal)"], "does not hide what fills up texts"),
        (["mask = And (there, there)"], "shows later tokens too"),
        (["less = Less (keys, queries)", "mask = And (less, there)"], "another condition"),
        (["seen = Greater (first, keys)", "both = And (seen, causal)", "mask = And (there, both)"], "another"),
        (
            ["seen = LessOrEqual (keys, window)", "both = And (seen, causal)", "mask = And (there, both)"],
            "another cond",
        ),
        ([*NEXT, "mask = And (seen, causal)"], "does not hide what fills up texts"),
    ],
)
def test_other_masks_are_not(lines: list[str], told: str) -> None:
    with pytest.raises(UnknownMaskError, match=told):
        window_of(mask_of(*lines))
