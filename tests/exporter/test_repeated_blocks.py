"""Repeated blocks: captured once and copied where they are alike, and in full where anything tells them apart.

Each row of DIFFERENCES changes one block, mostly the third of five: neither the one that is recorded nor the last one,
which is compared, so that nothing but the comparison of modules, calls and state can see it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fxport import Options, export
from fxport.exporter.capture.repeated import recorded
from tests.blocks import WIDTH, Block, Stack, assert_right, attribute, copies_counted


def test_equal_blocks_are_copied_but_the_first_and_the_last() -> None:
    assert assert_right(Stack().eval(), torch.randn(3, WIDTH)) == ["1", "2", "3"]


def test_sizes_stay_dynamic() -> None:
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("time")},)
    others = ((torch.randn(1, 7, WIDTH),), (torch.randn(6, 1, WIDTH),))
    assert assert_right(Stack().eval(), torch.randn(3, 4, WIDTH), shapes=shapes, others=others) == ["1", "2", "3"]


def test_without_reuse_each_block_is_captured() -> None:
    with copies_counted() as copied:
        export(Stack().eval(), (torch.randn(3, WIDTH),), options=Options(reuse=False))
    assert copied == []


def test_nodes_and_places_are_those_of_a_full_capture() -> None:
    made = [
        export(Stack().eval(), (torch.randn(3, WIDTH),), options=Options(reuse=reuse)).model for reuse in (True, False)
    ]
    one, other = ([(n.op_type, n.name, [v.name for v in n.outputs]) for n in each.graph] for each in made)
    assert one == other
    assert made[0].metadata_props == made[1].metadata_props


@pytest.mark.parametrize("shapes", [None, ({0: torch.export.Dim("batch")},)])
def test_a_copy_makes_fakes_of_its_results_alone(monkeypatch: pytest.MonkeyPatch, shapes: Any) -> None:
    made: list[Any] = []
    anew = recorded._anew
    monkeypatch.setattr(recorded, "_anew", lambda value, memory: made.append(value) or anew(value, memory))
    export(Stack().eval(), (torch.randn(3, WIDTH),), dynamic_shapes=shapes)
    assert len(made) == 3 * 2  # of each copy one result: a value of its node, and the tensor


class ByLines(Stack):
    """Calls each block at a line of its own."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks[0](x)
        x = self.blocks[1](x)
        x = self.blocks[2](x)
        return self.blocks[3](x)


def test_calls_at_other_lines_keep_their_stacks() -> None:
    stacks = []
    for reuse in (True, False):
        with copies_counted() as copied:
            program = export(ByLines().eval(), (torch.randn(3, WIDTH),), options=Options(reuse=reuse))
        assert copied == []
        stacks.append([node.meta.get("stack_trace") for node in program.program.graph_module.graph.nodes])
    assert stacks[0] == stacks[1]


# What tells a block apart ---------------------------------------------------------------------------------------------


def hooked(model: Stack) -> Stack:
    model.blocks[2].up.register_forward_hook(lambda module, args, output: output * 3)
    return model


def hooked_itself(model: Stack) -> Stack:
    model.blocks[2].register_forward_hook(lambda module, args, output: output * 3)
    return model


def other_forward(model: Stack) -> Stack:
    block = model.blocks[2]
    block.forward = lambda x: block.up(x)  # type: ignore[method-assign]
    return model


def other_forward_within(model: Stack) -> Stack:
    layer = model.blocks[2].up
    layer.forward = lambda x: nn.functional.linear(x, layer.weight) * 2  # type: ignore[method-assign]
    return model


def training(model: Stack) -> Stack:
    model.blocks[2].train()
    return model


def of_another_block(model: Stack) -> Stack:
    model.blocks[2].own = model.blocks[0].shifted
    return model


def of_the_list_of_another_block(model: Stack) -> Stack:
    for block in model.blocks:
        block.held = [block]
        block.own = functools.partial(lambda held, x: x + held[0].shift, block.held)
    model.blocks[2].own = model.blocks[0].own
    return model


def tied(model: Stack) -> Stack:
    model.blocks[2].up.weight = model.blocks[1].up.weight
    return model


def tied_within(model: Stack) -> Stack:
    model.blocks[2].down.weight = model.blocks[2].up.weight
    return model


def of_other_sizes(model: Stack) -> Stack:
    model.blocks[2].up, model.blocks[2].down = nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)
    return model


def without_bias(model: Stack) -> Stack:
    model.blocks[2].up = nn.Linear(WIDTH, WIDTH, bias=False)
    return model


def of_another_class(model: Stack) -> Stack:
    class Loud(Block):
        kind = "loud"

    model.blocks[2] = Loud(2)
    return model


