"""A session of OpenVINO on the CPU, in the precision that the file asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import onnx
import openvino  # pyright: ignore[reportMissingImports] - it is optional

from fxport.ort_runner.dtypes import BY_NAME, Element, element_of, pack, unpack
from fxport.ort_runner.file_ports import opened_of
from fxport.ort_runner.runtimes import RUNTIMES, witness_failure
from fxport.ort_runner.session import Opened
from fxport.ort_runner.state_inputs import states_as_inputs

NAME, DEVICE = "openvino", "CPU"
SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
"""Not bfloat16 in the place of float32, which it takes where the processor has it."""

TYPES: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float4_e2m1fn": "f4e2m1",
    "int4": "i4",
    "uint4": "u4",
}
"""OpenVINO's names of the types that it exchanges with numpy as bytes only."""


class OpenVinoSession:
    """A model in OpenVINO, in this process."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._request: openvino.InferRequest | None = None
        self._opened: Opened | None = None
        self._state: dict[str, np.ndarray] = {}

    def open(self, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()) -> Opened:
        """Load and compile the model; it has no switch for its own optimizations. Raises Failure."""
        model = onnx.load(self._model, load_external_data=False)
        self._opened = opened_of(model, RUNTIMES[NAME].choice)
        try:
            with states_as_inputs(self._model, model, self._opened) as (path, self._state):
                core = openvino.Core()
                compiled = core.compile_model(core.read_model(path), DEVICE, SETTINGS)
                self._request = compiled.create_infer_request()
        except Exception as error:
            raise witness_failure(NAME, error, self._model) from error
        return self._opened

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the model. Raises Failure."""
        if self._request is None or self._opened is None:
            raise RuntimeError("the session is not open")
        try:
            fed = {**self._state, **inputs}
            for port in self._request.model_inputs:
                name = next(each for each in fed if each in port.get_names())
                self._request.set_tensor(port, _tensor(fed[name]))
            self._request.infer()
            outputs = zip(self._opened.outputs, self._request.output_tensors, strict=True)
            return {port.name: _array(tensor, port.dtype) for port, tensor in outputs}
        except Exception as error:
            raise witness_failure(NAME, error, self._model) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._request = None


def _tensor(array: np.ndarray) -> openvino.Tensor:
    """A tensor of its own memory. Raises ValueError for a type that OpenVINO has not."""
    element, whole = element_of(array.dtype), np.array(array, order="C")
    if element.native:
        return openvino.Tensor(whole, shared_memory=False)
    kind = getattr(openvino.Type, _type_of(element))
    bytes_ = pack(whole) if element.bits < 8 else whole.view(element.raw)
    return openvino.Tensor(bytes_, whole.shape, kind)


def _array(tensor: openvino.Tensor, declared: str) -> np.ndarray:
    """A copy of an output, in the type that the file declares where only the bytes are exchanged."""
    element = BY_NAME.get(declared)
    if element is None or element.native:
        return np.array(tensor.data)
    data = np.frombuffer(tensor.data.tobytes(), np.uint8)
    shape = tuple(tensor.shape)
    return unpack(data, element, shape) if element.bits < 8 else data.view(element.dtype).reshape(shape)


def _type_of(element: Element) -> str:
    if element.name not in TYPES:
        raise ValueError(f"OpenVINO has no type for {element.name}")
    return TYPES[element.name]
