"""Training in ONNX Runtime: a model of one training step, run again and again on state that stays on the device."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.paths import written_whole
from fxport.ort_runner.providers import AUTO
from fxport.ort_runner.session import from_ort, session_on, to_ort

if TYPE_CHECKING:
    import onnxruntime

METADATA = "fxport.training"
"""Key of the model's metadata: which outputs are the new values of which inputs, and the learning rates."""

STATE_SUFFIX = ".state.safetensors"
SEED = "seed"
LOSS = "loss"
STEPS = "steps"
"""Key of a checkpoint's metadata: how many steps its state has behind it."""


class NotATrainingStep(FxportError, ValueError):
    """A model that does not say how its state goes round. The text names the model."""


class TrainingSession:
    """A training step with the state that it has come to.

    Two buffers a state go round: the step reads one and writes the other, so that nothing is copied and nothing leaves
    the device. `rates` may be changed between steps; `steps` counts them.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        state: Mapping[str, np.ndarray] | None = None,
        *,
        provider: str = AUTO,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        """Opens the model, with `state` or with what stands beside it in `<name>.state.safetensors`.

        `seed` is where the random numbers of the first step begin; `threads` of 0 leaves their number to ONNX Runtime.
        Raises NotATrainingStep, OSError, KeyError for state that is missing, ValueError for a provider that is unknown
        or does not work here, and fxport.ort_runner.failures.Failure.
        """
        path = Path(model)
        self._session, used = session_on(provider, path, threads=threads)
        self._device = used.device
        written = self._session.get_modelmeta().custom_metadata_map.get(METADATA)
        if written is None:
            raise NotATrainingStep(f"'{path.name}' is no training step: its metadata has no '{METADATA}'")
        description: dict[str, Any] = json.loads(written)
        self._pairs: dict[str, str] = description["state"]
        self._constant: list[str] = description["constant"]
        self._stride: int = description["steps"]
        self.rates: dict[str, float] = dict(description["rates"])
        self.seed = seed
        self.steps = 0
        held = {*self._pairs, *self._constant}
        self._fed_names = [each.name for each in self._session.get_inputs() if each.name not in held]
        new = set(self._pairs.values())
        self._results = [each.name for each in self._session.get_outputs() if each.name not in new]
        if state is None:
            self.resume(path.with_suffix(STATE_SUFFIX))
        else:
            self.load(state)

    # State -----------------------------------------------------------------------------------------------------------

    def load(self, state: Mapping[str, np.ndarray], steps: int = 0) -> None:
        """Takes over a state. Raises KeyError if a part of it is missing."""
        missing = [name for name in (*self._pairs, *self._constant) if name not in state]
        if missing:
            raise KeyError(f"the state lacks '{missing[0]}'" + (f" and {len(missing) - 1} more" if missing[1:] else ""))
        self._fixed = {name: self._placed(state[name]) for name in self._constant}
        self._front = {name: self._placed(state[name]) for name in self._pairs}
        self._back = {name: self._placed(np.zeros_like(state[name])) for name in self._pairs}
        self._bindings = self._bound(self._front, self._back), self._bound(self._back, self._front)
        self.steps = steps

    def _bound(
        self, front: Mapping[str, onnxruntime.OrtValue], back: Mapping[str, onnxruntime.OrtValue]
    ) -> onnxruntime.IOBinding:
        """A run from one buffer of every state to the other, which lacks only the batch and what is no state."""
        binding = self._session.io_binding()
        for name, value in {**front, **self._fixed}.items():
            binding.bind_ortvalue_input(name, value)
        for name, new in self._pairs.items():
            binding.bind_ortvalue_output(new, back[name])
        return binding

    def state(self) -> dict[str, np.ndarray]:
        """Copies of all state, by the names of the model's inputs."""
        return {name: np.array(from_ort(name, value)) for name, value in {**self._front, **self._fixed}.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint, whole or not at all."""
        from safetensors.numpy import save_file

        with written_whole(Path(path)) as draft:
            save_file(self.state(), draft, metadata={STEPS: str(self.steps)})

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a checkpoint: the steps that follow give the same numbers as if there had been no break."""
        from safetensors import safe_open

        with safe_open(path, "numpy") as file:
            steps = int((file.metadata() or {}).get(STEPS, 0))
            self.load({name: file.get_tensor(name) for name in file.keys()}, steps)  # noqa: SIM118  # no mapping

    def _placed(self, array: np.ndarray) -> onnxruntime.OrtValue:
        if self._device == "cpu":
            return to_ort(np.array(array))
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), self._device, 0)

    # Steps -----------------------------------------------------------------------------------------------------------

    def step(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Runs the model once; returns the loss and every other output that is no state.

        That is one step, or as many as the model was exported with: then the batch and what comes back have an axis
        for them in front.

        `batch` has the model's `batch/...` inputs, with or without that first part of their names. Raises KeyError for
        an input that is missing.
        """
        binding, other = self._bindings
        for name, value in self._fed(batch).items():
            binding.bind_ortvalue_input(name, value)
        for name in self._results:
            binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(binding)
        self._front, self._back = self._back, self._front
        self._bindings = other, binding
        self.steps += self._stride
        values = binding.get_outputs()[len(self._pairs) :]  # in the order in which they were bound
        return {name: np.array(from_ort(name, value)) for name, value in zip(self._results, values, strict=True)}

    def _fed(self, batch: Mapping[str, np.ndarray]) -> dict[str, onnxruntime.OrtValue]:
        given = {name if "/" in name else f"batch/{name}": np.asarray(array) for name, array in batch.items()}
        given |= {name: np.asarray(rate, np.float32) for name, rate in self.rates.items()}
        if SEED in self._fed_names:
            given[SEED] = np.asarray(self.seed + self.steps, np.int64)
        missing = [name for name in self._fed_names if name not in given]
        if missing:
            raise KeyError(f"the batch lacks '{missing[0]}'")
        return {name: to_ort(array) for name, array in given.items()}

    def fit(
        self,
        batches: Iterable[Mapping[str, np.ndarray]],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 100,
        on_step: Callable[[int, float], None] | None = None,
    ) -> list[float]:
        """Runs a step for each batch and returns the losses.

        Writes `checkpoint` after every `every` steps and at the end. `on_step` is called with the number of the step,
        from 1 on, and its loss: for progress, and for changing `rates`.
        """
        losses: list[float] = []
        for batch in batches:
            losses.extend(self.step(batch)[LOSS].reshape(-1).tolist())
            if on_step is not None:
                on_step(self.steps, losses[-1])
            if checkpoint is not None and self.steps % every < self._stride:
                self.save(checkpoint)
        if checkpoint is not None and losses:
            self.save(checkpoint)
        return losses
