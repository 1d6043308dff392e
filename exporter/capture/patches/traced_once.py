"""A step is traced once: PyTorch runs a program a first time only to see which of its inputs it writes to.

Nothing that a step is given is to change: it copies what it changes, and returns the new values. So the first run is
left out, and what it would have found is looked for in the trace itself; where there is a write, PyTorch traces again
in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import graph_compile
from torch._functorch._aot_autograd.functional_utils import has_data_mutation
from torch._functorch._aot_autograd.subclass_utils import create_subclass_meta
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import _trace
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.patches.bookkeeping import modes_away
from fxport.exporter.capture.places import Around

EFFECT = "with_effects"
"""Name of the operator around what has an effect beside its results, for which PyTorch adds inputs in the first run."""


ALIKE = frozenset({FakeTensor, torch.SymInt, int, float, bool, str, type(None)})
"""Types of inputs that PyTorch describes in the same words, if none is written to or asks for a gradient."""

_once: ContextVar[bool] = ContextVar("once", default=False)
"""True while a module runs in the only trace of it."""


def is_only_trace() -> bool:
    """Return whether a module runs in the only trace of it, to whose graph `finish_trace` may do anything."""
    return _once.get()


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy without a gradient. In the only trace of a module it is no node of the graph.

    A trace keeps writes out of the graph: a tensor stands for a value, and for another one once it is written to. So a
    second tensor for the same value is a copy of the first.
    """
    if not is_only_trace() or type(tensor) is not FunctionalTensor:
        return tensor.clone()
    with modes_away():
        value = tensor.from_functional()
        if type(value) is FakeTensor and _is_dense(value) and not value.requires_grad:
            return FunctionalTensor.to_functional(value)
    return tensor.clone()


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether a copy has the strides of the tensor: its elements lie side by side, none twice."""
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return False
    axes = [*zip(tensor.stride(), tensor.shape, strict=True)]
    if any(type(each) is not int for axis in axes for each in axis):
        return False  # a dynamic size is not asked about
    beside = 1
    for stride, size in sorted(axis for axis in axes if axis[1] != 1):
        if stride != beside:
            return False
        beside *= size
    return True


class _SeenWriteError(Exception):
    """An input was written to: PyTorch has to trace again."""


@contextmanager
def traced_once(model: torch.nn.Module) -> Iterator[None]:
    """During the block, a module of fxport's own around the user's is traced once, if its inputs stay as they are."""
    if not isinstance(model, Around):
        yield
        return
    collect = aot_autograd.run_functionalized_fw_and_collect_metadata  # pyright: ignore[reportPrivateImportUsage]
    whole, second = _trace._aot_export_joint_with_descriptors, graph_compile.aot_stage2_export
    told: list[Any] = []

    def unseen(_function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
        """Tell of the inputs of a program that they are not written to, and of its outputs that each is a new tensor.

        How many there are the trace itself will tell.
        """

        def described(*inputs: Any) -> Any:
            with modes_away():
                told[:] = [_described(inputs, lambda **how: collect(lambda *_inputs: [torch.zeros(())], **how), how)]
            return told[0]

        return described

    def watched(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, FunctionalTensor)]
        with modes_away():
            axes = [(each.size(), each.stride()) for each in given]
        token = _once.set(True)
        try:
            results = forward(*args, **kwargs)
        finally:
            _once.reset(token)
        with modes_away():
            if any(map(has_data_mutation, given)) or [(each.size(), each.stride()) for each in given] != axes:
                raise _SeenWriteError
        told[0].output_info[:] = told[0].output_info[:1] * len(pytree.tree_leaves(results))
        return results

    def traced(stack: ExitStack, *args: Any, **how: Any) -> tuple[GraphModule, Any]:
        given = pytree.tree_leaves((args[1:], how.get("kwargs")))
        if any(isinstance(each, torch.Tensor) and each.requires_grad for each in given):
            return whole(stack, *args, **how)
        with ExitStack() as own:
            unexamined = mock.patch.object(aot_autograd, "run_functionalized_fw_and_collect_metadata", unseen)
            try:
                with unexamined, forward_by(model, watched):
                    gm, signature = whole(own, *args, **how)
                if not any(getattr(node.target, "__name__", None) == EFFECT for node in gm.graph.nodes):
                    stack.enter_context(own.pop_all())
                    return gm, signature
            except _SeenWriteError:
                pass
        return whole(stack, *args, **how)

    def finished(*args: Any) -> Any:
        graph, described = second(*args)
        assert isinstance(graph, GraphModule)
        with modes_away():
            model.finish_trace(graph)
        return graph, described

    ends = mock.patch.object(graph_compile, "aot_stage2_export", finished)
    with ends, mock.patch.object(_trace, "_aot_export_joint_with_descriptors", traced):
        yield


def _described(inputs: Sequence[Any], collect: Callable[..., Any], how: Mapping[str, Any]) -> Any:
    """Describe inputs of which none is written to or asks for a gradient: those of one type are alike.

    PyTorch looks at each, which costs as much as an operator of the trace.
    """
    firsts = {type(each): place for place, each in reversed([*enumerate(inputs)])}
    if not firsts.keys() <= ALIKE:
        return collect(**how)(*inputs)
    places = {kind: i for i, kind in enumerate(firsts)}
    few = collect(**{**how, "flat_args_descs": [how["flat_args_descs"][place] for place in firsts.values()]})
    known = few(*(inputs[place] for place in firsts.values()))
    infos = [known.input_info[places[type(each)]] for each in inputs]
    return replace(known, input_info=infos, subclass_inp_meta=create_subclass_meta([*inputs]))
