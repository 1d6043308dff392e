"""Running a model on tensors where they lie: DLPack in, DLPack out, no copy to the host in between."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fxport.diagnostics.limits import METADATA, json_of
from fxport.ort_runner.failures import RUN, failure_of
from fxport.ort_runner.json_values import named_texts
from fxport.ort_runner.providers import AUTO
from fxport.ort_runner.session import Port, from_ort, ports_of, session_on, to_ort

if TYPE_CHECKING:
    import onnxruntime

STATE = "fxport.state"
"""Model metadata: which outputs are the new values of which inputs."""


class OnDevice(Protocol):
    """A tensor of any library that speaks DLPack: PyTorch, CuPy, JAX, NumPy."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class DeviceTensor:
    """An output of ONNX Runtime, on its device. `torch.from_dlpack(tensor)` shares its memory; booleans are bytes."""

    def __init__(self, name: str, value: onnxruntime.OrtValue) -> None:
        self._name, self._value = name, value

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self._value._ortvalue.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value._ortvalue.__dlpack_device__()

    def numpy(self) -> np.ndarray:
        """A copy on the host."""
        return np.array(from_ort(self._name, self._value))


class DeviceSession:
    """A model, opened once, that takes and gives tensors on its device.

    A state that the model changes (its metadata says so) is kept on the device from run to run, until `reset`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        provider: str = AUTO,
        *,
        threads: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`threads` of 0 leaves their number to ONNX Runtime; `settings` are its session config entries.

        Raises ValueError for a provider that is unknown or does not work here, and fxport.ort_runner.failures.Failure.
        """
        self._session, used = session_on(provider, Path(model), settings, threads)
        self.provider, self._device = used.name, used.device
        self.inputs: tuple[Port, ...] = ports_of(self._session.get_inputs())
        self.outputs: tuple[Port, ...] = ports_of(self._session.get_outputs())
        held = self._session.get_modelmeta().custom_metadata_map.get(STATE, "{}")
        overridable = {each.name for each in self._session.get_overridable_initializers()}
        try:
            pairs = named_texts(json_of(held, METADATA))
        except ValueError as error:
            raise ValueError(f"'{Path(model).name}' has damaged metadata: '{STATE}' is no table of names") from error
        self._updates = {new: old for new, old in pairs.items() if old in overridable}
        self._state: dict[str, onnxruntime.OrtValue] = {}

    def run(self, inputs: Mapping[str, OnDevice]) -> dict[str, DeviceTensor]:
        """All outputs by name. Inputs are read where they lie. Raises Failure if one does not fit or a kernel fails."""
        binding = self._session.io_binding()
        values = {name: _ort_value(tensor) for name, tensor in inputs.items()}  # they own what is bound
        try:
            for name, value in {**self._state, **values}.items():
                binding.bind_ortvalue_input(name, value)
            for port in self.outputs:
                binding.bind_output(port.name, self._device)
            binding.synchronize_inputs()
            self._session.run_with_iobinding(binding)
            binding.synchronize_outputs()
        except Exception as error:
            raise failure_of(error, RUN, self.provider) from error
        found = dict(zip((port.name for port in self.outputs), binding.get_outputs(), strict=True))
        self._state = {old: found[new] for new, old in self._updates.items()}
        return {name: DeviceTensor(name, value) for name, value in found.items()}

    def reset(self) -> None:
        """The state is again what the model holds."""
        self._state = {}


def _ort_value(tensor: OnDevice) -> onnxruntime.OrtValue:
    """A value that shares the tensor's memory; a NumPy array may have a type that DLPack lacks."""
    import onnxruntime

    if isinstance(tensor, np.ndarray):
        return to_ort(tensor)
    if str(getattr(tensor, "dtype", "")).rpartition(".")[2] == "bool":  # which ONNX Runtime reads as bytes only
        return onnxruntime.OrtValue.from_dlpack(SimpleNamespace(dtype="bool", __dlpack__=_bytes(tensor).__dlpack__))
    return onnxruntime.OrtValue.from_dlpack(tensor)


def _bytes(tensor: Any) -> Any:
    """A tensor of booleans as one of bytes, by the library that it is of."""
    library = import_module(type(tensor).__module__.partition(".")[0])
    return tensor.view(library.uint8)
