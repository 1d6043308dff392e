"""bisect: the first value that differs from PyTorch's, and the operation that brings the difference.

Two questions. The search asks which values of a run of the whole model differ: values are probed in batches, and each
batch leaves the part between the last good and the first bad ones. The trial apart asks which operation differs though
it is given PyTorch's own operands: that one is the cause, all others only pass on what they were given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from fxport.diagnostics import Place
from fxport.ort_runner.cuts import MADE, Cuts, Mark
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import ModelFile, read_model_file
from fxport.ort_runner.parts import Part, part_of
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.session import Runtime
from fxport.ort_runner.trials import Verdict, judged, run_built

BATCH = 64 << 20
"""Bytes of values that are compared in one session; a single larger value is compared alone."""

MOST_SESSIONS = 12
LARGE_CONSTANT = 1 << 20
"""Bytes from which a value that depends on no input is taken for a weight in another form, and is not cut out."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Eager PyTorch's values inside of the model.

    `values(keys, known)` has the results of nodes of the captured graph as `outputs`, and in float64 as `exact`: of a
    run from the inputs, or, with `known`, of runs that start anew from eager's values of those keys. `sizes` are bytes,
    `operators` the names of the ATen ops by node.
    """

    values: Callable[[Collection[str], Collection[str] | None], Samples]
    sizes: Mapping[str, int]
    operators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A value that differs: its place in the user's code, what is wrong with it, and the ONNX nodes that make it.

    `nearby` are the places of other operations that the same ONNX nodes stand for.
    """

    mark: Mark
    operator: str
    place: Place
    verdict: Verdict
    onnx_nodes: tuple[str, ...]
    onnx_types: tuple[str, ...]
    nearby: tuple[Place, ...] = ()


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
    """Search a model on inputs on which its outputs differ.

    Raises ValueError or OSError for a file that is no model. What ONNX Runtime refuses is a `reason`.
    """
    search = _Search(Path(model_path), samples, reference, runtime, batch)
    if not search.marks:
        return Divergence(None, (), 0, 0, "the file does not say which of its values are PyTorch's")
    try:
        return search.run()
    except Failure as failure:
        said = str(failure.facts.get("error", failure.rule.name))
        return Divergence(None, (), search.sessions, len(search.tested), f"ONNX Runtime failed on a part: {said}")


