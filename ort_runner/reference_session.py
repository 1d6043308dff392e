"""A session of onnx's own evaluator: each operator in NumPy, as the specification has it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from fxport.ort_runner.file_ports import opened_of
from fxport.ort_runner.reference_ops import REPLACED
from fxport.ort_runner.runtimes import RUNTIMES, witness_failure
from fxport.ort_runner.session import Opened

NAME = "reference"


class ReferenceSession:
    """A model in onnx's evaluator, in this process."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._evaluator: ReferenceEvaluator | None = None
        self._outputs: tuple[str, ...] = ()

    def open(self, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()) -> Opened:
        """Load the model; nothing is optimized here. Raises Failure."""
        try:
            model = onnx.load(self._model)
            self._evaluator = ReferenceEvaluator(model, new_ops=list(REPLACED))
        except Exception as error:
            raise witness_failure(NAME, error, self._model) from error
        opened = opened_of(model, RUNTIMES[NAME].choice)
        self._outputs = tuple(port.name for port in opened.outputs)
        return opened

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the model. Raises Failure."""
        if self._evaluator is None:
            raise RuntimeError("the session is not open")
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of NumPy, about NaN and infinities that the model has
                values = self._evaluator.run(None, dict(inputs))
        except Exception as error:
            raise witness_failure(NAME, error, self._model) from error
        return {name: np.asarray(value) for name, value in zip(self._outputs, values, strict=True)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._evaluator = None
