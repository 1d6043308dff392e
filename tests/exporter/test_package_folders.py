"""Folders that become packages only if they are whole: the tokenizer, the settings, and the shape of each weight."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from fxport import Stop, package
from fxport.diagnostics import Log
from fxport.exporter.language_models import packaging
from fxport.exporter.language_models.few_bits import linear_weights
from fxport.exporter.language_models.folders import Loaded
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import MODELS, model_of

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.torch")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama with a tokenizer of words."""
    source = tmp_path / "source"
    model_of(*MODELS["Llama"]).save_pretrained(source)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{index}": index for index in range(99)}, "w3"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w3").save_pretrained(source)
    return source


def changed(path: Path, change: Callable[[Any], object]) -> None:
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))


def other_class(folder: Path) -> None:
    """Let transformers build the tokenizer by rules of its own, in which the file has no say."""
    changed(folder / "tokenizer_config.json", lambda held: held.update(tokenizer_class="LlamaTokenizer"))


def quantized(settings: object) -> Callable[[Path], object]:
    return lambda folder: changed(folder / "config.json", lambda held: held.update(quantization_config=settings))


DAMAGED: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "another tokenizer in transformers": (other_class, PackageError, "gives other 'input_ids' than transformers"),
    "a tokenizer that is none": (
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        PackageError,
        "is no tokenizer",
    ),
    "settings that are none": (
        lambda folder: (folder / "generation_config.json").write_text("{"),
        PretrainedError,
        r"generation_config\.json' cannot be read",
    ),
    "settings in a list": (
        lambda folder: (folder / "generation_config.json").write_text("[]"),
        PretrainedError,
        "holds no table of settings",
    ),
    "no configuration": (
        lambda folder: (folder / "config.json").unlink(),
        PretrainedError,
        r"has no config\.json, which names the model; save the model there",
    ),
    "a type that transformers does not know": (
        lambda folder: changed(folder / "config.json", lambda held: held.update(model_type="mine")),
        PretrainedError,
        r"type `mine` .*; write a function that makes the model with its weights, and name it as FILE\.py:NAME",
    ),
    "a quantization that is no table": (quantized("x"), PretrainedError, "'quantization_config' is 'x', no table"),
    "a quantization without a name": (quantized({"bits": 4}), PretrainedError, "a scheme that .* does not name"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_a_damaged_folder_is_refused(name: str, folder: Path) -> None:
    damage, error, told = DAMAGED[name]
    damage(folder)
    with pytest.raises(error, match=told):
        package(folder, folder.parent / "package", steps=1)
    assert [path.name for path in folder.parent.iterdir()] == ["source"]


def test_a_weight_of_another_shape_is_told_by_its_name(folder: Path) -> None:
    path = folder / "model.safetensors"
    held = safetensors.load_file(path)
    for layer in range(2):
        held[f"model.layers.{layer}.mlp.up_proj.weight"] = torch.zeros(3, 3)
    safetensors.save_file(held, path, metadata={"format": "pt"})
    log = Log()
    with pytest.raises(Stop):
        package(folder, folder.parent / "package", steps=1, log=log)
    (told,) = log.findings
    assert told.message == (
        "'model.layers.*.mlp.up_proj.weight' of the model and of the checkpoint do not fit. The model's is [64, 32]; "
        "'model.layers.1.mlp.up_proj.weight' is [3, 3]."
    )


def test_values_before_rounding_are_kept_of_a_callers_model_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free the memory of a folder's weights before the export: nobody else has that model."""
    held: list[StorageWeakRef] = []
    load, export = packaging.model_of, packaging._exported

    def loaded(*args: Any, **kwargs: Any) -> Loaded:
        found = load(*args, **kwargs)
        held.extend(StorageWeakRef(each.untyped_storage()) for each in linear_weights(found.model).values())
        return found

    def exported(*args: Any) -> Any:
        freed.append([each.expired() for each in held])
        return export(*args)

    freed: list[list[bool]] = []
    monkeypatch.setattr(packaging, "model_of", loaded)
    monkeypatch.setattr(packaging, "_exported", exported)
    package(folder, folder.parent / "package", weights="int4", steps=1)
    assert len(freed[0]) == 15
    assert all(freed[0])
    model = model_of(*MODELS["Llama"])
    before = model.lm_head.weight.clone()
    package(model, folder.parent / "other", weights="int4", steps=1)
    assert torch.equal(model.lm_head.weight, before)


def test_a_model_that_gives_nan_is_not_blamed_on_the_package(tmp_path: Path) -> None:
    model = model_of(*MODELS["Llama"])
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(PackageError, match="the logits of eager PyTorch at token 0 are not finite"):
        package(model, tmp_path / "package", steps=2)
    assert not list(tmp_path.iterdir())
