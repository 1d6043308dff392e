"""PyTorch's optimizers as functions: new parameters and new state from parameters, gradients and state."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.training.carried import nothing_kept_by, place_in
from fxport.exporter.training.own_tensors import OwnTensors

STEPS_MUST_BE_TENSORS: tuple[type[Optimizer], ...] = (torch.optim.RAdam, torch.optim.ASGD)
"""Optimizers that branch in Python on the number of steps, unless they are told to keep it on the device."""

REFUSED: Mapping[type[Optimizer], str] = {
    torch.optim.LBFGS: "its step evaluates the loss as often as the line search asks",
    torch.optim.SparseAdam: "it takes sparse gradients, which ONNX does not have",
}

UNTOUCHED = "untouched"
"""State of SGD with dampening: 1 until the first step, in which PyTorch does not dampen, then 0."""

State = dict[str, dict[str, torch.Tensor]]
"""Name of a parameter → name of a state → its value."""


class OptimizerError(FxportError, ValueError):
    """An optimizer that cannot be part of the graph. The text says why, and what to do."""


def initial_state(optimizer: Optimizer, names: Mapping[int, str]) -> State:
    """The state of every parameter: what the optimizer holds, or what it begins with if it has not stepped yet.

    `names` gives the name of a parameter by its id. Numbers, such as a count of steps, become 0-d tensors. Raises
    OptimizerError where the optimizer cannot be captured, or where only a first step tells what it begins with.
    """
    for kind, reason in REFUSED.items():
        if isinstance(optimizer, kind):
            raise OptimizerError(f"{kind.__name__} cannot be a part of the graph: {reason}. Choose another optimizer.")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    _refuse_closures(optimizer)
    _refuse_other_steps(optimizer)
    _refuse_other_schedules(optimizer)
    _refuse_other_keys(optimizer, parameters)
    waiting = [p for p in parameters if p.requires_grad and not optimizer.state.get(p)]
    fresh = _fresh(optimizer) if waiting else {}
    state: State = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            held = optimizer.state.get(parameter) or (fresh.get(parameter, {}) if parameter.requires_grad else {})
            entries = {key: _as_tensor(value, name, key) for key, value in held.items() if value is not None}
            if _dampened(group) and parameter.requires_grad:
                entries[UNTOUCHED] = torch.tensor(0.0 if optimizer.state.get(parameter) else 1.0)
            if entries:
                state[name] = entries
        begun = {bool(optimizer.state.get(p)) for p in group["params"] if p.requires_grad}
        if _dampened(group) and len(begun) > 1 and not _is_divisible(optimizer):
            raise OptimizerError(
                f"{type(optimizer).__name__} with dampening has momentum for some parameters of a group and for others "
                "not, which it or its hooks cannot tell apart in a graph. Put those that are new into a group of their "
                "own."
            )
    return state


def _refuse_closures(optimizer: Optimizer) -> None:
    """Raise OptimizerError for a step that cannot be called without arguments, such as a closure."""
    _, *given = inspect.signature(_step_of(optimizer)).parameters.values()
    wanted = [
        each.name
        for each in given
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if wanted:
        raise OptimizerError(
            f"the step of {type(optimizer).__name__} cannot be called without '{wanted[0]}', and a graph has one "
            "evaluation of the loss, before the update. Write further ones in the loss function, which may call the "
            "model at other weights by torch.func.functional_call, and export with an optimizer of the gradients alone."
        )


def _refuse_other_steps(optimizer: Optimizer) -> None:
    """Raise OptimizerError where PyTorch would run another step than that of the class and its hooks."""
    kind = type(optimizer)
    given = vars(optimizer).get("step")
    if getattr(given, "_wrapped_by_lr_sched", False):  # which counts the calls, for a warning
        given = inspect.getattr_static(given, "__wrapped__", None)
    if given is not None and given is not kind.step:
        raise OptimizerError(
            f"the step of this {kind.__name__} is an attribute of its own, and not the method of its class. Write it "
            "as the `step` of a subclass, or as a hook: `optimizer.register_step_pre_hook`."
        )
    if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
        raise OptimizerError(
            f"{kind.__name__} has a hook of all optimizers, which is no part of the step. Register it with this one: "
            "`optimizer.register_step_pre_hook` or `register_step_post_hook`; or remove it during the export."
        )


def _refuse_other_schedules(optimizer: Optimizer) -> None:
    """Raise OptimizerError where a schedule sets more than learning rates, which a graph has as they are now."""
    if any("base_momentum" in group for group in optimizer.param_groups):
        raise OptimizerError(
            f"a schedule such as OneCycleLR sets the momentum of this {type(optimizer).__name__} anew in each step, "
            "and the graph has it as it is now: only learning rates are its inputs. Make the schedule with "
            "`cycle_momentum=False`, or export with an optimizer that has no schedule."
        )


def _refuse_other_keys(optimizer: Optimizer, parameters: Sequence[torch.Tensor]) -> None:
    strange = next((key for key in optimizer.state if not any(key is each for each in parameters)), None)
    if strange is not None:
        shown = "a tensor" if isinstance(strange, torch.Tensor) else repr(strange)
        raise OptimizerError(
            f"{type(optimizer).__name__} keeps state under {shown}, which is none of its parameters. Keep it in the "
            "state of a parameter, such as the first: `self.state[self.param_groups[0]['params'][0]]`."
        )


def _fresh(optimizer: Optimizer) -> Mapping[torch.Tensor, dict[str, Any]]:
    """The state that an optimizer makes for itself before its first update."""
    shadow, originals = _shadow(optimizer)
    if isinstance(optimizer, torch.optim.SGD):
        return {
            parameter: {"momentum_buffer": torch.zeros_like(parameter)}
            for group in optimizer.param_groups
            for parameter in group["params"]
            if group["momentum"] != 0
        }
    prepare = getattr(shadow, "_init_group", None)
    if prepare is not None:
        lists = len(inspect.signature(prepare).parameters) - 1
        for group in shadow.param_groups:
            prepare(group, *([] for _ in range(lists)))
    else:
        try:
            _step_of(optimizer)(shadow)
        except Exception as error:  # the optimizer's own code raises what it likes
            raise OptimizerError(
                f"{type(optimizer).__name__} does not step with other parameters in its groups: "
                f"{type(error).__name__}: {error}. Let it take them from `self.param_groups`, and their state from "
                "`self.state`."
            ) from error
        if any(entries and not optimizer.state.get(originals[id(each)]) for each, entries in shadow.state.items()):
            raise OptimizerError(
                f"{type(optimizer).__name__} makes its state in its first step, so its initial values are not known. "
                "Take one step in PyTorch, then export."
            )
    return {originals[id(parameter)]: entries for parameter, entries in shadow.state.items()}


def _shadow(optimizer: Optimizer) -> tuple[Optimizer, dict[int, torch.Tensor]]:
    """The optimizer with copies of its parameters, all gradients zero; and the original of each copy, by its id."""
    originals: dict[int, torch.Tensor] = {}
    groups = []
    for group in optimizer.param_groups:
        copies = []
        for parameter in group["params"]:
            copy = parameter.detach().clone()
            copy.grad = torch.zeros_like(copy)
            originals[id(copy)] = parameter
            copies.append(copy)
        groups.append({**_copied(group), "params": copies})
    return _like(optimizer, groups), originals


def _copied(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group with tensors of its own, to which a step may write."""
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in group.items()}