class _Search:
    """The state of one bisection: what was tested, and how many sessions that took."""

    def __init__(self, path: Path, samples: Samples, reference: Reference, runtime: Runtime, batch: int) -> None:
        self.file: ModelFile = read_model_file(path)
        self.cuts = Cuts(path)
        self.samples, self.reference, self.runtime, self.batch = samples, reference, runtime, batch
        self.marks = tuple(mark for mark in self.cuts.marks if self._is_usable(mark))
        self.cut_values = frozenset(mark.value for mark in self.marks)
        self.keys = {mark.value: mark.key for mark in self.marks}
        self.sessions = 0
        self.tested: dict[str, Verdict | None] = {}

    def _is_usable(self, mark: Mark) -> bool:
        size = self.reference.sizes.get(mark.key)
        return size is not None and (mark.varies or size <= LARGE_CONSTANT)

    def run(self) -> Divergence:
        first = self._first()
        if first is None:
            reason = "every operation gives what the captured graph gives"
            return Divergence(None, (), self.sessions, len(self.tested), reason)
        verdict = self.tested[first.value]
        assert verdict is not None
        causes = tuple(self._suspect(mark, each) for mark, each in self._causes(first))
        shown = self._suspect(first, verdict)
        reason = ""
        if not causes:
            tried = "each operation alone is within its error budget" if self.sessions < MOST_SESSIONS else "too large"
            reason = f"the first value that differs is '{first.key}', but {tried}"
        part = self._part(causes[0].mark) if causes else None
        return Divergence(shown, causes, self.sessions, len(self.tested), reason, part)

    # Where the whole model goes wrong ---------------------------------------------------------------------------------

    def _first(self) -> Mark | None:
        """The first value that differs while nothing before it does."""
        bad: Mark | None = None
        sound: set[int] = set()
        while self.sessions < MOST_SESSIONS - 1:
            inside = self.cuts.before(bad.value) if bad else None
            untested = [mark for mark in self.marks if mark.value not in self.tested and mark.order not in sound]
            unknown = [mark for mark in untested if inside is None or mark.order in inside]
            if not unknown:
                break
            chosen = self._spread(unknown, to_the_end=bad is None)
            self._probe(chosen)
            for mark in chosen:
                if self.tested[mark.value] is None:
                    sound |= self.cuts.before(mark.value)
            bad = next((mark for mark in chosen if self.tested[mark.value] is not None), bad)
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

    def _probe(self, marks: Sequence[Mark]) -> None:
        """Run the model with these values as its outputs."""
        model = self.cuts.with_outputs([mark.value for mark in marks])
        want = self._wanted(marks, None)
        found = self._judged(model, self.samples.inputs, want)
        self.tested |= {mark.value: found.get(mark.value) for mark in marks}

    # What goes wrong by itself ----------------------------------------------------------------------------------------

    def _causes(self, first: Mark) -> list[tuple[Mark, Verdict]]:
        """Operations that differ on PyTorch's own operands: that of `first` first, the others in their order.

        Beside `first` whatever else differs is tried, as far as it fits into a batch. If `first` only passes on what
        it was given, what comes before it is tried, from the nearest on.
        """
        others = [mark for mark in self.marks if self.tested.get(mark.value) is not None and mark != first]
        inside = self.cuts.before(first.value)
        before = [mark for mark in reversed(self.marks) if mark.order in inside and mark != first]
        pending = list(dict.fromkeys([first, *others, *before]))
        found: dict[Mark, Verdict] = {}
        while pending and self.sessions < MOST_SESSIONS and not found:
            chosen = list(self._fitting(pending, self._size_apart))
            found = self._apart(chosen)
            done = frozenset(chosen)
            pending = [mark for mark in pending if mark not in done]
        ranked = sorted(found, key=lambda mark: (mark != first, mark.order))
        return [(mark, found[mark]) for mark in ranked]

    def _apart(self, marks: Sequence[Mark]) -> dict[Mark, Verdict]:
        """Run the operations of these values, each on PyTorch's values of its operands."""
        model, want = self._cut(marks)
        found = self._judged(model, want.inputs, want)
        return {mark: found[name] for mark in marks if (name := mark.value + MADE) in found}

    def _cut(self, marks: Sequence[Mark]) -> tuple[onnx.ModelProto, Samples]:
        """The model that makes these values of the values before them, and what PyTorch has for both."""
        values = [mark.value for mark in marks]
        model = self.cuts.apart(values, self.cut_values)
        fed = [value.name for value in model.graph.input if value.name in self.cut_values]
        held = self.reference.values({self.keys[name] for name in (*values, *fed)}, frozenset(self.keys.values()))
        inputs = {**self.samples.inputs, **{name: held.outputs[self.keys[name]] for name in fed}}
        return model, _renamed(held, {mark.value + MADE: mark.key for mark in marks}, inputs)

    def _part(self, mark: Mark) -> Part:
        model, samples = self._cut([mark])
        return part_of(model, samples, self.file.path.parent)

    # Both ---------------------------------------------------------------------------------------------------------

    def _judged(self, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], want: Samples) -> Mapping[str, Verdict]:
        self.sessions += 1
        opened, outputs, sums = run_built(model, self.file, inputs, self.runtime)
        return judged(want, outputs, opened, sums)

    def _wanted(self, marks: Sequence[Mark], known: Collection[str] | None) -> Samples:
        held = self.reference.values([mark.key for mark in marks], known)
        return _renamed(held, {mark.value: mark.key for mark in marks}, {})

    def _size(self, mark: Mark) -> int:
        return self.reference.sizes[mark.key]

    def _size_apart(self, mark: Mark) -> int:
        fed = self.cuts.feeds([mark.value], self.cut_values)
        return self._size(mark) + sum(self.reference.sizes[self.keys[name]] for name in fed)

    def _suspect(self, mark: Mark, verdict: Verdict) -> Suspect:
        group = self.cuts.group(mark.value, self.cut_values)
        places = {place.node: place for place in self.file.places}
        here = [self.file.place_of_node(node.name) for node in group]
        own = places.get(mark.fx_node) or self.file.place_of_value(mark.value)
        nearby = tuple(
            dict.fromkeys(places[place.node] for place in here if place.node in places and place.node != mark.fx_node)
        )
        operator = self.reference.operators.get(mark.fx_node, mark.fx_node)
        types = tuple(dict.fromkeys(node.op_type for node in group))
        return Suspect(mark, operator, own, verdict, tuple(node.name for node in group), types, nearby)


def _renamed(held: Samples, names: Mapping[str, str], inputs: Mapping[str, np.ndarray]) -> Samples:
    """Samples by other names: each name here, and its key there."""
    exact = held.exact or {}
    return Samples(
        held.label,
        inputs,
        {name: held.outputs[key] for name, key in names.items()},
        {name: exact[key] for name, key in names.items() if key in exact},
    )
