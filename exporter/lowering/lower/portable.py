"""Portable part of an export for another process: the model with its weights, the findings, the interface."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import onnx
import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from fxport.diagnostics import Finding, Log, Part, rules
from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.messages import error_line
from fxport.fx_passes.program import Condition, Input, Output, Program

INLINE_BYTES = 1024
"""Bytes up to which a tensor stays in the model's own message, which ends at 2 GiB."""


class GraphNotPickledError(FxportError, AttributeError):
    """The captured graph of a result that was pickled."""


class NotPickled:
    """In the place of the graph module, which PyTorch cannot pickle with what is known of its values."""

    def __getattr__(self, name: str) -> NoReturn:
        raise GraphNotPickledError(
            f"'{name}': a pickled OnnxProgram has the ONNX model, not the captured graph; export the module again"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NotPickled:
        return self

    def __reduce__(self) -> tuple[type[NotPickled], tuple[()]]:
        return NotPickled, ()


@dataclass(frozen=True, slots=True)
class PortableLog:
    """A log as values that pickle takes: its findings, the names and seconds of its stages, what modules became."""

    findings: Sequence[Finding]
    stages: Sequence[tuple[str, float]]
    parts: Sequence[Part]

    def restored(self) -> Log:
        """A log with these findings, and with those that are reported to it later."""
        log = Log()
        known = tuple(replace(each, rule=rules.RULES.get(each.rule.id, each.rule)) for each in self.findings)
        log.revise(lambda later: (*known, *later))
        log.stages, log.parts = [*self.stages], self.parts
        return log


def portable_log(log: Log) -> PortableLog:
    """The log as values."""
    findings = tuple(replace(each, facts=dict(each.facts)) for each in log.findings)
    return PortableLog(findings, [*log.stages], [*log.parts])


@dataclass(frozen=True, slots=True)
class Portable:
    """A model, a program and a log as values that pickle takes.

    Attributes:
        graph: The model as a message of ONNX, with references in the place of large tensors.
        weights: Those tensors by the names of initializers: element type, shape and bytes.
        interface: The fields of the program that are no graph and no tensors.
        exported: What torch.export.save writes of the captured program, if it was kept.
        log: The log.
    """

    graph: bytes
    weights: Mapping[str, tuple[int, tuple[int, ...], bytes]]
    interface: Mapping[str, Any]
    exported: bytes | None
    log: PortableLog

    def restored(self) -> tuple[ir.Model, Program, Log]:
        """The three, with weights in memory."""
        model = ir.from_proto(onnx.load_from_string(self.graph))
        for name, (element, shape, content) in self.weights.items():
            model.graph.initializers[name].const_value = in_memory(name, ir.DataType(element), shape, content)
        exported = None if self.exported is None else torch.export.load(io.BytesIO(self.exported))
        graph: Any = NotPickled()  # in the place of a GraphModule, whose users are told what to do
        program = Program(graph, tensors={}, exported=exported, **self.interface)
        return model, program, self.log.restored()


def portable(model: ir.Model, program: Program, log: Log) -> Portable:
    """The three as values. All weights are read."""
    held = {
        name: value.const_value
        for name, value in model.graph.initializers.items()
        if value.const_value is not None and value.const_value.nbytes > INLINE_BYTES
    }
    shapes = {name: tuple(each.shape.numpy()) for name, each in held.items()}
    weights = {name: (int(each.dtype), shapes[name], each.tobytes()) for name, each in held.items()}
    try:
        for name, tensor in held.items():
            reference = ir.ExternalTensor(
                "pickled", 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(shapes[name]), name=name
            )
            model.graph.initializers[name].const_value = reference
        graph = ir.to_proto(model).SerializeToString()
    finally:
        for name, tensor in held.items():
            model.graph.initializers[name].const_value = tensor
    interface: dict[str, Sequence[Input] | Sequence[Output] | Sequence[Condition] | Mapping[str, Any] | str] = {
        "inputs": program.inputs,
        "outputs": program.outputs,
        "dim_names": dict(program.dim_names),
        "ranges": dict(program.ranges),
        "conditions": program.conditions,
        "structure": program.structure,
    }
    return Portable(graph, weights, interface, _saved(program.exported), portable_log(log))


def in_memory(name: str, dtype: ir.DataType, shape: Sequence[int], content: bytes) -> ir.TensorProtocol:
    """A tensor of these bytes, as a message of ONNX has them."""
    proto = onnx.TensorProto(name=name, data_type=int(dtype), dims=shape, raw_data=content)
    return ir.from_proto(proto)


def _saved(exported: ExportedProgram | None) -> bytes | None:
    """The captured program as a file of torch.export; None, with a warning, for one that it cannot write."""
    if exported is None:
        return None
    file = io.BytesIO()
    try:
        torch.export.save(exported, file)
    except Exception as error:  # noqa: BLE001  # of its serializer, and told
        warnings.warn(f"exported_program is not pickled: torch.export.save: {error_line(error)}", stacklevel=4)
        return None
    return file.getvalue()
