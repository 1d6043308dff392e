"""`fxport.export`: its arguments are looked at here, and what captures and lowers is imported when it is called.

That takes longer than the import of torch; a script that imports `export` waits for it no earlier than it must.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fxport.diagnostics import Log
from fxport.exporter.pipeline.calls import (
    checked_args,
    checked_kwargs,
    checked_model,
    require_choices,
    with_known_keywords,
)
from fxport.exporter.pipeline.garbage import no_collections
from fxport.exporter.pipeline.options import Options

if TYPE_CHECKING:
    from fxport.exporter.onnx_program import OnnxProgram


@with_known_keywords
def export(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    opset_version: int | None = None,
    lowerings: Mapping[Any, Callable[..., Any]] | None = None,
    weights: str | os.PathLike[str] | None = None,
    options: Options = Options(),  # noqa: B008  # frozen
    log: Log | None = None,
) -> OnnxProgram:
    """Exports a PyTorch model to ONNX; the file is written by `save` of the result.

    A model that several ranks hold (FSDP, tensor parallelism) is exported by all of them together: each calls `export`
    and `save`, rank 0 captures and writes; see docs/distributed.md.

    Args:
        model: An nn.Module, also one wrapped by DistributedDataParallel, or an ExportedProgram.
        args: Positional arguments of one example call; a lone tensor stands for the only one.
        kwargs: Keyword arguments of the example call.
        dynamic_shapes: Dynamic dimensions in every form that torch.export takes, and plain strings as their names.
        input_names: Names of the flattened inputs, in order; by default forward's own.
        output_names: Names of the outputs, in order.
        dynamic_axes: Dynamic dimensions as in torch.onnx.export, instead of `dynamic_shapes`.
        opset_version: The ai.onnx version of the model, 18 to 26; by default 23, or 21 where an operator has a
            kernel on CUDA at that version alone.
        lowerings: A user's own lowerings by ATen overload, on top of fxport's.
        weights: A checkpoint whose tensors take the place of the model's, which may then be without memory.
        options: All other choices; names, opset, lowerings and weights may also be in it.
        log: Where findings and times go; a new log by default.

    Returns:
        The ONNX model, with the captured program and the log.

    Raises:
        ExportError: Findings at error level stopped the export; they are in its `log`.
        CheckpointError: The checkpoint cannot be read.
        CallError: An argument of the wrong type (a TypeError).
        ValueError: An argument that makes no sense.
    """
    require_choices(
        input_names=input_names,
        output_names=output_names,
        opset_version=opset_version,
        lowerings=lowerings,
        weights=weights,
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        options=options,
        log=log,
    )
    with no_collections():
        from fxport.exporter.pipeline.stages import run

    options = options.named(input_names, output_names, opset_version, lowerings, weights)
    return run(
        checked_model(model),
        checked_args(args),
        checked_kwargs(kwargs),
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        options=options,
        log=log or Log(),
    )
