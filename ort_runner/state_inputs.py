"""States as inputs like all others, for runtimes that take the first values of states for constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from fxport.ort_runner.cuts import scratch
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.session import Opened
from fxport.ort_runner.trials import locations


@contextmanager
def states_as_inputs(
    path: Path, model: onnx.ModelProto, opened: Opened
) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
    """A file whose states have to be fed, beside its external data, and the first value of each state by name.

    Args:
        path: the model file; it is given back if it has no states.
        model: what is in it, without external data; its states lose their values here.
        opened: its inputs and states.
    """
    states = {port.name for port in opened.state}
    if not states:
        yield path, {}
        return
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in states]
    values = {each.name: numpy_helper.to_array(each, str(path.parent)) for each in tensors}
    for tensor in tensors:
        model.graph.initializer.remove(tensor)
    with scratch(path, locations(read_model_file(path))) as folder:
        changed = folder / path.name
        changed.write_bytes(model.SerializeToString())
        yield changed, values
