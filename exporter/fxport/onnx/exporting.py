"""`fxport.onnx.export`: an export with the arguments of `torch.onnx.export`."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
from torch.export import ExportedProgram
from torch.onnx import OperatorExportTypes, TrainingMode

from fxport.diagnostics import Level, Log, rules
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.pipeline.calls import CallError, nearest, require_choices
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.exporting import export as export_onnx
from fxport.exporter.pipeline.options import Options
from fxport.exporter.pipeline.stages import shapes_of_axes
from fxport.exporter.sources.source import Source
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import validation_of
from fxport.exporter.validation.choices import require_provider
from fxport.exporter.validation.request import with_weights_to_run
from fxport.onnx.arguments import (
    call_of,
    require_possible,
    require_types,
    torch_model,
    warn_without_effect,
)
from fxport.onnx.artifacts import Artifacts, ExportWarning, show_times, tell
from fxport.onnx.program import ONNXProgram
from fxport.onnx.translation import lowerings_of

if TYPE_CHECKING:
    from fxport.ort_runner import Validation

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["ExportWarning", "export"]


CALLED_OTHERWISE: Mapping[str, str] = {"opset": "opset_version", "path": "f"}
"""Arguments of fxport's own functions by the names that torch.onnx.export has for them."""


def _with_known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose unknown keywords are TypeErrors that name the nearest known one."""
    known = frozenset(signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for keyword in kwargs:
            if keyword in CALLED_OTHERWISE:
                raise CallError(f"export() has no argument '{keyword}': it is called {CALLED_OTHERWISE[keyword]} here")
            if keyword in Options.__slots__ and keyword not in known:
                raise CallError(f"export() has no argument '{keyword}': give options=fxport.Options({keyword}=...)")
            if keyword not in known:
                raise CallError(f"export() has no argument '{keyword}': {nearest(keyword, known)}")
        return function(*args, **kwargs)

    return call


@_with_known_keywords
def export(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any] | torch.Tensor = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    fallback: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False,
    autograd_inlining: bool = True,
    lowerings: Mapping[Any, Callable[..., Any]] | None = None,
    weights: str | os.PathLike[str] | None = None,
    provider: str = "auto",
    options: Options = Options(),  # noqa: B008  # frozen
    log: Log | None = None,
) -> ONNXProgram:
    """Exports a PyTorch model to ONNX, with the arguments of `torch.onnx.export` of PyTorch 2.13.

    Args:
        model: An nn.Module or an ExportedProgram. TorchScript is refused.
        args: Positional arguments of one example call, or a lone tensor. A dict at the end is the keyword arguments.
        f: Where the model is written: a path, or a file opened for writing bytes. None writes nothing.
        kwargs: Keyword arguments of the example call.
        verbose: True writes all findings and the times to the standard error, None (default) gives warnings of Python
            (`ExportWarning`) for findings of that level, False is silent. Errors always are in the ExportError.
        input_names: Names of the flattened inputs, in order.
        output_names: Names of the outputs, in order.
        opset_version: The ai.onnx version of the model, 18 to 26; by default 23, or 21 where an operator has a
            kernel on CUDA at that version alone.
        dynamo: True. False gives a DeprecationWarning: there is no exporter of TorchScript here.
        external_data: Whether the weights go to `<f>.data`. Without meaning for a file object.
        dynamic_shapes: Dynamic dimensions, as torch.export takes them, and strings as names of them.
        custom_translation_table: Functions by operators: of ONNX Script without control flow, or of fxport's builder.
        report: Whether a report in Markdown and the findings in SARIF are written to `artifacts_dir`, also where the
            export fails.
        optimize: Whether the passes on the ONNX model run.
        verify: Whether the model runs in ONNX Runtime and is compared with eager PyTorch, at the example and at other
            sizes of its dynamic dimensions. A difference is an ExportError, and nothing is written to `f`.
        profile: Whether the seconds of each stage are told: in the report, or on the standard output without one.
        dump_exported_program: Whether the captured program is written to `artifacts_dir` by torch.export.save.
        artifacts_dir: The folder for all this, which is made.
        fallback: Without effect; True gives a DeprecationWarning.
        export_params: Whether the file at `f` has the values of weights.
        keep_initializers_as_inputs: Whether weights are inputs too in the file at `f`, which a caller may feed.
        dynamic_axes: The older form of `dynamic_shapes`, by names of inputs. Names of outputs are passed over.
        training: Must fit `model.training`, which decides: TRAINING is a ValueError for a model in eval mode.
        operator_export_type: ONNX; anything else is a ValueError.
        do_constant_folding: False is the same as `optimize=False`.
        custom_opsets: Versions of domains that are not ONNX's own.
        export_modules_as_functions: False; anything else is a ValueError.
        autograd_inlining: True; False is a ValueError.
        lowerings: As in `fxport.export`.
        weights: As in `fxport.export`.
        provider: ONNX Runtime's provider for `verify`: "auto", "cpu", "cuda" or another.
        options: All other choices of fxport.
        log: The log that findings go to; a new one by default.

    Returns:
        The model, which can be called, saved, pickled and copied.

    Raises:
        ExportError: The model cannot be exported, or differs from PyTorch.
        TypeError: An argument of the wrong type, or an unknown one.
        ValueError: An argument that makes no sense, or that fxport does not do.
        OSError: `f` or `artifacts_dir` cannot be written.
    """
    given = dict(locals())
    require_types(given)
    model = torch_model(model)
    require_possible(given)
    warn_without_effect(given)
    positional, keywords = call_of(model, args, kwargs)
    choices: dict[str, Any] = {
        "input_names": input_names,
        "output_names": output_names,
        "opset_version": opset_version,
        "dynamic_shapes": dynamic_shapes,
        "dynamic_axes": dynamic_axes,
    }
    if not positional and not keywords:
        positional, keywords, own = own_call(model)
        choices |= {name: own[name] for name in own if choices[name] is None}
    choices["lowerings"] = {**lowerings_of(custom_translation_table), **(lowerings or {})}
    require_choices(**choices, weights=weights, options=options, log=log)
    optimize = options.optimize and optimize and do_constant_folding
    options = replace(options, optimize=optimize, keep_exported_program=True)
    log = Log() if log is None else log
    artifacts = Artifacts(Path(artifacts_dir), datetime.now())
    validation, outcome = None, "export"
    exported: ONNXProgram | None = None
    try:
        made = export_onnx(model, positional, keywords, **choices, weights=weights, options=options, log=log)
        program = exported = ONNXProgram(**vars(made))
        set_versions(program, custom_opsets or {})
        if dump_exported_program and program.exported_program is not None:
            artifacts.write_program(program.exported_program)
        if verify:
            outcome = "verify"
            if choices["dynamic_axes"]:
                named = options.named(choices["input_names"], choices["output_names"])
                choices["dynamic_shapes"] = shapes_of_axes(model, positional, keywords, choices["dynamic_axes"], named)
            source = Source(type(model).__name__, model, positional, keywords, choices["dynamic_shapes"])
            validation = validated(program, source, provider)
            require_passed(validation, log)
        outcome = "save"
        if f is not None:
            program.save(
                f,
                external_data if isinstance(f, str | os.PathLike) else False,
                include_initializers=export_params,
                keep_initializers_as_inputs=keep_initializers_as_inputs,
            )
        outcome = "success"
    finally:
        if report:
            artifacts.write_report(log, choices, exported and exported.model, validation, outcome, profile)
    if profile and not report:
        show_times(log)
    tell(log, verbose, stacklevel=3)
    return program


def own_call(model: Any) -> tuple[tuple[Any, ...], dict[str, Any], Mapping[str, Any]]:
    """The example call that a model brings, and its names and dynamic shapes: a `torch.onnx.ExportableModule`, or an
    ExportedProgram."""
    if isinstance(model, ExportedProgram):
        args, kwargs = model.example_inputs or ((), {})
        return tuple(args), dict(kwargs), {}
    if not hasattr(model, "example_arguments"):
        return (), {}, {}
    args, kwargs = model.example_arguments()
    own = {name: getattr(model, name)() for name in ("input_names", "output_names", "dynamic_shapes")}
    return tuple(args), dict(kwargs or {}), own


def set_versions(program: ONNXProgram, versions: Mapping[str, int]) -> None:
    """Gives domains of the model these versions. One that it does not use is a UserWarning."""
    imports = program.model.graph.opset_imports
    for domain, version in versions.items():
        if domain in imports:
            imports[domain] = version
        else:
            message = f"custom_opsets names the domain '{domain}', which the model does not use"
            warnings.warn(message, UserWarning, stacklevel=4)


def validated(program: ONNXProgram, source: Source, provider: str) -> Validation | None:
    """Runs the model in ONNX Runtime beside PyTorch; what differs is in the program's log."""
    try:
        require_provider(provider)
    except UsageError as error:
        raise ValueError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="fxport-") as folder:
        path = Path(folder) / "model.onnx"
        OnnxProgram.save(replace(program, log=Log()), path)
        ready = with_weights_to_run(source, program, program.log)
        return ready and validation_of(path, *ready, provider, program.log, options=program.export_options)


def require_passed(validation: Validation | None, log: Log) -> None:
    """Raises ExportError unless the model was compared and found equal."""
    if log.worst is Level.ERROR or validation is None or not validation.passed:
        reason = "verify=True, but the model was not compared with PyTorch: " + "; ".join(
            finding.message for finding in log.findings if finding.rule is rules.VALIDATION_SKIPPED
        )
        raise ExportError(log, reason, "the model is not what PyTorch gives")
