"""A GGUF file as a language model: its weights in few bits are taken as they are (Q4_0 and Q8_0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport.diagnostics.messages import error_text
from fxport.exporter.language_models.few_bits import FewBits, few_bits_of
from fxport.exporter.language_models.gguf_header import require_bounded
from fxport.exporter.sources.pretrained import PretrainedError, from_gguf

SUFFIX = ".gguf"
BLOCK = 32
"""Numbers that share a scale in the types that are taken."""

FLOATS = ("F32", "F16", "BF16")
"""Types of weights that are not in few bits."""

CURE = "quantize the model as Q4_0 or Q8_0, or give the folder of the weights before, and --weights"


def is_gguf(path: Path) -> bool:
    """Return True for the name of a file in this format."""
    return path.suffix.lower() == SUFFIX and path.is_file()


def load_gguf(path: Path) -> tuple[Any, dict[str, Any], dict[str, FewBits]]:
    """The model of a GGUF file in float32, by transformers, and what it has in few bits.

    transformers restores the weights, and puts rows in the order of its own models: each is looked up by its values.

    Returns:
        The model; the findings of transformers about missing and extra weights; the weights in few bits by their names.

    Raises:
        PretrainedError: The file is damaged, its architecture is unknown to transformers, a library is missing, or a
            weight has a type that no kernel takes as it is.
    """
    try:
        import gguf  # pyright: ignore[reportMissingImports] - it is optional
    except ImportError as error:
        raise PretrainedError(f"'{path}' needs the library gguf: pip install gguf.") from error
    try:
        require_bounded(path)
        stored = {str(each.name): each for each in gguf.GGUFReader(path).tensors}
        types = {name: str(each.tensor_type.name) for name, each in stored.items()}
    except Exception as error:  # a stranger's file, of which the library raises what it likes
        raise PretrainedError(f"'{path}' is no GGUF file: {error_text(error)}; get it again.") from error
    for name, kind in types.items():
        if kind not in FLOATS and kind not in READERS:
            raise PretrainedError(f"'{path}': '{name}' is of type {kind}, which no kernel takes as it is; {CURE}.")
    model, found = from_gguf(path)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # the weights are restored
    made = {name: READERS[kind](np.asarray(stored[name].data)) for name, kind in types.items() if kind in READERS}
    return model, found, _named(path, model, made)


def _q4_0(data: np.ndarray) -> FewBits:
    """Blocks of a scale in float16 and 16 bytes: number i is the lower half of byte i, number 16 + i the upper one."""
    blocks, scales = _blocks(data, BLOCK // 2)
    return few_bits_of(np.concatenate([blocks & 15, blocks >> 4], -1).reshape(len(data), -1), scales, None, 4, BLOCK)


def _q8_0(data: np.ndarray) -> FewBits:
    """Blocks of a scale in float16 and 32 signed bytes."""
    blocks, scales = _blocks(data, BLOCK)
    return few_bits_of((blocks ^ 128).reshape(len(data), -1), scales, None, 8, BLOCK)  # 128 more, without a sign


def _blocks(data: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of the numbers [rows, blocks, size], and the scales [rows, blocks]."""
    whole = np.ascontiguousarray(data).reshape(data.shape[0], -1, size + 2)
    scales = np.ascontiguousarray(whole[..., :2]).view("<f2")[..., 0]
    return whole[..., 2:], scales.astype(np.float32)


READERS: Mapping[str, Callable[[np.ndarray], FewBits]] = {"Q4_0": _q4_0, "Q8_0": _q8_0}
"""Types that are taken as they are."""


def _named(path: Path, model: torch.nn.Module, made: Mapping[str, FewBits]) -> dict[str, FewBits]:
    """Weights of a file by their names in the model, with rows in the model's order."""
    by_rows = {key: weight for weight in made.values() for key in [_rows_of(weight.restored().numpy())]}
    found: dict[str, FewBits] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        matrix = parameter.detach().numpy()
        weight = by_rows.get(_rows_of(matrix)) if matrix.ndim == 2 else None
        if weight is not None:
            found[name] = _in_order(weight, matrix)
    kept = {id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False) if name in found}
    if len(kept) < len(made):
        raise PretrainedError(
            f"'{path}': transformers puts {len(made) - len(kept)} of its weights together with others, so their few "
            f"bits cannot be kept; {CURE}."
        )
    return found


def _rows_of(matrix: np.ndarray) -> tuple[tuple[int, ...], int]:
    """A key that matrices of the same rows share, in whatever order."""
    return matrix.shape, hash(frozenset(_lines(matrix)))


def _lines(matrix: np.ndarray) -> Iterator[bytes]:
    for row in matrix:
        yield (row + np.float32(0)).tobytes()  # -0.0 is 0.0


def _in_order(weight: FewBits, matrix: np.ndarray) -> FewBits:
    """The weight with its rows in the order of a matrix of the same rows."""
    places = {line: index for index, line in enumerate(_lines(weight.restored().numpy()))}
    order = np.array([places[line] for line in _lines(matrix)])
    return FewBits(weight.numbers[order], weight.scales[order], weight.columns, weight.bits, weight.block)
