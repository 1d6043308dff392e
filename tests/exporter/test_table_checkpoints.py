"""Checkpoints of bitsandbytes in 4 bits: places of a table stay as they are, and mean the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models.folders import model_of
from fxport.exporter.language_models.from_table import table_of
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import TOKENIZER
from tests.exporter.test_language_packages import generated, small, written

safetensors = pytest.importorskip("safetensors.torch")

BLOCK, NESTED = 32, 16


def checkpoint(folder: Path, kind: str, *, nested: bool) -> tuple[Any, dict[str, np.ndarray]]:
    """Write a folder of random places; return the model with what they stand for, and their bytes."""
    model, rng, state, held = small(eos_token_id=None), np.random.default_rng(0), {}, {}
    for key, tensor in model.state_dict().items():
        if not key.endswith("_proj.weight"):
            state[key] = tensor.clone()
            continue
        numbers = rng.integers(0, 256, tensor.numel() // 2, np.uint8)
        described = {"quant_type": kind, "blocksize": BLOCK, "shape": list(tensor.shape)}
        scales = rng.uniform(0.2, 0.4, tensor.numel() // BLOCK).astype(np.float32)
        state |= {key: torch.from_numpy(numbers)[:, None], f"{key}.quant_map": torch.from_numpy(table_of(kind))}
        if nested:
            places = rng.integers(0, 256, scales.size, np.uint8)
            table = rng.uniform(-0.1, 0.1, 256).astype(np.float32)
            second = rng.uniform(0.5, 1, scales.size // NESTED).astype(np.float32)
            scales = table[places] * second.repeat(NESTED) + np.float32(0.3)
            described |= {"nested_blocksize": NESTED, "nested_offset": 0.3}
            state |= {
                f"{key}.absmax": torch.from_numpy(places),
                f"{key}.nested_absmax": torch.from_numpy(second),
                f"{key}.nested_quant_map": torch.from_numpy(table),
            }
        else:
            state[f"{key}.absmax"] = torch.from_numpy(scales)
        text = json.dumps(described).encode()
        state[f"{key}.quant_state.bitsandbytes__{kind}"] = torch.tensor(list(text), dtype=torch.uint8)
        places = np.stack([numbers >> 4, numbers & 15], -1).reshape(-1, BLOCK)
        tensor.copy_(torch.from_numpy((table_of(kind)[places] * scales[:, None]).reshape(tensor.shape)))
        held[key] = numbers
    folder.mkdir()
    safetensors.save_file(state, folder / "model.safetensors", {"format": "pt"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    change(folder)
    (folder / "tokenizer.json").write_text(TOKENIZER)
    return model, held


def change(folder: Path, **settings: Any) -> None:
    config = folder / "config.json"
    own = {"quant_method": "bitsandbytes", "load_in_4bit": True, **settings}
    config.write_text(json.dumps({**json.loads(config.read_text()), "quantization_config": own}))


@pytest.mark.parametrize(("kind", "nested"), [("nf4", True), ("fp4", False)])
def test_places_stay_as_they_are(kind: str, nested: bool, tmp_path: Path) -> None:
    model, numbers = checkpoint(tmp_path / "source", kind, nested=nested)
    found = package(tmp_path / "source", tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    graph = onnx.load(found.folder / "model.onnx").graph
    held = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    assert sum(node.op_type == "MatMulBnb4" for node in graph.node) == len(numbers) == 7
    for key, array in numbers.items():
        np.testing.assert_array_equal(held[f"{key}.{kind}"], array)
    assert written(found.folder) == generated(model)
    with pytest.raises(PackageError, match="weights of a table, whose products are computed in float32"):
        package(tmp_path / "source", tmp_path / "package", accuracy="fast")


def with_tensor(name: str, spoil: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        tensors = safetensors.load_file(folder / "model.safetensors")
        key = f"model.layers.0.mlp.up_proj.weight{name}"
        safetensors.save_file({**tensors, key: spoil(tensors[key])}, folder / "model.safetensors", {"format": "pt"})

    return write


def state(**changes: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda held: torch.tensor(
        list(json.dumps({**json.loads(bytes(held.tolist())), **changes}).encode()), dtype=torch.uint8
    )


STATE = ".quant_state.bitsandbytes__nf4"
BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "8 bits": (lambda folder: change(folder, load_in_4bit=False, load_in_8bit=True), r"inputs of layers.*load_in_8bit"),
    "another table": (with_tensor(".quant_map", lambda x: x + 1), "a table 'nf4' of other values"),
    "another block": (with_tensor(STATE, state(blocksize=48)), "blocks of 48 in rows of 32"),
    "another shape": (with_tensor(STATE, state(shape=[64, 64])), r"1024 bytes and 64 scales for \[64, 64\]"),
    "no JSON": (with_tensor(STATE, lambda x: x[:5]), "do not fit each other"),
    "scales that are not finite": (with_tensor(".absmax", lambda x: x * torch.inf), "not finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_known_is_refused(name: str, tmp_path: Path) -> None:
    spoil, words = BAD[name]
    checkpoint(tmp_path / "source", "nf4", nested=False)
    spoil(tmp_path / "source")
    with pytest.raises(PretrainedError, match=f"{words}.*give the folder of the weights before, and --weights"):
        model_of(tmp_path / "source", Log())
