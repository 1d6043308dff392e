"""`export_training_step`: a training step as an ONNX model, with the state that it begins with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

import onnx_ir as ir
import torch
from torch.export import Dim
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, Stop, rules
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.lowering.ir_passes.sum_rows import SumRows
from fxport.exporter.onnx_program import ExternalData, OnnxProgram
from fxport.exporter.onnx_program.in_place import SAVED
from fxport.exporter.onnx_program.save import Beside
from fxport.exporter.pipeline.errors import ExportError
from fxport.exporter.pipeline.options import Options
from fxport.exporter.training import step as parts_of
from fxport.exporter.training.blame import reads_of
from fxport.exporter.training.capturing import exported, refuse_constants, refuse_unseeded
from fxport.exporter.training.description import METADATA, description_of, rates_of
from fxport.exporter.training.evaluation import EvaluationProgram, evaluation_of
from fxport.exporter.training.kinds import require_kinds
from fxport.exporter.training.loop import repeated
from fxport.exporter.training.optimizers import OptimizerError
from fxport.exporter.training.parts import LossFn, Parts
from fxport.exporter.training.resume import resumed
from fxport.exporter.training.saved import beside_a_step, numbered
from fxport.exporter.training.seeded import RecordedRandom
from fxport.exporter.training.step import Settings, TrainingError, TrainingStep, batch_names, state_of
from fxport.exporter.weights import Checkpoint, open_checkpoint


@dataclass(eq=False, repr=False)
class TrainingProgram(OnnxProgram):
    """An exported step. `state` has the values that training begins with, by the names of the model's inputs.

    `step`, `call`, `dynamic_shapes` and `options` are what was exported, and how; `evaluation` is the one in eval mode.
    """

    state: Mapping[str, torch.Tensor]
    step: TrainingStep
    call: tuple[Any, ...]
    dynamic_shapes: Any
    options: Options
    evaluation: EvaluationProgram | None = None

    @property
    def second_call(self) -> tuple[Any, ...]:
        """The arguments of the step after the example's, on the same batch: the state is what eager PyTorch's left."""
        state, *others = self.call
        with torch.random.fork_rng(devices=()):
            new = self.step(*self.call)
        return {name: new.get(f"{parts_of.NEW}/{name}", value) for name, value in state.items()}, *others

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        external_data: ExternalData = "auto",
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
    ) -> list[Path]:
        """Writes the model, and its state beside it as `<name>.state.safetensors`. Returns the files written.

        A graph for evaluation becomes `<name>.evaluate.onnx`. All are of one save: see docs/files.md.

        Raises TypeError for a file object, beside which there is nothing.
        """
        if not isinstance(destination, str | os.PathLike):
            raise TypeError("a training step is a model and a file with its state; give the path of the model")
        evaluation = None if self.evaluation is None else self.evaluation.model
        with numbered(self.model, self.state, evaluation):
            beside = self._beside()
            written = OnnxProgram.save(
                self,
                destination,
                external_data,
                include_initializers=include_initializers,
                keep_initializers_as_inputs=keep_initializers_as_inputs,
            )
        return [*written, *(written[0].with_suffix(each.ending) for each in beside)]

    def _beside(self) -> Sequence[Beside]:
        evaluation = None if self.evaluation is None else self.evaluation.model
        return beside_a_step(self.state, evaluation, self.model.metadata_props[SAVED])


def export_training_step(
    model: torch.nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    loss_fn: LossFn | Sequence[LossFn],
    batch: Sequence[Any],
    *,
    dynamic_shapes: Any = None,
    lr: Literal["input", "constant"] = "input",
    rng: Literal["seed", "mask", "native"] = "seed",
    accumulate: int = 1,
    clip_grad_norm: float | None = None,
    steps: int = 1,
    outputs: Sequence[str] = (),
    allow_unused: bool = False,
    evaluate: bool | Callable[..., Any] = False,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    weights: str | os.PathLike[str] | None = None,
    options: Options = Options(),  # noqa: B008  # frozen
    log: Log | None = None,
) -> TrainingProgram:
    """Exports forward, loss, backward and the optimizer's update as one ONNX graph.

    `optimizer` may be several, such as Muon for the matrices and AdamW for the rest: they step in their order, each on
    parameters of its own, and their groups are numbered through.

    `loss_fn` may be several as well, one for each optimizer, as for the two networks of a GAN: they alternate. Each
    optimizer steps on the gradients of its own loss alone, at the parameters that those before it came to. `loss` is
    then the sum of the losses, and `loss/0`, `loss/1` and so on are the single ones.

    `loss_fn(model, *batch)` returns the loss, or (loss, {name: tensor}) to have more as outputs; `batch` is one
    example. The model stays in the mode it is in: call `.train()` for dropout and for batch statistics.

    Inputs: `param/<fqn>`, `buffer/<fqn>`, `opt/<fqn>/<key>`, `batch/<argument>`, `lr/<group>` (float32 scalars, unless
    `lr="constant"`), and with `rng="seed"` `seed`, an int64 scalar from which dropout and other random ops draw.
    With `rng="mask"` there is a `mask/<number>` for each of them instead, numbers in [0, 1) of its shape: dropout keeps
    what is not below its probability, so that zeros and ones are a mask. `rng="native"` leaves random numbers to ONNX
    Runtime. Outputs: `loss`, what the loss function returned beside it, what
    `outputs` asks for ("grad": `grad/<fqn>`; "grad_norm"), and `new/<input>` for every state that the step changes.

    `dynamic_shapes` is about the batch, a tuple with one entry for each of its items. With `accumulate=k` every tensor
    of the batch has a leading axis of k micro-batches, whose gradients are averaged. `clip_grad_norm` is as in
    torch.nn.utils.clip_grad_norm_. With `steps=k` the model makes k steps a run, in a Loop: every tensor of the batch
    and every output that is no state has a leading axis of k.

    `context` makes a context manager that stands around forward and backward, such as
    `torch.autograd.graph.allow_mutation_on_saved_tensors`.

    `evaluate=True` exports the loss function a second time, with the model in eval mode and without gradients, as a
    graph of its own on the same weights: `TrainingSession.evaluate` runs it. Another function `evaluate(model, *batch)`
    in its place returns a tensor of one element, or (tensor, {name: tensor}).

    `weights` is a checkpoint in whose state the training begins: parameters, buffers, and the optimizer's state.

    Raises TrainingError for what cannot be trained so, CheckpointError for a checkpoint that cannot be read, and
    ExportError as `export` does, also for a parameter that asks for a gradient and gets none, unless `allow_unused`.
    """
    require_kinds(model, optimizer, loss_fn, batch)
    if steps < 1:
        raise TrainingError(f"steps is {steps}; it must be at least 1")
    settings = Settings(accumulate, clip_grad_norm, tuple(outputs), allow_unused)
    parts = Parts(model, optimizer, loss_fn, context)
    _check(parts, settings, evaluate)
    log = log or Log()
    step, state = TrainingStep(parts, settings), _begun(parts, weights, log)
    inputs = _Inputs.of(step, state, batch, lr, rng)
    shapes = inputs.shapes(dynamic_shapes)
    names = inputs.names(parts.losses[0])
    options = replace(options, input_names=names, strategy="post-dispatch", ir_passes=(SumRows(), *options.ir_passes))
    program = exported(step, inputs.call, shapes, options, log)
    refuse_constants(program)
    if rng != "native":
        refuse_unseeded(program)
    _report_unused(step, settings, program)
    finished = _described(program, parts, inputs, steps, settings)
    evaluation = None
    if evaluate:
        judged = parts if evaluate is True else replace(parts, optimizer=parts.optimizers[0], loss_fn=evaluate)
        evaluation = evaluation_of(
            judged, state, _micro(batch, accumulate, dynamic_shapes), dynamic_shapes, rng, options, log
        )
    return TrainingProgram(
        finished, program.program, program.log, state, step, inputs.call, shapes, options, evaluation
    )


def _micro(batch: Sequence[Any], accumulate: int, shapes: Any) -> Sequence[Any]:
    """The example of an evaluation: the first of the micro-batches."""
    if accumulate == 1:
        return batch
    if shapes:
        raise TrainingError(
            "evaluate and accumulate do not go together with dynamic_shapes, which are those of all micro-batches; "
            "export a step with accumulate=1 for the evaluation, or leave dynamic_shapes out"
        )
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor[0], batch)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Inputs of one call of a step; masks where its random numbers are inputs, else perhaps a seed."""

    state: Mapping[str, torch.Tensor]
    batch: Sequence[Any]
    rates: Mapping[str, torch.Tensor]
    seed: torch.Tensor | None
    masks: Sequence[torch.Tensor] = ()

    @staticmethod
    def of(step: TrainingStep, state: Mapping[str, torch.Tensor], batch: Sequence[Any], lr: str, rng: str) -> _Inputs:
        """The example call. With masks the step is run once, to see which random numbers it draws."""
        rates = rates_of(step.parts[0]) if lr == "input" else {}
        inputs = _Inputs(state, batch, rates, torch.tensor(0) if rng == "seed" else None)
        return replace(inputs, masks=_masks_of(step, inputs.call)) if rng == "mask" else inputs

    @property
    def call(self) -> tuple[Any, ...]:
        """The arguments of `TrainingStep.forward`."""
        masks = (list(self.masks),) if self.masks else ()
        return (self.state, tuple(self.batch), self.rates, self.seed, *masks)

    def names(self, loss_fn: Callable[..., Any]) -> tuple[str, ...]:
        """Of the inputs of the ONNX model, in the order of the call."""
        return (
            *self.state,
            *batch_names(loss_fn, self.batch),
            *(f"{parts_of.RATE}/{group}" for group in self.rates),
            *([parts_of.SEED] if self.seed is not None else []),
            *(f"{parts_of.MASK}/{number}" for number in range(len(self.masks))),
        )

    def shapes(self, of_batch: Any) -> dict[str, Any] | None:
        """Dynamic shapes of the call; masks have what follows from those of the batch."""
        if not of_batch:
            return None
        shapes = {"batch": of_batch}
        if self.masks:
            shapes["masks"] = [dict.fromkeys(range(mask.dim()), Dim.AUTO) for mask in self.masks]
        return shapes


