"""Packages of models that torchao has quantized: the numbers stay as they are, from a folder and from Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models.folders import model_of
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import TOKENIZER
from tests.exporter.test_language_packages import generated, small, written
from tests.exporter.test_quantized_checkpoints import stored

ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")

BY_GROUP = {"weight_dtype": torch.int4, "granularity": ao.PerGroup(16)}
SCHEMES: dict[str, tuple[Callable[[], Any], int]] = {
    "8 bits": (ao.Int8WeightOnlyConfig, 8),
    "8 bits by tensor": (lambda: ao.Int8WeightOnlyConfig(granularity=ao.PerTensor()), 8),
    "4 bits by group": (lambda: ao.IntxWeightOnlyConfig(**BY_GROUP), 4),
    "4 bits with zeros": (lambda: ao.IntxWeightOnlyConfig(**BY_GROUP, mapping_type=ao.MappingType.ASYMMETRIC), 4),
    "6 bits": (lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int6), 8),
}


def quantized(scheme: Any) -> Any:
    model = small(eos_token_id=None)
    ao.quantize_(model, scheme)
    return model


def numbers_of(model: Any, bits: int) -> dict[str, np.ndarray]:
    """The numbers of each weight [rows, columns], more by half of what there may be."""
    held = {name: each for name, each in model.named_parameters() if hasattr(each, "qdata")}
    return {name: each.qdata.numpy().astype(np.int16) + (1 << (bits - 1)) for name, each in held.items()}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_model_in_memory_stays_as_it_is(name: str, tmp_path: Path) -> None:
    scheme, bits = SCHEMES[name]
    model = quantized(scheme())
    before = dict(model.named_parameters())
    found = package(model, tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    want, got = numbers_of(model, bits), stored(found.folder)
    assert want.keys() == got.keys()
    assert len(want) == 8
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array)
    assert written(found.folder) == generated(model)
    assert all(one is before[key] for key, one in model.named_parameters())


def folder_of(path: Path, scheme: Any) -> Any:
    """Write a folder as transformers quantizes it; return its model."""
    transformers = pytest.importorskip("transformers")
    small(eos_token_id=None).save_pretrained(path / "float")
    told = transformers.TorchAoConfig(scheme)
    kind = transformers.AutoModelForCausalLM
    model = kind.from_pretrained(path / "float", quantization_config=told, dtype=torch.float32).eval()
    model.save_pretrained(path / "source")
    (path / "source" / "tokenizer.json").write_text(TOKENIZER)
    return model


@pytest.mark.parametrize("name", ["8 bits", "4 bits with zeros"])
def test_a_folder_stays_as_it_is(name: str, tmp_path: Path) -> None:
    scheme, bits = SCHEMES[name]
    model = folder_of(tmp_path, scheme())
    found = package(tmp_path / "source", tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    want, got = numbers_of(model, bits), stored(found.folder)
    assert want.keys() == got.keys()
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array)
    assert written(found.folder) == generated(model)


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "inputs too": (ao.Int8DynamicActivationInt8WeightConfig, "whose inputs are rounded too"),
    "float8": (ao.Float8WeightOnlyConfig, "of the class 'Float8Tensor'"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_schemes_are_refused(name: str, tmp_path: Path) -> None:
    scheme, words = OTHERS[name]
    with pytest.raises(PackageError, match=rf"weight of torchao.*{words}.*IntxWeightOnlyConfig are taken"):
        package(quantized(scheme()), tmp_path / "package")
    assert not list(tmp_path.iterdir())


def with_type(folder: Path, **changes: Any) -> None:
    config = folder / "config.json"
    held = json.loads(config.read_text())
    held["quantization_config"]["quant_type"] = {**held["quantization_config"]["quant_type"], **changes}
    config.write_text(json.dumps(held))


def test_other_schemes_of_folders_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, ao.Int8WeightOnlyConfig())
    for changes, words in (
        ({"default": {"_type": "Int4WeightOnlyConfig", "_data": {}}}, "'Int4WeightOnlyConfig'; Int8WeightOnlyConfig"),
        ({"default": {"_type": "IntxWeightOnlyConfig", "_data": {}}}, "do not fit each other"),
        ({"lm_head": None}, "settings that differ by layer"),
    ):
        with_type(tmp_path / "source", **changes)
        with pytest.raises(PretrainedError, match=rf"{words}.*give the folder of the weights before, and --weights"):
            model_of(tmp_path / "source", Log())


def test_they_are_not_rounded_again(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"'LlamaForCausalLM' has weights in few bits already.*omit --weights"):
        package(quantized(ao.Int8WeightOnlyConfig()), tmp_path / "package", weights="int4")
