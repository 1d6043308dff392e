"""Weights that a checkpoint already has in few bits, taken as they are.

Of GPTQ, AWQ, compressed-tensors, bitsandbytes, and torchao.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport.diagnostics.limits import CONFIG, json_of
from fxport.diagnostics.messages import error_line
from fxport.exporter.language_models.few_bits import BLOCKS, FewBits, few_bits_of
from fxport.exporter.language_models.from_table import TABLES, FromTable, Packed, table_of
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.exporter.weights import Checkpoint
from fxport.ort_runner.json_values import count

WORD = 32
"""Bits of the numbers in which these formats pack theirs."""

WIDTHS = (4, 8)

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Field of a word that holds each of eight columns, in the format of AWQ for matrix products."""


class UnknownScheme(Exception):
    """A scheme, or a tensor of one, that is not taken. The text says what."""


Tensors = Mapping[str, np.ndarray]
"""The tensors of one layer, by what follows the layer's name."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format: the suffix of packed weights, those of what belongs to them, and how they are read.

    `settings` are checked once; they are `quantization_config` of a configuration.
    """

    packed: str
    others: tuple[str, ...]
    check: Callable[[Mapping[str, Any]], tuple[int, int]]
    read: Callable[[Tensors, int, int, Mapping[str, Any]], Packed]


def quantized_weights(
    folder: Path, checkpoint: Checkpoint, settings: Mapping[str, Any]
) -> tuple[dict[str, torch.Tensor], dict[str, Packed]]:
    """All weights of a quantized checkpoint.

    Args:
        folder: The folder, for messages.
        checkpoint: Its tensors.
        settings: `quantization_config` of its configuration.

    Returns:
        The weights in float32, those in few bits restored; and those in few bits as they are, both by the names that
        they have in the model.

    Raises:
        PretrainedError: The scheme is none of those that are known, or a tensor does not fit it.
    """
    method = settings.get("quant_method")
    known = FORMATS.get(str(method))
    cure = "give the folder of the weights before, and --weights"
    if known is None:
        told = f"'{method}'" if method else "a scheme that 'quantization_config' does not name"
        raise PretrainedError(
            f"'{folder}': the weights are quantized already, by {told}, which packages cannot take; {cure}."
        )
    try:
        bits, group = known.check(settings)
        return _read(known, checkpoint, bits, group, settings)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:  # anybody's values
        reason = f"its settings and tensors do not fit each other: {error_line(error)}"
        raise PretrainedError(f"'{folder}': the weights are quantized by '{method}': {reason}; {cure}.") from error
    except UnknownScheme as error:
        raise PretrainedError(f"'{folder}': the weights are quantized by '{method}': {error}; {cure}.") from error


def _read(
    known: Format, checkpoint: Checkpoint, bits: int, group: int, settings: Mapping[str, Any]
) -> tuple[dict[str, torch.Tensor], dict[str, Packed]]:
    weights: dict[str, torch.Tensor] = {}
    packed: dict[str, Packed] = {}
    layers = [name.removesuffix(known.packed) for name in checkpoint.tensors if name.endswith(known.packed)]
    used: set[str] = set()
    for layer in layers:
        names = {end: layer + end for end in (known.packed, *known.others) if layer + end in checkpoint.tensors}
        tensors = {end: _array(checkpoint.tensors[name].read()) for end, name in names.items()}
        try:
            made = known.read(tensors, bits, group, settings)
        except UnknownScheme as error:
            raise UnknownScheme(f"'{layer}': {error}") from error
        except (KeyError, ValueError, IndexError) as error:
            raise UnknownScheme(f"'{layer}' has tensors that do not fit each other: {error}") from error
        packed[f"{layer}.weight"] = made
        weights[f"{layer}.weight"] = made.restored()
        used |= set(names.values())
    if not packed:
        raise UnknownScheme("the folder has no packed weights")
    for name, stored in checkpoint.tensors.items():
        if name not in used:
            tensor = stored.read()
            weights[name] = tensor.float() if tensor.is_floating_point() else tensor
    return weights, packed


