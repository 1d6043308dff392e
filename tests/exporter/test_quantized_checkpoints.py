"""Checkpoints that are quantized already: their numbers are in the package as they are, and mean the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from fxport import Stop, package
from fxport.diagnostics import Log
from fxport.exporter.language_models.folders import model_of
from fxport.exporter.language_models.gguf_file import load_gguf
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.ort_runner.package_config import PackageError
from tests.cases.language_models import TOKENIZER
from tests.exporter.test_language_packages import generated, small, written

safetensors = pytest.importorskip("safetensors.torch")

GROUP = 16
Written = dict[str, torch.Tensor]


def words(numbers: np.ndarray, order: tuple[int, ...], bits: int) -> torch.Tensor:
    """Numbers [..., n] as 32-bit words [..., n * bits / 32], of which field i holds column order[i] of its part."""
    count = 32 // bits
    parts = numbers.reshape(*numbers.shape[:-1], -1, count).astype(np.uint64)
    found = sum(parts[..., column] << np.uint64(index * bits) for index, column in enumerate(order))
    return torch.from_numpy(np.asarray(found).astype(np.uint32).view(np.int32).copy())


def plain(bits: int) -> tuple[int, ...]:
    return tuple(range(32 // bits))


def gptq(numbers: np.ndarray, zeros: np.ndarray, scales: np.ndarray, bits: int) -> Written:
    columns = np.arange(numbers.shape[1])
    return {
        ".qweight": words(numbers, plain(bits), bits).T.contiguous(),
        ".qzeros": words((zeros - 1).T, plain(bits), bits),
        ".scales": torch.from_numpy(scales.T.copy()),
        ".g_idx": torch.from_numpy((columns // GROUP).astype(np.int32)),
    }


def awq(numbers: np.ndarray, zeros: np.ndarray, scales: np.ndarray, bits: int) -> Written:
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    return {
        ".qweight": words(numbers.T, order, bits),
        ".qzeros": words(zeros.T, order, bits),
        ".scales": torch.from_numpy(scales.T.copy()),
    }


def compressed(numbers: np.ndarray, zeros: np.ndarray, scales: np.ndarray, bits: int) -> Written:
    return {
        ".weight_packed": words(numbers, plain(bits), bits),
        ".weight_zero_point": words(zeros.T, plain(bits), bits).T.contiguous(),
        ".weight_scale": torch.from_numpy(scales.copy()),
        ".weight_shape": torch.tensor(numbers.shape),
    }


def packed_by(bits: int) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": GROUP, "symmetric": False}
    return {"format": "pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


FORMATS: dict[str, tuple[Callable[..., Written], int, Mapping[str, Any]]] = {
    "gptq": (gptq, 4, {"bits": 4, "group_size": GROUP, "desc_act": False}),
    "gptq, 8 bits": (gptq, 8, {"bits": 8, "group_size": GROUP}),
    "awq": (awq, 4, {"bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}),
    "compressed-tensors": (compressed, 4, packed_by(4)),
}


def checkpoint(folder: Path, name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Write a folder in a format, of random numbers; return the model with what they stand for, and the numbers."""
    write, bits, settings = FORMATS[name]
    model, rng = small(eos_token_id=None), np.random.default_rng(0)
    state: Written = {}
    numbers: dict[str, np.ndarray] = {}
    for key, tensor in model.state_dict().items():
        if not key.endswith("_proj.weight"):
            state[key] = tensor.clone()
            continue
        rows, columns = tensor.shape
        made = rng.integers(0, 1 << bits, (rows, columns))
        zeros = rng.integers(1, 1 << bits, (rows, columns // GROUP))
        scales = (rng.uniform(0.5, 1.5, zeros.shape) * 0.5 / (1 << bits)).astype(np.float16)
        state |= {key.removesuffix(".weight") + end: each for end, each in write(made, zeros, scales, bits).items()}
        whole = (made - zeros.repeat(GROUP, 1)) * scales.astype(np.float64).repeat(GROUP, 1)
        tensor.copy_(torch.from_numpy(whole))
        numbers[key] = made
    folder.mkdir()
    safetensors.save_file(state, folder / "model.safetensors", {"format": "pt"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    change(folder, {"quant_method": name.split(",")[0], **settings})
    (folder / "tokenizer.json").write_text(TOKENIZER)
    return model, numbers


def change(folder: Path, settings: Mapping[str, Any]) -> None:
    config = folder / "config.json"
    before = json.loads(config.read_text())
    config.write_text(
        json.dumps({**before, "quantization_config": {**before.get("quantization_config", {}), **settings}})
    )


def stored(folder: Path) -> dict[str, np.ndarray]:
    """The numbers in the package [rows, columns], by the weight's name."""
    found = {}
    for each in onnx.load(folder / "model.onnx").graph.initializer:
        name, _, kind = each.name.rpartition(".")
        if kind in ("q4", "q8"):
            array = onnx.numpy_helper.to_array(each)
            if kind == "q4":
                array = np.stack([array & 15, array >> 4], -1)
            found[name] = array.reshape(array.shape[0], -1)
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_stay_as_they_are(name: str, tmp_path: Path) -> None:
    model, numbers = checkpoint(tmp_path / "source", name)
    found = package(tmp_path / "source", tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    held = stored(found.folder)
    assert held.keys() == numbers.keys()
    for key, array in numbers.items():
        np.testing.assert_array_equal(held[key], array)
    assert written(found.folder) == generated(model)


def test_settings_for_generation_are_those_of_the_folder(tmp_path: Path) -> None:
    """Tokens that end a text, which the configuration of the model names fewer of, and rules that change it."""
    model, _ = checkpoint(tmp_path / "source", "awq")
    settings = {"eos_token_id": [7, 99], "repetition_penalty": 1.5, "suppress_tokens": [generated(model)[0][0]]}
    path = tmp_path / "source" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    found = package(tmp_path / "source", tmp_path / "package", steps=2)
    assert json.loads((found.folder / "genai_config.json").read_text())["model"]["eos_token_id"] == [7, 99]
    model.generation_config.eos_token_id = None  # `written` goes on behind them, too
    assert written(found.folder) == generated(model)
    path.unlink()
    bare = model_of(tmp_path / "source", Log()).model.generation_config
    assert (bare.repetition_penalty, bare.eos_token_id) == (None, model.config.eos_token_id)


def with_tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        tensors = safetensors.load_file(folder / "model.safetensors")
        key = f"model.layers.0.mlp.up_proj{name}"
        safetensors.save_file({**tensors, key: change(tensors[key])}, folder / "model.safetensors", {"format": "pt"})

    return write


def with_settings(**settings: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder, settings)


BAD: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "an unknown scheme": ("gptq", with_settings(quant_method="own"), "quantized already, by 'own'"),
    "3 bits": ("gptq", with_settings(bits=3), "numbers of 3 bits"),
    "settings by layer": ("gptq", with_settings(dynamic={"+:.*": {"bits": 8}}), "differ by layer"),
    "columns in another order": ("gptq", with_tensor(".g_idx", lambda x: x.flip(0)), "not side by side"),
    "a zero of 16": ("gptq", with_tensor(".qzeros", lambda x: torch.full_like(x, -1)), "a zero of 16"),
    "scales of another shape": ("gptq", with_tensor(".scales", lambda x: x[:1].clone()), "scales of shape"),
    "scales that are not finite": ("awq", with_tensor(".scales", lambda x: x * torch.nan), "not finite"),
    "another order of AWQ": ("awq", with_settings(version="gemv"), "version 'gemv'"),
    "inputs rounded too": (
        "compressed-tensors",
        with_settings(config_groups={"g": {"input_activations": {"num_bits": 8}, "weights": {"num_bits": 4}}}),
        "inputs of layers",
    ),
    "another format": ("compressed-tensors", with_settings(format="float-quantized"), "format 'float-quantized'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_known_is_refused(name: str, tmp_path: Path) -> None:
    kind, spoil, words = BAD[name]
    checkpoint(tmp_path / "source", kind)
    spoil(tmp_path / "source")
    with pytest.raises(PretrainedError, match=f"{words}.*give the folder of the weights before, and --weights"):
        model_of(tmp_path / "source", Log())


def test_they_are_not_rounded_again(tmp_path: Path) -> None:
    checkpoint(tmp_path / "source", "gptq")
    with pytest.raises(PackageError, match=r"few bits already.*omit --weights"):
        package(tmp_path / "source", tmp_path / "package", weights="int4")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


# GGUF -----------------------------------------------------------------------------------------------------------------

SIZES = {
    "attn_q": (32, 32),
    "attn_k": (16, 32),
    "attn_v": (16, 32),
    "attn_output": (32, 32),
    "ffn_gate": (64, 32),
    "ffn_up": (64, 32),
    "ffn_down": (32, 64),
}
"""Matrices of a layer in a GGUF file."""


KINDS = {"token_embd": "Q8_0", "attn_v": "Q8_0"}
MIXED = {
    "token_embd": "Q4_K",
    "output": "Q6_K",
    "attn_q": "Q4_K",
    "attn_k": "Q5_0",
    "attn_v": "Q6_K",
    "attn_output": "Q5_K",
    "ffn_gate": "Q4_1",
    "ffn_up": "Q5_1",
    "ffn_down": "Q4_K",
}
"""Types of weights in the files of two models; others are of Q4_0."""


def packed_as(kind: Any, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """A matrix of a type: rounded where the library can, else of any numbers, with scales that are small."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    try:
        return gguf.quants.quantize((rng.normal(size=size) * 32 / size[1]).astype(np.float32), kind)
    except NotImplementedError:
        block, width = gguf.GGML_QUANT_SIZES[kind]
        raw = rng.integers(0, 256, (size[0], size[1] // block, width), dtype=np.uint8)
        places = slice(width - 2, width) if kind.name == "Q6_K" else slice(0, 4)
        scale = rng.uniform(1e-4, 2e-4, (*raw.shape[:2], 1))
        halfs = np.concatenate([scale, scale * 8], -1)[..., : (places.stop - places.start) // 2]  # of minima the second
        raw[..., places] = halfs.astype(np.float16).view(np.uint8)
        return raw.reshape(size[0], -1)


def gguf_file(path: Path, kinds: Mapping[str, str] = KINDS, *, width: int = 32, last: bool = True) -> dict[str, Any]:
    """Write a Llama of one layer; return the restored values [rows, columns] of its weights."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    rng, held = np.random.default_rng(0), {}
    out = gguf.GGUFWriter(path, "llama")
    for key, value in {
        "block_count": 1,
        "context_length": 64,
        "embedding_length": width,
        "feed_forward_length": 2 * width,
    }.items():
        getattr(out, f"add_{key}")(value)
    out.add_head_count(4)
    out.add_head_count_kv(2)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(width // 4)
    out.add_vocab_size(100)
    out.add_name("tiny")
    layer = {f"blk.0.{name}.weight": size for name, size in SIZES.items() if last or name != "ffn_down"}
    times = width // 32
    for name, (rows, columns) in {"token_embd.weight": (100, 32), "output.weight": (100, 32), **layer}.items():
        kind = gguf.GGMLQuantizationType[kinds.get(name.split(".")[-2], "Q4_0")]
        packed = packed_as(kind, (rows if rows == 100 else times * rows, times * columns), rng)
        held[name] = gguf.quants.dequantize(packed, kind)
        out.add_tensor(name, packed, raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        out.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    (path.parent / "tokenizer.json").write_text(TOKENIZER)
    return held


def test_a_gguf_file_stays_as_it_is(tmp_path: Path) -> None:
    """Also its table of embeddings; rows of queries and keys are in the order of transformers."""
    (tmp_path / "source").mkdir()
    held = gguf_file(tmp_path / "source" / "tiny.gguf")
    found = package(tmp_path / "source" / "tiny.gguf", tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    kinds = [node.op_type for node in onnx.load(found.folder / "model.onnx").graph.node]
    assert (kinds.count("MatMulNBits"), kinds.count("GatherBlockQuantized")) == (8, 1)
    constants = {
        each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(found.folder / "model.onnx").graph.initializer
    }
    names = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.layers.0.mlp.down_proj": "blk.0.ffn_down"}
    numbers = stored(found.folder)
    assert len(numbers) == len(held)
    for ours, theirs in names.items():
        scales, array = constants[f"{ours}.weight.scales"], numbers[f"{ours}.weight"].astype(np.float32)
        middle = 8 if ours != "model.embed_tokens" else 128
        restored = (array - middle) * scales.repeat(32, 1)
        np.testing.assert_array_equal(restored, held[f"{theirs}.weight"])


def test_types_with_offsets_stand_for_the_same(tmp_path: Path) -> None:
    """Numbers of 5 and 6 bits are stored in 8; offsets of blocks are a product of their own."""
    (tmp_path / "source").mkdir()
    held = gguf_file(tmp_path / "source" / "tiny.gguf", MIXED, width=256)
    loaded = load_gguf(tmp_path / "source" / "tiny.gguf")
    for ours, theirs in {"embed_tokens": "token_embd", "layers.0.mlp.up_proj": "blk.0.ffn_up"}.items():
        restored = loaded[2][f"model.{ours}.weight"].restored().numpy()
        np.testing.assert_array_equal(restored, held[f"{theirs}.weight"])
    found = package(tmp_path / "source" / "tiny.gguf", tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    names = [each.name for each in onnx.load(found.folder / "model.onnx").graph.initializer]
    assert sum(name.endswith((".q4", ".q8")) for name in names) == len(held)
    assert sum(name.endswith(".offsets") for name in names) == 6
    assert not any(name.endswith(".zeros") for name in names)


def test_other_types_of_gguf_are_refused(tmp_path: Path) -> None:
    gguf_file(tmp_path / "tiny.gguf", {"output": "IQ4_NL"})
    with pytest.raises(
        PretrainedError, match=r"'output.weight' is of type IQ4_NL, which no kernel takes.*quantize the"
    ):
        package(tmp_path / "tiny.gguf", tmp_path / "package")


def test_damaged_files_of_gguf_are_refused(tmp_path: Path) -> None:
    gguf_file(tmp_path / "tiny.gguf", last=False)
    log = Log()
    with pytest.raises(Stop):
        package(tmp_path / "tiny.gguf", tmp_path / "package", log=log)
    assert [each.rule.id for each in log.findings] == ["FXP7010"]
    whole = (tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "tiny.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PretrainedError, match="is no GGUF file"):
        package(tmp_path / "tiny.gguf", tmp_path / "package")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf", "tokenizer.json"]