def on_transposed_memory(index: int, x: Tensor) -> tuple[Any, ...]:
    return (x.mT.contiguous().mT,) if index == 2 else (x * 1,)


DIFFERENCES: dict[str, Callable[[], nn.Module]] = {
    **{
        name: functools.partial(lambda change: change(Stack()), change)
        for name, change in {
            "a number": attribute("scale", 0.5),
            "the sign of zero": attribute("scale", -0.0),
            "a number of another type": attribute("scale", True),
            "a number of a layer": attribute("norm.eps", 0.5),
            "a function": attribute("activation", torch.relu),
            "a list": attribute("steps", [1.0, 3.0]),
            "a longer list": attribute("steps", [1.0, 2.0, 1.0]),
            "a dict": attribute("named", {"gain": 0.75}),
            "the arguments of a partial": attribute("mixed", functools.partial(torch.lerp, weight=0.75)),
            "an attribute over that of the class": attribute("kind", "loud"),
            "the layer of a method": of_another_block,
            "a module in a list": of_the_list_of_another_block,
            "a hook of a layer": hooked,
            "a hook of the block": hooked_itself,
            "a forward of its own": other_forward,
            "a forward of a layer's own": other_forward_within,
            "a shared weight": tied,
            "a weight shared within": tied_within,
            "other sizes within": of_other_sizes,
            "no bias": without_bias,
            "another class": of_another_class,
        }.items()
    },
    "a plain argument": lambda: Stack(lambda index, x: (None, 3.0 if index == 2 else 1.0)),
    "the type of an argument": lambda: Stack(lambda index, x: (None, 1 if index == 2 else 1.0)),
    "one more argument": lambda: Stack(lambda index, x: (x * 0.5,) if index == 2 else ()),
    "one tensor twice": lambda: Stack(lambda index, x: (x if index == 2 else x * 1,)),
    "the memory of an argument": lambda: Stack(on_transposed_memory),
    "the type of a tensor": lambda: Stack(lambda index, x: (x.to(torch.float64 if index == 2 else torch.float32),)),
    "a view in the place of a copy": lambda: Stack(lambda index, x: (x.view(-1, WIDTH) if index == 2 else x.clone(),)),
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in DIFFERENCES.items()])
def test_a_block_that_differs_is_captured_itself(make: Callable[[], nn.Module]) -> None:
    assert_right(make().eval(), torch.randn(3, WIDTH))


def test_the_mode_of_one_block() -> None:
    model = training(Stack().eval())
    assert "2" not in assert_right(model, torch.randn(3, WIDTH))


@pytest.mark.parametrize("name", ["a number", "a number of a layer", "a list", "a dict", "a function", "no bias"])
def test_others_are_copied_beside_it(name: str) -> None:
    assert assert_right(DIFFERENCES[name]().eval(), torch.randn(3, WIDTH)) == ["1", "3"]


def test_an_attribute_that_nobody_reads_may_differ() -> None:
    model = Stack().eval()
    assert [block.index for block in model.blocks] == [0, 1, 2, 3, 4]
    before = [[*vars(block)] for block in model.blocks]
    assert assert_right(model, torch.randn(3, WIDTH)) == ["1", "2", "3"]
    assert [[*vars(block)] for block in model.blocks] == before
    assert [block.index for block in model.blocks] == [0, 1, 2, 3, 4]


# Mixtures -------------------------------------------------------------------------------------------------------------

CHOICES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("scale", (1.5, 0.5)),
    ("activation", (torch.tanh, torch.relu)),
    ("steps", ([1.0, 2.0], [2.0])),
    ("index", (0, 1, 2)),
)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(*(st.integers(0, len(values) - 1) for _, values in CHOICES)), min_size=3, max_size=7),
    st.lists(st.sampled_from([(), (None, 2.0), "same", "other"]), min_size=7, max_size=7),
    st.booleans(),
)
def test_any_mixture_gives_the_results_of_eager(picked: list[tuple[int, ...]], given_: list[Any], last: bool) -> None:
    def arguments(index: int, x: Tensor) -> tuple[Any, ...]:
        kind = given_[index]
        return kind if isinstance(kind, tuple) else (x if kind == "same" else x * 0.5,)

    model = Stack(arguments)
    model.blocks = nn.ModuleList(Block(index) for index in range(len(picked)))
    for block, numbers in zip(model.blocks, picked, strict=True):
        for (name, values), number in zip(CHOICES, numbers, strict=True):
            setattr(block, name, values[number])
    if last:
        model.blocks = nn.ModuleList([*model.blocks[1:], model.blocks[0]])
    assert_right(model.eval(), torch.randn(2, WIDTH))
