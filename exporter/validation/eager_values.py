"""Search for the first node of a captured graph whose value eager PyTorch never computes.

Eager PyTorch has no nodes, but every tensor that it makes passes its dispatcher. A sketch of each is kept there, and a
node whose value has none, and from which nothing follows that has one, is where the graph left the model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fxport.exporter.capture.patches.attention import no_fast_path
from fxport.exporter.validation.intermediates import Intermediates, NodeFailed
from fxport.fx_passes.program import Program

ELEMENTS = 64
"""Number of evenly spread elements of a tensor that a sketch holds."""

NEAR = 1e-3
"""Part of the largest element up to which two sketches are of the same values: far above rounding, and far below what
a wrong graph gives."""

Sketch = tuple[tuple[int, ...], np.ndarray]


def first_foreign(program: Program, inputs: Mapping[str, np.ndarray], run: Callable[[], Any]) -> Node | None:
    """The first node whose value, and all that follows from it, `run` does not compute; None if there is none.

    `run` calls the model in eager PyTorch on those inputs.
    """
    with torch.no_grad(), no_fast_path(), _Recorder() as eager:
        run()
    own: dict[Node, bool] = {}

    def note(node: Node, plain: Any, _exact: Any) -> None:
        own[node] = all(eager.knows(tensor) for tensor in _tensors(plain))

    failed: Node | None = None
    try:
        Intermediates(program, inputs).watch(note)
    except NodeFailed as error:
        failed = error.node
    return next(_foreign(program, own), failed)


def _foreign(program: Program, own: Mapping[Node, bool]) -> Iterator[Node]:
    """In the graph's order, the nodes that eager PyTorch does not know, and none of what follows from them."""
    known_below: dict[Node, bool] = {}
    for node in reversed(program.graph_module.graph.nodes):
        known_below[node] = any(own.get(user, False) or known_below[user] for user in node.users)
    for node in program.graph_module.graph.nodes:
        if not own.get(node, True) and not known_below[node]:
            yield node


class _Recorder(TorchDispatchMode):
    """Sketches of all tensors that are made while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: defaultdict[tuple[int, ...], list[np.ndarray]] = defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            shape, values = _sketch(tensor)
            self._seen[shape].append(values)
        return result

    def knows(self, tensor: torch.Tensor) -> bool:
        shape, values = _sketch(tensor)
        return any(_alike(values, each) for each in self._seen[shape])


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value that have elements in memory."""
    return (each for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor) and not each.is_meta)


def _sketch(tensor: torch.Tensor) -> Sketch:
    flat = tensor.detach().reshape(-1)
    chosen = flat[:: max(flat.numel() // ELEMENTS, 1)][:ELEMENTS].cpu()
    wide = chosen.to(torch.complex128) if chosen.is_complex() else chosen.to(torch.float64)
    return tuple(tensor.shape), wide.numpy()


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    finite = np.abs(other[np.isfinite(other)])
    return np.allclose(one, other, rtol=0.0, atol=NEAR * float(finite.max(initial=0.0)), equal_nan=True)
