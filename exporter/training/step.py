"""One training step as a function: (state, batch, learning rates, seed) → (loss, extras, new state)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch.func import functional_call
from torch.fx.traceback import annotate
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import get_total_norm
from torch.utils import _pytree as pytree

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.patches.autograd import (
    checkpoints_kept_whole,
    saved_tensor_hooks_kept,
)
from fxport.exporter.capture.patches.recurrent_layers import recurrent_layers_as_scans
from fxport.exporter.capture.patches.traced_once import is_only_trace
from fxport.exporter.capture.places import Around
from fxport.exporter.training import draws
from fxport.exporter.training.alike import Alike, expand, groups_alike, stepped_alike
from fxport.exporter.training.averages import averaged_models, cumulative_averages
from fxport.exporter.training.by_name import alone, copies, detached, without
from fxport.exporter.training.carried import nothing_carried
from fxport.exporter.training.hooks import accumulated, stand_in
from fxport.exporter.training.optimizers import State, initial_state
from fxport.exporter.training.own_tensors import OwnTensors
from fxport.exporter.training.parts import LossFn, Parts, Phase
from fxport.exporter.training.present import Presence, Presences, leave_absent, require_leavable
from fxport.exporter.training.seeded import GivenRandom, SeededRandom
from fxport.exporter.training.written import Written
from fxport.exporter.weights.session_files import BUFFER, OPTIMIZER, PARAMETER
from fxport.fx_passes.graph import PART

BATCH, RATE, GRADIENT, NEW = "batch", "lr", "grad", "new"
"""First parts of names beside those of state: `batch/<argument>`, `lr/<group>`, `grad/<fqn>`, `new/<state>`."""

FORWARD, BACKWARD, UPDATE = "forward", "backward", "optimizer"
"""Parts of a step, which every node of its graph is of one of."""

SEED, MASK = "seed", "mask"
LOSS = "loss"
GRADIENT_NORM = "grad_norm"
EXTRAS = (GRADIENT, GRADIENT_NORM)


class TrainingError(FxportError, ValueError):
    """A training step that cannot be exported as it was asked for. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that are fixed in the graph of a step.

    `accumulate`: micro-batches a step, along the first axis of every tensor of the batch; their gradients are averaged.
    `clip_grad_norm`: the largest 2-norm of all gradients together; they are scaled down to it. `outputs`: "grad" for
    the gradient of every parameter, "grad_norm" for their 2-norm before clipping. `allow_unused`: parameters
    that get no gradient stay as they are.
    """

    accumulate: int = 1
    clip_grad_norm: float | None = None
    outputs: Sequence[str] = ()
    allow_unused: bool = False


@dataclass
class _Seen:
    """Observations of a call of a step. Not an attribute of the step: a capture gives those back as they were
    before.
    """

    unused: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    """Parameters that the capture found to have a gradient in some runs only."""
    written: set[str] = field(default_factory=set)
    alike: Alike = field(default_factory=Alike)
    results: Sequence[str] = ()
    """The names of the results of the last call, in their order."""


class TrainingStep(Around):
    """A step of training without state of its own: parameters, buffers and optimizer state go in and come out.

    The model is not registered as a submodule: its parameters are inputs here. The same function runs in eager PyTorch
    and is captured, so that both draw the same random numbers.
    """

    def __init__(self, parts: Parts, settings: Settings) -> None:
        super().__init__(parts.model, functions=parts.losses)
        self.parts = (parts,)
        self.settings = settings
        self._seen = _Seen()
        self._own = OwnTensors()
        self._parameters_held, self._buffers_held = (
            dict(parts.model.named_parameters()),
            dict(parts.model.named_buffers()),
        )

    def forward(
        self,
        state: Mapping[str, torch.Tensor],
        batch: Sequence[Any],
        learning_rates: Mapping[str, torch.Tensor],
        seed: torch.Tensor | None,
        masks: Sequence[torch.Tensor] = (),
    ) -> dict[str, torch.Tensor]:
        """Returns the loss and what else was asked for, and `new/<name>` for every state that a step changes.

        Random ops draw from the seed, or take the masks in turn, or draw as ever if there is neither.
        """
        (parts,) = self.parts
        parameters = copies(kind_of_state(state, PARAMETER))  # what a model writes to is not the caller's
        buffers = copies(kind_of_state(state, BUFFER))
        random = GivenRandom(masks) if masks else SeededRandom(seed) if seed is not None else nullcontext()
        carried = nothing_carried(parts.model, parts.around, self._own)
        with carried, averaged_models(), random, Written() as written:
            return self._results(state, parameters, buffers, batch, learning_rates, written)

    def _results(
        self,
        state: Mapping[str, torch.Tensor],
        parameters: Mapping[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        batch: Sequence[Any],
        learning_rates: Mapping[str, torch.Tensor],
        written: Written,
    ) -> dict[str, torch.Tensor]:
        """The outputs of a step; the optimizer and its hooks draw from where the model draws."""
        (parts,) = self.parts
        self._seen.unused = []
        current, held, self._seen.alike = dict(parameters), _nested(kind_of_state(state, OPTIMIZER)), Alike()
        losses, results, new, changed = list[torch.Tensor](), dict[str, torch.Tensor](), State(), set[str]()
        for phase in parts.phases:
            written.watch(current)
            loss, extras, gradients, present = self._gradients(phase, current, buffers, batch, written)
            changed |= {*gradients, *present}
            losses.append(loss)
            _require_new(extras, results)
            results |= extras
            with torch.no_grad(), annotate({PART: UPDATE}):
                gradients = self._clipped(gradients, results)
                if GRADIENT in self.settings.outputs:
                    none = {name: torch.zeros_like(current[name]) for name in present}
                    results |= {f"{GRADIENT}/{name}": value for name, value in (none | gradients).items()}
                alike = None  # else nothing but the results of a trace is made of them
                if is_only_trace() and len(parts.phases) == len(phase.optimizers) == 1 and not present:
                    alike = groups_alike(phase.optimizers[0], parts.names, current, gradients, held)
                unwritten = {name for group in alike or () for name in group}
                before, current = current, current | copies(without(current, unwritten))
                written.watch(current)
                for name, gradient in without(gradients, unwritten).items():
                    current[name].grad = gradient
                updated = self._updated(phase, current, buffers, held, learning_rates, gradients, alike)
                current = {name: alone(value) for name, value in current.items()}
                leave_absent(present, (before, held), (current, updated))
            new |= {name: entries for name, entries in updated.items() if name in gradients or name in present}
        self._seen.written |= written.names
        changed |= self._seen.written
        results = {**_losses(losses), **results}
        results |= {_new(name): current[name] for name in current if name in changed}
        results |= {f"{NEW}/{BUFFER}/{name}": value for name, value in buffers.items()}
        results |= {_new(name, key): value for name, entries in new.items() for key, value in entries.items()}
        self._seen.results = list(results)
        return results

    def _updated(
        self,
        phase: Phase,
        current: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        state: State,
        learning_rates: Mapping[str, torch.Tensor],
        gradients: Mapping[str, torch.Tensor],
        alike: Sequence[Sequence[str]] | None,
    ) -> State:
        """The new state after each optimizer's step, in turn. Values in `current` are changed in place, or replaced."""
        (parts,) = self.parts
        new, first = State(), phase.first
        for optimizer in phase.optimizers:
            groups = optimizer.param_groups
            named = [parts.names[id(parameter)] for group in groups for parameter in group["params"]]
            own = {name: current[name] for name in named}
            held = {name: state[name] for name in named if name in state}
            rates = {at: learning_rates[str(first + at)] for at in range(len(groups)) if learning_rates}
            with self._own.instead_of((self._parameters_held, current), (self._buffers_held, buffers)):
                if alike is None:  # an optimizer before this one may have changed gradients
                    gradients = {name: each.grad for name, each in own.items() if each.grad is not None}
                kinds = groups_alike(optimizer, parts.names, own, gradients, held) if alike is None else alike
                of_trace = self._seen.alike, kinds, gradients, alike is not None
                new |= stepped_alike(optimizer, parts.names, own, held, rates, self._own, *of_trace)
            current |= own
            first += len(groups)
        return new

    def finish_trace(self, gm: torch.fx.GraphModule) -> None:
        """Write the updates and draws out of which one was traced for many."""
        places = {name: place for place, name in enumerate(self._seen.results)}
        expand(gm, self._seen.alike, lambda name, key: places[_new(name, key)], len(places))
        draws.expand(gm)

    @property
    def unused(self) -> list[str]:
        """The parameters that got no gradient in the last call, or capture."""
        return self._seen.unused

    def _gradients(
        self,
        phase: Phase,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        batch: Sequence[Any],
        written: Written,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, Presence]]:
        """The loss, what the loss function returned beside it, and the gradient of every parameter that is trained.

        Also whether it is present, for those of which data tell. Of several loss functions, each trains the parameters
        of its own optimizer.
        """
        (parts,) = self.parts
        trained = self._parameters_held
        count = self.settings.accumulate
        alternates, updated = len(parts.phases) > 1, phase.parameters
        wanted = {name for name, each in trained.items() if not alternates or id(each) in updated}
        unused: list[str] = []
        total: dict[str, torch.Tensor] = {}
        losses, extras = [], {}
        present, lines = dict[str, Presence](), dict[str, Line | None]()
        several = count > 1 or alternates  # leaves of one parameter, each with its hooks
        for turn in range(count):
            micro = batch if count == 1 else pytree.tree_map_only(torch.Tensor, lambda x, i=turn: x[i], batch)
            with torch.enable_grad():
                values = detached(parameters) if several else parameters
                leaves = {name: stand_in(trained[name], value) for name, value in values.items()}
                given = {f"model.{name}": value for name, value in (leaves | buffers).items()}
                differentiated = _Differentiated(parts, phase.loss_fn, leaves, share=1 / count)
                with self._own.instead_of((trained, leaves), (self._buffers_held, buffers)):
                    loss, extras, found = functional_call(differentiated, given, tuple(micro))
            own = differentiated.presences
            found = {name: None if own.of(leaves[name]) is False else each for name, each in found.items()}
            buffers.update({name: alone(given[f"model.{name}"]) for name in buffers})
            rebound = written.names & leaves.keys()  # `leaf.set_(tensor)` gives it other memory
            parameters.update({name: leaves[name].detach() for name in rebound})
            losses.append(loss.detach())
            own.add(present, lines, {name: leaves[name] for name, each in found.items() if each is not None})
            unused = [name for name, each in found.items() if each is None and name in wanted - self._seen.absent]
            for name, gradient in found.items():
                if gradient is not None:
                    gradient = own.masked(leaves[name], gradient)
                    summed = total[name] + gradient if name in total else gradient
                    total[name] = accumulated(trained[name], leaves[name], summed)
        self._seen.unused += unused
        extras = detached(extras)
        total = {name: value for name, value in total.items() if name in wanted}
        present = {name: each for name, each in present.items() if name in wanted and each is not True}
        if torch.compiler.is_compiling():
            require_leavable(present, parts, phase.optimizers, lines)
            self._seen.absent |= {*present}
        else:
            present |= {name: name in total for name in wanted & self._seen.absent}
        return losses[0] if count == 1 else torch.stack(losses).mean(), extras, total, present

    def _clipped(self, gradients: dict[str, torch.Tensor], results: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The gradients within the largest norm, as torch.nn.utils.clip_grad_norm_ does it."""
        limit = self.settings.clip_grad_norm
        if limit is None and GRADIENT_NORM not in self.settings.outputs:
            return gradients
        norm = get_total_norm(list(gradients.values()), foreach=False)
        if GRADIENT_NORM in self.settings.outputs:
            results[GRADIENT_NORM] = norm
        if limit is None:
            return gradients
        factor = torch.clamp(limit / (norm + 1e-6), max=1.0)
        return {name: value * factor for name, value in gradients.items()}


def _new(name: str, key: str | None = None) -> str:
    """Return the name of the result that is a new parameter, or the state of one."""
    return f"{NEW}/{PARAMETER}/{name}" if key is None else f"{NEW}/{OPTIMIZER}/{name}/{key}"


def _losses(losses: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the loss by its name; of several their sum, and each by its number."""
    if len(losses) == 1:
        return {LOSS: losses[0]}
    return {LOSS: torch.stack([each.reshape(()) for each in losses]).sum()} | {
        f"{LOSS}/{number}": each for number, each in enumerate(losses)
    }


def _require_new(extras: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Raise TrainingError where two loss functions return tensors of one name."""
    if again := sorted(extras.keys() & results.keys()):
        raise TrainingError(f"two loss functions return a tensor '{again[0]}'; give them names of their own")


class _Differentiated(torch.nn.Module):
    """The loss and its gradients, as a module around the model, so that it can be called with other tensors inside.

    Backward is a part of the call: hooks that reach for the model's tensors find those of this step.
    """

    def __init__(self, parts: Parts, loss_fn: LossFn, leaves: Mapping[str, torch.Tensor], share: float) -> None:
        super().__init__()
        self.model = parts.model
        self.loss_fn, self.context = loss_fn, parts.context
        self.leaves, self.share, self.presences = leaves, share, Presences()

    def forward(self, *batch: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor | None]]:
        """Returns the loss, what came with it, and the gradients of the loss times the share; None: no gradient."""
        wanted = {name: leaf for name, leaf in self.leaves.items() if leaf.requires_grad}
        with (
            saved_tensor_hooks_kept(),
            recurrent_layers_as_scans(),
            checkpoints_kept_whole(self.model) as run_again,
            self.context(),
            _dense_gradients(self.model),
            cumulative_averages(self.model),
        ):
            with sdpa_kernel(SDPBackend.MATH), annotate({PART: FORWARD}):
                loss, extras = split_loss(self.loss_fn(self.model, *batch))
            scaled = loss if self.share == 1 else loss * self.share
            with annotate({PART: BACKWARD}), self.presences.followed(scaled):
                found = torch.autograd.grad(scaled, list(wanted.values()), allow_unused=True)
                run_again()
        return loss, extras, dict(zip(wanted, found, strict=True))


@contextmanager
def _dense_gradients(model: torch.nn.Module) -> Iterator[None]:
    """During the block, embeddings that are to have sparse gradients have the same ones as dense tensors."""
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.sparse:
                stack.enter_context(mock.patch.object(module, "sparse", False))
        yield


def split_loss(result: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the loss and the further tensors that a loss function gave. Raises TrainingError."""
    loss, extras = result if isinstance(result, tuple) else (result, {})
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise TrainingError("loss_fn must return a tensor of one element, or (loss, {name: tensor}).")
    return loss, dict(extras)


def kind_of_state(state: Mapping[str, torch.Tensor], kind: str) -> dict[str, torch.Tensor]:
    """Return the state of one kind, such as the parameters, by the names that it has in the model."""
    return {name.removeprefix(f"{kind}/"): value for name, value in state.items() if name.startswith(f"{kind}/")}


def _nested(flat: Mapping[str, torch.Tensor]) -> State:
    nested: State = {}
    for name, value in flat.items():
        parameter, _, key = name.rpartition("/")
        nested.setdefault(parameter, {})[key] = value
    return nested


def state_of(parts: Parts) -> dict[str, torch.Tensor]:
    """Copies of everything that a step reads and writes, by name; tied parameters once."""
    held = {f"{PARAMETER}/{name}": p.detach().clone() for name, p in parts.model.named_parameters()}
    held |= {f"{BUFFER}/{name}": b.detach().clone() for name, b in parts.model.named_buffers()}
    for optimizer in parts.optimizers:
        for name, entries in initial_state(optimizer, parts.names).items():
            held |= {f"{OPTIMIZER}/{name}/{key}": value for key, value in entries.items()}
    return held


def batch_names(loss_fn: Callable[..., Any], batch: Sequence[Any]) -> list[str]:
    """`batch/<argument>` for every tensor of the batch, by the names of the loss function's arguments."""
    try:
        declared = list(inspect.signature(loss_fn).parameters)[1:]
    except (TypeError, ValueError):  # a builtin without a signature
        declared = []
    names = [*declared[: len(batch)], *map(str, range(len(declared), len(batch)))]
    paths = pytree.tree_flatten_with_path(dict(zip(names, batch, strict=True)))[0]
    return [
        f"{BATCH}/" + ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)
        for path, value in paths
        if isinstance(value, torch.Tensor)
    ]
