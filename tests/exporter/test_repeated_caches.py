"""Blocks that are given a cache of keys and values: each uses the layer of its own number, and is copied then alone."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import Log, Options, export
from fxport.exporter.capture.arguments.caches import PatchedCacheError
from fxport.exporter.capture.repeated import blocks
from fxport.exporter.capture.repeated.numbers import Number, Reads
from fxport.exporter.language_models.decode import decode_step
from fxport.exporter.language_models.generation import generation_step
from tests.blocks import WIDTH, copies_counted
from tests.cases.language_models import GPT2, GROUPED, model_of
from tests.running import assert_same, run_session, session_of

transformers = pytest.importorskip("transformers")

DEPTH = 5


class Block(nn.Module):
    """A layer that adds to its layer of the cache, and looks at all tokens that are there."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.up = index, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, cache: Any) -> Tensor:
        keys, values = cache.update(self.up(x)[:, None], x[:, None], self.index)
        return torch.tanh(self.further(x + (keys + values).mean((1, 2))[:, None], cache))

    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x


class Stack(nn.Module):
    def __init__(self, kind: type[Block], order: Callable[[int], int] = lambda index: index) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(kind(order(index)) for index in range(DEPTH))

    def forward(self, x: Tensor, cache: Any) -> Any:
        for block in self.blocks:
            x = block(x, cache)
        return x, cache


def filled(past: int = 3, batch: int = 2) -> Any:
    """A cache of `past` tokens."""
    torch.manual_seed(past)
    cache = transformers.DynamicCache()
    for layer in range(DEPTH):
        cache.update(torch.randn(batch, 1, past, WIDTH), torch.randn(batch, 1, past, WIDTH), layer)
    return cache


def shapes(cache: Any) -> list[Any]:
    return [{"key": {0: "batch", 2: "past"}, "value": {0: "batch", 2: "past"}} for _ in cache.layers]


def copied_of(model: nn.Module) -> list[str]:
    """Export a stack, hold it against eager PyTorch at three sizes, and return the blocks that were copied last."""
    example = (torch.randn(2, 4, WIDTH), filled())
    wanted = ({0: "batch", 1: "tokens"}, shapes(example[1]))
    with copies_counted() as copied:
        program = export(model, copy.deepcopy(example), dynamic_shapes=wanted)
    session = session_of(program)
    for x, cache in (example, (torch.randn(3, 2, WIDTH), filled(6, 3)), (torch.randn(4, 7, WIDTH), filled(2, 4))):
        want, after = model(x, copy.deepcopy(cache))
        held = [each for layer in after.layers for each in (layer.keys, layer.values)]
        assert_same(run_session(session, program, (x, cache)), [want, *held])
    return copied


@pytest.mark.parametrize("order", [lambda index: index, lambda index: (index * 2 + 1) % DEPTH], ids=["up", "mixed"])
def test_layers_of_their_own_are_copied(order: Callable[[int], int]) -> None:
    with as_of_a_library():
        assert copied_of(Stack(Block, order)) == ["1", "2", "3"]


