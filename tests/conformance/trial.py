"""One sample through one exporter and ONNX Runtime, to one outcome."""

from __future__ import annotations

import copy
import logging
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir
import onnxruntime
import torch
from torch.export import _trace
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fxport import ExportError, export
from fxport.diagnostics import Log
from fxport.exporter.lowering.lower.dtypes import DTYPES
from fxport.exporter.pipeline.options import Options
from tests.conformance.agreement import UNFILLED, Expected, difference
from tests.conformance.gradients import Vjp
from tests.conformance.resized import at_other_sizes
from tests.conformance.samples import Key, Sample
from tests.running import from_ort, to_ort

LEFT_OUT = frozenset({"eager refuses", "torch.export refuses", "no tensors", "forward fails"})
"""Outcomes that say nothing about an exporter."""


@dataclass(frozen=True)
class Outcome:
    """Result of a sample: "pass", one of LEFT_OUT, or how it failed. `seconds` is the time of the export.

    "refused" is what an exporter says with its reason, "export fails" an error of its own.
    """

    key: Key
    status: str
    detail: str = ""
    seconds: float = 0.0


class RefusedError(Exception):
    """An export that ended in findings, with their text."""


@dataclass(frozen=True)
class Exported:
    """A model, and the names of its dimensions of which the exporter has told that not all sizes are right."""

    model: ir.Model
    limited: frozenset[str] = frozenset()


Exporter = Callable[[Sample, tuple[torch.Tensor, ...]], Exported]

LIMITING = frozenset({"FXP2001", "FXP2002"})


def with_fxport(model: Sample, inputs: tuple[torch.Tensor, ...]) -> Exported:
    options, log = Options(strategy="post-dispatch") if isinstance(model, Vjp) else Options(), Log()
    try:
        program = export(model, inputs, dynamic_shapes=model.dynamic_shapes, options=options, log=log)
        limited = (str(finding.facts["dim"]) for finding in log.findings if finding.rule.id in LIMITING)
        return Exported(program.model, frozenset(limited))
    except ExportError as error:
        found = [f for f in error.log.findings if f.level == "error"]
        raise RefusedError("; ".join(f"{f.rule.id} {f.message}" for f in found)) from error


def with_torch(model: Sample, inputs: tuple[torch.Tensor, ...]) -> Exported:
    program = torch.onnx.export(model, inputs, dynamic_shapes=model.dynamic_shapes, dynamo=True, verbose=False)
    assert program is not None
    return Exported(program.model)


EXPORTERS: dict[str, Exporter] = {"fxport": with_fxport, "torch": with_torch}


def attempt(key: Key, sample: Sample, exporter: str) -> Outcome:
    """Runs one sample; gradients count where the values are right. Never raises: what others raise is the outcome."""
    outcome = _attempt(key, sample, exporter)
    if isinstance(sample, Vjp) and outcome.status not in LEFT_OUT | {"pass"}:
        forward = _attempt(key, sample.sample, exporter)
        if forward.status != "pass":
            return replace(outcome, status="forward fails", detail=f"{forward.status}: {forward.detail}")
    return outcome


def _attempt(key: Key, sample: Sample, exporter: str) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            expected = _eager(sample, sample.tensors)
        except Exception as error:  # noqa: BLE001  # PyTorch's own; such a sample is left out
            return Outcome(key, "eager refuses", _line(error))
        if not sample.tensors and not _any_tensor(expected.results):
            return Outcome(key, "no tensors")
        started = time.perf_counter()
        try:
            exported = EXPORTERS[exporter](sample, sample.tensors)
        except Exception as error:  # noqa: BLE001  # the outcome
            seconds = time.perf_counter() - started
            status = "refused" if isinstance(error, RefusedError) else "export fails"
            return Outcome(key, "torch.export refuses" if _torch_refuses(sample) else status, _line(error), seconds)
        seconds = time.perf_counter() - started
        if not exported.model.graph.outputs:  # what does not depend on the values is told beside the graph
            return Outcome(key, "no tensors")
        outcome = _compared(Outcome(key, "pass", "", seconds), sample, exported.model, sample.tensors, expected)
        if outcome.status != "pass" or sample.dynamic_shapes is None:
            return outcome
        for inputs in at_other_sizes(sample.tensors, exported.model, exported.limited):
            try:
                expected = _eager(sample, inputs)
            except Exception:  # noqa: BLE001  # sizes that the operator does not take
                continue
            outcome = _compared(outcome, sample, exported.model, inputs, expected)
            if outcome.status != "pass":
                return replace(outcome, detail=f"at {[list(each.shape) for each in inputs]}: {outcome.detail}")
        return outcome


def _compared(
    outcome: Outcome, sample: Sample, model: ir.Model, inputs: tuple[torch.Tensor, ...], expected: Expected
) -> Outcome:
    try:
        wrong = difference(sample, _run(model, inputs), expected)
    except Exception as error:  # noqa: BLE001  # the outcome
        return replace(outcome, status="runtime fails", detail=_line(error))
    return replace(outcome, status="wrong" if wrong else "pass", detail=wrong)


def _any_tensor(results: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(results))


def _eager(sample: Sample, inputs: tuple[torch.Tensor, ...]) -> Expected:
    with torch.no_grad():
        torch.manual_seed(0)
        results = copy.deepcopy(sample)(*(each.clone() for each in inputs))
        return Expected(results, _is_random(sample) or sample.name in UNFILLED)


def _is_random(sample: Sample) -> bool:
    """Return whether a second call meets a random operator; of compiled code, which cannot be watched, False."""
    with _RandomOps() as random, suppress(Exception):
        copy.deepcopy(sample)(*sample.tensors)
    return random.seen


class _RandomOps(TorchDispatchMode):
    """Notices random ops, whose values nobody can compare; not those within a higher-order operator."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
        return func(*args, **(kwargs or {}))


def _torch_refuses(sample: Sample) -> bool:
    try:
        with torch.no_grad():
            if isinstance(sample, Vjp):
                _trace._export(sample, sample.tensors, strict=False, pre_dispatch=False)
            else:
                torch.export.export(sample, sample.tensors, dynamic_shapes=sample.dynamic_shapes, strict=False)
    except Exception:  # noqa: BLE001  # the question is just whether it raises
        return True
    return False


def _run(model: ir.Model, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        ir.to_proto(model).SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    binding, held = session.io_binding(), []
    fed = [value for value in model.graph.inputs if not value.is_initializer()]
    wanted = {value.name: value for value in fed}
    tensors = [_as_fed(tensor, value.dtype) for tensor, value in zip(inputs, fed, strict=True)]
    for (name, value), tensor in zip(wanted.items(), tensors, strict=True):
        assert value.dtype is not None
        held.append(to_ort(tensor, value.dtype))
        binding.bind_ortvalue_input(name, held[-1])
    for output in session.get_outputs():
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    results = zip(binding.get_outputs(), model.graph.outputs, strict=True)
    returned = [(value, output) for value, output in results if not str(output.name).endswith(".updated")]
    return [from_ort(value, output.dtype) for value, output in returned]  # type: ignore[arg-type]


def _as_fed(tensor: torch.Tensor, dtype: ir.DataType | None) -> torch.Tensor:
    """A complex input travels as real numbers with a last axis of 2, where the exporter made it so."""
    if tensor.is_complex() and dtype != DTYPES[tensor.dtype]:
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_conj().resolve_neg()


def _line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
