"""Calls of the model in eager PyTorch that leave the model and its inputs as they were."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from fxport.diagnostics import Fix, Log, rules
from fxport.diagnostics.source import HIDDEN, kind_of, place_of_exception
from fxport.exporter.capture.arguments.padded import call_padded
from fxport.exporter.capture.arguments.strides import laid_out_as
from fxport.exporter.capture.bounds import bounds_checked
from fxport.exporter.capture.failures import first_line
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.input_types import type_advice
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.patches.restoration import is_same, restore_state
from fxport.exporter.capture.places import of_user, place_of_module
from fxport.exporter.capture.snapshot import Snapshot
from fxport.fx_passes.graph import loops_by_data

INPUTS_THAT_RUN = Fix(
    "Give inputs for which `model(*args, **kwargs)` runs in PyTorch: `--inputs FILE` takes them from a file."
)
"""Advice where a model can be exported, and raises an exception on the example."""

LEAST_PATIENCE, MORE_PATIENCE = 2.0, 20.0
"""Seconds, and times what the example takes, for which a call on values of ours may run."""

UNEXPLAINED = (rules.CAPTURE_FAILED, rules.LOWERING_RAISED)
"""They repeat what an exception said, which may be the model's own fault."""


MOST_BYTES = 2**28
"""Of all parameters together, which are copied before a call that may write to any of them."""


UNRECORDED = ("does not require grad", "doesn't require gradient")
"""In what PyTorch says where a gradient, or a hook for it, is asked for and nothing was recorded."""

TAKING_GRADIENTS = frozenset({"grad", "backward"})
"""Names of functions and methods that take gradients."""

_speaking: MutableMapping[torch.nn.Module, bool] = weakref.WeakKeyDictionary()
"""Models, with True for those whose code names them."""


class FailsOnRanks(Exception):
    """A sharded model raised in eager PyTorch, where all ranks run it; the cause is what it raised on rank 0."""


