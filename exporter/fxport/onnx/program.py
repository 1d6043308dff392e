"""`ONNXProgram`: an exported model that runs in ONNX Runtime on tensors of PyTorch."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log
from fxport.exporter.lowering.lower.walk import STRUCTURE
from fxport.exporter.onnx_program import LARGEST_PROTO, OnnxProgram
from fxport.exporter.onnx_program.save import weight_bytes
from fxport.exporter.pipeline.calls import CallError
from fxport.exporter.weights.arrays import as_array, as_value
from fxport.ort_runner import flattened
from fxport.ort_runner.providers import choose
from fxport.ort_runner.session import open_session, run_session
from fxport.ort_runner.structure import OtherStructure

if TYPE_CHECKING:
    import onnxruntime

Initializer = Callable[[str | bytes], "onnxruntime.InferenceSession"]
"""Opens a session from the path of a model, or from its bytes."""

OPENED_AS_BYTES = 1536 * 1024 * 1024
"""Bytes of weights up to which an initializer is given the model itself, not a path."""

assert OPENED_AS_BYTES < LARGEST_PROTO


class _Session:
    """An open session, with the folder that the model was written to for it; gone with the last reference to it."""

    def __init__(self, session: onnxruntime.InferenceSession, provider: str, folder: str | None = None) -> None:
        self.session, self.provider = session, provider
        self._delete = None if folder is None else finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        del self.session
        if self._delete is not None:
            self._delete()


@dataclass(eq=False, repr=False)
class ONNXProgram(OnnxProgram):
    """Result of `fxport.onnx.export`: an `OnnxProgram` that can also be called as the model.

    A session of ONNX Runtime is opened at the first call, and kept until `release`.
    """

    _session: _Session | None = field(default=None, init=False)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Runs the model in ONNX Runtime with the arguments of the module's forward.

        Args:
            *args: Tensors, numbers and containers of them, as forward takes them. Constants of the export and None may
                be left out.
            **kwargs: The same by name.

        Returns:
            All outputs of the ONNX model in their order, on the CPU; new values of buffers that the model changes are
            outputs too.

        Raises:
            OtherStructure: Arguments that do not nest as those of the export, or whose sizes contradict each other.
            TypeError: A tensor of another type than the model takes.
            Failure: ONNX Runtime cannot run the model.
        """
        held = self._opened()
        inputs = {name: array_of(value) for name, value in self._fed(args, kwargs).items()}
        _require_fit(inputs, self.model.graph.inputs)
        return tuple(tensor_of(each) for each in run_session(held.session, inputs, held.provider).values())

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Runs the model in ONNX's reference evaluator, as `__call__` does in ONNX Runtime."""
        from onnx.reference import ReferenceEvaluator

        inputs = {name: array_of(value) for name, value in self._fed(args, kwargs).items()}
        return tuple(tensor_of(np.asarray(each)) for each in ReferenceEvaluator(self.model_proto).run(None, inputs))

    def compute_values(
        self, value_names: Sequence[str], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Computes values inside of the model.

        Args:
            value_names: Names of values of the graph, such as outputs of nodes; not those in bodies or functions.
            args: Positional arguments of forward.
            kwargs: Keyword arguments of forward.

        Returns:
            The values, in the order of the names.

        Raises:
            ValueError: A name that the graph does not have.
        """
        graph = self.model.graph
        made = {str(value.name): value for node in graph for value in node.outputs if value.name}
        known = {str(each.name): each for each in graph.inputs} | dict(graph.initializers) | made
        for name in value_names:
            if name not in known:
                raise ValueError(f"the graph has no value '{name}'")
        wanted = [known[name] for name in dict.fromkeys(value_names) if name in made]
        computed: dict[str, np.ndarray] = {}
        inputs = {name: array_of(value) for name, value in self._fed(args, kwargs or {}).items()}
        if wanted:
            with _outputs(graph, wanted):
                held = _default_session(self)
            try:
                computed = run_session(held.session, inputs, held.provider)
            finally:
                held.close()
        held_values = {name: value.const_value for name, value in graph.initializers.items()}
        given = {name: tensor.numpy() for name, tensor in held_values.items() if name in value_names and tensor}
        return tuple(tensor_of({**given, **inputs, **computed}[name]) for name in value_names)

    def initialize_inference_session(self, initializer: Initializer | None = None) -> None:
        """Opens the session that calls use, on the weights as they are now.

        Args:
            initializer: Opens a session from the model's bytes, or from its path above 1.5 GiB of weights. By default
                the session is on CUDA where that works, else on the CPU.
        """
        self.release()
        if initializer is None:
            self._session = _default_session(self)
        elif weight_bytes(self.model) > OPENED_AS_BYTES:
            path, folder = _written(self)
            self._session = _session(initializer(str(path)), folder)
        else:
            self._session = _session(initializer(self.model_proto.SerializeToString()), None)

    def release(self) -> None:
        """Closes the session, if there is one, and deletes what was written for it."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def optimize(self) -> None:
        """As `OnnxProgram.optimize`; the session is opened anew at the next call."""
        OnnxProgram.optimize(self)
        self.release()

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """As `OnnxProgram.apply_weights`; the session is opened anew at the next call."""
        OnnxProgram.apply_weights(self, state_dict)
        self.release()

    def rename_axes(self, rename_mapping: Mapping[str | ir.SymbolicDim, str]) -> None:
        """As `OnnxProgram.rename_axes`; the session is opened anew at the next call."""
        OnnxProgram.rename_axes(self, rename_mapping)
        self.release()

    def __repr__(self) -> str:
        return f"ONNXProgram(\n    model=\n{indent(str(self.model), ' ' * 8)}\n)"

    def _state(self, exported: ExportedProgram | None) -> dict[str, Any]:
        """Without the session."""
        return OnnxProgram._state(self, exported) | {"_session": None}

    def _opened(self) -> _Session:
        if self._session is None:
            self._session = _default_session(self)
        return self._session

    def _fed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of the model's inputs."""
        names = [str(value.name) for value in self.model.graph.inputs if not value.is_initializer()]
        held = json.loads(self.model.metadata_props.get(STRUCTURE, "{}")).get("arguments")
        if held is None:  # the captured program did not say how its arguments nest: in the order of the inputs
            values = [each for each in pytree.tree_leaves((list(args), dict(kwargs))) if each is not None]
            if len(values) != len(names):
                raise ValueError(f"the call has {len(values)} values; the model has {len(names)} inputs: {names}")
            return dict(zip(names, values, strict=True))
        return self._flattened(args, kwargs, held)

    def _flattened(self, args: Sequence[Any], kwargs: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
        """Values of a call by the names of inputs, by how the arguments of the export nest."""
        failed: Exception | None = None
        for arguments in _readings(args, kwargs, next(iter(node.values()))):
            try:
                return flattened(arguments, self.model.metadata_props)
            except OtherStructure as error:
                failed = failed or error
        if failed is None:
            names = [name for name, _ in next(iter(node.values()))]
            raise TypeError(f"the call has {len(args)} positional arguments; the model takes {len(names)}: {names}")
        raise failed


def _readings(
    args: Sequence[Any], kwargs: Mapping[str, Any], parameters: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """The call by the names of forward's parameters, and for each tuple among them once more as its `*args`."""
    names = [name for name, _ in parameters]
    if len(args) <= len(names):
        yield {**dict(zip(names, args, strict=False)), **kwargs}
    for index, (_, child) in enumerate(parameters):
        if "tuple" in child and index < len(args):
            yield {**dict(zip(names, [*args[:index], tuple(args[index:])], strict=False)), **kwargs}


def _require_fit(inputs: Mapping[str, np.ndarray], declared: Sequence[ir.Value]) -> None:
    """Raise TypeError for an array of another type, OtherStructure for two sizes of one dimension.

    ONNX Runtime names no input in the first case, and computes something in the second.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for value in declared:
        array = inputs.get(str(value.name))
        if array is None or value.dtype is None or value.shape is None:
            continue
        if array.dtype != value.dtype.numpy():
            raise CallError(f"'{value.name}' is {array.dtype}; the model takes {value.dtype.numpy()}")
        for dim, size in zip(value.shape, array.shape, strict=False):
            if isinstance(dim, int) or dim.value is None:
                continue
            known, other = sizes.setdefault(dim.value, (size, str(value.name)))
            if known != size:
                raise OtherStructure(f"'{dim.value}' is {known} in '{other}' and {size} in '{value.name}'")


def array_of(value: Any) -> np.ndarray:
    """A tensor, an array or a number as ONNX Runtime takes it. Raises TypeError for all else."""
    if isinstance(value, torch.Tensor):
        return as_array(value)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, bool | int | float):
        return as_array(torch.tensor(value))
    raise TypeError(f"an argument is a {type(value).__name__}; give tensors and numbers")


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """An array as a tensor, on the CPU."""
    return as_value(array, torch.empty(0))


def _session(session: onnxruntime.InferenceSession, folder: str | None) -> _Session:
    return _Session(session, session.get_providers()[0], folder)


def _default_session(program: ONNXProgram) -> _Session:
    """A session on the best provider that works here, quiet."""
    path, folder = _written(program)
    try:
        session, choice = open_session(path, choose("auto"))
    except BaseException:
        shutil.rmtree(folder)
        raise
    return _Session(session, choice.provider.name, folder)


def _written(program: ONNXProgram) -> tuple[Path, str]:
    """The model in a folder of its own; what the save reports and times is not of the export."""
    folder = tempfile.mkdtemp(prefix="fxport-")
    path = Path(folder) / "model.onnx"
    try:
        OnnxProgram.save(replace(program, log=Log()), path)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return path, folder


@contextmanager
def _outputs(graph: ir.Graph, wanted: Sequence[ir.Value]) -> Iterator[None]:
    """While it lasts, the graph has these outputs."""
    before = list(graph.outputs)
    graph.outputs.clear()
    graph.outputs.extend(wanted)
    try:
        yield
    finally:
        graph.outputs.clear()
        graph.outputs.extend(before)
