"""The modules that sentence-transformers puts after a model of transformers, as PyTorch modules of our own.

Each is read from its folder by a function of `MODULES`; a module, or a setting of one, that is not in these tables is
refused, since its vectors would be others. https://sbert.net/docs/package_reference/sentence_transformer/modules.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fxport.exporter.weights import open_checkpoint

LENGTH = 1e-9
"""Smallest divisor of a mean, as sentence-transformers has it."""


class UnknownModuleError(ValueError):
    """A module, or a setting of one, that is not understood. The text says which."""


def _first(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _at(hidden, mask.to(torch.int32).argmax(1))


def _last(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _at(hidden, mask.shape[1] - 1 - mask.to(torch.int32).flip(1).argmax(1))


def _at(hidden: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The vectors [batch, size] of one token of each text."""
    return hidden.gather(1, index[:, None, None].expand(-1, 1, hidden.shape[-1])).squeeze(1)


def _largest(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return hidden.masked_fill(mask[..., None] == 0, float("-inf")).amax(1)


def _mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask[..., None].to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=LENGTH)


def _mean_of_root(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask[..., None].to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=LENGTH).sqrt()


def _weighted_mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean with weights of 1, 2, 3 … from the first token of a text on."""
    positions = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)[None]
    places = positions - mask.to(torch.int32).argmax(1)[:, None]
    weights = (mask * places)[..., None].to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=LENGTH)


POOLINGS: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _first,
    "max": _largest,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_of_root,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
"""From hidden states [batch, sequence, size] and mask [batch, sequence] to vectors, in the order of joined ones."""

FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Settings of earlier versions, one for each kind."""


class Pooling(torch.nn.Module):
    """One vector for each text from those of its tokens; those of several kinds are joined."""

    def __init__(self, kinds: Sequence[str]) -> None:
        super().__init__()
        self.kinds = tuple(kinds)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([POOLINGS[kind](hidden, mask) for kind in self.kinds], -1)


class Normalize(torch.nn.Module):
    """Vectors of length 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(x, p=2.0, dim=-1)


ACTIVATIONS: Mapping[str, type[torch.nn.Module]] = {
    f"torch.nn.modules.{place}.{kind.__name__}": kind
    for place, kinds in {
        "activation": (torch.nn.Sigmoid, torch.nn.Tanh, torch.nn.ReLU, torch.nn.GELU, torch.nn.SiLU),
        "linear": (torch.nn.Identity,),
    }.items()
    for kind in kinds
}


def activation_of(name: object) -> torch.nn.Module:
    """The function of a name, with its defaults. Raises UnknownModuleError."""
    kind = ACTIVATIONS.get(str(name))
    if kind is None:
        raise UnknownModuleError(f"its activation '{name}' is none of {', '.join(ACTIVATIONS)}")
    return kind()


def _pooling(folder: Path, settings: dict[str, Any]) -> torch.nn.Module:
    _drop(settings, "word_embedding_dimension", "embedding_dimension")
    _require(settings, include_prompt=True)
    given = {kind: settings.pop(flag, False) for flag, kind in FLAGS.items()}
    kinds = settings.pop("pooling_mode", None) or [kind for kind, wanted in given.items() if wanted] or ["mean"]
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if unknown := [kind for kind in kinds if kind not in POOLINGS]:
        raise UnknownModuleError(f"its pooling '{unknown[0]}' is none of {', '.join(POOLINGS)}")
    return Pooling(kinds)


def _normalize(folder: Path, settings: dict[str, Any]) -> torch.nn.Module:
    _require_places(settings)
    return Normalize()


def _dense(folder: Path, settings: dict[str, Any]) -> torch.nn.Module:
    _require_places(settings)
    _require(settings, use_residual=False)
    sizes = [settings.pop(name, None) for name in ("in_features", "out_features")]
    activation = activation_of(settings.pop("activation_function", "torch.nn.modules.activation.Tanh"))
    with torch.device("meta"):  # the sizes are anybody's, and have to be those of the weights
        linear = torch.nn.Linear(*sizes, bias=bool(settings.pop("bias", True)))
    return torch.nn.Sequential(_filled(linear, "linear", folder), activation)


def _layer_norm(folder: Path, settings: dict[str, Any]) -> torch.nn.Module:
    with torch.device("meta"):
        norm = torch.nn.LayerNorm(settings.pop("dimension"))
    return _filled(norm, "norm", folder)


def _dropout(folder: Path, settings: dict[str, Any]) -> torch.nn.Module:
    _drop(settings, "dropout")
    return torch.nn.Identity()


MODULES: Mapping[str, Callable[[Path, dict[str, Any]], torch.nn.Module]] = {
    "Pooling": _pooling,
    "Normalize": _normalize,
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Dropout": _dropout,
}
"""Readers by the name of the class: from a folder and its settings, of which each takes those that it knows."""


def module_of(kind: str, folder: Path, settings: Mapping[str, Any]) -> torch.nn.Module:
    """The module of a folder, in eval mode. Raises UnknownModuleError, and CheckpointError for damaged weights."""
    left = dict(settings)
    try:
        made = MODULES[kind](folder, left)
    except (KeyError, TypeError, RuntimeError) as error:
        raise UnknownModuleError(f"its settings and weights do not fit each other: {error}") from error
    if left:
        raise UnknownModuleError(f"its setting '{next(iter(left))}' is unknown")
    return made.eval()


def _filled(module: torch.nn.Module, name: str, folder: Path) -> torch.nn.Module:
    """A module with the values of a checkpoint, whose names begin with `name`. Raises RuntimeError for others."""
    tensors = {each: stored.read().float() for each, stored in open_checkpoint(folder).tensors.items()}
    holder = torch.nn.ModuleDict({name: module})
    holder.load_state_dict(tensors, assign=True)
    return module


def _drop(settings: dict[str, Any], *names: str) -> None:
    for name in names:
        settings.pop(name, None)


def _require(settings: dict[str, Any], **wanted: object) -> None:
    """Take settings that have one value. Raises UnknownModuleError for others."""
    for name, value in wanted.items():
        if (given := settings.pop(name, value)) != value:
            raise UnknownModuleError(f"its setting '{name}' is {given!r}, of which only {value!r} is known")


def _require_places(settings: dict[str, Any]) -> None:
    _require(settings, module_input_name="sentence_embedding", module_output_name="sentence_embedding")