def _array(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def _fields(words: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in 32-bit words, lowest first, along a new last axis."""
    shifts = np.arange(0, WORD, bits, dtype=np.uint32)
    return ((words.astype(np.int32).view(np.uint32)[..., None] >> shifts) & ((1 << bits) - 1)).astype(np.uint8)


def _widths(settings: Mapping[str, Any], bits: str = "bits", group: str = "group_size") -> tuple[int, int]:
    width, size = settings.get(bits), settings.get(group)
    if width not in WIDTHS:
        raise UnknownScheme(f"numbers of {width} bits; those of 4 and 8 are taken")
    if not isinstance(size, int) or isinstance(size, bool) or (size != -1 and size < BLOCKS[0]):
        raise UnknownScheme(f"groups of {size}")
    assert isinstance(width, int)
    return width, size


def _as_rows(numbers: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int, group: int) -> FewBits:
    """Numbers [rows, columns] with scales and zeros [rows, groups], in blocks for which there are kernels."""
    rows, columns = numbers.shape
    group = columns if group == -1 else group
    block = next((size for size in reversed(BLOCKS) if group % size == 0), None)
    if columns % group or block is None:
        raise UnknownScheme(f"groups of {group} in rows of {columns}, which no kernel takes")
    groups = (rows, columns // group)
    if scales.shape != groups or (zeros is not None and zeros.shape != groups):
        raise UnknownScheme(f"scales of shape {list(scales.shape)} for {list(groups)} groups")
    if not np.isfinite(scales).all():
        raise UnknownScheme("scales that are not finite")
    times = group // block
    spread = None if zeros is None else zeros.repeat(times, 1)
    return few_bits_of(numbers, scales.repeat(times, 1), spread, bits, block)


# GPTQ -----------------------------------------------------------------------------------------------------------------


def _check_gptq(settings: Mapping[str, Any]) -> tuple[int, int]:
    if settings.get("dynamic"):
        raise UnknownScheme("settings that differ by layer ('dynamic')")
    if settings.get("checkpoint_format", "gptq") not in ("gptq", "gptq_v2"):
        raise UnknownScheme(f"a checkpoint of format '{settings['checkpoint_format']}'")
    return _widths(settings)


def _read_gptq(tensors: Tensors, bits: int, group: int, settings: Mapping[str, Any]) -> FewBits:
    """qweight [columns / n, rows], qzeros [groups, rows / n], scales [groups, rows]; n numbers a word, low ones first.

    Format "gptq" stores zeros less one.
    """
    words = tensors[".qweight"]
    numbers = _fields(words, bits).transpose(1, 0, 2).reshape(words.shape[1], -1)
    columns = numbers.shape[1]
    size = columns if group == -1 else group
    if ".g_idx" in tensors and not np.array_equal(tensors[".g_idx"], np.arange(columns) // size):
        raise UnknownScheme("groups of columns that are not side by side (desc_act)")
    zeros = _fields(tensors[".qzeros"], bits).reshape(len(tensors[".qzeros"]), -1).astype(np.int32)
    zeros += settings.get("checkpoint_format", "gptq") == "gptq"
    if zeros.max(initial=0) >= 1 << bits:
        raise UnknownScheme(f"a zero of {zeros.max()}, which {bits} bits do not hold")
    return _as_rows(numbers, tensors[".scales"].T, zeros.T.astype(np.uint8), bits, group)


# AWQ ------------------------------------------------------------------------------------------------------------------


def _check_awq(settings: Mapping[str, Any]) -> tuple[int, int]:
    if str(settings.get("version", "gemm")).lower() != "gemm":
        raise UnknownScheme(f"version '{settings['version']}'; 'gemm' is taken")
    bits, group = _widths(settings)
    if bits != AWQ_BITS:
        raise UnknownScheme(f"numbers of {bits} bits; those of {AWQ_BITS} are taken")
    return bits, group


AWQ_BITS = 4


def _read_awq(tensors: Tensors, bits: int, group: int, settings: Mapping[str, Any]) -> FewBits:
    """qweight [columns, rows / 8] and qzeros [groups, rows / 8] in the order of AWQ, scales [groups, rows]."""
    numbers, zeros = (
        _fields(tensors[name], bits)[..., AWQ_ORDER].reshape(len(tensors[name]), -1) for name in (".qweight", ".qzeros")
    )
    return _as_rows(numbers.T, tensors[".scales"].T, zeros.T, bits, group)


# compressed-tensors ---------------------------------------------------------------------------------------------------


def _check_compressed(settings: Mapping[str, Any]) -> tuple[int, int]:
    groups = settings.get("config_groups")
    if settings.get("format") != "pack-quantized" or not isinstance(groups, Mapping) or len(groups) != 1:
        raise UnknownScheme(f"format '{settings.get('format')}' with {len(groups or ())} groups of layers")
    (scheme,) = groups.values()
    if scheme.get("input_activations") or scheme.get("output_activations"):
        raise UnknownScheme("inputs of layers are rounded too")
    weights = scheme["weights"]
    strategy = weights.get("strategy")
    if weights.get("type", "int") != "int" or strategy not in ("group", "channel") or weights.get("actorder"):
        raise UnknownScheme(f"weights of type '{weights.get('type')}' by {strategy} (order: {weights.get('actorder')})")
    return _widths({"bits": weights.get("num_bits"), "group_size": weights.get("group_size") or -1})


def _read_compressed(tensors: Tensors, bits: int, group: int, settings: Mapping[str, Any]) -> FewBits:
    """weight_packed [rows, columns / n], low numbers first, 2 ** (bits - 1) more than they are; weight_scale
    [rows, groups]; weight_zero_point [rows / n, groups], packed along rows, likewise.
    """
    rows, columns = (int(size) for size in tensors[".weight_shape"])
    numbers = _fields(tensors[".weight_packed"], bits).reshape(len(tensors[".weight_packed"]), -1)[:, :columns]
    zeros = None
    if ".weight_zero_point" in tensors:
        words = tensors[".weight_zero_point"]
        zeros = _fields(words, bits).transpose(0, 2, 1).reshape(-1, words.shape[1])[:rows]
    if ".weight_g_idx" in tensors:
        raise UnknownScheme("groups of columns that are not side by side (weight_g_idx)")
    return _as_rows(numbers, tensors[".weight_scale"], zeros, bits, group)


# bitsandbytes ---------------------------------------------------------------------------------------------------------

STATE = ".weight.quant_state.bitsandbytes__"


def _check_bitsandbytes(settings: Mapping[str, Any]) -> tuple[int, int]:
    if not settings.get("load_in_4bit"):
        raise UnknownScheme("inputs of layers are rounded too (load_in_8bit)")
    return 4, 0


def _read_bitsandbytes(tensors: Tensors, bits: int, group: int, settings: Mapping[str, Any]) -> FromTable:
    """weight [rows * columns / 2, 1], the upper half of a byte first; absmax, a scale of each block, or places of these
    in a table of their own with scales (double quantization); and a state in JSON.
    """
    (state,) = (json_of(each.tobytes(), CONFIG) for name, each in tensors.items() if name.startswith(STATE))
    kind, block = state["quant_type"], count(state["blocksize"])
    rows, columns = (count(size) for size in state["shape"])
    if kind not in TABLES or not np.array_equal(tensors[".weight.quant_map"], table_of(kind)):
        raise UnknownScheme(f"a table '{kind}' of other values than nf4 or fp4 has")
    if block not in TABLE_BLOCKS or columns % block:
        raise UnknownScheme(f"blocks of {block} in rows of {columns}, which no kernel takes")
    scales = tensors[".weight.absmax"]
    if ".weight.nested_absmax" in tensors:
        of_scales = tensors[".weight.nested_absmax"].repeat(count(state["nested_blocksize"]))[: scales.size]
        scales = tensors[".weight.nested_quant_map"][scales] * of_scales + np.float32(state["nested_offset"])
    numbers = tensors[".weight"].reshape(-1)
    if (numbers.dtype, numbers.size, scales.size) != (np.uint8, rows * columns // 2, rows * columns // block):
        raise UnknownScheme(f"{numbers.size} bytes and {scales.size} scales for [{rows}, {columns}]")
    if not np.isfinite(scales).all():
        raise UnknownScheme("scales that are not finite")
    return FromTable(numbers, np.ascontiguousarray(scales, np.float32), rows, columns, block, kind)


# torchao --------------------------------------------------------------------------------------------------------------

EIGHT, OF_ANY = "Int8WeightOnlyConfig", "IntxWeightOnlyConfig"
"""Schemes of torchao that round weights alone, to integers."""


def _check_torchao(settings: Mapping[str, Any]) -> tuple[int, int]:
    kinds = settings.get("quant_type")
    if not isinstance(kinds, Mapping) or [*kinds] != ["default"]:
        raise UnknownScheme("settings that differ by layer")
    scheme = kinds["default"]
    kind = scheme["_type"]
    if kind not in (EIGHT, OF_ANY):
        raise UnknownScheme(f"'{kind}'; {EIGHT} and {OF_ANY} are taken")
    return (8 if kind == EIGHT else int(scheme["_data"]["weight_dtype"]["_data"].removeprefix("int"))), 0


def _read_torchao(tensors: Tensors, bits: int, group: int, settings: Mapping[str, Any]) -> FewBits:
    return few_bits_of_integers(tensors["._weight_qdata"], tensors["._weight_scale"], tensors.get(ZEROS), bits)


ZEROS = "._weight_zero_point"


def few_bits_of_integers(numbers: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int) -> FewBits:
    """Take signed numbers int8 [rows, columns] as they are; scales and zeros are [rows or 1, groups].

    Numbers of fewer bits than 4 are stored in 4, and those of 5 to 7 in 8.
    """
    width = next((width for width in WIDTHS if 1 <= bits <= width), None)
    if width is None:
        raise UnknownScheme(f"numbers of {bits} bits; those of 1 to 8 are taken")
    rows, columns = numbers.shape
    groups, low = scales.shape[1], 1 << (width - 1)
    stored = [each for each in (numbers, zeros) if each is not None]
    if any(each.dtype != np.int8 or each.min(initial=0) < -low or each.max(initial=0) >= low for each in stored):
        raise UnknownScheme(f"numbers that {width} bits do not hold")
    spread = np.broadcast_to(scales, (rows, groups))
    raised = [(each.astype(np.int16) + low).astype(np.uint8) for each in stored]
    zero = None if zeros is None or not zeros.any() else np.broadcast_to(raised[1], spread.shape)
    return _as_rows(raised[0], spread, zero, width, -1 if groups == 1 else columns // groups)


TABLE_BLOCKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Numbers that share a scale of a table."""

FORMATS: Mapping[str, Format] = {
    "gptq": Format(".qweight", (".qzeros", ".scales", ".g_idx"), _check_gptq, _read_gptq),
    "awq": Format(".qweight", (".qzeros", ".scales"), _check_awq, _read_awq),
    "compressed-tensors": Format(
        ".weight_packed",
        (".weight_scale", ".weight_zero_point", ".weight_shape", ".weight_g_idx"),
        _check_compressed,
        _read_compressed,
    ),
    "bitsandbytes": Format(
        ".weight.absmax",
        (
            ".weight",
            ".weight.quant_map",
            ".weight.nested_absmax",
            ".weight.nested_quant_map",
            *(STATE + kind for kind in TABLES),
        ),
        _check_bitsandbytes,
        _read_bitsandbytes,
    ),
    "torchao": Format("._weight_qdata", ("._weight_scale", ZEROS), _check_torchao, _read_torchao),
}
"""Formats of quantized checkpoints, by `quant_method`."""