def _like(optimizer: Optimizer, groups: list[dict[str, Any]]) -> Optimizer:
    """An optimizer of the same kind and settings with other groups and no state. The original is not touched."""
    new = object.__new__(type(optimizer))
    new.__dict__.update(optimizer.__dict__, state=defaultdict(dict), param_groups=groups)
    return new


def _step_of(optimizer: Optimizer) -> Callable[[Optimizer], Any]:
    """The optimizer's own step, without PyTorch's wrapper that profiles it and calls hooks."""
    step = type(optimizer).step
    return getattr(step, "__wrapped__", step)


def _as_tensor(value: Any, name: str, key: str) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if not isinstance(value, bool | int | float):
        raise OptimizerError(
            f"the state '{key}' of '{name}' is of type '{type(value).__name__}'. Keep each tensor under a name of its "
            "own."
        )
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _dampened(group: Mapping[str, Any]) -> bool:
    return bool(group.get("dampening")) and bool(group.get("momentum"))


def _is_divisible(optimizer: Optimizer) -> bool:
    """Return whether a group for each parameter makes no difference: only PyTorch's own step sees them."""
    hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    return type(optimizer) is torch.optim.SGD and not any(hooks)


def stepped(
    optimizer: Optimizer,
    names: Mapping[int, str],
    parameters: Mapping[str, torch.Tensor],
    state: State,
    learning_rates: Mapping[int, torch.Tensor],
    own: OwnTensors,
) -> State:
    """Runs the optimizer's own step on other tensors; returns their new state.

    `parameters` are the current values by name, changed in place, each with its gradient in `.grad` (None: it is left
    as it is); those that are not among them are left out. `learning_rates` replace those of the groups, by index. The
    optimizer's hooks run before and after.
    """
    groups = []
    for index, group in enumerate(optimizer.param_groups):
        chosen = [name for p in group["params"] if (name := names[id(p)]) in parameters]
        changes: dict[str, Any] = {"params": [parameters[name] for name in chosen]}
        if index in learning_rates:
            changes["lr"] = learning_rates[index].double()
        changes |= {name: False for name in ("foreach", "fused") if name in group}
        if isinstance(optimizer, STEPS_MUST_BE_TENSORS) and torch.compiler.is_compiling():
            changes["capturable"] = True
        changed = {**_copied(group), **changes}
        if not _dampened(group):
            groups.append(changed)
            continue
        for part in [[name] for name in chosen] if _is_divisible(optimizer) else [chosen]:
            more: dict[str, Any] = {"params": [parameters[name] for name in part]}
            untouched = next((held[UNTOUCHED] for name in part if UNTOUCHED in (held := state.get(name, {}))), None)
            if untouched is not None:  # else they are frozen
                more["dampening"] = group["dampening"] * (1 - untouched)
            groups.append({**changed, **more})
    new = _like(optimizer, groups)
    for name, parameter in parameters.items():
        if name in state:
            new.state[parameter] = {key: _exact(optimizer, key, value) for key, value in state[name].items()}
            new.state[parameter].pop(UNTOUCHED, None)
    step = _step_of(optimizer)  # which may be that of a base, and have hooks of its own below
    with _exact_numbers(), _unprofiled(type(optimizer)), nothing_kept_by(new, own):
        _with_hooks(step)(new)
    _refuse_other_entries(new, parameters, state)
    return {
        name: {key: _as_tensor_of(value, state[name].get(key)) for key, value in new.state[parameter].items()}
        | ({UNTOUCHED: torch.zeros_like(state[name][UNTOUCHED])} if UNTOUCHED in state[name] else {})
        for name, parameter in parameters.items()
        if name in state
    }


