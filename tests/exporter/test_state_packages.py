"""Packages of decoders whose cache has states: a graph for the prompt and one for a step, and weights stored once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from fxport import Package, package
from fxport.diagnostics import Log
from fxport.exporter.language_models import shared_weights
from fxport.exporter.language_models.generation import NotGenerativeError
from fxport.exporter.language_models.verdict import verdict
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import FILE, PackageError
from tests.cases.language_models import LATENT, STATES, model_of
from tests.generated import generated, written

transformers = pytest.importorskip("transformers")

NEW = 12
PROMPTS = ([3, 14, 15, 92, 65, 35], [27, 18])
QUICK = ("Mamba2, blocks", "LFM2")


@pytest.fixture(scope="module")
def lfm2(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The package of the smallest model, for all tests that ask something of it; those that change files copy it."""
    return package(model_of(*STATES["LFM2"]), tmp_path_factory.mktemp("made") / "package", steps=4)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in STATES]
)
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_a_package_with_states_writes_the_tokens_of_generate(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of prompts that are padded, of one token, and of more tokens than the blocks in which a prompt is computed."""
    model = model_of(*STATES[name])
    is_shared = name == "LFM2"
    found = request.getfixturevalue("lfm2") if is_shared else package(model, tmp_path / "package", steps=4)
    assert found.verdict is not None
    assert found.verdict.passed
    assert not {each.rule.id for each in found.log.findings} & {"FXP2002", "FXP2003"}
    long = np.random.default_rng(0).integers(1, 99, 30).tolist()
    for prompts in (PROMPTS, [[7]], [long]):
        assert written(found.folder, prompts, NEW) == generated(model, prompts, NEW)


def test_tokens_after_others_are_taken_one_by_one(lfm2: Package) -> None:
    runner = Generator(lfm2.folder, "cpu")
    ids = np.array([[5, 6, 7, 8, 9]])
    whole = runner.feed(ids)
    runner.reset()
    parts = [runner.feed(ids[:, :2]), runner.feed(ids[:, 2:])]
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-5)


def test_tokens_beyond_the_vocabulary_are_refused(lfm2: Package) -> None:
    """ONNX takes a negative index as counted from the end, and kernels of GPUs take any."""
    runner = Generator(lfm2.folder, "cpu")
    for token in (-1, 100):
        with pytest.raises(PackageError, match=f"{token} is no token of this model, whose tokens are 0 to 99"):
            list(runner.greedy([[5, token, 7]], 2))
    assert runner.feed(np.array([[5, 99, 7]])).shape == (1, 3, 100)


@pytest.mark.parametrize("kind", ["DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM", "HYV4ForCausalLM"])
def test_an_indexer_is_refused_for_what_it_chooses_among_equals(kind: str, tmp_path: Path) -> None:
    model = model_of(kind, {**LATENT, "head_dim": 8, "index_topk": 4, "index_n_heads": 8, "index_head_dim": 16})
    with pytest.raises(NotGenerativeError, match="Several scores may be 0, and PyTorch states no order among these"):
        package(model, tmp_path / "package")
    assert not [*tmp_path.iterdir()]


def test_weights_of_two_graphs_are_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In few bits, too; constants that only one graph has are its own."""
    monkeypatch.setattr(shared_weights, "SMALL", 0)
    model = model_of(*STATES["LFM2"])
    found = package(model, tmp_path / "package", weights="int4", steps=2)
    held = [each for each in found.files if each.suffix == ".data"]
    places = {}
    for name in ("model.onnx", "prompt.onnx"):
        graph = onnx.load(found.folder / name, load_external_data=False).graph
        places[name] = {
            tuple((entry.key, entry.value) for entry in each.external_data)
            for each in graph.initializer
            if each.data_location == onnx.TensorProto.EXTERNAL
        }
    assert places["prompt.onnx"]
    assert places["prompt.onnx"] <= places["model.onnx"]
    assert [each.name.startswith("model.onnx.") for each in held] == [True]


def test_choices_without_sense_for_states_are_refused(tmp_path: Path) -> None:
    model = model_of(*STATES["LFM2"])
    for choice, told in (({"runtime": "genai"}, "no place for the states"), ({"cache": "shared"}, "has states")):
        with pytest.raises(PackageError, match=told):
            package(model, tmp_path / "package", **choice)
    assert not list(tmp_path.iterdir())


def test_a_package_with_other_graphs_is_refused(lfm2: Package, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(lfm2.folder, tmp_path / "package"))
    description = folder / FILE
    description.write_text(description.read_text().replace('"0.conv_states.0"', '"0.conv_states.1"'))
    with pytest.raises(PackageError, match=r"has no 'past_key_values\.0\.conv_states\.1'"):
        Generator(folder, "cpu")


def test_a_step_of_another_model_is_told(lfm2: Package, tmp_path: Path) -> None:
    """The verdict runs steps after the prompt, and names the first that differs."""
    folder, log = Path(shutil.copytree(lfm2.folder, tmp_path / "package")), Log()
    step = onnx.load(folder / "model.onnx")
    (embedding,) = (each for each in step.graph.initializer if each.name == "lm_head.weight")  # tied
    embedding.CopyFrom(onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(embedding), embedding.name))
    (folder / "model.onnx").write_bytes(step.SerializeToString())
    found = verdict(folder, model_of(*STATES["LFM2"]), log, "cpu", steps=3, accuracy="exact", weights="float32")
    assert not found.passed
    assert [each.facts["sample"] for each in log.findings if each.rule.id == "FXP5002"] == ["token 1"]
