"""A notation for pieces of programs: Python with placeholders.

| in a template | in the program |
|---|---|
| `⟨a\\|b\\|c⟩` | one of the alternatives |
| `$y` | a name of this piece's own: `y3` |
| `$T`, `$T2` | a tensor in scope of the shape of the input, the same at each place |
| `$R`, `$R2` | a row in scope, or one of a tensor: 4 numbers |
| `$N`, `$N2` | a number in scope, or a literal |
| `$E`, `$ER` | an expression of the shape of the input, or of a row; another at each place |
| `$C` | a condition on data; another at each place |
| `$I`, `$A` | a method that writes in place (`.mul_(0.5)`), an augmented assignment (`+= 0.25`) |
| `$SIZE` | the size of the dynamic dimension, asked of a tensor in one of several ways |
| `$DIM`, `$ODIM` | the index of that dimension, and of the other one |
| `x@[t]` | row `t`: `x[t]`, or `x[:, t]` where the second dimension is the dynamic one |
| `$B` | behind a row: makes it broadcast against the whole (`[:, None]` or nothing) |
| `$RETURN` | what forward returns |
| `$fill` | a line of its own: some statements |
| `%with T:y R:row N:t` | a line of its own: these names are in scope in the rest of the block |
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """A piece of a program. `text` goes into forward, `module` above the class, `init` and `methods` into the class."""

    name: str
    text: str
    module: str = ""
    init: str = ""
    methods: str = ""
    gives: str = ""
    """Names that are bound behind it, as after `%with`."""

    top: bool = False
    """Whether it may only stand in forward itself, not within another piece."""

    needs: str = ""
    """A kind of which there has to be a name in scope, or `loop` or `return` where it jumps."""


def lines_of(text: str) -> list[str]:
    """The lines of a template without those that are blank, and without the indentation that all have."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return [line[margin:] for line in lines]
