"""A captured graph run by PyTorch, next to the model itself."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log
from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.arguments.padded import call_padded
from fxport.fx_passes import run_passes
from fxport.fx_passes.passes.functionalize import functionalize
from fxport.fx_passes.pipeline import PREPARE
from fxport.fx_passes.program import InputKind, OutputKind, Program

WRITES_AS_VALUES = PREPARE[: PREPARE.index(functionalize) + 1]
"""The passes after which a graph writes to nothing."""

TOLERANCE = 1e-3
"""Of the largest value of an output: what treats a size apart takes a short cut to the same result, or another way."""

FEW_STEPS = 2
"""Steps of a dtype that a result may be off, as part of the largest value: in bfloat16 one is more than TOLERANCE."""


def same_results(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> bool:
    """Return True if the graph gives the results of the model. False where it fails, or its weights have no values."""
    leaves = {leaf.path: leaf.value for leaf in leaves_of(arguments_of(module, *call))}
    held = [program.tensors.get(entry.target or "") for entry in program.inputs if entry.kind is not InputKind.USER]
    if any(tensor is None or tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in held):
        return False
    values = [
        leaves[entry.path or entry.name] if entry.kind is InputKind.USER else program.tensors[entry.target or ""]
        for entry in program.inputs
    ]
    # What is a view or a copy by its size is what the capture made of it, in the model, and not what it is here
    program = run_passes(replace(program, graph_module=copy.deepcopy(program.graph_module)), WRITES_AS_VALUES, Log())
    with torch.no_grad():
        try:
            given = torch.fx.Interpreter(program.graph_module).run(*(_own(value) for value in values))
        except Exception:  # noqa: BLE001  # whatever an operator says to sizes that the graph does not hold for
            return False
        args, kwargs = pytree.tree_map(_own, call)
        wanted = pytree.tree_leaves(call_padded(copy.deepcopy(module), args, kwargs))
    user = [
        value for value, output in zip(given, program.outputs, strict=True) if output.kind is not OutputKind.MUTATION
    ]
    return len(user) == len(wanted) and all(alike(a, b) for a, b in zip(user, wanted, strict=True))


def _own(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def alike(value: Any, wanted: Any, part: float = TOLERANCE) -> bool:
    """Return whether a result is the wanted one: of its dtype and shape, and off by a part of its largest value."""
    if not isinstance(wanted, torch.Tensor) or not isinstance(value, torch.Tensor):
        return _same_number(value, wanted, part)
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        return False
    if wanted.layout is not torch.strided:
        return value.layout is wanted.layout and alike(value.to_dense(), wanted.to_dense(), part)
    if not (wanted.is_floating_point() or wanted.is_complex()):
        return torch.equal(value, wanted)
    sizes = wanted.abs()[wanted.isfinite()].to(torch.float64)
    part = max(part, FEW_STEPS * torch.finfo(wanted.dtype).eps)
    scale = float(sizes.max()) if sizes.numel() else 0.0
    return torch.allclose(value, wanted, rtol=0, atol=scale * part, equal_nan=True)


def _same_number(value: Any, wanted: Any, part: float) -> bool:
    """Return whether two results are equal of which one is no tensor: a number of Python's, a string, None."""
    value, wanted = _number(value), _number(wanted)
    if isinstance(value, float) and isinstance(wanted, float):
        return math.isclose(value, wanted, rel_tol=part) or (math.isnan(value) and math.isnan(wanted))
    return type(value) is type(wanted) and bool(value == wanted)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