def called(module: torch.nn.Module, call: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
    """Return the results of the module for copies of the inputs, and the copies, to which it may have written.

    Gradients are recorded for a forward that asks for some without turning them on.
    """
    if not _needs_gradients(module, call):
        try:
            return _called(module, call, torch.no_grad())
        except RuntimeError as error:
            if not _is_unrecorded(error):
                raise
            _speaking[module] = True  # by a name that was not found
    return _called(module, call, torch.enable_grad())


def _called(
    module: torch.nn.Module, call: tuple[Any, Any], recording: AbstractContextManager[object]
) -> tuple[Any, tuple[Any, Any]]:
    with recording, bounds_checked(module, call):
        args, kwargs = own = copied(call)
        return call_padded(module, args, kwargs), own


def _needs_gradients(module: torch.nn.Module, call: tuple[Any, Any]) -> bool:
    """Return whether a call asks for gradients that nothing has recorded, as it turns out where it is tried without.

    Only a model whose code speaks of gradients is tried: once more, and what that has changed is put back.
    """
    if not _speaks_of_gradients(module):
        return False
    try:
        with restored(module, may_write_to(module)), restore_process():
            _called(module, call, torch.no_grad())
    except Exception as error:  # noqa: BLE001  # what else it raises, the call itself raises
        return _is_unrecorded(error)
    return False


def _is_unrecorded(error: Exception) -> bool:
    return any(words in str(error) for words in UNRECORDED)


def _speaks_of_gradients(module: torch.nn.Module) -> bool:
    if module not in _speaking:
        found = Snapshot.of({"": module}).functions()
        _speaking[module] = any(
            _takes_gradients(each) for each in found if kind_of(each.__code__.co_filename) != HIDDEN
        )
    return _speaking[module]


def _takes_gradients(function: FunctionType) -> bool:
    """Return whether a function, or one within it, names what takes gradients, also by a name that it was given."""
    named = (function.__globals__.get(each) for each in _names(function.__code__))
    known = {*_names(function.__code__), *(getattr(each, "__name__", "") for each in named)}
    return not TAKING_GRADIENTS.isdisjoint(known)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


class TookTooLongError(Exception):
    """A call of the model was ended, which on values of ours may never end: a loop until data say so."""


class Patience(TorchFunctionMode):
    """Raise TookTooLongError from the model's next call of PyTorch with a tensor, once `seconds` have passed.

    Calls without one set the state of the process, such as that at the end of `no_grad`, which has to be put back.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if time.monotonic() > self.end and any(isinstance(each, torch.Tensor) for each in args):
            raise TookTooLongError(f"it did not end within {self.seconds:.0f} seconds")
        return func(*args, **(kwargs or {}))


@contextmanager
def patience(gm: GraphModule, seconds: float) -> Iterator[None]:
    """End calls that take longer than `seconds` at values of ours, if the graph has a loop that ends by data."""
    if not loops_by_data(gm):
        yield
        return
    limit = max(LEAST_PATIENCE, MORE_PATIENCE * seconds)
    with Patience(limit), interrupted(limit + LEAST_PATIENCE):
        yield


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Raise TookTooLongError once `seconds` have passed, from the next turn of a loop of the user's or of a library.

    A loop over Python's numbers calls no function of PyTorch, in which `Patience` could end it. Python's own and
    PyTorch's functions are not ended, since what they clean up would be left undone. Where a debugger or a measurement
    of coverage traces the process already, nothing is ended.
    """
    if sys.gettrace() is not None:
        yield
        return
    end = time.monotonic() + seconds

    def of_function(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if kind_of(frame.f_code.co_filename) == HIDDEN:
            return None
        line = frame.f_lineno

        def of_line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            nonlocal line
            before, line = line, frame.f_lineno
            if event == "line" and line <= before and time.monotonic() > end:
                raise TookTooLongError(f"it did not end within {seconds:.0f} seconds")
            return of_line

        return of_line

    sys.settrace(of_function)
    try:
        yield
    finally:
        sys.settrace(None)


def copied(call: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the same call with tensors of its own, since a model may write to its inputs.

    A tensor or a container that is passed twice is so in the copy: the model can ask whether two of its inputs are one,
    and find in one what it has put into the other.
    """
    copies: dict[int, tuple[Any, Any]] = {}  # by identity, with what has it: that must live as long

    def copy_of(value: Any) -> Any:
        if id(value) not in copies:
            copies[id(value)] = value, made(value)
        return copies[id(value)][1]

    def made(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return laid_out_as(value, value.detach().clone())
        children, spec = pytree.tree_flatten(value, is_leaf=lambda each: each is not value)
        return value if spec.is_leaf() else pytree.tree_unflatten([*map(copy_of, children)], spec)

    return made(call)


def may_write_to(module: torch.nn.Module) -> set[str | None]:
    """Return the names of tensors that a call of the model may write to: buffers, and parameters that are small enough.

    Of larger ones, the program that was captured tells which the model writes to.
    """
    plain = (each for each in module.named_parameters() if type(each[1]) is torch.nn.Parameter)
    parameters = {name: each for name, each in plain if each.layout is torch.strided and not each.is_inference()}
    small = sum(each.nbytes for each in parameters.values()) <= MOST_BYTES
    return {*(name for name, _ in module.named_buffers()), *(parameters if small else ())}


@contextmanager
def restored(module: torch.nn.Module, names: Collection[str | None], others: Snapshot | None = None) -> Iterator[None]:
    """Put the buffers and parameters of these names back as they were, and all state that is neither.

    `others` is that state, where it has been looked at already and is as it was then.
    """
    state = (*module.named_buffers(remove_duplicate=False), *module.named_parameters(remove_duplicate=False))
    held = {name: tensor for name, tensor in state if name in names}
    before = {name: tensor.detach().clone() for name, tensor in held.items()}
    try:
        with restore_state(others or Snapshot.of({"": module})):
            yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                owner, _, attribute = name.rpartition(".")
                tensor = held[name]
                setattr(
                    module.get_submodule(owner), attribute, tensor if is_same(tensor, value) else tensor.copy_(value)
                )


def failure_in_eager(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """Return what a model raises in eager PyTorch; None for one that runs.

    An ExportedProgram has run when it was captured, and a model without values never does: None for them, too.
    """
    if not isinstance(module, torch.nn.Module):
        return None
    held = (*module.parameters(), *module.buffers(), *pytree.tree_leaves((args, kwargs)))
    if any(isinstance(tensor, torch.Tensor) and has_no_values(tensor) for tensor in held):
        return None
    try:
        with restored(module, may_write_to(module)):
            called(module, (args, kwargs))
    except RefusedError:  # ours: it runs in PyTorch
        return None
    except Exception as error:  # noqa: BLE001  # the user's code raises what it likes
        return error
    return None


def report_failure_in_eager(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], log: Log) -> None:
    """Report, when an export has failed, if the model does not run in PyTorch either.

    The errors that repeat what it raised are then gone from the log's findings. Where there are none of that kind, the
    model is not run.
    """
    if not any(finding.rule in UNEXPLAINED for finding in log.findings):
        return
    error = failure_in_eager(module, args, kwargs)
    if error is None:
        return
    place = place_of_exception(error) or place_of_module(module)
    raised = f"{type(error).__name__}: {first_line(error)}"
    fixes = type_advice(of_user(module), args, kwargs, raised)
    log.report(rules.MODEL_FAILS, at=place, fixes=fixes, name=type(of_user(module)).__name__, error=raised)
    if any(finding.rule is rules.MODEL_FAILS for finding in log.findings):  # who ignores the rule keeps the others
        log.revise(lambda found: [each for each in found if each.rule not in UNEXPLAINED])
