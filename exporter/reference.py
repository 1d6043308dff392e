"""What eager PyTorch gives, on the example inputs and on inputs of other sizes: what validation compares with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from diagnostics import Log, rules
from diagnostics.messages import error_line
from exporter.adversarial import adversarial
from exporter.arrays import Arrays, as_array, as_value
from exporter.capture.arguments.inputs import arguments_of, leaves_of
from exporter.capture.arguments.keywords import in_order
from exporter.capture.arguments.padded import as_padded
from exporter.capture.eager import FailsOnRanks, called, restored
from exporter.capture.fake import has_no_values
from exporter.capture.float64 import wide_types, widened
from exporter.capture.patches.attention import no_fast_path
from exporter.capture.places import place_of_module
from exporter.capture.sizes.resizing import at_hard_sizes, resized
from exporter.capture.sizes.values import at_hard_values, at_other_values
from exporter.capture.wrappers import unwrapped
from exporter.pipeline import OnnxProgram
from fx_passes.program import OutputKind, Program

EXACT_LIMIT = 2048 * 1024 * 1024
"""Bytes of weights up to which the model is also run in float64: that takes several times as long."""

DRAWS = 16
"""Runs of a model that draws random numbers: how much its outputs vary from run to run must be known."""

LATER = "later"
CALLS_BEFORE = 2
"""Calls of a model with a state before the one that is compared: after the first it may still be all zeros."""

NONE_FURTHER: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = MappingProxyType({})

COPIED_LIMIT = 256 * 1024 * 1024
"""Bytes of weights up to which a copy of the model in float64 is made, which holds them three times."""


@dataclass(frozen=True)
class Case:
    """One recorded run: inputs and outputs under their ONNX names; `exact` holds the outputs computed in float64,
    `draws` those that are drawn at random, over several runs."""

    label: str
    inputs: Arrays
    outputs: Arrays
    exact: Arrays | None
    draws: Arrays | None = None


@dataclass(frozen=True, slots=True)
class _Subject:
    """A module that is run, and what was exported of it. `random` says that it draws random numbers, `whole` is what
    computes in float64 if the module itself cannot, `log` gets why nothing does."""

    module: torch.nn.Module
    program: Program
    random: bool
    whole: torch.nn.Module | None
    log: Log


class NoYardstickError(Exception):
    """There is no run in float64; the text says why."""


def cases(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    exported: OnnxProgram,
    log: Log,
    *,
    hard: bool = False,
    label: str = "sample",
    further: Mapping[str, tuple[tuple[Any, ...], Mapping[str, Any]]] = NONE_FURTHER,
    whole: torch.nn.Module | None = None,
) -> Iterator[Case]:
    """Runs eager PyTorch on the example, which is called `label`; on the `further` calls, by their labels; where sizes
    are dynamic, on another size of each ("resized"); where sizes depend on values, on other values ("other values");
    and where the model has a state that it changes, on the example after some calls ("later").

    With `hard`, also at the smallest, the largest and a prime size, and on zeros, NaN and other values that kernels get
    wrong, see `at_hard_sizes`, `at_hard_values` and `adversarial`. Inputs of ours that eager PyTorch refuses are
    reported as ValidationSkipped, the user's as InputMismatch. The model's state is afterwards what it was. `whole` is
    what computes in float64 where `model` runs on several ranks: the same model in one process.
    """
    module = model.module() if isinstance(model, torch.export.ExportedProgram) else unwrapped(model)
    call = as_padded((tuple(args), in_order(module, kwargs)))
    random = any(finding.rule is rules.RANDOMNESS_CAPTURED for finding in exported.log.findings)
    subject = _Subject(module, exported.program, random, whole, log)
    yield _record(label, subject, call)
    for name, (others, named) in further.items():
        try:
            yield _record(name, subject, (tuple(others), in_order(module, named)))
        except Exception as error:  # noqa: BLE001  # the model's own code; what it raises is told
            at = place_of_module(module)
            log.report(rules.INPUT_MISMATCH, at=at, name=name, error=_raised(error), sample=name)
    for name, how, tries in _of_ours(module, call, exported.program, hard=hard):
        record = _record_later if name == LATER else _record
        try:
            case = _first(tries, partial(record, name, subject))
        except Exception as error:  # noqa: BLE001  # the model's own code; what it raises is the reason
            reason = f"eager PyTorch fails {how}: {_raised(error)}"
            log.report(rules.VALIDATION_SKIPPED, at=place_of_module(module), name=name, reason=reason)
            continue
        if case is not None:
            yield case


def _first(tries: Iterable[tuple[Any, Any]], record: Callable[..., Case]) -> Case | None:
    """The run of the first call that the model takes; the error of the first call if it takes none."""
    failures: list[Exception] = []
    for call in tries:
        try:
            return record(call)
        except Exception as error:  # noqa: BLE001  # the model's own code; raised below
            failures.append(error)
    if failures:
        raise failures[0]
    return None


def _of_ours(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, *, hard: bool
) -> Iterator[tuple[str, str, Iterable[tuple[Any, Any]]]]:
    """(label, what it is in words, calls) of what is tried besides the user's own calls.

    The first of the calls that the model takes will do.
    """
    resizings = (resized(module, call, program, plain=plain) for plain in (False, True))
    yield "resized", "at another size", (other for other in resizings if other is not None)
    values = at_hard_values if hard else at_other_values
    for label, changed in values(module, call, program):
        yield label, f"on {label}", (changed,)
    if hard:
        for label, changed in at_hard_sizes(module, call, program):
            yield label, f"at the {label} size", (changed,)
        for label, changed in adversarial(call):
            yield label, f"on {label}", (changed,)
    if _state_inputs(program):
        yield LATER, "after some calls", (call,)


def _raised(error: BaseException) -> str:
    """What the model raised, in one line: on rank 0, where it runs on several."""
    if isinstance(error, FailsOnRanks) and error.__cause__ is not None:
        return _raised(error.__cause__)
    return error_line(error)


def _record_later(label: str, subject: _Subject, call: tuple[Any, Any]) -> Case:
    """The call once more, after `CALLS_BEFORE` calls of it: the state that they led to is fed as inputs."""
    module, program = subject.module, subject.program
    with restored(module, changed_by(program)):
        for _ in range(CALLS_BEFORE):
            called(module, call)
        state = {
            name: _state(module, program, target).detach().clone() for name, target in _state_inputs(program).items()
        }
        case = _record(label, subject, call)
    return replace(case, inputs=case.inputs | {name: as_array(value) for name, value in state.items()})


def _state_inputs(program: Program) -> dict[str, str]:
    """The inputs that stand for a state which the model changes, with where the model holds it."""
    changed = changed_by(program)
    return {
        entry.name: entry.target for entry in program.inputs if entry.target is not None and entry.target in changed
    }


def _record(label: str, subject: _Subject, call: tuple[Any, Any]) -> Case:
    module, program = subject.module, subject.program
    inputs = {name: as_array(tensor) for name, tensor in fed(module, call, program).items()}
    outputs = _run(module, call, program)
    draws = _draws(module, call, program, outputs) if subject.random else None
    return Case(label, inputs, outputs, _yardstick(subject, call, outputs, draws or {}), draws)


def _yardstick(subject: _Subject, call: tuple[Any, Any], outputs: Arrays, draws: Arrays) -> Arrays | None:
    """The outputs in float64, without those that are random; None with a finding where they cannot be had."""
    try:
        exact = _run_exactly(subject.module if subject.whole is None else subject.whole, call, subject.program)
    except NoYardstickError as why:
        subject.log.report(rules.YARDSTICK_MISSING, at=place_of_module(subject.module), reason=why)
        return None
    # other digits may decide otherwise how many there are of something
    return {name: each for name, each in exact.items() if each.shape == outputs[name].shape and name not in draws}


def _draws(module: torch.nn.Module, call: tuple[Any, Any], program: Program, first: Arrays) -> Arrays:
    """The outputs that are not the same in every run, of shape [runs, ...]."""
    runs = [first, *(_run(module, call, program) for _ in range(DRAWS - 1))]
    same = [name for name in first if len({run[name].shape for run in runs}) == 1]
    stacked = {name: np.stack([run[name] for run in runs]) for name in same}
    return {name: array for name, array in stacked.items() if not all(map(_equal, array, array[:1].repeat(DRAWS, 0)))}


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()  # also where they are NaN


def fed(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> dict[str, torch.Tensor]:
    """What a call feeds the captured graph, by the names of its inputs; numbers as tensors without axes."""
    values = {leaf.path: leaf.value for leaf in leaves_of(arguments_of(module, *call))}
    found = {entry.name: values.get(entry.path or entry.name) for entry in program.user_inputs}
    missing = [name for name, value in found.items() if value is None]
    known = {entry.path or entry.name for entry in program.user_inputs}
    other = [path for path, value in values.items() if isinstance(value, torch.Tensor) and path not in known]
    if missing or other:
        told = ", ".join(f"'{name}'" for name in (*missing, *other))
        raise TypeError(f"these are other inputs than the model was captured with ({told})")
    return {name: torch.as_tensor(value) for name, value in found.items()}


def _run(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """The outputs of one eager run on copies of the inputs, also the new values of what the model changes."""
    with no_fast_path(), restored(module, changed_by(program)):
        result, own = called(module, call)
        leaves = iter(pytree.tree_leaves(result))
        after = fed(module, own, program)
        outputs: Arrays = {}
        for output in program.outputs:
            if output.kind is OutputKind.MUTATION:
                assert output.updates is not None
                new = after[output.updates] if output.updates in after else _state(module, program, output.updates)
                outputs[output.name] = as_array(new)
                continue
            leaf = next(leaves)
            if output.kind is OutputKind.USER:
                outputs[output.name] = as_array(leaf if isinstance(leaf, torch.Tensor) else _number(leaf))
        return outputs


def _number(value: float) -> torch.Tensor:
    """A Python number as a tensor of all its digits, which is what the exported model gives."""
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _state(module: torch.nn.Module, program: Program, name: str) -> torch.Tensor:
    """A buffer, or a parameter: an embedding with `max_norm` scales its own rows. A tensor in a list of an attribute is
    the very one that the program holds."""
    owner, _, attribute = name.rpartition(".")
    found = getattr(module.get_submodule(owner), attribute, None)
    return found if found is not None else program.tensors[name]


def _run_exactly(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """The same in float64. Raises NoYardstickError where the model is too large for that or takes no float64.

    An output that the model holds in another precision, such as a constant of its own, is no yardstick: left out.
    """
    if any(has_no_values(parameter) for parameter in module.parameters()):  # no mode of this process is seen elsewhere
        raise NoYardstickError("other processes hold a part of the weights")
    weights = sum(tensor.numel() * tensor.element_size() for tensor in program.tensors.values())
    if weights > EXACT_LIMIT:
        raise NoYardstickError(f"the weights are {weights} bytes, and it is run up to {EXACT_LIMIT}")
    failures: list[Exception] = []
    for run in (_run_widened, _run_doubled) if weights <= COPIED_LIMIT else (_run_widened,):
        try:
            with restored(module, changed_by(program)):  # not under the mode of a run, which refuses narrow writes
                outputs = run(module, widened(call), program)
        except Exception as error:  # noqa: BLE001  # the model's own code; what it raises is told
            failures.append(error)
            continue
        return {
            name: array for name, array in outputs.items() if array.dtype == np.float64 or array.dtype.kind in "biu"
        }
    raise NoYardstickError(f"in float64 it fails: {_raised(failures[0])}")


def _run_widened(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """A run in which each op gets its operands in float64: the weights are held once, and one of them twice."""
    with wide_types(operands=True):
        return _run(module, call, program)


def _run_doubled(module: torch.nn.Module, call: tuple[Any, Any], program: Program) -> Arrays:
    """A run of a copy in float64: for layers that check the types of their weights, and for models with a state."""
    with wide_types():
        return _run(copy.deepcopy(module).double(), call, program)


def refed(
    module: torch.nn.Module, call: tuple[Any, Any], program: Program, inputs: Mapping[str, np.ndarray]
) -> tuple[Any, Any]:
    """The call with other values, by the names of the captured graph's inputs."""
    args, kwargs = call
    args, kwargs = as_padded((args, kwargs))
    arguments = arguments_of(module, args, kwargs)
    names = {entry.path or entry.name: entry.name for entry in program.user_inputs}
    paths = [leaf.path for leaf in leaves_of(arguments)]
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
    fresh = [
        as_value(inputs[names[path]], leaf) if path in names else leaf for path, leaf in zip(paths, leaves, strict=True)
    ]
    return pytree.tree_unflatten(fresh, spec)


def changed_by(program: Program) -> set[str | None]:
    """The buffers and inputs that the model writes to."""
    return {output.updates for output in program.outputs if output.kind is OutputKind.MUTATION}
