"""`while` that counts up to a size, as the `for` over a range that it is, where no `while_loop` gives what it leaves.

while i < x.shape[0]:                    for i in range(i, x.shape[0]):
    found.append(x[i])                       found.append(x[i])
    i += 1                                   i += 1

So does `while len(found) < x.shape[0]`, of which each turn appends one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from torch import SymInt

from fxport.exporter.capture.control_flow.branches import repeated
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.scans import for_each
from fxport.exporter.capture.guards.answers import refusals
from fxport.exporter.capture.sizes.progressions import progression

OTHERWISE = "a turn changes in another way what its test asks for"


def counted(
    test: Callable[[], Any],
    body: Callable[[], Any],
    turn: Callable[[Any], Any],
    count: Callable[[], Any],
    end: Callable[[], Any],
    step: int,
    *,
    dead: Sequence[str],
    late: Sequence[str],
) -> None:
    """Do as `repeated`; where that is refused, run the turns for the numbers that the loop counts.

    Args:
        test: Gives the test's value.
        body: Runs one turn.
        turn: Runs one turn for a number, to which it sets the variable that is counted.
        count: Gives the number that is counted.
        end: Gives the number at which the loop ends.
        step: What each turn adds to the number.
        dead: The variables that a turn binds and that neither another turn nor anything later reads.
        late: Those of which only the value after the last turn is read.

    Raises:
        LoopError: No operator can give what the turns change, or a turn changes the number or the end in another way.
    """
    hidden = refusals()
    known = len(hidden)
    try:
        repeated(test, body, dead=dead, calls=(turn,))
    except LoopError as error:
        first, last = count(), end()
        if not error.is_unrecorded or not all(type(each) in (int, SymInt) for each in (first, last)):
            raise
        del hidden[known:]
        at_end = _expression(last)

        def one(number: Any) -> None:
            before = _expression(count())
            turn(number)
            after = _expression(count())
            # The number itself, or how much longer a list is of which the turns before are not seen to append as much.
            is_next = any(sympy.expand(after - each) == step for each in (_expression(number), before))
            if not is_next:
                raise LoopError(OTHERWISE)

        for_each(progression(first, last, step), one, dead=dead, late=late)
        if sympy.expand(_expression(end()) - at_end) != 0:  # what turns change is another number behind them
            moved = LoopError(OTHERWISE)
            hidden.append(moved)
            raise moved from None


def _expression(number: Any) -> Any:
    return number.node.expr if isinstance(number, SymInt) else sympy.sympify(number)
