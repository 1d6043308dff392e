"""Training in ONNX Runtime: a model of one training step, run again and again on state that stays on the device."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from fxport.diagnostics.errors import FxportError
from fxport.ort_runner.failures import RUN, failure_of
from fxport.ort_runner.providers import AUTO
from fxport.ort_runner.session import from_ort, ports_of, session_on, to_ort
from fxport.ort_runner.size_limits import limits_in
from fxport.ort_runner.train_checkpoint import RunState, read_checkpoint, write_checkpoint
from fxport.ort_runner.train_description import description_in
from fxport.ort_runner.train_evaluate import Evaluator
from fxport.ort_runner.train_files import SAVED, STATE_SUFFIX, opened_beside
from fxport.ort_runner.train_inputs import (
    Rates,
    RefusedInput,
    arrays_for,
    as_seed,
    as_steps,
    named_batch,
    require_mapping,
    require_names,
)
from fxport.ort_runner.train_log import SECONDS, reporters, rows_of, scalars_of
from fxport.ort_runner.train_state_dict import state_dicts

if TYPE_CHECKING:
    import onnxruntime

BATCH = "batch/"
SEED = "seed"
LOSS, GRADIENT_NORM = "loss", "grad_norm"
OnNan = Literal["raise", "skip", "keep"]


class NonFiniteLoss(FxportError, ArithmeticError):
    """A step gave a loss or a norm of gradients that is NaN or infinite. The session is at the state before it."""


def _with_save(path: Path) -> tuple[tuple[Path, RunState], str | None]:
    run = read_checkpoint(path)
    return (path, run), run.save


class TrainingSession:
    """A training step with the state that it has come to.

    There are two buffers for the state: the step reads one and writes the other, so that nothing is copied and nothing
    leaves the device. A step that fails has written only to the buffer that the next step overwrites, so the session
    goes on from where it was. `steps` counts the steps; `rates` and `seed` may be changed between them.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        state: Mapping[str, Any] | None = None,
        *,
        provider: str = AUTO,
        seed: int | None = None,
        threads: int = 0,
        on_nan: OnNan = "raise",
    ) -> None:
        """Open the model, with `state` or with what stands beside it in `<name>.state.safetensors`.

        Args:
            model: The file that `TrainingProgram.save` wrote.
            state: Values by the names of the model's inputs.
            provider: Where to run: "auto", "cpu", "cuda", …
            seed: Where the random numbers of the first step begin; that of the state's file, else 0, by default.
            threads: How many threads a kernel may use; 0 leaves that to ONNX Runtime.
            on_nan: What follows a loss (or `grad_norm`) that is NaN or infinite. "raise": NonFiniteLoss, and the
                session stays at the step before. "skip": the update is dropped and the step is counted. "keep": the
                update is made, as in PyTorch.

        Raises:
            NotATrainingStep, RefusedInput (a state or a seed that does not fit), OSError, ValueError (a provider that
            is unknown or does not work here), fxport.ort_runner.failures.Failure.
        """
        path = Path(model)
        self.on_nan = on_nan
        self._session, used = session_on(provider, path, threads=threads)
        self._evaluator: Evaluator | None = None
        self._device, self._provider = used.device, used.name
        ports, made = ports_of(self._session.get_inputs()), ports_of(self._session.get_outputs())
        outputs = [port.name for port in made]
        metadata = self._session.get_modelmeta().custom_metadata_map
        save = metadata.get(SAVED)
        self._opened = path, used.name, threads, save
        self._description = description_in(metadata, path.name, {port.name for port in ports}, {*outputs})
        self._pairs, self._constant = self._description.state, self._description.constant
        self._limits = limits_in(metadata)
        self._stride, self._rates = self._description.steps, self._description.rates
        self._seed = 0
        self._steps = 0
        held = {*self._pairs, *self._constant}
        self._state_ports = [port for port in ports if port.name in held]
        self._state_names = [port.name for port in self._state_ports]
        self._batch_ports = [port for port in ports if port.name not in {*held, *self._rates, SEED}]
        self._has_seed = any(port.name == SEED for port in ports)
        new = set(self._pairs.values())
        self._results = [name for name in outputs if name not in new]
        self._scalars = scalars_of((port for port in made if port.name not in new), self._stride)
        if state is None:
            self._go_on(*opened_beside(path, STATE_SUFFIX, save, _with_save))
        else:
            self.load(state)
        if seed is not None:
            self.seed = seed

    # State -----------------------------------------------------------------------------------------------------------

    @property
    def rates(self) -> Rates:
        """The learning rates of the next step, by the names of the model's inputs."""
        return self._rates

    @rates.setter
    def rates(self, rates: Mapping[str, float]) -> None:
        self._rates.replace(rates)

    @property
    def seed(self) -> int:
        """Seed of the first step; each later step continues from it."""
        return self._seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._seed = as_seed(seed)

    @property
    def steps(self) -> int:
        """Count of the steps that the state has behind it."""
        return self._steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self._steps = as_steps(steps)

    @property
    def on_nan(self) -> OnNan:
        """Choice for a loss (or `grad_norm`) that is NaN or infinite: "raise", "skip" or "keep"."""
        return self._on_nan

    @on_nan.setter
    def on_nan(self, choice: OnNan) -> None:
        if choice not in get_args(OnNan):
            raise RefusedInput(f"on_nan is {choice!r}; it takes: {', '.join(get_args(OnNan))}")
        self._on_nan: OnNan = choice

    def load(self, state: Mapping[str, Any], steps: int = 0) -> None:
        """Take over a state, with the number of steps that it has behind it.

        Raises RefusedInput for names, shapes and dtypes that are not those of the model; the session is then as before.
        """
        require_mapping(state, "the state", "arrays")
        require_names(state, self._state_names, "the state")
        arrays = arrays_for(self._state_ports, state, may_be_empty=True)
        steps = as_steps(steps)
        fixed = {name: self._placed(arrays[name]) for name in self._constant}
        front = {name: self._placed(arrays[name]) for name in self._pairs}
        back = {name: self._placed(np.zeros_like(arrays[name])) for name in self._pairs}
        self._fixed, self._front, self._back = fixed, front, back
        self._bindings = self._bound(front, back), self._bound(back, front)
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

    def state_dict(self, tensor: Callable[[np.ndarray], Any] = np.asarray) -> dict[str, Any]:
        """The state as PyTorch names it: `{"model": model.state_dict(), "optimizer": optimizer.state_dict()}`.

        Of several optimizers there is a list, in their order.

        Args:
            tensor: Makes each value of an array: `fxport.exporter.training.as_tensor`, or `torch.from_numpy` where
                there is no bfloat16.

        Raises:
            RefusedInput: The settings of the optimizer's groups are not in the model's metadata.
        """
        return state_dicts(self._description, self.state(), self._rates, tensor)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, whole or not at all: the state, the count of steps, the seed and the learning rates."""
        write_checkpoint(path, RunState(self.state(), self.steps, self._seed, self._rates))

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint: the steps that follow give the same numbers as if there had been no break.

        Seed and learning rates are those of the checkpoint, where it has them. Raises OSError, and RefusedInput for a
        file that is no checkpoint of this step; the session is then as before.
        """
        self._go_on(path, read_checkpoint(path))

    def _go_on(self, path: str | os.PathLike[str], run: RunState) -> None:
        require_names(run.tensors, self._state_names, f"'{path}'")
        rates = None if run.rates is None else Rates(run.rates)
        if rates is not None:
            require_names(rates, self._rates, f"'{path}'")
        self.load(run.tensors, run.steps)
        self._seed = self._seed if run.seed is None else run.seed
        self._rates = self._rates if rates is None else rates

    def _placed(self, array: np.ndarray) -> onnxruntime.OrtValue:
        if self._device == "cpu":
            return to_ort(np.array(array))
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), self._device, 0)

    # Steps -----------------------------------------------------------------------------------------------------------

    def step(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model once; return the loss and every other output that is no state.

        That is one step, or as many as the model was exported with: then the batch and what comes back have an axis
        for them in front.

        Args:
            batch: The model's `batch/...` inputs, with or without that first part of their names: arrays, lists or
                numbers. Floating-point values are rounded to the model's dtype, integers must fit into it.

        Raises:
            RefusedInput: A name, shape or dtype that is not the model's, or a tensor without elements.
            NonFiniteLoss: With `on_nan="raise"`.
            fxport.ort_runner.failures.Failure: A kernel failed.

        After any of them the session is as it was before.
        """
        fed = self._fed(batch)  # owns the memory that is bound
        binding, other = self._bindings
        for name, value in fed.items():
            binding.bind_ortvalue_input(name, value)
        for name in self._results:
            binding.bind_output(name, "cpu")
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:
            raise failure_of(error, RUN, self._provider) from error
        values = binding.get_outputs()[len(self._pairs) :]  # in the order in which they were bound
        results = {name: np.array(from_ort(name, value)) for name, value in zip(self._results, values, strict=True)}
        if not self._is_refused(results):
            self._front, self._back = self._back, self._front
            self._bindings = other, binding
        self.steps += self._stride
        return results

    def _is_refused(self, results: Mapping[str, np.ndarray]) -> bool:
        """Return True if the update of a step is dropped. Raises NonFiniteLoss."""
        if self.on_nan == "keep":
            return False
        bad = next((name for name in (LOSS, GRADIENT_NORM) if not _is_finite(results.get(name))), None)
        if bad is not None and self.on_nan == "raise":
            raise NonFiniteLoss(
                f"'{bad}' of step {self.steps + 1} is {results[bad].tolist()}; the session is at the state before it. "
                "Lower the learning rate, leave this batch out, or open the session with on_nan='skip' or 'keep'."
            )
        return bad is not None

    def _fed(self, batch: Mapping[str, Any]) -> dict[str, onnxruntime.OrtValue]:
        named = named_batch(batch, self._batch_ports, BATCH)
        given = arrays_for(self._batch_ports, named, may_be_empty=False, limits=self._limits)
        given |= {name: np.asarray(rate, np.float32) for name, rate in self._rates.items()}
        if self._has_seed:
            given[SEED] = np.asarray(as_seed(self._seed + self.steps), np.int64)
        return {name: to_ort(array) for name, array in given.items()}

    def evaluate(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model in eval mode on the session's weights, without a step: of a step exported with `evaluate`.

        Args:
            batch: As `step` takes it; of one step and one micro-batch.

        Returns:
            The loss, and what the loss function returned beside it. What it draws follows the session's seed, the same
            in each evaluation.

        Raises:
            NoEvaluation: There is no `<name>.evaluate.onnx` beside the model.
            RefusedInput: A name, shape or dtype that is not the model's, or a tensor without elements.
            fxport.ort_runner.failures.Failure: A kernel failed.
        """
        if self._evaluator is None:
            self._evaluator = Evaluator(*self._opened)
        return self._evaluator.run({**self._front, **self._fixed}, batch, self._seed)

    def fit(
        self,
        batches: Iterable[Mapping[str, Any]],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 100,
        on_step: Callable[[int, float], None] | None = None,
        log: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> list[float]:
        """Run a step for each batch and return the losses.

        Args:
            batches: As `step` takes them.
            checkpoint: Where to save after every `every` steps and at the end.
            every: Steps from one checkpoint to the next, at least 1.
            on_step: Called with the number of the step, from 1 on, and its loss; it may change `rates`.
            log: A CSV file with a row for each step: its number, the loss and every other output that is one number,
                the learning rates and the seconds. Where it exists, rows of steps that this session has behind it
                stay, and later ones are replaced.
            progress: Show a line with the step and its numbers (needs rich).

        Raises:
            What `step` and `save` raise, and RefusedInput for a log that is of something else.
        """
        if not every >= 1:
            raise RefusedInput(f"every is {every}; it must be at least 1")
        losses: list[float] = []
        total = self.steps + len(batches) * self._stride if isinstance(batches, Sized) else None
        columns = [*self._scalars, SECONDS, *self._rates]
        with reporters(log, columns, self.steps, progress=progress, total=total) as report:
            for batch in batches:
                begun, rates = time.perf_counter(), dict(self._rates)
                results = self.step(batch)
                rows = rows_of(results, self._scalars, self._stride, time.perf_counter() - begun)
                for number, row in enumerate(rows, start=self.steps - self._stride + 1):
                    report(number, {**row, **rates})
                losses.extend(results[LOSS].reshape(-1).tolist())
                if on_step is not None:
                    on_step(self.steps, losses[-1])
                if checkpoint is not None and self.steps % every < self._stride:
                    self.save(checkpoint)
        if checkpoint is not None and losses:
            self.save(checkpoint)
        return losses


def _is_finite(value: np.ndarray | None) -> bool:
    return value is None or bool(np.isfinite(value).all())
