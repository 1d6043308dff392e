"""The passes around attention: heads side by side, repeated heads, rotations, products on flattened rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from fxport import Options, export
from tests.running import assert_same, run_session, session_of

AUTO = Dim.AUTO
HEADS, GROUPS, WIDTH = 4, 2, 8


def tables(x: Tensor, repeated: bool = True) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [1, length, width]."""
    positions = torch.arange(x.shape[1], dtype=torch.float32)[None, :, None]
    angles = positions / 10.0 ** torch.arange(WIDTH // 2 if repeated else WIDTH)
    angles = torch.cat((angles, angles), dim=-1) if repeated else angles
    return angles.cos() * 1.5, angles.sin() * 1.5


def turned(x: Tensor) -> Tensor:
    first, second = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
    return torch.cat((-second, first), dim=-1)


def turned_by_chunks(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotated(x: Tensor, cos: Tensor, sin: Tensor, turn: Callable[[Tensor], Tensor] = turned) -> Tensor:
    return x * cos.unsqueeze(1) + turn(x) * sin.unsqueeze(1)


def repeated(x: Tensor) -> Tensor:
    batch, heads, length, width = x.shape
    spread = x[:, :, None].expand(batch, heads, HEADS // heads, length, width)
    return spread.reshape(batch, HEADS, length, width)


class Layer(nn.Module):
    """An attention layer; `act` maps query, key and value, each [batch, heads, length, width], to the result."""

    def __init__(self, act: Callable[..., Any], groups: int = HEADS) -> None:
        super().__init__()
        self.act = act
        self.q, self.o = nn.Linear(12, HEADS * WIDTH), nn.Linear(HEADS * WIDTH, 12)
        self.k, self.v = nn.Linear(12, groups * WIDTH), nn.Linear(12, groups * WIDTH)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], -1, WIDTH).transpose(1, 2)

    def forward(self, x: Tensor) -> Any:
        result, *others = self.act(x, self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x)))
        return self.o(result.transpose(1, 2).flatten(2)), *others


def plain(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (F.scaled_dot_product_attention(q, k, v, is_causal=True),)


def grouped(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (F.scaled_dot_product_attention(q, repeated(k), repeated(v)),)


def rotary(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    cos, sin = tables(x)
    return (F.scaled_dot_product_attention(rotated(q, cos, sin), repeated(rotated(k, cos, sin)), repeated(v)),)


def rotary_by_chunks(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    cos, sin = tables(x)
    turn = turned_by_chunks
    return (F.scaled_dot_product_attention(rotated(q, cos, sin, turn), rotated(k, cos, sin, turn), v),)


def rotary_of_other_tables(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    cos, sin = tables(x, repeated=False)
    return (F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v),)


def rotary_and_keys_returned(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    cos, sin = tables(x)
    keys = rotated(k, cos, sin)
    return F.scaled_dot_product_attention(rotated(q, cos, sin), keys, v), keys, v


def scaled_after(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (F.scaled_dot_product_attention(q, k, v) * 2,)


def transposed_returned(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    result = F.scaled_dot_product_attention(q, k, v)
    return result, result.transpose(1, 2)


def normed_keys(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (F.scaled_dot_product_attention(q, F.layer_norm(k, (WIDTH,)), v),)


ROWS: dict[str, tuple[Callable[..., Any], int, dict[str, int]]] = {
    "plain": (plain, HEADS, {"Attention": 1, "Transpose": 0, "Reshape": 0}),
    "grouped": (grouped, GROUPS, {"Attention": 1, "Transpose": 0, "Reshape": 0, "Expand": 0}),
    "rotary": (rotary, GROUPS, {"RotaryEmbedding": 2, "Transpose": 0, "Reshape": 0, "Expand": 2, "Neg": 0}),
    "rotary, halves by chunk": (rotary_by_chunks, HEADS, {"RotaryEmbedding": 2, "Transpose": 0, "Reshape": 0}),
    "rotary, tables of other halves": (rotary_of_other_tables, HEADS, {"RotaryEmbedding": 0, "Neg": 2}),
    "rotary, keys returned": (rotary_and_keys_returned, HEADS, {"RotaryEmbedding": 2, "Transpose": 4}),
    "result used otherwise": (scaled_after, HEADS, {"Attention": 1, "Transpose": 4}),
    "transposed result returned": (transposed_returned, HEADS, {"Attention": 1, "Transpose": 4}),
    "keys changed": (normed_keys, HEADS, {"Attention": 1, "Transpose": 4}),
}
"""By name: what a layer does with its heads, the heads of its keys, and how many nodes are left of it."""


def check(model: nn.Module, counts: dict[str, int], opset: int) -> None:
    example, other = torch.randn(2, 5, 12), torch.randn(3, 7, 12)
    program = export(model, (example,), dynamic_shapes=({0: AUTO, 1: AUTO},), options=Options(opset=opset))
    session = session_of(program)
    for x in (example, other):
        assert_same(run_session(session, program, (x,)), pytree.tree_leaves(model(x)))
    found = Counter(node.op_type for node in program.model.graph)
    assert {name: found[name] for name in counts} == counts


@pytest.mark.parametrize("name", ROWS)
def test_what_is_left_of_a_layer(name: str) -> None:
    act, groups, counts = ROWS[name]
    torch.manual_seed(0)
    check(Layer(act, groups).eval(), counts, opset=23)


@pytest.mark.parametrize("opset", [18, 26])
def test_other_opsets(opset: int) -> None:
    torch.manual_seed(0)
    expected = {"RotaryEmbedding": 0, "Attention": 0} if opset < 23 else {"RotaryEmbedding": 2, "Attention": 1}
    check(Layer(rotary, GROUPS).eval(), expected, opset)


class Flattened(nn.Module):
    """A layer as GPT-2 has it: rows are flattened for the product."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(12, 16)), nn.Parameter(torch.randn(16))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, 12), self.weight).view(*x.shape[:-1], 16)


class FlattenedForGood(Flattened):
    """The flat result is wanted."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, 12), self.weight)


class FlattenedTwice(Flattened):
    """The result goes out under two names."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = torch.addmm(self.bias, x.view(-1, 12), self.weight)
        return flat.view(*x.shape[:-1], 16), flat.view(*x.shape[:-1], 16)


def test_products_on_flattened_rows() -> None:
    check(Flattened(), {"MatMul": 1, "Add": 1, "Gemm": 0, "Reshape": 0, "Shape": 0}, opset=23)
    check(FlattenedForGood(), {"Gemm": 1, "Reshape": 1}, opset=23)
    check(FlattenedTwice(), {"Gemm": 0, "Identity": 1}, opset=23)
