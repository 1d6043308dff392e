"""Files of torch.save: the structure is loaded without values and without running any code of the file."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from fxport.diagnostics.limits import LimitError
from fxport.diagnostics.messages import error_text
from fxport.exporter.weights.pickles import load_restricted
from fxport.exporter.weights.stored import CheckpointError, Region, Stored, in_region, values_of

WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "network", "net", "generator", "weights")
"""Keys under which training scripts and frameworks put the state dict, in the order in which they are looked for."""

OPTIMIZERS = ("optimizer", "optimizers", "optim", "optimizer_state_dict", "optimizer_state")
"""Keys under which they put the state of the optimizer, or a list with that of each of several."""

_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")


def open_file(path: Path) -> dict[str, Stored]:
    """The tensors of the state dict in a file of torch.save, by name.

    Raises CheckpointError for a file that is damaged, that needs code to be run, or that holds no state dict.
    """
    return {name: _stored(name, tensor, path) for name, tensor in state_dict_of(content_of(path), path).items()}


def open_optimizer(path: Path) -> dict[tuple[str, str], Stored]:
    """The state of the optimizer by (parameter, key). Parameters are names, or numbers where PyTorch numbered them.

    Those of several optimizers are numbered through.
    """
    content = content_of(path)
    found: dict[tuple[str, str], Stored] = {}
    for key in OPTIMIZERS:
        before = 0
        for held in _each(content.get(key)):
            state = held.get("state")
            for parameter, entries in state.items() if isinstance(state, Mapping) else ():
                name = str(parameter + before if isinstance(parameter, int) else parameter)
                for entry, value in entries.items() if isinstance(entries, Mapping) else ():
                    if isinstance(value, torch.Tensor):
                        found[name, str(entry)] = _stored(f"{name}.{entry}", value, path)
            params = (group.get("params") for group in _each(held.get("param_groups")))
            before += sum(len(each) for each in params if isinstance(each, list | tuple))
    return found


def _each(held: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list, or a mapping alone."""
    several = held if isinstance(held, list | tuple) else [held]
    return [each for each in several if isinstance(each, Mapping)]


def content_of(path: Path) -> Mapping[str, Any]:
    """Load the content of a file, its tensors without values where the file is a zip archive, else with them."""
    try:
        with FakeTensorMode():  # PyTorch then notes the offset of each tensor instead of reading it
            held = load_restricted(path)
        if _legacy(held):
            held = load_restricted(path)
    except LimitError as error:
        raise CheckpointError(f"'{path}' is not read: {error}; it is damaged, or no checkpoint.") from error
    except pickle.UnpicklingError as error:
        raise CheckpointError(_refusal(path, error)) from error
    except Exception as error:  # a damaged file makes the unzipper and torch raise what they like
        reason = error_text(error)
        raise CheckpointError(f"'{path}' cannot be read by torch.load: {reason}; it may be truncated.") from error
    if not isinstance(held, Mapping):
        raise CheckpointError(f"'{path}' holds a {type(held).__name__}, no state dict; save model.state_dict().")
    return held


def state_dict_of(content: Mapping[str, Any], path: Path) -> dict[str, torch.Tensor]:
    """The mapping of names to tensors: the content itself, or what is under one of `WRAPPERS`."""
    for held in (content, *(content.get(key) for key in WRAPPERS)):
        if isinstance(held, Mapping):
            tensors = {str(name): value for name, value in held.items() if isinstance(value, torch.Tensor)}
            if tensors:
                return tensors
    keys = ", ".join(f"'{key}'" for key in list(content)[:5]) or "nothing"
    raise CheckpointError(f"'{path}' has no state dict; it has {keys}; looked for: {', '.join(WRAPPERS)}.")


def _refusal(path: Path, error: Exception) -> str:
    wanted = _GLOBAL.search(str(error))
    what = f"needs the code of '{wanted.group(1)}'" if wanted else "is damaged, or holds more than tensors"
    return f"'{path}' {what}, which is not run; save model.state_dict() alone and give that."


def _legacy(held: object) -> bool:
    """Return True if tensors have no offsets: those of the format before PyTorch 1.6, which only loads as a whole."""
    return any(_offset(tensor) is None for tensor in _tensors(held))


def _tensors(held: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested containers. One that is in many places is looked into once."""
    waiting, seen = [held], set[int]()
    while waiting:
        now = waiting.pop()
        if isinstance(now, torch.Tensor):
            yield now
        elif isinstance(now, Mapping | list | tuple) and id(now) not in seen:
            seen.add(id(now))
            waiting += now.values() if isinstance(now, Mapping) else now


def _offset(tensor: torch.Tensor) -> int | None:
    """The byte of the file at which the storage of a tensor without values begins; documented with torch.load."""
    return getattr(tensor.untyped_storage(), "_checkpoint_offset", None)


def _stored(name: str, tensor: torch.Tensor, path: Path) -> Stored:
    dtype, shape, offset = tensor.dtype, tuple(tensor.shape), _offset(tensor)
    if offset is None:
        values = tensor.detach()
        return Stored(name, dtype, shape, lambda: values)
    begin = offset + int(tensor.storage_offset()) * dtype.itemsize
    if tensor.is_contiguous():
        return in_region(name, dtype, shape, Region(path, begin, tensor.numel() * dtype.itemsize))
    strides = tensor.stride()
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    region = Region(path, begin, span * dtype.itemsize)
    return Stored(name, dtype, shape, lambda: values_of(region, dtype, (span,)).as_strided(shape, strides))
