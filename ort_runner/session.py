"""A session of ONNX Runtime: opened from a file, quiet, with every ONNX element type in and out."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from fxport.diagnostics import rules
from fxport.ort_runner.dtypes import BY_CODE, element_of, pack, type_name, unpack
from fxport.ort_runner.failures import OPEN, RUN, Failure, failure_of
from fxport.ort_runner.providers import Choice, Provider, choose

if TYPE_CHECKING:
    import onnxruntime

Dim = int | str | None
# Kernels repack weights into a second copy that runs faster; without it, external data stays a map of its file. The
# repacked and the plain matrix product are the same arithmetic.
LEAN = MappingProxyType({"session.disable_prepacking": "1"})
SILENT = 4  # only fatal errors are logged; all others are raised as well


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output as the model declares it. A dim is a size, a name, or None where nothing is declared."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """Properties of an open session. `state` are the inputs that have a default value if none is fed."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    choice: Choice
    state: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Runtime:
    """Settings of trials: the provider, with or without ONNX Runtime's graph optimizations, in a child process or
    here. `disabled` are optimizers that are off.
    """

    provider: str
    optimize: bool = False
    isolate: bool = True
    time_limit: float | None = None
    disabled: tuple[str, ...] = ()


class Runner(Protocol):
    """Something that runs a model: a session in this process, or one in a child (`child.ChildSession`)."""

    def open(self, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()) -> Opened:
        """Open the session, again if it broke. Raises Failure. `lean` is for models of a size that matters; without
        `optimize` the nodes of the file are those that run; `disabled` are names of single optimizers."""
        ...

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name. Raises Failure."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LocalSession:
    """A session in this process: quicker to have than a child, but a crash of the runtime is a crash of the caller."""

    def __init__(self, model: Path, provider: str) -> None:
        self._model, self._provider = model, provider
        self._session: onnxruntime.InferenceSession | None = None
        self._used = provider

    def open(self, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()) -> Opened:
        """Raises Failure if the model cannot be loaded, ValueError for an unknown provider."""
        try:
            choice = choose(self._provider)
        except ImportError as error:
            raise Failure(
                rules.VALIDATION_SKIPPED, {"reason": f"ONNX Runtime cannot be imported: {error}"}, fatal=True
            ) from error
        settings = LEAN if lean else None
        session, choice = open_session(self._model, choice, settings, optimize=optimize, disabled=disabled)
        self._session, self._used = session, choice.provider.name
        state = ports_of(session.get_overridable_initializers())
        return Opened(ports_of(session.get_inputs()), ports_of(session.get_outputs()), choice, state)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Raises Failure if a kernel raises, or if an output is no tensor."""
        if self._session is None:
            raise RuntimeError("the session is not open")
        return run_session(self._session, inputs, self._used)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = None


class _NamedByBytes(os.PathLike[Any]):  # Any: os.PathLike[bytes] is none of ONNX Runtime's annotations
    """A model's path as ONNX Runtime takes any of them: as str only one that is UTF-8, where the system has bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> Any:
        return str(self._path) if sys.platform == "win32" else os.fsencode(self._path)


def open_session(
    model: Path,
    choice: Choice,
    settings: Mapping[str, str] | None = None,
    threads: int = 0,
    *,
    optimize: bool = True,
    disabled: Sequence[str] = (),
) -> tuple[onnxruntime.InferenceSession, Choice]:
    """A session on the provider that was chosen, or on the CPU with the reason in the choice.

    The path, not the bytes, is given to ONNX Runtime: a model may exceed protobuf's 2 GB, and its external data is
    found beside it. `threads` of 0 leaves their number to ONNX Runtime; without `optimize` its graph optimizations are
    off, or those of the names in `disabled`. Raises Failure.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = SILENT
    options.intra_op_num_threads = threads
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    provider = choice.provider
    try:
        session = onnxruntime.InferenceSession(
            _NamedByBytes(model),
            options,
            providers=provider.chain(),
            enable_fallback=False,
            disabled_optimizers=list(disabled) or None,
        )
    except Exception as error:
        raise failure_of(error, OPEN, provider.name) from error
    if provider.ort_name not in session.get_providers():
        used = choose("cpu").provider
        asked = provider.name if choice.asked == "auto" else choice.asked
        choice = Choice(used, asked, "ONNX Runtime opened the session without it")
    return session, choice


def session_on(
    asked: str, model: Path, settings: Mapping[str, str] | None = None, threads: int = 0
) -> tuple[onnxruntime.InferenceSession, Provider]:
    """A session on the provider of that name and on no other, and the provider that "auto" stands for.

    Raises ValueError for one that is unknown or does not work here, and Failure.
    """
    choice = choose(asked)
    session = None
    if choice.reason is None:
        session, choice = open_session(model, choice, settings, threads)
    if session is None or choice.reason is not None:
        raise ValueError(f"provider '{asked}' does not work here: {choice.reason}")
    return session, choice.provider


def run_session(
    session: onnxruntime.InferenceSession, inputs: Mapping[str, np.ndarray], provider: str
) -> dict[str, np.ndarray]:
    """Outputs by name, in the model's order. Raises Failure."""
    names = [output.name for output in session.get_outputs()]
    try:
        values = session.run_with_ort_values(names, {name: to_ort(array) for name, array in inputs.items()})
    except Exception as error:
        raise failure_of(error, RUN, provider) from error
    return {name: from_ort(name, value) for name, value in zip(names, values, strict=True)}


def to_ort(array: np.ndarray) -> onnxruntime.OrtValue:
    """A value on the CPU that shares the array's memory, or a copy's where elements are packed or out of order."""
    import onnxruntime

    element = element_of(array.dtype)
    whole = np.asarray(in_native_order(array), order="C")
    if element.native:
        return onnxruntime.OrtValue.ortvalue_from_numpy(whole)
    if element.bits < 8:
        # The API takes the shape from the array, so packed bytes stand at the front of one of the unpacked shape.
        packed = pack(whole)
        whole = np.zeros(array.shape, np.uint8)
        whole.reshape(-1)[: packed.size] = packed
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(whole, element.code)


def in_native_order(array: np.ndarray) -> np.ndarray:
    """The array with its bytes in the order of this machine: ONNX Runtime reads them as if they were."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def from_ort(name: str, value: onnxruntime.OrtValue) -> np.ndarray:
    """The array of an output, which ONNX Runtime has copied to the CPU. Raises Failure for what is no tensor."""
    if not value.is_tensor():
        raise Failure(rules.RUNTIME_FAILED, {"error": f"output '{name}' is a {value.data_type()}, which is no tensor"})
    element = BY_CODE.get(value.element_type())
    if element is None:
        error = f"output '{name}' is a {value.data_type()}, which has no numpy type"
        raise Failure(rules.RUNTIME_FAILED, {"error": error})
    if element.native:
        return value.numpy()
    shape = tuple(value.shape())
    count = (int(np.prod(shape, dtype=np.int64)) * element.bits + 7) // 8
    # numpy() knows no ml_dtypes; the bytes are copied while `value` holds them.
    data = np.frombuffer(ctypes.string_at(value.data_ptr(), count) if count else b"", np.uint8)
    return unpack(data, element, shape) if element.bits < 8 else data.view(element.dtype).reshape(shape)


def ports_of(args: Sequence[onnxruntime.NodeArg]) -> tuple[Port, ...]:
    return tuple(Port(arg.name, type_name(arg.type), tuple(_dim(dim) for dim in arg.shape or ())) for arg in args)


def _dim(dim: object) -> Dim:
    return dim if isinstance(dim, int | str) and dim != "" else None
