"""Loop-carried values: the places that an iteration changes, found by repeated runs until no more are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from fxport.exporter.capture.control_flow.appended import Appended
from fxport.exporter.capture.control_flow.effects import Changes, Effects, Place
from fxport.exporter.capture.control_flow.lifting import Outside, read_by
from fxport.exporter.capture.control_flow.merged import require_unwritten, shared_by
from fxport.exporter.capture.control_flow.merging import UNSET, LoopError, form_of, opaque
from fxport.exporter.capture.control_flow.stacked_items import ListRead
from fxport.exporter.capture.control_flow.views import storage_of

SHARED = "a turn gets from the turn before a tensor to which the turns write by another name"

ROUNDS = 8
"""Each round may show one more place that changes, or another kind of number that one takes."""


class Carried:
    """The places that a turn changes, the form of their values, and those before the first turn.

    Args:
        effects: The snapshot around the loop.
        part: One turn, of the inputs.
        numbers: The symbolic numbers that a turn computes with.
        inputs: Samples of what each turn is given.
        late: Cells of variables of which only the value after the last turn is read.
        is_run: Whether there is a first turn for certain, so that nothing reads what `late` were before.

    Attributes:
        ways: What the places are before the first turn, and behind one that was rehearsed, where tensors travel.
        inherited: What a place may be because another one was it before the first turn: `a, b = b, x`.
        ends: What the places are behind the turn that ran last.
        appended: For each list, the elements that a turn appends.
    """

    def __init__(
        self,
        effects: Effects,
        part: Callable[..., Any],
        numbers: Sequence[Any],
        inputs: Sequence[Tensor] = (),
        late: frozenset[int] = frozenset(),
        is_run: bool = False,
    ) -> None:
        self.effects, self.part, self.late, self.is_run = effects, part, late, is_run
        self.numbers = numbers
        self.ends: tuple[Any, ...] = ()
        changes, known, given = self._observed(inputs, {}), None, list[Tensor]()
        for _ in range(ROUNDS):
            none = [] if is_run else [Changes({}, {}, ())]
            effects.set_aside_undecided(changes, *none)
            effects.require_added_by_all(*none)
            effects.require_new(changes)
            self.form = form_of(self.starts, effects.ends(changes), changing=True)
            found = ([*effects.before], [*effects.grown.items()], self.form.kinds)
            if found == known:
                ends = self.form.leaves_of(effects.ends(changes))
                _require_same_sizes(self.form.leaves_of(self.starts), ends)
                self.inherited = self._inherited(ends, given)
                self.ways = (self.form.leaves_of(self.starts), ends, *self.inherited)
                grown = dict(zip(effects.grown, effects.appended(changes), strict=True))
                self.appended = {holder: [*map(Appended.of, items)] for holder, items in grown.items()}
                for holder in effects.counted:
                    if not all(each.always and not each.is_several for each in self.appended[holder]):
                        raise ListRead(holder.owner, "length")
                return
            known = found
            given = [opaque(each.clone()) for each in self.tensors()]
            changes = self._observed(inputs, self.places(given))
        raise LoopError("its turns change other things from turn to turn")

    def _inherited(self, ends: Sequence[Any], given: Sequence[Tensor]) -> list[list[Any]]:
        starts = self.form.leaves_of(self.starts)
        places = [{*map(storage_of, shared_by(each))} if isinstance(each, Tensor) else set() for each in ends]
        reached = {
            (i, j) for i, found in enumerate(places) for j, each in enumerate(given) if storage_of(each) in found
        }
        for _ in ends:
            reached |= {(i, k) for i, j in reached for other, k in reached if other == j}
        return [
            [starts[j] if at == i else None for at in range(len(ends))]
            for i, j in sorted(reached)
            if i != j or self.is_run
        ]

    def _observed(self, inputs: Sequence[Tensor], values: Mapping[Place, Any]) -> Changes:
        observe = self.effects.observe
        (found,), _ = read_by([lambda *given: observe(self.part, *given, values=values)], inputs, self.numbers)
        return found[1]

    @property
    def starts(self) -> tuple[Any, ...]:
        """Values of the places before the first turn, as `form_of` takes them."""
        pairs = zip(self.effects.before, self.effects.starts(), strict=True)
        return tuple(UNSET if self.is_run and id(holder.owner) in self.late else value for (holder, _), value in pairs)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that the operator begins with."""
        return self.form.tensors(self.starts, whole=self.is_run)

    def places(self, tensors: Sequence[Tensor]) -> dict[Place, Any]:
        """Return the values of the places where the operator carries these tensors."""
        return dict(zip(self.effects.before, self.form.value(tensors), strict=True))

    def turn(self, tensors: Sequence[Tensor], *inputs: Tensor) -> tuple[Changes, list[Tensor], list[Any]]:
        """Run a turn on these carried tensors.

        Returns:
            What it changes; the carried tensors of the next turn; the same before they were copied.

        Raises:
            LoopError: It writes in place to a carried tensor that has other names as well.
        """
        versions = [each._version for each in tensors]
        _, changes = self.effects.run(self.part, self.places(tensors), *inputs)
        self.ends = ends = self.effects.ends(changes)
        leaves = self.form.leaves_of(ends)
        written = [i for i, each in enumerate(tensors) if each._version != versions[i]]
        if written:
            self._require_own(tensors, written, leaves, changes)
        return changes, self.form.tensors(ends), leaves

    def require_unwritten(self, outside: Outside) -> None:
        """Raise LoopError where turns get from each other a tensor to which they write by another name.

        Of `late` variables turns read nothing.
        """
        for values in (self.starts, self.ends or self.starts):
            pairs = zip(self.effects.before, values, strict=True)
            early = [value for (holder, _), value in pairs if id(holder.owner) not in self.late]
            require_unwritten(pytree.tree_leaves(early), outside, SHARED)

    def _require_own(
        self, tensors: Sequence[Tensor], written: Sequence[int], leaves: Sequence[Any], changes: Changes
    ) -> None:
        """`total = 0`, then `total += x` in each turn, writes to a tensor of its own; others may have more names."""
        starts = self.form.leaves_of(self.starts)
        given = [each for items in changes.grown.values() for each, _ in items]
        for i in written:
            others = [each for j, each in enumerate(leaves) if j != i]
            shared = any(
                isinstance(each, Tensor) and storage_of(each) == storage_of(tensors[i]) for each in (*others, *given)
            )
            if leaves[i] is not tensors[i] or isinstance(starts[i], Tensor) or shared:
                raise LoopError("a turn writes in place to a tensor that it got from the turn before")


def _require_same_sizes(starts: Sequence[Any], ends: Sequence[Any]) -> None:
    """Raise LoopError where a tensor has other sizes behind a turn than before it."""
    for one, other in zip(starts, ends, strict=True):
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            pairs = zip(one.shape, other.shape, strict=False)
            if one.dim() != other.dim() or any(statically_known_true(size != end) for size, end in pairs):
                raise LoopError("a turn gives a tensor of other sizes than it gets")
