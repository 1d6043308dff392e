"""The nodes that an optimizer breaks: a part of a model, as small as can be, that still shows its fault.

A part runs on the values that the whole model gives it without optimization. It shows the fault if it then gives, or
raises, something else with the guilty optimizers than without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from fxport.ort_runner.cuts import Cuts, scratch
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.trials import NAME, Sessions, differs, locations

MOST_VALUES = 256 << 20
"""Bytes of values between nodes that are held; a part that needs more is not looked at."""

Arrays = Mapping[str, np.ndarray]


def broken_nodes(
    path: Path, inputs: Arrays, guilty: Sequence[str], sessions: Sessions, until: float
) -> Sequence[onnx.NodeProto]:
    """The nodes of the smallest part; none where no part of the graph shows the fault.

    `guilty` are the optimizers that are at fault. Ends at `until`, a time of `time.monotonic`.
    """
    from fxport.ort_runner.optimizers import smallest

    parts = _Parts(path, inputs, guilty, sessions)
    everything = range(len(parts.cuts.graph.node))
    if not parts.are_broken(everything):
        return ()
    found = smallest(everything, parts.are_broken, until)
    nodes = (parts.cuts.graph.node[number] for number in sorted(found))
    return [node for node in nodes if node.op_type != "Constant"]


class _Parts:
    """Parts of one model, and the values that they are fed."""

    def __init__(self, path: Path, inputs: Arrays, guilty: Sequence[str], sessions: Sessions) -> None:
        self.cuts, self.file = Cuts(path), read_model_file(path)
        self.inputs, self.guilty, self.sessions = inputs, guilty, sessions
        self._values: dict[str, np.ndarray] = dict(inputs)

    def are_broken(self, numbers: Collection[int]) -> bool:
        """Return True if these nodes alone give something else with all optimizers than with the innocent ones."""
        try:
            model = self.cuts.of_nodes(numbers, self.cuts.leaving(numbers), declared=True)
            fed = self._fed([value.name for value in model.graph.input])
            want = self._ran(model, fed, disabled=self.guilty)
        except (Failure, KeyError, ValueError):  # these nodes are no model, or no optimizer is to blame
            return False
        try:
            got = self._ran(model, fed)
        except Failure:
            return True
        return any(differs(want[name], got[name], None) for name in want)

    def _fed(self, names: Sequence[str]) -> Arrays:
        """The values of these names by the whole model without optimization. Raises Failure."""
        missing = [name for name in names if name not in self._values]
        if missing:
            if sum(array.nbytes for array in self._values.values()) > MOST_VALUES:
                raise ValueError("too many values between the nodes")
            self._values |= self._ran(self.cuts.with_outputs(missing), self.inputs, optimize=False)
        return {name: self._values[name] for name in names}

    def _ran(
        self, model: onnx.ModelProto, inputs: Arrays, *, optimize: bool = True, disabled: Sequence[str] = ()
    ) -> Arrays:
        """The outputs of a part. Raises Failure."""
        with scratch(self.file.path, locations(self.file)) as folder:
            path = folder / NAME
            path.write_bytes(model.SerializeToString())
            return self.sessions.run(path, inputs, optimize=optimize, disabled=disabled)[1]