class Compared(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x * 2 if self.index < 2 else x


class Odd(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x * 2 if self.index % 2 else x


class Factor(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x * self.index


class Written(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x * len(f"{10**self.index}")


class Listed(Block):
    scales = (1.0, 2.0, 3.0, 4.0, 5.0)

    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x * self.scales[self.index]


class ByType(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x * 2 if type(self.index) is int else x


class FirstLayer(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x + cache.layers[0].keys.mean()


class Before(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x + cache.layers[max(self.index - 1, 0)].values.mean()


class EachLayer(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x + sum(layer.values.mean() for layer in cache.layers)


class LengthOfFirst(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x + cache.get_seq_length() * 0.01


class WritesAnother(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        cache.layers[-1].keys = cache.layers[-1].keys * 0.5
        return x


class NotedInCache(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        cache.count = getattr(cache, "count", 0) + 1
        return x * cache.count


class InPlace(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        cache.layers[self.index].values.mul_(0.5)
        return x + cache.layers[self.index].values.mean((1, 2))[:, None]


class Held(Block):
    """The third block holds another number that nothing but its own layer's index is like."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.second = 1 if index == 2 else index

    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x + cache.layers[self.second].keys.mean()


TOLD = {
    Compared: {"3"},
    Odd: set(),
    Factor: set(),
    Written: set(),
    Listed: set(),
    ByType: set(),
    FirstLayer: set(),
    Before: set(),
    EachLayer: set(),
    LengthOfFirst: set(),
    WritesAnother: set(),
    NotedInCache: set(),
    InPlace: {"1", "2", "3"},
    Held: {"1", "3"},
}
"""Kinds of blocks that do more than use their own layer, with the blocks that may be copied then."""


@contextmanager
def as_of_a_library() -> Iterator[None]:
    """Take the blocks of this file for those of an installed library, which are not run beside eager PyTorch."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "is_users", lambda state: False)
        yield


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_what_else_a_block_reads(kind: type[Block]) -> None:
    with as_of_a_library():
        assert {*copied_of(Stack(kind))} <= TOLD[kind]


class Identity(Block):
    def further(self, x: Tensor, cache: Any) -> Tensor:
        return x + (self.index is len((1, 2))) * (x.shape[1] - 4)


def test_blocks_of_the_users_own_are_captured_in_full() -> None:
    assert copied_of(Stack(Identity)) == []
    assert copied_of(Stack(Block)) == []


def test_a_method_that_the_user_has_replaced_keeps_layers_from_being_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = transformers.DynamicCache.update, []

    def update(cache: Any, keys: Tensor, values: Tensor, *rest: Any) -> Any:
        calls.append(keys)
        return plain(cache, keys * (3 if len(calls) % LAYERS == 3 else 1), values, *rest)

    monkeypatch.setattr(transformers.DynamicCache, "update", update)
    case = decode_step(model_of(*MADE["Llama"]))
    with copies_counted() as copied:
        calls.clear()
        export(case.model, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes)
    assert copied == []


def test_a_cache_with_a_function_of_its_own_is_refused() -> None:
    cache = filled()
    layer = cache.layers[1]
    layer.update = functools.partial(type(layer).update, layer)
    with pytest.raises(PatchedCacheError, match="'update' of this 'DynamicLayer'"):
        export(Stack(Block), (torch.randn(2, 4, WIDTH), cache))


def test_a_cache_with_one_layer_at_two_places_is_refused() -> None:
    cache = filled()
    cache.layers[1] = cache.layers[0]
    with pytest.raises(PatchedCacheError, match="one layer at two places"):
        export(Stack(Block), (torch.randn(2, 4, WIDTH), cache))


LAYERS = 4
"""Of which two are copied: the first and the last are captured in full."""

MADE = {
    "Llama": ("LlamaForCausalLM", {**GROUPED, "num_hidden_layers": LAYERS}),
    "GPT-2": ("GPT2LMHeadModel", {**GPT2, "n_layer": LAYERS}),
    "OPT": ("OPTForCausalLM", {**GROUPED, "ffn_dim": 64, "num_hidden_layers": LAYERS, "word_embed_proj_dim": 32}),
    "Mistral, windows": ("MistralForCausalLM", {**GROUPED, "num_hidden_layers": LAYERS, "sliding_window": 4}),
}


@pytest.mark.parametrize(
    ("name", "step"),
    [*((name, generation_step) for name in MADE), ("Llama", decode_step), ("OPT", decode_step)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_steps_of_language_models_are_those_of_a_full_capture(name: str, step: Callable[[Any], Any]) -> None:
    case = step(model_of(*MADE[name]))
    made = []
    for reuse in (True, False):
        log = Log()
        with copies_counted() as copied:
            program = export(
                case.model,
                case.args,
                case.kwargs,
                dynamic_shapes=case.dynamic_shapes,
                options=Options(reuse=reuse),
                log=log,
            )
        graph = program.model.graph
        made.append(
            (
                [(node.op_type, [*node.attributes.values()]) for node in graph],
                [(each.name, str(each.shape)) for each in (*graph.inputs, *graph.outputs)],
                [(each.rule, each.place) for each in log.findings],
            )
        )
        assert bool(copied) == reuse
    (nodes, ends, told), (want_nodes, want_ends, want_told) = made
    assert [kind for kind, _ in nodes] == [kind for kind, _ in want_nodes]
    assert (ends, told) == (want_ends, want_told)


def test_a_number_tells_what_it_is_asked() -> None:
    read = Reads()
    number = Number(3, ("", "index"), read)
    assert isinstance(number, int)
    assert 2 < number < 5
    assert number != 4
    assert number not in (None, "three")
    assert not read.values
    block = nn.Identity()
    for value, same in ((3, True), (2, False), (4, False), (5, False), ("3", False), (True, False)):
        block.index = value
        assert read.are_same_for(block, [("", "index")]) is same, value


USES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (lambda n: n + 1, 4),
    "reflected": (lambda n: 10 - n, 7),
    "power": (lambda n: 2**n, 8),
    "index": (lambda n: [0, 1, 2, 9][n], 9),
    "range": (lambda n: [*range(n)], [0, 1, 2]),
    "text": (lambda n: f"{n:02d}|{n}|%d" % n, "03|3|3"),
    "key": (lambda n: {3: "three"}[n], "three"),
    "integer": (lambda n: (int(n), float(n), bool(n), round(n)), (3, 3.0, True, 3)),
    "half": (lambda n: n < 3.5, True),
    "method": (lambda n: n.bit_length(), 2),
    "copy": (lambda n: copy.deepcopy(n), 3),
    "tensor": (lambda n: (torch.ones(2) * n).tolist(), [3.0, 3.0]),
    "zeros": (lambda n: n == n + 0, True),
    "complex": (lambda n: n == 3 + 0j, True),
    "among complex": (lambda n: n in (1j, 3 + 0j), True),
}


@pytest.mark.parametrize("name", USES)
def test_a_use_of_the_value_is_noted(name: str) -> None:
    use, want = USES[name]
    read = Reads()
    assert use(Number(3, ("", "index"), read)) == want
    assert read.values == {("", "index")}
