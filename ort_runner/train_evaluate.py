"""Evaluation with the weights of a training session: the graph in eval mode that stands beside the step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fxport.diagnostics.errors import FxportError
from fxport.ort_runner.failures import RUN, Failure, failure_of
from fxport.ort_runner.session import from_ort, ports_of, session_on, to_ort
from fxport.ort_runner.size_limits import limits_in
from fxport.ort_runner.train_files import EVALUATION_SUFFIX, SAVED, opened_beside
from fxport.ort_runner.train_inputs import arrays_for, named_batch

if TYPE_CHECKING:
    import onnxruntime

BATCH, SEED = "batch/", "seed"


class NoEvaluation(FxportError, FileNotFoundError):
    """A training step without a graph for evaluation beside it. The text says how to have one."""


class Evaluator:
    """The graph in eval mode. It holds no weights: each run binds those that it is given."""

    def __init__(self, step: Path, provider: str, threads: int, save: str | None) -> None:
        """Open `<name>.evaluate.onnx` of the same save.

        Raises NoEvaluation, RefusedInput, ValueError, fxport.ort_runner.failures.Failure.
        """

        def opened(path: Path) -> tuple[Any, str | None]:
            path.stat()
            try:
                session, used = session_on(provider, path, threads=threads)
            except Failure:
                path.stat()  # it may have got its own name meanwhile: FileNotFoundError
                raise
            return (session, used), session.get_modelmeta().custom_metadata_map.get(SAVED)

        try:
            self._session, used = opened_beside(step, EVALUATION_SUFFIX, save, opened)
        except FileNotFoundError as error:
            raise NoEvaluation(
                f"'{step.with_suffix(EVALUATION_SUFFIX)}' does not exist; export the step with "
                "export_training_step(..., evaluate=True), and keep the file beside the step's"
            ) from error
        self._provider = used.name
        self._ports = ports_of(self._session.get_inputs())
        self._limits = limits_in(self._session.get_modelmeta().custom_metadata_map)

    def run(
        self, weights: Mapping[str, onnxruntime.OrtValue], batch: Mapping[str, Any], seed: int
    ) -> dict[str, np.ndarray]:
        """Outputs by name. Raises RefusedInput, fxport.ort_runner.failures.Failure."""
        ports = [port for port in self._ports if port.name not in weights and port.name != SEED]
        fed = arrays_for(ports, named_batch(batch, ports, BATCH), may_be_empty=False, limits=self._limits)
        held = {name: to_ort(array) for name, array in {**fed, SEED: np.asarray(seed, np.int64)}.items()}
        binding = self._session.io_binding()
        for port in self._ports:
            binding.bind_ortvalue_input(port.name, weights[port.name] if port.name in weights else held[port.name])
        names = [each.name for each in self._session.get_outputs()]
        for name in names:
            binding.bind_output(name, "cpu")
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:
            raise failure_of(error, RUN, self._provider) from error
        values = binding.get_outputs()
        return {name: np.array(from_ort(name, value)) for name, value in zip(names, values, strict=True)}
