"""Packages whose cache each step writes in place: the same tokens, in the same memory, with room that grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from fxport import package
from fxport.exporter.language_models.cache_in_place import NotInPlaceError
from fxport.ort_runner import generation
from fxport.ort_runner.generation import Generator
from tests.cases.language_models import QUICK, made
from tests.exporter.test_language_packages import RARE, generated, small, written

IN_PLACE = (*QUICK, "Qwen3", "Gemma3", "GPT-2", "Mixtral")
"""Families that this module takes; all others were tried once, as docs/language-models.md says."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(small(), tmp_path_factory.mktemp("made") / "package", cache="shared", steps=4).folder


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == QUICK[1] else RARE) for name in IN_PLACE])
def test_a_cache_in_place_gives_the_tokens_of_generate(name: str, tmp_path: Path) -> None:
    model = made(name)
    found = package(model, tmp_path / "package", cache="shared")
    assert written(found.folder) == generated(model)


def test_attention_is_one_node_that_takes_the_cache(folder: Path) -> None:
    graph = onnx.load(folder / "model.onnx").graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("GroupQueryAttention") == 1
    assert not {"Attention", "Transpose"} & set(kinds)
    user = next(node for node in graph.node if "past_key_values.0.key" in node.input)
    assert (user.op_type, user.output[1]) == ("GroupQueryAttention", "present.0.key")


def test_steps_write_into_the_same_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where there is no room left, everything moves to twice as much, and the tokens stay the same."""
    whole = written(folder)
    monkeypatch.setattr(generation, "ROOM", 8)
    generator = Generator(folder, "cpu")
    places = []
    for _ in generator.greedy([[3, 14, 15, 92, 65, 35]], 16, stop=frozenset()):
        places.append(generator._cache[0].data_ptr())
    assert [len(set(places[start:stop])) for start, stop in ((0, 3), (3, 11), (11, 16))] == [1, 1, 1]
    assert len({places[0], places[3], places[11]}) > 1
    assert written(folder) == whole


def test_several_tokens_of_several_texts(folder: Path) -> None:
    """The kernel takes these for one text only; the runner feeds them one by one."""
    ids = np.arange(1, 13).reshape(2, 6)
    once, parts = Generator(folder, "cpu"), Generator(folder, "cpu")
    want = once.feed(ids)
    got = np.concatenate([parts.feed(ids[:, :2]), parts.feed(ids[:, 2:])], 1)
    np.testing.assert_allclose(got, want, atol=1e-5 * float(np.abs(want).max()))


def eager(model: Any) -> Any:
    """The model with attention by products and softmax."""
    model.set_attn_implementation("eager")
    return model


def test_another_attention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotInPlaceError, match=r"'past_key_values\.0\.key' is used by other .* choose --cache dynamic"):
        package(eager(small()), tmp_path / "package", cache="shared")
    assert not list(tmp_path.iterdir())


def test_onnxruntime_genai_shares_the_cache(folder: Path) -> None:
    og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    loaded = og.Model(str(folder))
    settings = og.GeneratorParams(loaded)
    settings.set_search_options(max_length=22, do_sample=False)
    generator = og.Generator(loaded, settings)
    generator.append_tokens(np.array([[3, 14, 15, 92, 65, 35]], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    assert list(generator.get_sequence(0))[-16:] == written(folder)[0]
