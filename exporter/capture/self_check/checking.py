"""Check a capture: the captured program and the model in eager PyTorch, side by side at several calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from fxport.diagnostics import Finding, Level, Log, Place, rules
from fxport.exporter.capture.arguments.inputs import arguments_of, has_one_twice, leaves_of
from fxport.exporter.capture.eager import INPUTS_THAT_RUN, TookTooLongError, called, copied, patience, restored
from fxport.exporter.capture.fake import drawn_weights, has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.patches.outside import effect_of
from fxport.exporter.capture.patches.process import gpus_in_use, restore_process
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.self_check.assumed import is_presumption, report_difference
from fxport.exporter.capture.self_check.differences import Results, difference
from fxport.exporter.capture.self_check.inputs import LEAST, Call, Sizes, at_given, at_sizes, drawn
from fxport.exporter.capture.self_check.running import Recorder, bodies_of, prepared, words_of, written_to
from fxport.exporter.capture.sizes.resizing import known_sizes, promised, takes
from fxport.exporter.capture.sizes.shapes import Request
from fxport.exporter.capture.snapshot import Snapshot
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.program import Condition, InputKind, OutputKind, Program

SECONDS = 5.0
"""Of this thread's own time, after which no further values are drawn: other load on the machine changes no finding."""

MOST_VALUES = 1 << 26
"""Weights without values that are drawn for a check, at most: 256 MB of float32."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of the check.

    Attributes:
        program: The capture, with the conditions on its sizes.
        module: The model.
        call: The example's args and kwargs.
        at: The lines that were rewritten or presumed, in the order of the trace.
        dims: The dynamic dimensions by their symbols.
        told: Names of state of which a finding says already that the graph does not have its new value.
        assumed: Findings that tell what the graph leaves out.
        beyond: Sizes at which to check, beside those that are chosen for every model.
        others: Sizes at which to check until all bodies of control flow have run.
    """

    program: Program
    module: torch.nn.Module
    call: Call
    at: Sequence[Place | None]
    dims: Mapping[sympy.Symbol, Request] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    assumed: Sequence[Finding] = ()
    beyond: Sequence[Sizes] = ()
    others: Sequence[Sizes] = ()


class CannotCompareError(Exception):
    """A capture cannot be checked: why, in a clause that begins with "it" or "its", and fixes in words, if any."""


STATE = (rules.STATE_LOST, rules.PYTHON_STATE_BAKED, rules.LAYER_MADE)
"""The rules that say that the graph does not follow some state."""


def told_in(found: Sequence[Finding]) -> frozenset[str]:
    """Return the names of the state that findings say is not followed."""
    return frozenset(str(each.facts["name"]) for each in found if each.rule in STATE)


def check(subject: Subject, log: Log) -> Sequence[Condition]:
    """Run a captured program beside the model, and report where they differ. Both are left as they are.

    Reports FXP1033 for a difference, FXP1034 for what no call reached, FXP1035 where nothing can be compared, and
    FXP2002 for a dimension at whose size 1 they differ: PyTorch traces a dynamic size as if it were larger.

    Returns:
        Conditions on sizes that come on top of the program's: those of FXP2002.
    """
    try:
        with restore_process(), runnable(subject.module, subject.call):
            return _Check(subject, log).run()
    except CannotCompareError as error:
        reason, *fixes = error.args
        place = next((each for each in subject.at if each is not None), None) or place_of_module(subject.module)
        log.report(rules.CAPTURE_UNCHECKED, at=place, fixes=fixes, reason=reason)
        return ()


def check_inputs(subject: Subject, own: Call, log: Log) -> None:
    """Report FXP1038 if a model can tell that the example passes one tensor twice; `own` is the call without that.

    Nothing is reported of a model that cannot be run here.
    """
    if not has_one_twice(subject.call):
        return
    with (
        suppress(CannotCompareError),
        restore_process(),
        runnable(subject.module, subject.call),
    ):
        _Check(subject, log).compare_inputs(own)


