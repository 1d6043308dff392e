"""Operators that onnx's evaluator lacks in part, as the specification has them: they stand in its place.

Seen with onnx 1.23: GatherElements takes no data of another size than the indices beside the axis, and no more than
32 elements along it; RNN knows Tanh and Affine alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_rnn


class GatherElements(OpRun):
    """GatherElements-13 (https://onnx.ai/onnx/operators/onnx__GatherElements.html)."""

    def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
        places: list[Any] = list(np.indices(indices.shape, sparse=True))
        places[axis] = indices
        return (data[tuple(places)],)


class RNN(op_rnn.RNN_14):
    """RNN-14 with Relu (https://onnx.ai/onnx/operators/onnx__RNN.html)."""

    def choose_act(self, name: str, alpha: float | None, beta: float | None) -> Any:
        """Give an activation by its name. Raises RuntimeError for one that is not known."""
        if name in ("Relu", "relu"):
            return lambda x: np.maximum(x, 0)
        return super().choose_act(name, alpha, beta)


REPLACED: Sequence[type[OpRun]] = (GatherElements, RNN)
"""The operators that replace the evaluator's own, by their names."""
