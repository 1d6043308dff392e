"""bisect: the first value that differs from PyTorch's, and the operation that brings the difference.

Two questions. The search asks which values of a run of the whole model differ: values are probed in batches, and each
batch leaves the part between the last good and the first bad ones. The trial apart asks which operation differs though
it is given PyTorch's own operands: that one is the cause, all others only pass on what they were given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx

from fxport.diagnostics import Place
from fxport.ort_runner.cuts import MADE, Cuts, Mark
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import ModelFile, read_model_file
from fxport.ort_runner.parts import Part, part_of
from fxport.ort_runner.providers import choose
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.session import Opened, Runtime
from fxport.ort_runner.trials import Verdict, judged, run_built

BATCH = 64 << 20
"""Bytes of values that are compared in one session; a single larger value is compared alone."""

MOST_SESSIONS = 12
LARGE_CONSTANT = 1 << 20
"""Bytes from which a value that depends on no input is taken for a weight in another form, and is not cut out."""


NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reference:
    """Eager PyTorch's values inside of the model.

    `values(keys, known)` has the results of nodes of the captured graph as `outputs`, and in float64 as `exact`: of a
    run from the inputs, or, with `known`, of runs that start anew from eager's values of those keys. `sizes` are bytes,
    `operators` the names of the ATen ops by node, `results` the keys of the model's outputs, in order.

    `lost(key, known, read, got)` names the node, of those that lie between the `known` keys and `key`, without which
    the value of `key` is what the model gives, `got`; None for `got` stands for a failure. `read` are the keys that the
    model makes it of.
    """

    values: Callable[[Collection[str], Collection[str] | None], Samples]
    sizes: Mapping[str, int]
    operators: Mapping[str, str] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    lost: Callable[[str, Collection[str], Collection[str], np.ndarray | None], str | None] | None = None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A value that differs: its place in the user's code, what is wrong with it, and the ONNX nodes that make it.

    `nearby` are the places of other operations that the same ONNX nodes stand for. `is_lost` says that the operation is
    not in the model, and that the value is one that was made without it.
    """

    mark: Mark
    operator: str
    place: Place
    verdict: Verdict
    onnx_nodes: tuple[str, ...]
    onnx_types: tuple[str, ...]
    nearby: tuple[Place, ...] = ()
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Divergence:
    """Result of a bisection.

    `first` is the first value that differs in a run of the whole model; `causes` are the operations that differ even
    when given PyTorch's operands, the one behind `first` at the front, and `part` is that one alone. Without a cause,
    `reason` says why.
    """

    first: Suspect | None
    causes: tuple[Suspect, ...]
    sessions: int
    compared: int
    reason: str = ""
    part: Part | None = None

    @property
    def cause(self) -> Suspect | None:
        """The operation that brought the difference, where that can be told."""
        return self.causes[0] if self.causes else None


def bisect(
    model_path: str | os.PathLike[str],
    samples: Samples,
    reference: Reference,
    runtime: Runtime,
    *,
    batch: int = BATCH,
) -> Divergence:
    """Search a model on inputs on which its outputs differ. What leads to none of the outputs of `samples` is no cause.

    Raises ValueError or OSError for a file that is no model. What ONNX Runtime refuses differs.
    """
    search = _Search(Path(model_path), samples, reference, runtime, batch)
    if not search.marks:
        return Divergence(None, (), 0, 0, "the file does not say which of its values are PyTorch's")
    return search.run()


