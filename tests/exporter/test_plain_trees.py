"""Maps of nested arguments while a model is captured: what PyTorch's own give."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
import torch
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from fxport.exporter.capture.patches.plain_trees import plain_trees_mapped

Pair = namedtuple("Pair", "one other")


class Rows(list[Any]):
    """A list of a class of its own, which PyTorch takes for one value."""


class Unnamed(tuple[Any, ...]):
    """A tuple of a class of its own, likewise."""


TREES = (
    1,
    None,
    (),
    [],
    {},
    (1, [2, {"b": 3, "a": None}], "text"),
    Pair([1, 2], (3, {"x": 4})),
    [Pair(1, 2), (Pair(3, 4),)],
    OrderedDict(b=1, a=(2, 3)),
    {"held": defaultdict(list, {"k": [1, (2,)]})},
    (immutable_list([1, (2, 3)]), immutable_dict({"a": [1]})),
    [Rows([1, 2]), Unnamed((3, 4)), slice(1, 2), torch.Size([2, 3])],
    torch.return_types.max((torch.ones(1), torch.zeros(1))),
)


def noted(tree: Any) -> tuple[Any, ...]:
    """Return the results of the functions, and the values in the order in which they are called with them."""
    seen: list[Any] = []

    def note(value: Any) -> Any:
        seen.append(value)
        return [value]

    mapped = pytree.tree_map(note, tree)
    only = pytree.tree_map_only(int, note, tree)
    several = pytree.tree_map_only((int, str), note, tree)
    chosen = pytree.tree_map_only(lambda value: value == 2, note, tree)
    as_leaf = pytree.tree_map(note, tree, is_leaf=lambda value: isinstance(value, list))
    both = pytree.tree_map(lambda one, other: note((one, other)), tree, tree)
    return mapped, only, several, chosen, as_leaf, both, pytree.tree_leaves(tree), seen


@pytest.mark.parametrize("tree", TREES[:-1], ids=repr)
def test_maps_and_leaves_are_those_of_pytorch(tree: Any) -> None:
    wanted = noted(tree)
    with plain_trees_mapped():
        found = noted(tree)
    assert repr(found) == repr(wanted)
    assert pytree.tree_map(type, found[0]) == pytree.tree_map(type, wanted[0])


def test_results_of_several_tensors_are_mapped_as_by_pytorch() -> None:
    wanted = pytree.tree_map(lambda value: value + 1, TREES[-1])
    with plain_trees_mapped():
        found = pytree.tree_map(lambda value: value + 1, TREES[-1])
    assert type(found) is type(wanted)
    assert [*map(float, found)] == [*map(float, wanted)]


def test_errors_are_passed_on_and_pytorch_has_its_own_back() -> None:
    before = pytree.tree_map

    def fails(value: Any) -> Any:
        raise KeyError(value)

    with plain_trees_mapped():
        assert pytree.tree_map is not before
        with pytest.raises(KeyError):
            pytree.tree_map(fails, [1])
    assert pytree.tree_map is before
