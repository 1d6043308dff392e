"""Single runs of eager PyTorch by the names of an exported model; none of them puts anything back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.arguments.strides import laid_out_as
from fxport.exporter.capture.eager import called
from fxport.exporter.capture.float64 import wide_types
from fxport.exporter.capture.patches.attention import no_fast_path
from fxport.exporter.weights.arrays import Arrays, as_array, as_value
from fxport.fx_passes.program import OutputKind, Program


def fed(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> dict[str, torch.Tensor]:
    """Return the feeds of the captured graph for a call, by the names of its inputs; numbers become 0-d tensors."""
    values = {leaf.path: leaf.value for leaf in leaves_of(arguments_of(module, *call))}
    found = {entry.name: values.get(entry.path or entry.name) for entry in program.user_inputs}
    missing = [name for name, value in found.items() if value is None]
    known = {entry.path or entry.name for entry in program.user_inputs}
    other = [path for path, value in values.items() if isinstance(value, torch.Tensor) and path not in known]
    if missing or other:
        told = ", ".join(f"'{name}'" for name in (*missing, *other))
        raise TypeError(f"these are other inputs than the model was captured with ({told})")
    return {name: torch.as_tensor(value) for name, value in found.items()}


def outputs_of(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """The outputs of one eager run on copies of the inputs, also the new values of what the model changes."""
    with no_fast_path():
        result, own = called(module, call)
        leaves = iter(pytree.tree_leaves(result))
        after = fed(module, own, program)
        outputs: Arrays = {}
        for output in program.outputs:
            if output.kind is OutputKind.MUTATION:
                assert output.updates is not None
                new = after[output.updates] if output.updates in after else state_of(module, program, output.updates)
                outputs[output.name] = as_array(new)
                continue
            leaf = next(leaves)
            if output.kind is OutputKind.USER:
                outputs[output.name] = as_array(leaf if isinstance(leaf, torch.Tensor) else _number(leaf))
        return outputs


def _number(value: float) -> torch.Tensor:
    """A Python number as a tensor of all its digits, which is what the exported model gives."""
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def state_of(module: torch.nn.Module, program: Program, name: str) -> torch.Tensor:
    """A buffer, or a parameter: an embedding with `max_norm` scales its own rows. A tensor in a list of an attribute is
    the very one that the program holds."""
    owner, _, attribute = name.rpartition(".")
    found = getattr(module.get_submodule(owner), attribute, None)
    return found if found is not None else program.tensors[name]


def run_widened(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """A run in which each op gets its operands in float64: the weights are held once, and one of them twice."""
    with wide_types(operands=True):
        return outputs_of(module, call, program)


def run_doubled(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """A run of a copy in float64: for layers that check the types of their weights, and for models with a state."""
    with wide_types():
        return outputs_of(_doubled(module), call, program)


def _doubled(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy in float64. Buffers that are one tensor stay one, as parameters do in `Module.double`."""
    copied = copy.deepcopy(module)
    names: dict[int, list[str]] = {}
    for name, buffer in copied.named_buffers(remove_duplicate=False):
        names.setdefault(id(buffer), []).append(name)
    copied.double()
    for first, *others in names.values():
        for other in others:
            owner, _, attribute = other.rpartition(".")
            setattr(copied.get_submodule(owner), attribute, copied.get_buffer(first))
    return copied


def changed_by(program: Program) -> set[str | None]:
    """The buffers and inputs that the model writes to."""
    return {output.updates for output in program.outputs if output.kind is OutputKind.MUTATION}


def refed(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, inputs: Mapping[str, np.ndarray]
) -> tuple[Any, Any]:
    """The call with other values, by the names of the captured graph's inputs."""
    args, kwargs = call
    args, kwargs = as_padded((args, kwargs))
    arguments = arguments_of(module, args, kwargs)
    names = {entry.path or entry.name: entry.name for entry in program.user_inputs}
    paths = [leaf.path for leaf in leaves_of(arguments)]
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
    fresh = [
        _as_given(inputs[names[path]], leaf) if path in names else leaf
        for path, leaf in zip(paths, leaves, strict=True)
    ]
    return pytree.tree_unflatten(fresh, spec)


def _as_given(array: np.ndarray, leaf: Any) -> Any:
    """Return the value of the leaf's kind, which lies in memory as the leaf does."""
    value = as_value(array, leaf)
    return laid_out_as(leaf, value) if isinstance(leaf, torch.Tensor) and leaf.dim() == value.dim() else value
