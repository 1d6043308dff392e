"""Export a model, run it in ONNX Runtime, compare with what eager PyTorch gave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes  # noqa: F401  # names bfloat16 and float8 for NumPy
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import sympy
import torch
from torch.utils import _pytree as pytree

from fxport import OnnxProgram, export
from fxport.exporter.lowering.lower.dtypes import DTYPES
from fxport.fx_passes.sizes import sizes_of

TO_TORCH = {onnx_dtype: torch_dtype for torch_dtype, onnx_dtype in DTYPES.items()}


def run_exported(model: torch.nn.Module, cases: Sequence[tuple[Any, ...]], **options: Any) -> list[list[torch.Tensor]]:
    """The outputs of the exported model for each of the cases; the first is the example of the export."""
    program = export(model, tuple(pytree.tree_map_only(torch.Tensor, torch.clone, cases[0])), **options)
    session = session_of(program)
    return [run_session(session, program, case) for case in cases]


def session_of(program: OnnxProgram) -> onnxruntime.InferenceSession:
    """A session of the checked model on the CPU. The check infers every shape and holds it against the declared one.

    A model of the same bytes as the last one was checked then, and has its session.
    """
    return _session_of(ir.to_proto(program.model).SerializeToString())


@lru_cache(maxsize=1)
def _session_of(model: bytes) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(model, full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = 1  # small models; the tests run side by side
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def run_session(
    session: onnxruntime.InferenceSession, program: OnnxProgram, case: tuple[Any, ...]
) -> list[torch.Tensor]:
    """One run; values travel as OrtValues, since NumPy has no bfloat16."""
    tensors = [leaf for leaf in pytree.tree_leaves(case) if isinstance(leaf, torch.Tensor)]
    binding = session.io_binding()
    values = []
    fed = [value for value in program.model.graph.inputs if not value.is_initializer()]
    for value, tensor in zip(fed, tensors, strict=True):
        values.append(to_ort(as_real(tensor), value.dtype))
        binding.bind_ortvalue_input(value.name, values[-1])
    for output in session.get_outputs():
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    return [
        from_ort(value, out.dtype)
        for value, out in zip(binding.get_outputs(), program.model.graph.outputs, strict=True)
    ]


def within_conditions(program: OnnxProgram, case: tuple[Any, ...]) -> bool:
    """Whether what the report says of the sizes of inputs (FXP2002, FXP2003) allows those of the case."""
    captured = program.program
    tensors = [leaf for leaf in pytree.tree_leaves(case) if isinstance(leaf, torch.Tensor)]
    nodes = [node for entry, node in zip(captured.inputs, captured.placeholders, strict=True) if entry.path]
    known = {
        size: n
        for node, tensor in zip(nodes, tensors, strict=True)
        for size, n in zip(sizes_of(node.meta["val"]), tensor.shape, strict=False)
        if isinstance(size, sympy.Symbol)
    }
    return all(condition.allows(known) for condition in captured.conditions)


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as the exported model takes and gives it: real numbers with a last axis of 2."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor.resolve_neg()


def to_ort(tensor: torch.Tensor, dtype: ir.DataType) -> onnxruntime.OrtValue:
    array = ir.tensor_adapters.TorchTensor(tensor.contiguous()).numpy()
    raw = array.view(_CARRIER[array.dtype.itemsize]) if array.dtype.name in _EXTENDED else array
    return (
        onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, int(dtype))
        if raw is not array
        else (onnxruntime.OrtValue.ortvalue_from_numpy(array))
    )


def from_ort(value: onnxruntime.OrtValue, dtype: ir.DataType) -> torch.Tensor:
    if dtype.numpy().name in _EXTENDED:
        return torch.from_dlpack(value._ortvalue.to_dlpack()).view(TO_TORCH[dtype]).clone()
    return torch.from_numpy(np.array(value.numpy()).view(dtype.numpy()))  # UINT64 comes as C's unsigned long long


_EXTENDED = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"})
_CARRIER = {1: np.uint8, 2: np.uint16}


def assert_same(
    actual: Sequence[torch.Tensor],
    expected: Sequence[Any],
    *,
    values: bool = True,
    tol: tuple[float, float] | None = None,
) -> None:
    """Count, dtype, shape, and values to PyTorch's own tolerances of the dtype (or `tol`, as (rtol, atol))."""
    assert len(actual) == len(expected), f"{len(actual)} outputs instead of {len(expected)}"
    for got, want in zip(actual, expected, strict=True):
        want = as_real(want if isinstance(want, torch.Tensor) else torch.tensor(want))
        assert got.dtype == want.dtype, f"dtype {got.dtype} instead of {want.dtype}"
        assert tuple(got.shape) == tuple(want.shape), f"shape {tuple(got.shape)} instead of {tuple(want.shape)}"
        if values:
            rtol, atol = tol or (None, None)
            torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
