"""`OnnxProgram`, the result of an export: the ONNX model with what it was made from, and how it is saved."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal, Self

import onnx
import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.functional import copied
from fxport.exporter.lowering.ir_passes import passes_of, run_ir_passes
from fxport.exporter.lowering.ir_passes.rename_axes import rename_axes, renamed_text, renaming_of
from fxport.exporter.lowering.lower import lower
from fxport.exporter.lowering.lower.portable import Portable, portable
from fxport.exporter.lowering.lower.registry import extend
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.onnx_program.described import form, interface
from fxport.exporter.onnx_program.save import Beside, save, weight_bytes
from fxport.exporter.pipeline.options import Options
from fxport.exporter.weights.stored import Stored, require_whole
from fxport.fx_passes import Program
from fxport.fx_passes.program import InputKind

LARGEST_PROTO = 2**31 - 1
"""Bytes at which protobuf ends."""

ExternalData = Literal["auto"] | bool | None


@dataclass(eq=False, repr=False)
class OnnxProgram:
    """An exported model.

    Attributes:
        model: The ONNX model, as an `onnx_ir.Model`.
        program: The captured PyTorch program that the model was made from, after all passes.
        log: The findings and the times of the export.
        export_options: The options of the export; None where the model was changed after it.
    """

    model: ir.Model
    program: Program
    log: Log
    export_options: Options | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """The kind, opset and number of nodes, then a line for each input and output. No weight is read."""
        return "\n".join([f"{type(self).__name__}: {form(self.model)}", *interface(self.model)])

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as ONNX's own message, weights included. Raises ValueError above protobuf's 2 GiB."""
        require_one_message(self.model)
        return ir.to_proto(self.model)

    @property
    def exported_program(self) -> ExportedProgram | None:
        """The captured program as torch.export gives it, before the passes.

        None unless it was exported with `Options(keep_exported_program=True)`, as `fxport.onnx.export` does.
        """
        return self.program.exported

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        external_data: ExternalData = "auto",
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
    ) -> list[Path]:
        """Writes the model, to a path atomically; see `fxport.exporter.onnx_program.save.save`.

        Args:
            destination: A path, or a file that is open for writing bytes.
            external_data: True for weights in a file of their own beside the model, False for one file, "auto" (or
                None) for one file up to 64 MiB of weights. A file object takes one file only.
            include_initializers: False leaves the values of weights out; constants of the graph stay.
            keep_initializers_as_inputs: True also declares each weight as an input, which a caller may feed.

        Returns:
            The files that the model consists of; none for a file object.

        Raises:
            OSError: The destination cannot be written.
            CheckpointError: The files of the weights have changed, or are gone.
            TypeError: The destination is neither a path nor a binary file, or a file with external data.
            ValueError: The model is too large for one file, or was changed so that its weights cannot be told apart.
        """
        if not isinstance(destination, str | os.PathLike):
            require_binary(destination, external_data)
        with self.log.stage("save"):
            require_whole(each for each in self.program.sources.values() if isinstance(each, Stored))
            model = self.model
            if keep_initializers_as_inputs or not include_initializers:
                model = self._with_open_weights(include_initializers, keep_initializers_as_inputs)
            if not isinstance(destination, str | os.PathLike):
                require_one_message(model)
                destination.write(ir.to_proto(model).SerializeToString())
                return []
            in_place = self.export_options is not None and self.export_options.weights_in_place
            wanted = "auto" if external_data is None else external_data
            written = save(
                model, destination, wanted, self.log.advance, weights_in_place=in_place, beside=self._beside()
            )
            for beside in written[1:]:
                self.log.report(rules.EXTERNAL_DATA_WRITTEN, name=beside.relative_to(written[0].parent).as_posix())
            return written

    def _beside(self) -> Sequence[Beside]:
        """The files that belong to the model and are saved with it."""
        return ()

    def optimize(self) -> None:
        """Runs the passes on the ONNX model, in place, as `Options(optimize=True)` does in the export."""
        options = replace(self.export_options or Options(), optimize=True)
        self.model = run_ir_passes(self.model, passes_of(options), Log(), kernels=options.kernels)
        if self.export_options is not None:
            self.export_options = options

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Gives weights of the model other values, as if the module had had them in the export.

        Weights that are stored in another form, such as a convolution's with a batch normalization in it, are computed
        anew. Weights that are one tensor in the module, such as a tied embedding and head, get the value that is given
        under any of their names, the last one counting as in `load_state_dict`. Names that the model does not use are
        told by a UserWarning, and skipped.

        Args:
            state_dict: Tensors by the module's names of them, each with the shape and the type that the model has.

        Raises:
            ValueError: A tensor of another shape or type; or a model that was changed after its export, or whose graph
                depends on the values.
        """
        unused = [name for name in state_dict if name not in self.program.tensors]
        held_tensors, given = self.program.tensors, {}
        for name in (each for each in held_tensors if each in state_dict):
            held, tensor = held_tensors[name], state_dict[name].detach()
            if (held.shape, held.dtype) != (tensor.shape, tensor.dtype):
                raise ValueError(
                    f"'{name}' is {tensor.dtype} {list(tensor.shape)}; the model has {held.dtype} {list(held.shape)}"
                )
            given |= {other: tensor for other, each in held_tensors.items() if each is held}
        options = self._unchanged_options()
        tensors = {**held_tensors, **given}
        sources = {name: source for name, source in self.program.sources.items() if name not in given}
        program = replace(self.program, tensors=tensors, sources=sources)
        fresh = onnx_model(program, options)
        if _form(fresh) != _form(self.model):
            raise ValueError("the graph depends on the values of these weights; load them into the model and export it")
        for name, value in fresh.graph.initializers.items():
            self.model.graph.initializers[name].const_value = value.const_value
        self.program = program
        for name in unused:
            warnings.warn(f"the model has no weight '{name}'; it is skipped", UserWarning, stacklevel=2)

    def rename_axes(self, rename_mapping: Mapping[str | ir.SymbolicDim, str]) -> None:
        """Renames dynamic dimensions everywhere in the model, also in expressions such as "2*batch".

        Args:
            rename_mapping: New names by the old ones, which may also be dimensions of the model's shapes.

        Raises:
            ValueError: A name that no dimension has, or a new one that another dimension has.
        """
        renaming = renaming_of(self.model, rename_mapping)
        rename_axes(self.model, renaming)
        names = {symbol: renamed_text(name, renaming) for symbol, name in self.program.dim_names.items()}
        conditions = (replace(each, words=renamed_text(each.words, renaming)) for each in self.program.conditions)
        self.program = replace(self.program, dim_names=names, conditions=tuple(conditions))

    # Copies -----------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: the model with its weights, the findings, the captured program and its
        interface.
        """
        return self._state(self.program.exported)

    def _state(self, exported: ExportedProgram | None) -> dict[str, Any]:
        left_out = {"model": None, "program": None, "log": None, "export_options": None}
        program = replace(self.program, exported=exported)
        return {**self.__dict__, **left_out, "portable": portable(self.model, program, self.log)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held: Portable = state.pop("portable")
        self.__dict__.update(state)
        self.model, self.program, self.log = held.restored()

    def __copy__(self) -> Self:
        """Another object on the same model, program and log."""
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with a model, weights and a log of its own."""
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(self._state(None))
        program = self.program
        tensors = deepcopy(dict(program.tensors), memo)
        own = {id(tensor): tensors[name] for name, tensor in program.tensors.items()}
        exported = None if program.exported is None else copied(program.exported, own)
        graph_module = deepcopy(program.graph_module, memo)
        made.program = replace(program, tensors=tensors, graph_module=graph_module, exported=exported)
        made.export_options = self.export_options
        return made

    # The model as it was made -----------------------------------------------------------------------------------------

    def _unchanged_options(self) -> Options:
        """The options that make this very model. Raises ValueError where none do."""
        options = self.export_options
        if options is not None and _form(onnx_model(self.program, options)) == _form(self.model):
            return options
        raise ValueError(
            "the model is not as `export` made it: it was changed, unpickled, or is a training step; "
            "load the weights into the module and export that"
        )

    def _with_open_weights(self, with_values: bool, as_inputs: bool) -> ir.Model:
        """The model with its weights as the module has them, without their values or as inputs."""
        model = onnx_model(self.program, replace(self._unchanged_options(), weights_in_place=True))
        model.graph.opset_imports.update(self.model.graph.opset_imports)
        names = [entry.name for entry in self.program.inputs if entry.kind is not InputKind.USER]
        weights = [model.graph.initializers[name] for name in names if name in model.graph.initializers]
        if as_inputs:
            model.graph.inputs.extend(weight for weight in weights if not weight.is_graph_input())
        if not with_values:
            for weight in weights:
                del model.graph.initializers[str(weight.name)]
        return model


def onnx_model(program: Program, options: Options) -> ir.Model:
    """The ONNX model of a program after its passes, as `export` makes it, without findings."""
    log = Log()
    model = lower(program, extend(LOWERINGS, options.lowerings), options, log)
    return run_ir_passes(model, passes_of(options), log, functions=options.functions, kernels=options.kernels)


def require_binary(file: object, external_data: ExternalData) -> None:
    """Raises TypeError for what bytes cannot be written to, and where weights are to be beside it."""
    if not hasattr(file, "write"):
        raise TypeError(f"destination is of type {type(file).__name__}; give a path or a file opened for writing bytes")
    if isinstance(file, io.TextIOBase):
        raise TypeError("destination is a file of text; open it with mode 'wb'")
    if external_data is True:
        raise TypeError("external_data is True, but a file object has no folder to put it in; give a path")


def require_one_message(model: ir.Model) -> None:
    """Raises ValueError for a model whose weights are more than one message of protobuf holds."""
    if (size := weight_bytes(model)) > LARGEST_PROTO:
        raise ValueError(f"the weights are {size / 2**30:.1f} GiB, and one file of ONNX holds 2; save to a path")


def _form(model: ir.Model) -> Sequence[object]:
    """Return the parts of a model that do not depend on the values of its weights."""
    bodies = (model.graph, *model.functions.values())
    nodes = [node for body in bodies for node in ir.traversal.RecursiveGraphIterator(body)]
    calls = [
        (node.domain, node.op_type, *(value and value.name for value in node.inputs), *node.attributes, *_names(node))
        for node in nodes
    ]
    held = [(name, str(value.dtype), str(value.shape)) for name, value in model.graph.initializers.items()]
    ends = [value.name for value in (*model.graph.inputs, *model.graph.outputs)]
    return [calls, sorted(held), ends]


def _names(node: ir.Node) -> list[str | None]:
    return [value.name for value in node.outputs]
