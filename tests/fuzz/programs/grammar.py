"""Programs from seeds: pieces are drawn, their placeholders filled with what is in scope, and others put inside."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.fuzz.programs.features import FAMILIES, SIMPLE
from tests.fuzz.programs.template import Feature, lines_of

Scope = dict[str, list[str]]

MOST_LINES, DEPTH = 18, 1

HEAD = """\
import collections
import contextlib
import functools
import math
from dataclasses import dataclass

import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("state", torch.tensor([0.5, -0.25, 0.75, 0.0]))

    @property
    def level(self):
        return self.seen * 0.5 + self.state[0]

    def step(self, y):
        self.seen += 1
        return y * 0.5 + self.state[1]


"""

CONDITIONS = (
    "$t.sum() > 0.125",
    "$t.sum() > 0.125",
    "$t.mean() < -0.1",
    "($t > 0.5).any()",
    "not ($t < 1).all()",
    "$t.mean().item() > 0.05",
    "$t.max() > 0.75 and $t.min() < 0.25",
    "bool($t.sum() > 0) or $u.mean() > 0.3",
    "float($t.mean()) < 0.1",
    "0 < $t.sum() < 3",
    "self.seen > 0.5",
    "$t.sum() > $u.sum()",
    "$t.sum() > $n",
)

WHOLE = (
    "$t * 0.5",
    "torch.tanh($t + 0.25)",
    "$t.sin()",
    "$t - $u",
    "$t.abs() - 0.5",
    "$t + self.state.sum() * 0.25",
    "$t.clamp(-1, 1) + $n * 0.125",
    "$t.clone()",
    "torch.where($t > 0, $t, $u * 0.5)",
    "$t if $c else $u * 0.5",
    "$t.relu()",
)
"""Expressions that keep a shape, of tensors `$t` and `$u` of it."""

IN_PLACE = (".mul_(0.5)", ".add_(0.25)", ".neg_()", ".sub_(0.5)", ".tanh_()", ".clamp_(-1, 1)", ".zero_()")
AUGMENTED = ("+= 0.25", "*= 0.5", "-= 0.5", "/= 2", "*= -1")
LITERALS = ("1", "2", "0.5", "3", "-1", "0.25", "True")
SIZES = ("{t}.shape[{d}]", "{t}.size({d})", "{t}.shape[{d}]")

PLACEHOLDER, ALTERNATIVES = re.compile(r"\$([A-Za-z_]+\d*)"), re.compile(r"⟨([^⟨⟩]*)⟩")


@dataclass
class Program:
    """The source of a model `Generated`, and how its inputs look."""

    seed: int
    source: str
    features: tuple[str, ...]
    columns: bool
    dynamic: bool

    @property
    def size_axis(self) -> int:
        return 1 if self.columns else 0


@dataclass
class Writer:
    """Writes the parts of one program."""

    rng: random.Random
    columns: bool
    scope: Scope
    body: list[str] = field(default_factory=list)
    module: list[str] = field(default_factory=list)
    init: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    count: int = 0
    pair: bool = False
    """Whether forward returns a row beside the whole."""

    def feature(self, piece: Feature, depth: int, indent: str) -> None:
        """Writes one piece, and puts the names that it gives in scope."""
        self.features.append(piece.name)
        names: dict[str, str] = {}
        for part, lines in ((self.module, piece.module), (self.init, piece.init), (self.methods, piece.methods)):
            part.extend(self.expanded(line, names) for line in lines_of(lines))
        self.block(lines_of(piece.text), names, depth, indent)
        self.declare(piece.gives, names)

    def block(self, lines: Sequence[str], names: dict[str, str], depth: int, indent: str) -> None:
        """Writes lines; names that are declared in an indented part are in scope until it ends."""
        scopes: list[tuple[int, Scope]] = []
        for line in lines:
            text = line.lstrip()
            level = len(line) - len(text)
            while scopes and level <= scopes[-1][0]:
                self.scope = scopes.pop()[1]
            if text == "$fill":
                self.fill(depth, indent + line[:level])
            elif text.startswith("%with "):
                self.declare(text.removeprefix("%with "), names)
            else:
                self.body.append(indent + self.expanded(line, names))
                if text.endswith(":"):
                    scopes.append((level, self.scope))
                    self.scope = entered(self.scope, text)
        if scopes:
            self.scope = scopes[0][1]

    def declare(self, text: str, names: dict[str, str]) -> None:
        for kind, name in (each.split(":") for each in text.split()):
            self.scope = self.scope | {kind: [*self.scope[kind], self.expanded(name, names)]}

    def fill(self, depth: int, indent: str) -> None:
        """One or two statements, or another piece."""
        room = MOST_LINES - len(self.body)
        if depth > 0 and room > 8 and self.rng.random() < 0.3:
            self.feature(self.drawn(self.rng.choice(list(FAMILIES.values())), nested=True), depth - 1, indent)
            return
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            piece = self.drawn(SIMPLE, nested=True)
            self.block(lines_of(piece.text), {}, 0, indent)

    def drawn(self, pieces: Sequence[Feature], *, nested: bool) -> Feature:
        possible = [
            each
            for each in pieces
            if not (nested and each.top) and all(self.scope[kind] for kind in each.needs.split())
        ]
        return self.rng.choice(possible or SIMPLE[:1])

    def expanded(self, text: str, names: dict[str, str]) -> str:
        """The text with everything filled in, inner alternatives first."""
        while (found := ALTERNATIVES.search(text)) is not None:
            text = text[: found.start()] + self.rng.choice(found[1].split("|")) + text[found.end() :]
        text = text.replace("@[", "[:, " if self.columns else "[")
        return PLACEHOLDER.sub(lambda found: self.placeholder(found[1], names), text)

    def placeholder(self, key: str, names: dict[str, str]) -> str:
        kind = key.rstrip("0123456789")
        if kind in EACH_TIME:
            return EACH_TIME[kind](self)
        if key not in names:
            names[key] = SAME_EACH_TIME[kind](self) if kind in SAME_EACH_TIME else self.fresh(key)
        return names[key]

    def fresh(self, key: str) -> str:
        self.count += 1
        return f"{key.rstrip('0123456789')}{self.count}"

    def tensor(self) -> str:
        return self.rng.choice(self.scope["T"])

    def row(self) -> str:
        if self.scope["R"] and self.rng.random() < 0.75:
            return self.rng.choice(self.scope["R"])
        at = self.rng.choice(("0", "-1"))
        return f"{self.tensor()}[:, {at}]" if self.columns else f"{self.tensor()}[{at}]"

    def number(self) -> str:
        if self.scope["N"] and self.rng.random() < 0.75:
            return self.rng.choice(self.scope["N"])
        return self.rng.choice(LITERALS)

    def condition(self) -> str:
        either = self.rng.choice((self.tensor, self.row))
        return self._of(self.rng.choice(CONDITIONS), either)

    def whole(self) -> str:
        return self._of(self.rng.choice(WHOLE), self.tensor)

    def whole_row(self) -> str:
        return self._of(self.rng.choice(WHOLE), self.row)

    def _of(self, text: str, operand: Callable[[], str]) -> str:
        text = text.replace("$t", operand()).replace("$u", operand()).replace("$n", self.number())
        return text.replace("$c", self.condition()) if "$c" in text else text

    def size(self) -> str:
        forms = SIZES if self.columns else (*SIZES, "len({t})")
        return self.rng.choice(forms).format(t=self.tensor(), d=int(self.columns))

    def result(self, *, everything: bool = False) -> str:
        """What forward returns: a whole, and with `pair` a row. In the end it is made of all that is in scope."""
        if not everything:
            return f"{self.whole()}, {self.whole_row()}" if self.pair else self.whole()
        behind = "[:, None]" if self.columns else ""
        tensors = [f"{name} * {0.5 + 0.25 * i}" for i, name in enumerate(self.scope["T"])]
        rows = [f"{name} * {0.3 + 0.2 * i}" for i, name in enumerate(self.scope["R"])]
        numbers = [f"{name} * {0.1 + 0.05 * i:.2f}" for i, name in enumerate(self.scope["N"])]
        if self.pair:
            return " + ".join(tensors) + ", " + " + ".join([*rows, *numbers, "self.state"])
        return " + ".join([*tensors, *(f"({row}){behind}" for row in rows), *numbers])


EACH_TIME = {
    "C": Writer.condition,
    "E": Writer.whole,
    "ER": Writer.whole_row,
    "I": lambda writer: writer.rng.choice(IN_PLACE),
    "A": lambda writer: writer.rng.choice(AUGMENTED),
    "SIZE": Writer.size,
    "DIM": lambda writer: str(int(writer.columns)),
    "ODIM": lambda writer: str(int(not writer.columns)),
    "B": lambda writer: "[:, None]" if writer.columns else "",
    "RETURN": Writer.result,
}

SAME_EACH_TIME = {
    "T": Writer.tensor,
    "R": Writer.row,
    "N": Writer.number,
    "K": lambda writer: writer.rng.choice(writer.scope["N"]),
    "L": lambda writer: writer.rng.choice(writer.scope["L"]),
}


def entered(scope: Scope, head: str) -> Scope:
    """The scope within a block: there are jumps out of a loop, and out of a function only its own."""
    if head.startswith(("for ", "while ")):
        return scope | {"loop": ["loop"]}
    if head.startswith(("def ", "class ", "async ")):
        return scope | {"loop": [], "return": [], "T": [], "R": [], "N": [], "L": []}
    return scope


def program_of(seed: int) -> Program:
    """The program of a seed: two to four pieces, of different families."""
    rng = random.Random(seed)
    columns, dynamic = rng.random() < 0.3, rng.random() < 0.6
    scope: Scope = {"T": ["x"], "R": [], "N": [], "L": [], "loop": [], "return": ["return"]}
    writer = Writer(rng, columns, scope, pair=rng.random() < 0.4)
    start = rng.choice(("x = x * 1.0", "x = x.clone()", "x = x + 0.125", "x = torch.tanh(x)", None))
    writer.body.extend([start] if start else [])
    families = rng.sample(sorted(FAMILIES), rng.choice((2, 2, 2, 2, 3, 3, 4)))
    for family in families:
        if len(writer.body) < MOST_LINES - 4:
            writer.feature(writer.drawn(FAMILIES[family], nested=False), DEPTH, "")
    writer.body.append(f"return {writer.result(everything=True)}")
    parts = [*writer.module, "", "", "class Generated(Base):", "    def __init__(self):", "        super().__init__()"]
    parts += [*indented(writer.init, 2), "", *indented(writer.methods, 1), "    def forward(self, x):"]
    source = HEAD + "\n".join([*parts, *indented(writer.body, 2)]) + "\n"
    return Program(seed, source, tuple(writer.features), columns, dynamic)


def indented(lines: Sequence[str], levels: int) -> list[str]:
    return ["    " * levels + line for line in lines]
