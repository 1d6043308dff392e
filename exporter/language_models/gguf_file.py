"""A GGUF file as a language model: its weights in few bits are taken as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport.diagnostics.messages import error_text
from fxport.exporter.language_models.few_bits import FewBits
from fxport.exporter.language_models.gguf_header import require_bounded
from fxport.exporter.language_models.gguf_types import READERS
from fxport.exporter.sources.pretrained import PretrainedError, from_gguf

SUFFIX = ".gguf"
FLOATS = ("F32", "F16", "BF16")
"""Types of weights that are not in few bits."""

CURE = f"quantize the model as {', '.join(READERS)}, or give the folder of the weights before, and --weights"


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
    return weight.with_rows(order)