def _begun(parts: Parts, weights: str | os.PathLike[str] | None, log: Log) -> dict[str, torch.Tensor]:
    """The state that the training begins with: the model's and the optimizer's, or that of a checkpoint."""
    try:
        state = state_of(parts)
    except OptimizerError as error:
        raise TrainingError(str(error)) from error
    return state if weights is None else _resumed(state, parts, open_checkpoint(weights), log)


def _described(program: OnnxProgram, parts: Parts, inputs: _Inputs, steps: int, settings: Settings) -> ir.Model:
    """The model of so many steps, with what is fed back into it, and what is given anew, in its metadata."""
    produced = [value.name for value in program.model.graph.outputs]
    description = description_of(parts, list(inputs.state), produced, inputs.rates, steps, settings)
    program.model.metadata_props[METADATA] = json.dumps(description)
    return program.model if steps == 1 else repeated(program.model, description["state"], steps)


def _resumed(state: dict[str, torch.Tensor], parts: Parts, checkpoint: Checkpoint, log: Log) -> dict[str, torch.Tensor]:
    try:
        with log.stage("weights"):
            return resumed(state, parts, checkpoint, log)
    except Stop as stop:
        raise ExportError(log, str(stop)) from stop


def _check(parts: Parts, settings: Settings, evaluate: object) -> None:
    model, names = parts.model, parts.names
    if settings.accumulate < 1:
        raise TrainingError(f"accumulate is {settings.accumulate}; it must be at least 1")
    unknown = [each for each in settings.outputs if each not in parts_of.EXTRAS]
    if unknown:
        raise TrainingError(f"outputs has '{unknown[0]}'; it takes: {', '.join(parts_of.EXTRAS)}")
    if len(parts.losses) > 1 and parts_of.GRADIENT_NORM in settings.outputs:
        raise TrainingError("outputs has 'grad_norm', which is that of one loss, and there are several; take 'grad'")
    if len(parts.losses) > 1 and evaluate is True:
        raise TrainingError("evaluate=True is for one loss function, and there are several; give evaluate=function")
    given: set[int] = set()
    for index, group in enumerate(parts.groups):
        own = [id(p) for p in group["params"]]
        if not names.keys() >= set(own):
            raise TrainingError(f"group {index} of the optimizer has a parameter that is none of the model's")
        twice = next((names[each] for each in own if each in given), None)
        if twice is not None:
            raise TrainingError(f"'{twice}' is in groups of two optimizers; give it to one")
        given.update(own)
    complex_one = next((names[id(p)] for p in model.parameters() if p.is_complex()), None)
    if complex_one is not None:
        raise TrainingError(
            f"'{complex_one}' is complex, and ONNX has no complex tensors to feed; keep it as a real tensor with an "
            "axis more, and use torch.view_as_complex(it) in forward"
        )
    left = [names[id(p)] for p in model.parameters() if p.requires_grad and id(p) not in given]
    if left:
        raise TrainingError(f"'{left[0]}' asks for gradients, but is in no group of the optimizer; freeze it or add it")


def _report_unused(step: TrainingStep, settings: Settings, program: OnnxProgram) -> None:
    """Raises ExportError for parameters without a gradient, each reported where the loss reads it in vain, if it does.

    One that nothing reads is reported at the module that holds it.
    """
    if settings.allow_unused or not step.unused:
        return
    (parts,) = step.parts
    reads = reads_of(program.program)
    for name in step.unused:
        owner, _, _ = name.rpartition(".")
        at = reads.get(f"{parts_of.PARAMETER}/{name}") or place_of_module(parts.model, owner)
        program.log.report(rules.GRADIENT_MISSING, at=at, name=name)
    raise ExportError(program.log, f"{len(step.unused)} parameters get no gradient, the first is '{step.unused[0]}'")


def _masks_of(step: TrainingStep, call: tuple[Any, ...]) -> list[torch.Tensor]:
    """Numbers for every random op of the step, in the order in which it runs them: it is run once to see them."""
    with RecordedRandom() as random:
        step(*call)
    return random.numbers