@contextmanager
def runnable(module: torch.nn.Module, call: Call) -> Iterator[None]:
    """Give weights without values small random ones for a while; raise CannotCompareError where that cannot be."""
    ranks = torch.distributed
    if ranks.is_available() and ranks.is_initialized() and ranks.get_world_size() > 1:
        raise CannotCompareError("it runs on several ranks, which would have to call it together")
    if any(isinstance(each, Tensor) and has_no_values(each) for each in pytree.tree_leaves(call)):
        raise CannotCompareError("its example inputs have no values")
    held = [*module.parameters(), *module.buffers()]
    if sum(each.numel() for each in held if has_no_values(each)) > MOST_VALUES:
        raise CannotCompareError("its weights have no values, and are too many to draw")
    with drawn_weights(module):
        yield


def _seed(seed: int) -> None:
    """Seed the generators that are in use; `torch.manual_seed` would also seed those that are started later."""
    torch.default_generator.manual_seed(seed)
    if gpus_in_use():
        torch.cuda.manual_seed_all(seed)


class _Check:
    """One check: what is compared, and which bodies of control flow have run so far."""

    def __init__(self, subject: Subject, log: Log) -> None:
        self.subject, self.log, self.module = subject, log, subject.module
        self.program = prepared(subject.program)
        self.bodies = [*bodies_of(self.program.graph_module)]
        self.state = Snapshot.of({"": self.module})
        self.first = _first_names(self.module)
        written = {self.first.get(name, name) for name in written_to(self.program)}
        self.kept = sorted({name for name, _ in self.module.named_buffers()} | written)
        self.conditions: list[Condition] = []
        self.reached: set[GraphModule] = set()
        self.proven: set[GraphModule] = set()
        self.seconds, self.ended = 0.0, 0
        self.on_example: Results | None = None
        """Results of the model on the example, until they are compared."""

    def run(self) -> Sequence[Condition]:
        """Compare both at all calls, up to the first at which they differ."""
        self.require_repeatable()
        if all(self.agrees(*each) for each in self.calls()) and not self.is_presumed:
            self.report_unreached()
        return self.conditions

    def require_repeatable(self) -> None:
        """Raise CannotCompareError for a model that does not run, or that gives something else each time."""
        begun = time.monotonic()
        try:
            results = [self.in_eager(self.subject.call, seed) for seed in (0, 1)]
        except Exception as error:  # the model's own; what fails for it is told where it is run to explain that
            if is_our_fault(error):
                raise
            raise CannotCompareError("it does not run in PyTorch on the example", INPUTS_THAT_RUN) from None
        self.seconds = (time.monotonic() - begun) / len(results)
        if difference(*results) is not None:
            raise CannotCompareError("it gives other results each time that it runs")
        self.on_example = results[0]

    def calls(self) -> Iterator[tuple[str, Call]]:
        """Yield the example, other sizes, and drawn values until all bodies of control flow have run."""
        begun, call = time.thread_time(), self.subject.call
        if not self.allows(call):
            raise CannotCompareError("its conditions on sizes leave the example out")
        yield "the example", call
        if self.is_presumed:  # others may be those that the presumption leaves out
            return
        program, beyond, others = self.subject.program, self.subject.beyond, self.subject.others
        sized = [*at_sizes(self.module, call, program), *at_given(self.module, call, program, beyond)]
        yield from sized
        for further in (at_given(self.module, call, program, others), drawn([call, *(each for _, each in sized)])):
            for number, each in enumerate(further):
                if self.ended or time.thread_time() - begun > SECONDS or (number >= LEAST and self.all_reached):
                    break
                yield each

    @property
    def is_presumed(self) -> bool:
        """True if a finding says that the graph leaves some values out."""
        return any(map(is_presumption, self.subject.assumed))

    @property
    def all_reached(self) -> bool:
        return all(body.gm in self.reached for body in self.bodies)

    def agrees(self, words: str, call: Call) -> bool:
        """Compare both at a call, and report the first difference; a call for which the model raises says nothing."""
        if not self.allows(call):
            return True
        try:
            with nullcontext() if call is self.subject.call else patience(self.program.graph_module, self.seconds):
                want = self.wanted(call)
        except Exception as error:  # the model's own: it is not for this call
            if is_our_fault(error):
                raise
            self.ended += isinstance(error, TookTooLongError)
            return True
        reached: set[GraphModule] = set()
        try:
            got = self.in_graph(call, reached)
        except CannotCompareError:
            raise
        except Exception as error:  # noqa: BLE001  # any is one that the model does not raise
            different = ("the captured program", f"{type(error).__name__}: {error}".splitlines()[0], "results")
        else:
            different = difference(got, want)
        self.reached |= reached
        if different is None:
            self.proven |= reached
            return True
        name, given, wanted = different
        if small := self.small_dims(call):
            self.narrow(small, self.to_blame(name, reached))
            return True
        facts: Mapping[str, Any] = {"result": name, "got": given, "want": wanted, "call": words}
        example = (self.module, self.subject.call)
        report_difference(self.to_blame(name, reached), facts, self.subject.assumed, example, self.log)
        return False

    def compare_inputs(self, own: Call) -> None:
        """Report where the model gives something else for the example than for a call with inputs of their own."""
        call = self.subject.call
        try:
            different = difference(self.in_eager(own), self.in_eager(call))
        except Exception as error:  # the model's own, as in `require_repeatable`
            if is_our_fault(error):
                raise
            raise CannotCompareError("it does not run in PyTorch on the example") from None
        if different is not None:
            facts: Mapping[str, Any] = dict(zip(("result", "got", "want"), different, strict=True))
            inputs = "; ".join(" and ".join(f"'{path}'" for path in paths) for paths in self.passed_twice(call))
            self.log.report(rules.INPUTS_ARE_ONE, at=place_of_module(self.module), inputs=inputs, **facts)

    def passed_twice(self, call: Call) -> list[list[str]]:
        """Return the paths of inputs that are one tensor in a call; they are several in the captured program."""
        paths: dict[int, list[str]] = {}
        for path, value in self.arguments(call).items():
            if isinstance(value, Tensor):
                paths.setdefault(id(value), []).append(path)
        return [each for each in paths.values() if len(each) > 1]

    def allows(self, call: Call) -> bool:
        """Return whether the program is one for the sizes of a call."""
        program = replace(self.subject.program, conditions=(*self.subject.program.conditions, *self.conditions))
        return takes(self.module, call, program) and promised(self.module, call, program)

    def small_dims(self, call: Call) -> dict[sympy.Symbol, Request]:
        """Return the dynamic dimensions that have the size 1 in a call and not in the example."""
        known, example = (known_sizes(self.module, each, self.subject.program) for each in (call, self.subject.call))
        return {symbol: dim for symbol, dim in self.subject.dims.items() if known.get(symbol) == 1 != example[symbol]}

    def narrow(self, dims: Mapping[sympy.Symbol, Request], at: Place | None) -> None:
        """Report that dimensions cannot have the size 1."""
        for symbol, dim in dims.items():
            facts: Mapping[str, Any] = {"dim": dim.label, "input": dim.input, "axis": dim.axis, "range": "at least 2"}
            self.log.report(rules.DIMENSION_RANGE_NARROWED, at=at, level=None if dim.required else Level.NOTE, **facts)
            self.conditions.append(Condition(f"{dim.label}: at least 2", (sympy.Ge(symbol, 2),)))

    def wanted(self, call: Call) -> Results:
        """Return what the model gives; on the example that is known from `require_repeatable`, of the same seed."""
        known, self.on_example = self.on_example, None
        return self.in_eager(call) if known is None or call is not self.subject.call else known

    def in_eager(self, call: Call, seed: int = 0) -> Results:
        """Return what the model gives: outputs, and what buffers, the call's tensors and attributes are afterwards."""
        _seed(seed)
        with restored(self.module, self.kept, self.state):
            results, own = called(self.module, call)
            leaves = pytree.tree_leaves(results)
            found: Results = dict(zip(self.outputs, leaves, strict=False))
            if len(leaves) != len(self.outputs):
                found["the number of results"] = len(leaves)
            tensors = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
            tensors = {**self.program.tensors, **tensors}  # a constant is the model's own tensor
            found |= {_afterwards(name): tensors.get(name) for name in self.kept}
            found |= {_afterwards(path): value for path, value in self.arguments(own).items()}
            found |= {_afterwards(name): value for name, value in self.changed_attributes()}
            return pytree.tree_map_only(Tensor, lambda each: each.detach().clone(), found)

    def in_graph(self, call: Call, reached: set[GraphModule]) -> Results:
        """Return what the captured program gives, by the same names."""
        _seed(0)
        arguments = self.arguments(copied(call))
        values = [
            arguments[entry.path or entry.name] if entry.kind is InputKind.USER else self.weight(entry.target or "")
            for entry in self.program.inputs
        ]
        tensors = {name: self.weight(name) for name in self.kept}
        found: Results = {_afterwards(name): value for name, value in (tensors | arguments).items()}
        with torch.no_grad():
            results = Recorder(self.program.graph_module, reached).run(*values)
        return found | dict(zip(self.results, results, strict=True))

    def arguments(self, call: Call) -> dict[str, Any]:
        """Return the tensors and numbers of a call by their paths."""
        return {leaf.path: leaf.value for leaf in leaves_of(arguments_of(self.module, *call))}

    def weight(self, name: str) -> Tensor:
        """Return a parameter, buffer or constant as the program has it; one without values as it was drawn."""
        found = self.program.tensors.get(name)
        if found is None or has_no_values(found):
            found = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}.get(name)
        if found is None or has_no_values(found):
            raise CannotCompareError(f"its tensor '{name}' has no values")
        return found

    @property
    def outputs(self) -> list[str]:
        """The names of what `forward` returns."""
        return [each.name for each in self.program.outputs if each.kind is not OutputKind.MUTATION]

    @property
    def results(self) -> list[str]:
        """The names of all results of the graph, in their order."""
        targets = {entry.name: self.first.get(entry.target or "", entry.target) for entry in self.program.inputs}
        inputs = {entry.name: targets[entry.name] or entry.path or entry.name for entry in self.program.inputs}
        nodes = zip(self.program.placeholders, self.program.inputs, strict=True)
        inputs = {node.name: inputs[entry.name] for node, entry in nodes} | inputs
        return [
            each.name if each.updates is None else _afterwards(inputs.get(each.updates, each.updates))
            for each in self.program.outputs
        ]

    def changed_attributes(self) -> Iterator[tuple[str, Any]]:
        """Yield what state other than tensors has changed, by name, where no finding says that it is not followed."""
        for change in self.state.changes():
            effect = effect_of(change)
            if effect is not None and not change.holder.kind.is_random and effect.name not in self.subject.told:
                yield effect.name, change.after

    def to_blame(self, name: str, reached: set[GraphModule]) -> Place | None:
        """Return the line of the first body that ran, on the way to a result, and was in no call that agreed.

        Where all were, it is the first on that way; where there is none, the first line that was rewritten.
        """
        given: Any = self.program.graph_module.graph.output_node().args[0]
        end = dict(zip(self.results, given, strict=True)).get(name)
        before = _before(end) if isinstance(end, Node) else {body.top for body in self.bodies}
        ran = [body for body in self.bodies if body.gm in reached and body.top in before]
        ran.sort(key=lambda body: body.gm in self.proven)
        places = [*(place_of(body.node) for body in ran), *self.subject.at, place_of_module(self.module)]
        return next((place for place in places if place is not None), None)

    def report_unreached(self) -> None:
        """Report the bodies that no call has run and that compute something, but not what is within another of them."""
        for body in self.bodies:
            if body.gm not in self.reached and body.computes and (body.around is None or body.around in self.reached):
                words = words_of(body)
                before = (each for each in self.bodies if each.gm in self.reached and body.is_before(each))
                if words in map(words_of, before):
                    words = f"In the first iteration, {words[0].lower()}{words[1:]}"
                self.log.report(rules.BRANCH_UNCHECKED, at=place_of(body.node), branch=words)


def _first_names(module: torch.nn.Module) -> dict[str, str]:
    """Return, by every name of a parameter or buffer, its first: a module that is held twice gives it two."""
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in named}


def _before(end: Node) -> set[Node]:
    """Return a node and all nodes that it depends on."""
    found, waiting = set[Node](), [end]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _afterwards(name: str) -> str:
    return f"'{name}' afterwards"