class _Search:
    """The state of one bisection: what was tested, and how many sessions that took."""

    def __init__(self, path: Path, samples: Samples, reference: Reference, runtime: Runtime, batch: int) -> None:
        self.file: ModelFile = read_model_file(path)
        self.cuts = Cuts(path, reference.results)
        self.samples, self.reference, self.runtime, self.batch = samples, reference, runtime, batch
        self.marks = tuple(mark for mark in self.cuts.marks if self._is_usable(mark))
        self.keys = {mark.value: mark.key for mark in self.marks if mark.order >= 0}
        self.known = frozenset(mark.key for mark in self.marks)
        leading = self.cuts.leading_to(samples.outputs)
        self.sought = tuple(mark for mark in self.marks if mark.value in leading)
        self.sessions = 0
        self.tested: dict[str, Verdict | None] = {}
        self.made: dict[str, np.ndarray] = {}

    @property
    def cut_values(self) -> Collection[str]:
        """The values at which the model is cut apart."""
        return self.keys.keys()

    def _is_usable(self, mark: Mark) -> bool:
        size = self.reference.sizes.get(mark.key)
        if size is None or not (mark.varies or size <= LARGE_CONSTANT):
            return False
        return mark.order >= 0 or self._held(mark) is not None

    def _held(self, mark: Mark) -> np.ndarray | None:
        """The values of an input or a constant."""
        return self.samples.inputs.get(mark.value, self.cuts.constant(mark.value))

    def run(self) -> Divergence:
        first = self._first()
        if first is None:
            reason = "every operation gives what the captured graph gives"
            return Divergence(None, (), self.sessions, len(self.tested), reason)
        verdict = self.tested[first.key]
        assert verdict is not None
        found = self._causes(first)
        alone = [] if found or first.is_copy else self._of_two(first)
        causes = tuple(self._suspect(mark, each) for mark, each in found or alone)
        shown = self._suspect(first, verdict)
        reason = ""
        if not causes:
            tried = "each operation alone is within its error budget" if self.sessions < MOST_SESSIONS else "too large"
            reason = f"the first value that differs is '{first.key}', but {tried}"
        part = self._part(causes[0].mark) if found else None
        if found and (lost := self._lost(found[0][0])):
            causes = (self._without(causes[0], lost), *causes[1:])
        return Divergence(shown, causes, self.sessions, len(self.tested), reason, part)

    # Where the whole model goes wrong ---------------------------------------------------------------------------------

    def _first(self) -> Mark | None:
        """The first value that differs while nothing before it does."""
        bad: Mark | None = None
        sound: set[int] = set()
        while self.sessions < MOST_SESSIONS - 1:
            inside = self.cuts.before(bad.value) if bad else None
            untested = [mark for mark in self.sought if mark.key not in self.tested and mark.order not in sound]
            unknown = [mark for mark in untested if bad is None or inside is None or _is_before(mark, bad, inside)]
            if not unknown:
                break
            chosen = self._spread(unknown, to_the_end=bad is None)
            found = self._probed(chosen)
            self.tested |= {mark.key: verdict for mark, verdict in found.items()}
            for mark in chosen:
                if mark in found and found[mark] is None:
                    sound |= self.cuts.before(mark.value) - {mark.order}
            bad = next((mark for mark in chosen if found.get(mark) is not None), bad)
        return bad

    def _spread(self, marks: Sequence[Mark], *, to_the_end: bool) -> list[Mark]:
        """All of them if they fit into a batch, else as many as do, at even distances."""
        total = sum(self._size(mark) for mark in marks)
        if total <= self.batch:
            return list(marks)
        count = max(1, int(len(marks) * self.batch / total))
        parts = count if to_the_end else count + 1
        chosen = {max(0, (i + 1) * len(marks) // parts - 1) for i in range(count)}
        return list(self._fitting([marks[i] for i in sorted(chosen)], self._size))

    def _fitting(self, marks: Sequence[Mark], size: Callable[[Mark], int]) -> Iterator[Mark]:
        """The first, and of the others those that fit into a batch with it."""
        room = self.batch
        for number, mark in enumerate(marks):
            if number == 0 or size(mark) <= room:
                room -= size(mark)
                yield mark

    def _probed(self, marks: Sequence[Mark]) -> dict[Mark, Verdict | None]:
        """Run the model with these values as its outputs."""
        values = list(dict.fromkeys(mark.value for mark in marks if mark.order >= 0))
        held = self.reference.values([mark.key for mark in marks], None)
        arrays = {mark.value: array for mark in marks if mark.order < 0 and (array := self._held(mark)) is not None}
        return self._run(marks, held, arrays, lambda: self.cuts.with_outputs(values) if values else None, self._probed)

    # What goes wrong by itself ----------------------------------------------------------------------------------------

    def _causes(self, first: Mark) -> list[tuple[Mark, Verdict]]:
        """Operations that differ on PyTorch's own operands: that of `first` first, the others in their order.

        Beside `first` whatever else differs is tried, as far as it fits into a batch. If `first` only passes on what
        it was given, what comes before it is tried, from the nearest on. What reads a copy that differs is no other
        cause: which of PyTorch's values it was to read cannot be told.
        """
        copies = {mark.value for mark in self.sought if mark.is_copy and self.tested.get(mark.key) is not None}
        others = [mark for mark in self.sought if self.tested.get(mark.key) is not None and mark != first]
        others = [mark for mark in others if not copies.intersection(self._reads(mark))]
        inside = self.cuts.before(first.value)
        before = [mark for mark in reversed(self.sought) if mark != first and _is_before(mark, first, inside)]
        pending = list(dict.fromkeys([first, *others, *before]))
        found: dict[Mark, Verdict] = {}
        while pending and self.sessions < MOST_SESSIONS and not found:
            chosen = list(self._fitting(pending, self._size_apart))
            tried = self._apart(chosen)
            found = {mark: verdict for mark, verdict in tried.items() if verdict is not None}
            pending = [mark for mark in pending if mark not in tried]
        ranked = sorted(found, key=lambda mark: (mark != first, mark.position))
        return [(mark, found[mark]) for mark in ranked]

    def _reads(self, mark: Mark) -> Collection[str]:
        """The values that the nodes read which make a value of the cut ones before it."""
        return {name for node in self.cuts.group(mark.value, self.cut_values) for name in node.input}

    def _of_two(self, first: Mark) -> list[tuple[Mark, Verdict]]:
        """The operand that makes `first` differ, though each is within its budget on PyTorch's values: an error of one
        number is little, and the same error of all that is multiplied by it is much."""
        for name in self.cuts.feeds([first.value], self.cut_values):
            operand = next((mark for mark in self.sought if mark.value == name and not mark.is_copy), None)
            if operand is None or self.sessions >= MOST_SESSIONS:
                continue
            verdict = self._apart([first], frozenset(self.cut_values) - {name}).get(first)
            if verdict is not None:
                return [(operand, verdict)]
        return []

    def _apart(self, marks: Sequence[Mark], cuts: Collection[str] | None = None) -> dict[Mark, Verdict | None]:
        """Run the operations of these values, each on PyTorch's values of its operands, which are the `cuts`."""
        cuts = self.cut_values if cuts is None else cuts
        values = list(dict.fromkeys(mark.value for mark in marks if not mark.is_copy))
        model = self.cuts.apart(values, cuts) if values else None
        fed = [value.name for value in model.graph.input if value.name in cuts] if model else []
        asked = {*(mark.key for mark in marks), *(mark.given for mark in marks if mark.given in self.known)}
        held = self.reference.values(asked | {self.keys[name] for name in fed}, self.known)
        arrays = {mark.key: array for mark in marks if mark.is_copy and (array := self._given(mark, held)) is not None}
        inputs = {name: held.outputs[self.keys[name]] for name in fed}
        return self._run(marks, held, arrays, lambda: model, self._apart, inputs=inputs)

    def _given(self, mark: Mark, held: Samples) -> np.ndarray | None:
        """Return the source of a copy: PyTorch's value, or an input or a constant of the model."""
        return held.outputs[mark.given] if mark.given in self.known else self._held(mark)

    def _part(self, mark: Mark) -> Part:
        """The model that makes this value of the values before it, and what PyTorch has for both."""
        name = mark.value + MADE
        asked = {mark.key, mark.given} & self.known
        if mark.is_copy:
            held = self.reference.values(asked, self.known)
            given = self._given(mark, held)
            inputs = {} if given is None else {mark.value: given}
            return part_of(
                self.cuts.copy_of(mark.value), _renamed(held, {name: mark.key}, inputs), self.file.path.parent
            )
        model = self.cuts.apart([mark.value], self.cut_values)
        fed = [value.name for value in model.graph.input if value.name in self.cut_values]
        held = self.reference.values({mark.key, *(self.keys[each] for each in fed)}, self.known)
        inputs = {**self.samples.inputs, **{each: held.outputs[self.keys[each]] for each in fed}}
        return part_of(model, _renamed(held, {name: mark.key}, inputs), self.file.path.parent)

    def _lost(self, mark: Mark) -> str | None:
        """The node of the captured graph that is not in the model, and without which the value is what it is."""
        if self.reference.lost is None or mark.is_copy:
            return None
        read = {self.keys[name] for name in self.cuts.feeds([mark.value], self.cut_values)}
        return self.reference.lost(mark.key, self.known - {mark.key}, read, self.made.get(mark.key))

    # Both ---------------------------------------------------------------------------------------------------------

    def _run(
        self,
        marks: Sequence[Mark],
        held: Samples,
        arrays: Mapping[str, np.ndarray],
        build: Callable[[], onnx.ModelProto | None],
        again: Callable[[Sequence[Mark]], dict[Mark, Verdict | None]],
        *,
        inputs: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[Mark, Verdict | None]:
        """Run a model and judge these marks, by the names of their values in it or, in `arrays`, by what they are.

        Without a model, all are in `arrays`. Where ONNX Runtime fails, the first half is run alone, and the second if
        that is right: what is left out of the result was not run.
        """
        opened, outputs, sums = Opened((), (), choose(self.runtime.provider)), NOTHING, 0.0
        try:
            if (model := build()) is not None:
                fed = {**self.samples.inputs, **inputs}
                opened, outputs, sums = run_built(model, self.file, fed, self.runtime)
                self.sessions += 1
        except Failure as failure:
            if len(marks) == 1:
                return {marks[0]: Verdict(failure.rule, failure.facts)}
            half = len(marks) // 2
            first = again(marks[:half])
            return first if any(first.values()) else first | again(marks[half:])
        got = {mark: _first_of(mark, arrays, outputs) for mark in marks}
        self.made |= {mark.key: array for mark, array in got.items() if array is not None}
        want = _renamed(held, {mark.key: mark.key for mark in marks}, {})
        found = judged(want, {mark.key: array for mark, array in got.items() if array is not None}, opened, sums)
        return {mark: found.get(mark.key) for mark in marks}

    def _size(self, mark: Mark) -> int:
        return self.reference.sizes[mark.key]

    def _size_apart(self, mark: Mark) -> int:
        fed = self.cuts.feeds([mark.value], self.cut_values)
        return self._size(mark) + sum(self.reference.sizes[self.keys[name]] for name in fed)

    def _suspect(self, mark: Mark, verdict: Verdict) -> Suspect:
        group = [] if mark.is_copy else self.cuts.group(mark.value, self.cut_values)
        places = {place.node: place for place in self.file.places}
        here = [self.file.place_of_node(node.name) for node in group]
        own = places.get(mark.fx_node) or self.file.place_of_value(mark.value)
        nearby = tuple(
            dict.fromkeys(places[place.node] for place in here if place.node in places and place.node != mark.fx_node)
        )
        operator = self.reference.operators.get(mark.fx_node, mark.fx_node)
        types = tuple(dict.fromkeys(node.op_type for node in group))
        return Suspect(mark, operator, own, verdict, tuple(node.name for node in group), types, nearby)

    def _without(self, suspect: Suspect, name: str) -> Suspect:
        """The suspicion falls on the node of this name, which the model lost."""
        places = {place.node: place for place in self.file.places}
        place = places.get(name, suspect.place)
        operator = self.reference.operators.get(name, name)
        return replace(suspect, operator=operator, place=place, nearby=(suspect.place, *suspect.nearby), is_lost=True)


def _is_before(mark: Mark, other: Mark, inside: Collection[int]) -> bool:
    """Return True if a value takes part in making another one; `inside` are the nodes that make that one."""
    if mark.value == other.value:
        return mark.rank < other.rank
    return mark.order in inside or (mark.order < 0 <= other.order)


def _first_of(mark: Mark, arrays: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The array of a mark, by its key or its value, or of what its nodes made."""
    names = (mark.key, mark.value) if mark.is_copy or mark.value + MADE not in outputs else (mark.value + MADE,)
    return next((each[name] for each in (arrays, outputs) for name in names if name in each), None)


def _renamed(held: Samples, names: Mapping[str, str], inputs: Mapping[str, np.ndarray]) -> Samples:
    """Samples by other names: each name here, and its key there."""
    exact = held.exact or {}
    return Samples(
        held.label,
        inputs,
        {name: held.outputs[key] for name, key in names.items()},
        {name: exact[key] for name, key in names.items() if key in exact},
    )