def _refuse_other_entries(optimizer: Optimizer, parameters: Mapping[str, torch.Tensor], state: State) -> None:
    """Raise RefusedError where a step makes or drops entries of the state, which the graph has as they are."""
    for name, parameter in parameters.items():
        before = state.get(name, {}).keys() - {UNTOUCHED}
        after = {key for key, value in optimizer.state.get(parameter, {}).items() if value is not None}
        for key in sorted(before ^ after, key=str):
            verb = "drops" if key in before else "makes"
            raise RefusedError(
                f"it {verb} '{key}' in the state of '{name}', and in the graph each step begins with the same entries",
                place=place_in(optimizer, str(key)),
                cure=ENTRIES,
            )


ENTRIES = (
    "Take steps in PyTorch before the export until the state of each parameter has all its entries, and keep them: "
    "write zeros or another neutral value into those that are not in use."
)


def _exact(optimizer: Optimizer, key: str, value: torch.Tensor) -> torch.Tensor:
    """A copy of a state; a count of steps in float64 where the optimizer computes on it with Python's numbers."""
    counts = key == "step" and isinstance(optimizer, STEPS_MUST_BE_TENSORS) and torch.compiler.is_compiling()
    return value.double() if counts else value.clone()


@contextmanager
def _unprofiled(kind: type[Optimizer]) -> Iterator[None]:
    """During the block, a step that calls `super().step()` finds it without the profiler's marks, but with its hooks.

    PyTorch wraps the step of a class when its first instance is made.
    """
    with ExitStack() as stack:
        for base in kind.__mro__[1:]:
            step = vars(base).get("step")
            if step is not None and getattr(step, "hooked", False):
                stack.enter_context(mock.patch.object(base, "step", _with_hooks(step.__wrapped__)))
        yield


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step with the optimizer's hooks around it, of which those before it may give it other arguments."""

    def hooked(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        for hook in optimizer._optimizer_step_pre_hooks.values():
            given = hook(optimizer, args, kwargs)
            if given is not None:
                args, kwargs = given
        result = step(*args, **kwargs)
        for hook in optimizer._optimizer_step_post_hooks.values():
            hook(optimizer, args, kwargs)
        return result

    return hooked


def _as_tensor_of(value: Any, old: torch.Tensor | None) -> torch.Tensor:
    """A number that a step computed, as a tensor of the type that the state has."""
    value = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    return value if old is None else value.to(old.dtype)


@contextmanager
def _exact_numbers() -> Iterator[None]:
    """While a step is traced, PyTorch's optimizers compute on the count of steps in float64, as they do in Python.

    Their helper `_get_value` gives a Python number in eager mode and the float32 tensor when traced.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("torch.optim.")]
    with ExitStack() as stack:
        for module in modules:
            if hasattr(module, "_get_value"):
                stack.enter_context(mock.patch.object(module, "_get_value", _double_of(module._get_value)))
        if torch.compiler.is_compiling():  # Adafactor compares numbers that it reads from tensors
            adafactor = sys.modules["torch.optim._adafactor"]
            for name, traceable in (("min", torch.minimum), ("max", torch.maximum)):
                stack.enter_context(mock.patch.object(adafactor, name, _of_numbers(traceable), create=True))
        yield


def _of_numbers(function: Callable[..., torch.Tensor]) -> Callable[[Any, Any], torch.Tensor]:
    def compare(a: Any, b: Any) -> torch.Tensor:
        return function(*(torch.scalar_tensor(x, dtype=torch.float64) for x in (a, b)))

    return compare


def _double_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and torch.compiler.is_compiling() else original(x)

    return value
