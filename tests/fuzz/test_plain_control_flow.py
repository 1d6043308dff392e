"""Models of plain Python that data decides on, written at random as source text, against eager PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import nn

from fxport import export
from tests.conftest import LONG, QUIET
from tests.fuzz.test_control_flow import inputs
from tests.modules import module_with
from tests.running import assert_same, run_session, session_of

Tree = tuple[Any, ...]
DEPTH, PROGRAMS, MANY = 2, 3, 500

HEAD = """\
import torch
from torch import nn


class Generated(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("shift", torch.arange(4.0) * 0.1)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("state", torch.ones(4))
        self.scales = {"half": 0.5}

"""

VALUES = (
    "{v}.sin()",
    "torch.tanh(self.linear({v}))",
    "{v} * 0.5 - self.shift",
    "{v} - {v}.mean(-1, keepdim=True)",
    "torch.where({v} > 0.5, {v}.cos(), {v} + 0.25)",
    "{v} * torch.tensor([0.5, 1.0, -1.0, 0.25])",
    "{v}.clone().mul_(0.5).add_(self.shift)",
    "{v}.sort(-1).values",
    "{v} * self.scales['half'] + self.state",
    "torch.tanh({v} + {v}.flip(0))",
    "{v} * 0.5 if {v}.sum() > 0 else {v} + 0.25",
    "(lambda each: each.cos() if (each > 0).all() else each * 0.5)({v})",
)
"""From [4] or [n, 4] to the same sizes; values stay small."""

TESTS = (
    "{v}.sum() > 0.125",
    "({v} > 0.5).any()",
    "not ({v} < 1).all()",
    "{v}.mean().item() > 0",
    "{v}.max() > 0.75 and {v}.min() < 0.25",
    "bool({v}[..., 0].sum() > 0) or {v}.abs().max() < 0.5",
    "self.seen > 0.5",
)

WRITES = (
    "self.seen.mul_(0.5).add_(1)",
    "self.state[1:3] = self.state[1:3] * 0.5 + {v}.mean()",
    "self.seen += 1",
    "self.state = self.state * 0.5 + {v}.mean()",
)
"""To buffers."""

LOOPS = {
    "range": "for {i} in range(3)",
    "layers": "for {i}, layer in enumerate(self.layers)",
    "item": "for {i} in range(int(({v} > 0.5).sum().clamp(max=3)))",
}
ROWS = {
    "range": ("for {i} in range({v}.shape[0])", "{v}[{i}]"),
    "direct": ("for {i} in {v}", "{i}"),
    "enumerate": ("for {i}, {i}_row in enumerate({v})", "({i}_row + {i} * 0.125)"),
    "backwards": ("for {i} in reversed(range({v}.shape[0]))", "{v}[{i}]"),
}

test_of, value_of = st.sampled_from(TESTS), st.sampled_from(VALUES)


def blocks(depth: int) -> st.SearchStrategy[list[Tree]]:
    return st.lists(statements(depth), min_size=1, max_size=2)


def statements(depth: int) -> st.SearchStrategy[Tree]:
    simple = st.tuples(st.just("value"), value_of)
    write = st.tuples(st.just("write"), st.sampled_from(WRITES))
    if depth == 0:
        return simple | write
    inner = blocks(depth - 1)
    return st.one_of(
        simple,
        st.tuples(st.just("if"), st.lists(st.tuples(test_of, inner), min_size=1, max_size=3), st.none() | inner),
        st.tuples(st.just("while"), test_of, st.sampled_from((None, *JUMPS)), inner),
        st.tuples(st.just("loop"), st.sampled_from(sorted(LOOPS)), test_of, st.sampled_from((None, *JUMPS)), inner),
        st.tuples(st.just("rows"), st.sampled_from(sorted(ROWS)), inner),
        st.tuples(st.just("function"), test_of, value_of, inner),
        st.tuples(st.just("return"), test_of, value_of),
    )


JUMPS = ("break", "continue")


@dataclass(frozen=True)
class Place:
    """Where statements stand: the tensor that they change, and what they may do."""

    v: str
    is_row: bool = False
    returns: bool = True
    writes: bool = True


def lines_of(block: list[Tree], place: Place, names: Iterator[int]) -> list[str]:
    return [line for tree in block for line in FORMS[tree[0]](tree, place, names)] or ["pass"]


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _value(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    return [f"{place.v} = " + tree[1].format(v=place.v)]


def _write(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    return [tree[1].format(v=place.v)] if place.writes else []


def _if(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    _, arms, other = tree
    out = []
    for number, (test, block) in enumerate(arms):
        out += [f"{'elif' if number else 'if'} {test.format(v=place.v)}:", *indented(lines_of(block, place, names))]
    return [*out, "else:", *indented(lines_of(other, place, names))] if other is not None else out


def _body(block: list[Tree], test: str, jump: str | None, place: Place, names: Iterator[int]) -> list[str]:
    """With the jump behind the first statement."""
    first = lines_of(block[:1], place, names)
    leave = [f"if {test.format(v=place.v)}:", f"    {jump}"] if jump else []
    return indented([*first, *leave, *lines_of([*block[1:], ("value", "torch.tanh({v} * 0.75)")], place, names)])


def _while(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    _, test, jump, block = tree
    k = f"k{next(names)}"
    body = _body(block, "{v}.sum() > 0.5", jump, place, names)
    return [f"{k} = 0", f"while {k} < 3 and ({test.format(v=place.v)}):", f"    {k} += 1", *body]


def _loop(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    _, kind, test, jump, block = tree
    head = LOOPS[kind].format(i=f"i{next(names)}", v=place.v)
    within = replace(place, returns=False, writes=False) if kind == "item" else place
    return [f"{head}:", *_body(block, test, None if kind == "item" else jump, within, names)]


def _rows(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    _, kind, block = tree
    if place.is_row:
        return []
    number = next(names)
    head, row = (text.format(i=f"i{number}", v=place.v) for text in ROWS[kind])
    within = Place(f"h{number}", is_row=True, returns=False, writes=False)
    body = [
        f"h{number} = torch.tanh(h{number} + {row})",
        *lines_of(block, within, names),
        f"found{number}.append(h{number})",
    ]
    before = [f"h{number}, found{number} = torch.zeros(4), []", f"{head}:"]
    return [*before, *indented(body), f"{place.v} = torch.stack(found{number}) + h{number}"]


def _function(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    _, test, value, block = tree
    name = f"step{next(names)}"
    within = replace(place, v="y", writes=False)
    early = [f"if {test.format(v='y')}:", f"    return {value.format(v='y')}"]
    body = [f"y = y + {place.v} * 0.25", *early, *lines_of(block, within, names), "return y"]
    return [f"def {name}(y):", *indented(body), f"{place.v} = torch.tanh({name}({place.v} * 0.5))"]


def _return(tree: Tree, place: Place, names: Iterator[int]) -> list[str]:
    _, test, value = tree
    return [f"if {test.format(v=place.v)}:", f"    return {value.format(v=place.v)}"] if place.returns else []


FORMS = {
    "value": _value,
    "write": _write,
    "if": _if,
    "while": _while,
    "loop": _loop,
    "rows": _rows,
    "function": _function,
    "return": _return,
}


def source_of(block: list[Tree]) -> str:
    body = ["def forward(self, a):", *indented([*lines_of(block, Place("a"), itertools.count()), "return a"])]
    return HEAD + "\n".join(indented(body)) + "\n"


def made_of(source: str, folder: Path) -> type[nn.Module]:
    """The model of the text, which is a file of its own as a user's would be."""
    return module_with(source, folder, "program").Generated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@settings(max_examples=MANY if settings().max_examples == LONG else PROGRAMS, suppress_health_check=QUIET)
@given(blocks(DEPTH))
def test_programs(folder: Path, block: list[Tree]) -> None:
    source = source_of(block)
    note(source)
    model, cases = made_of(source, folder), inputs()
    program = export(model().eval(), (cases[0][0].clone(),), dynamic_shapes=({0: "n"},))
    session, names = session_of(program), [str(value.name) for value in program.model.graph.outputs]
    for case in cases:
        fresh = model().eval()
        with torch.no_grad():
            result = fresh(*case)
        left = {f"{name}.updated": buffer for name, buffer in fresh.named_buffers()}
        assert_same(run_session(session, program, case), [result, *(left[name] for name in names[1:])])
