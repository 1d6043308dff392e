"""Files of adapters: values of inputs that a model has by default, in the format of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fxport.diagnostics.messages import error_line
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.session import from_ort, to_ort

if TYPE_CHECKING:
    import onnxruntime

FILE = "adapter.onnx_adapter"
"""Name of the adapter in a package that has one."""

VERSION = 1


def write_adapter(path: Path, values: Mapping[str, np.ndarray]) -> None:
    """Write an adapter: the values of inputs by their names."""
    import onnxruntime

    made = onnxruntime.AdapterFormat()
    made.set_adapter_version(VERSION)
    made.set_model_version(VERSION)
    made.set_parameters({name: to_ort(np.ascontiguousarray(value)) for name, value in values.items()})
    export: Any = made.export_adapter  # annotated as of a path, and takes text alone
    export(str(path))


def read_adapter(path: Path, session: onnxruntime.InferenceSession) -> dict[str, onnxruntime.OrtValue]:
    """The values of an adapter by their inputs.

    Raises PackageError for a file that is none, or one for another model.
    """
    import onnxruntime

    if not path.is_file():
        raise PackageError(f"There is no file '{path}'; name that of an adapter.")
    try:
        read: Any = onnxruntime.AdapterFormat.read_adapter  # as above
        held = read(str(path)).get_parameters()
        values = {name: from_ort(name, value).copy() for name, value in held.items()}
    except Exception as error:  # a stranger's file, of which ONNX Runtime raises what it likes
        raise PackageError(f"'{path}' is no adapter of ONNX Runtime: {error_line(error)}; package it again.") from error
    taken = {port.name: tuple(port.shape) for port in session.get_overridable_initializers()}
    if taken != {name: array.shape for name, array in values.items()}:
        raise PackageError(f"'{path}' is an adapter for another model: it has inputs of other names or sizes.")
    return {name: to_ort(array) for name, array in values.items()}
