"""Evaluation beside training: the loss function with the model in eval mode, as a graph on the weights of the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.func import functional_call

from fxport.diagnostics import Fix, Log, rules
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.places import Around, place_of_module
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.options import Options
from fxport.exporter.training import draws
from fxport.exporter.training.capturing import exported, refuse_constants, refuse_unseeded
from fxport.exporter.training.carried import nothing_carried
from fxport.exporter.training.own_tensors import OwnTensors
from fxport.exporter.training.parts import Parts
from fxport.exporter.training.seeded import SeededRandom
from fxport.exporter.training.step import LOSS, SEED, batch_names, kind_of_state, split_loss
from fxport.exporter.weights.session_files import BUFFER, PARAMETER
from fxport.fx_passes.program import OutputKind

CHANGED = "it changes '{}' in eval mode, and an evaluation leaves the state as it is"
IN_TRAINING = "Change it only where `self.training` is true."


class Evaluation(Around):
    """The loss function on a state, with the model in eval mode and without gradients."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.model, functions=(parts.losses[0],))
        self.parts = (parts,)
        self._own = OwnTensors()

    def forward(
        self, state: Mapping[str, torch.Tensor], batch: Sequence[Any], seed: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Returns the loss and what the loss function returned with it. Raises RefusedError for a changed buffer."""
        (parts,) = self.parts
        model = parts.model
        parameters, buffers = kind_of_state(state, PARAMETER), kind_of_state(state, BUFFER)
        held = dict(model.named_parameters()), dict(model.named_buffers())
        given = {f"model.{name}": value for name, value in (parameters | buffers).items()}
        random = nullcontext() if seed is None else SeededRandom(seed)
        with (
            nothing_carried(model, {"evaluate": parts.losses[0]}, self._own),
            random,
            _evaluating(model),
            self._own.instead_of((held[0], parameters), (held[1], buffers)),
            torch.no_grad(),
        ):
            loss, extras = split_loss(functional_call(_Called(parts), given, tuple(batch)))
        for name, value in buffers.items():
            if given[f"model.{name}"] is not value:
                place = place_of_module(model, name.rpartition(".")[0])
                raise RefusedError(CHANGED.format(f"{BUFFER}/{name}"), place=place, cure=IN_TRAINING)
        return {LOSS: loss, **extras}

    def finish_trace(self, gm: torch.fx.GraphModule) -> None:
        """Write the draws out of which one was traced for many."""
        draws.expand(gm)


class _Called(torch.nn.Module):
    """A call of the loss function as a module around the model, so that it can be called with other tensors inside."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.model, self.loss_fn = parts.model, parts.losses[0]

    def forward(self, *batch: Any) -> Any:
        return self.loss_fn(self.model, *batch)


def _refuse_changes(program: OnnxProgram, parts: Parts) -> None:
    """Raise ExportError where an evaluation writes to the state."""
    changed = [each.updates for each in program.program.outputs if each.kind is OutputKind.MUTATION and each.updates]
    for name in changed:
        place = place_of_module(parts.model, name.partition("/")[2].rpartition(".")[0])
        reason = CHANGED.format(name)
        fixes = (Fix(IN_TRAINING),)
        program.log.report(rules.UNSUPPORTED_PYTHON_CONSTRUCT, at=place, fixes=fixes, detail=reason, error=reason)
    if changed:
        raise ExportError(program.log, f"an evaluation changes '{changed[0]}'")


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put all modules into eval mode for a block."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@dataclass(eq=False, repr=False)
class EvaluationProgram(OnnxProgram):
    """An exported evaluation: its inputs are parameters and buffers of the step, a batch and perhaps a seed.

    `step`, `call`, `dynamic_shapes` and `options` are what was exported, and how.
    """

    step: Evaluation
    call: tuple[Any, ...]
    dynamic_shapes: Any
    options: Options


def evaluation_of(
    parts: Parts,
    state: Mapping[str, torch.Tensor],
    batch: Sequence[Any],
    shapes: Any,
    rng: str,
    options: Options,
    log: Log,
) -> EvaluationProgram:
    """Export an evaluation. Raises what `export_training_step` raises; `rng` is as there, without masks."""
    held = {name: value for name, value in state.items() if name.startswith((f"{PARAMETER}/", f"{BUFFER}/"))}
    seeded = rng == "seed"
    call = (held, tuple(batch), *([torch.tensor(0)] if seeded else []))
    names = (*held, *batch_names(parts.losses[0], batch), *([SEED] if seeded else []))
    dynamic, options = ({"batch": shapes} if shapes else None), replace(options, input_names=names)
    step = Evaluation(parts)
    program = exported(step, call, dynamic, options, log)
    refuse_constants(program)
    _refuse_changes(program, parts)
    if rng != "native":
        refuse_unseeded(program)
    return EvaluationProgram(program.model, program.program, program.log, step, call, dynamic, options)
