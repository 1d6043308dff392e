"""Packages in half precision: what is stored in it, and that they are as exact as eager PyTorch in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models.own_error import Limits, Measured
from fxport.exporter.language_models.verdict import Verdict, verdict
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import MODELS, TOKENIZER, made
from tests.exporter.test_language_packages import PROMPTS, RARE, generated, initializers, operators, small, written

HALF, BRAIN = onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16
UNDECIDED = ("DeepSeek-V3", "GLM4-MoE-Lite", "Granite-MoE, windows", "Kolibri", "Mellum")
"""Families whose routers of these random weights choose other experts for the least difference: they are refused."""


def ports(folder: Path) -> dict[str, int]:
    """The element types of inputs and outputs."""
    graph = onnx.load(folder / "model.onnx").graph
    return {port.name: port.type.tensor_type.elem_type for port in (*graph.input, *graph.output)}


def with_genai(folder: Path, new: int) -> list[int]:
    """The tokens that onnxruntime-genai gives after the first prompt."""
    og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    model = og.Model(str(folder))
    settings = og.GeneratorParams(model)
    settings.set_search_options(max_length=len(PROMPTS[0]) + new, do_sample=False)
    generator = og.Generator(model, settings)
    generator.append_tokens(np.array(PROMPTS[:1], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    found: list[int] = list(generator.get_sequence(0))[-new:]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(small().half(), tmp_path_factory.mktemp("made") / "package", dtype="float16").folder


def test_activations_cache_and_weights_are_in_half_precision(folder: Path) -> None:
    held = ports(folder)
    assert {held[name] for name in ("past_key_values.0.key", "present.0.value", "logits")} == {HALF}
    assert not [name for name, each in initializers(folder).items() if each.data_type == 1 and np.prod(each.dims) > 64]
    assert written(folder) == generated(small().half())


def test_onnxruntime_genai_writes_the_same(folder: Path) -> None:
    assert with_genai(folder, 16) == written(folder)[0]


@pytest.mark.parametrize(("weights", "block"), [("int4", 32), pytest.param("int8", 16, marks=RARE)])
def test_few_bits_have_scales_in_half_precision(weights: Any, block: int, tmp_path: Path) -> None:
    model = small(tie_word_embeddings=True).half()
    found = package(model, tmp_path / "package", dtype="float16", weights=weights, block=block)
    kinds = operators(found.folder)
    assert (kinds.count("MatMulNBits"), kinds.count("GatherBlockQuantized")) == (8, 1)
    scales = [each for name, each in initializers(found.folder).items() if name.endswith(".scales")]
    assert {each.data_type for each in scales} == {HALF}
    assert isinstance(found.verdict, Verdict)
    assert (found.verdict.flips, found.verdict.error < 5e-3) == (0, True)
    assert "of eager PyTorch itself 0.00" in str(found.verdict)
    assert with_genai(found.folder, 16) == written(found.folder)[0]


def test_a_fault_beyond_the_error_of_half_precision_is_told(folder: Path) -> None:
    model = small().half()
    with torch.no_grad():
        model.lm_head.weight[7] *= 1.1
    log = Log()
    found = verdict(folder, model, log, "cpu", steps=4, accuracy="exact", weights="float16")
    assert not found.passed
    assert "FXP5002" in {each.rule.id for each in log.findings}


@pytest.mark.parametrize(
    ("cache", "weights"),
    [("dynamic", None), pytest.param("gqa", "int4", marks=RARE), pytest.param("shared", "int8", marks=RARE)],
)
def test_bfloat16_is_compared_with_operators_in_float32(cache: Any, weights: Any, tmp_path: Path) -> None:
    """Write the graph without those casts, and leave no other file beside it."""
    model = small(tie_word_embeddings=True).to(torch.bfloat16)
    found = package(model, tmp_path / "package", dtype="bfloat16", cache=cache, weights=weights)
    held = ports(found.folder)
    assert (held["past_key_values.0.key"], held["present.0.key"]) == (BRAIN, BRAIN)
    assert held["logits"] == onnx.TensorProto.FLOAT
    assert operators(found.folder).count("Cast") < 14
    assert isinstance(found.verdict, Verdict)
    assert (found.verdict.flips, found.verdict.widened) == (0, True)
    assert "kernels of bfloat16 were not validated on this machine" in str(found.verdict)
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


class Answers:
    """Gives one array, whatever it is fed."""

    def __init__(self, *numbers: float) -> None:
        self._answer = np.array([[numbers]], np.float32)

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self._answer


def test_twice_the_error_of_eager_is_allowed_and_a_tie() -> None:
    measured = Measured(Answers(16, 4.03125), Answers(16, 4))
    measured.feed(np.zeros((1, 1), np.int64))
    assert Limits(1e-4, 1e-5).beside(measured) == (2**-8, 2**-8)
    assert Limits(1e-1, 1e-5).beside(measured) == (1e-1, 2**-8)
    assert Limits(1e-4, 1e-5).beside(Answers(1)) == (1e-4, 1e-5)


@pytest.mark.parametrize("number", [5.0, float("inf")])
def test_where_eager_itself_is_far_off_nothing_is_compared(number: float) -> None:
    measured = Measured(Answers(10, number), Answers(10, 2))
    measured.feed(np.zeros((1, 1), np.int64))
    with pytest.raises(PackageError, match="half precision is itself off by"):
        Limits(1e-4, 1e-4).beside(measured)


@pytest.mark.parametrize(
    ("model", "choices", "told"),
    [
        (
            lambda: small(),
            {"dtype": "float16"},
            r"has weights of float32.* in float16: load it with dtype=torch.float16",
        ),
        (lambda: small().half(), {}, r"has weights of float16.* in float32: call model\.float\(\) first"),
        (lambda: small().half(), {"dtype": "float16", "weights": "float32"}, "omit --weights, or --dtype"),
        (lambda: small().half(), {"dtype": "float16", "weights": "int4", "accuracy": "fast"}, "omit --accuracy"),
        (
            lambda: small().half(),
            {"dtype": "half"},
            "dtype 'half' is unknown; choose one of float32, float16, bfloat16",
        ),
    ],
)
def test_what_excludes_half_precision_is_refused(model: Any, choices: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=told):
        package(model(), tmp_path / "package", **choices)
    assert not list(tmp_path.iterdir())


def test_weights_of_a_folder_become_the_type_of_the_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    small().to(torch.bfloat16).save_pretrained(source)
    (source / "tokenizer.json").write_text(TOKENIZER)
    found = package(source, tmp_path / "package", dtype="float16", steps=4)
    (told,) = [each for each in found.log.findings if each.rule.id == "FXP7013"]
    assert (told.facts["source"], told.facts["target"]) == ("bfloat16", "float16")
    assert ports(found.folder)["past_key_values.0.key"] == HALF


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in UNDECIDED])
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_all_families_in_half_precision(name: str, tmp_path: Path) -> None:
    found = package(made(name).half(), tmp_path / "package", dtype="float16")
    assert isinstance(found.verdict, Verdict)
    assert (found.verdict.tokens, found.verdict.flips) == (64, 0)
