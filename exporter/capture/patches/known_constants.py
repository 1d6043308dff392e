"""Values of constants: tensors that a model holds beside its weights, or makes of plain numbers.

A list of steps, of anchors or of strides is the same in every run. What Python asks of it, and of what is computed of
such tensors alone, is no question about data: it is answered as eager PyTorch answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._ops import HigherOrderOperator
from torch._subclasses import FakeTensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from fxport.exporter.capture import knowledge
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.patches.shared_arrays import note_shared
from fxport.fx_passes.passes.writes import written

LARGEST = 2**16
"""Tensors of more elements than this are not followed: no model loops over so many."""

VALUE = "value"
"""The fact of a traced tensor that holds its value, the same in every run."""

MADE = frozenset({torch.arange, torch.tensor, torch.as_tensor, torch.zeros, torch.ones, torch.full, torch.linspace})
"""Functions that make tensors whose values are known where their arguments are plain numbers."""

NUMBERS = frozenset(
    {Tensor.item, Tensor.tolist, *(getattr(Tensor, f"__{name}__") for name in ("int", "float", "index"))}
)
"""Functions that give Python numbers, which a graph can compute."""

TRUTHS = frozenset(
    getattr(Tensor, name) for name in ("equal", "is_nonzero", "allclose", "__bool__", "__contains__")
) | {torch.equal, torch.is_nonzero, torch.allclose}
"""Functions on whose result Python branches."""

ARRAYS = frozenset({Tensor.numpy, Tensor.__array__})
"""Functions that give an array of the values."""

ASKING = NUMBERS | TRUTHS | ARRAYS
"""Functions that give Python a value."""

PLAIN = frozenset(
    {int, float, complex, bool, str, type(None), type(Ellipsis), np.ndarray, np.float64, np.float32, np.int64}
    | {torch.dtype, torch.device, torch.layout, torch.memory_format}
)
"""Types of arguments that stand for nothing else."""

REBINDING = frozenset({Tensor.data.__set__, Tensor.set_})  # type: ignore[attr-defined]  # a descriptor
"""Functions that give a tensor the memory of another one."""

UNKNOWN = (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException)
"""Exceptions that PyTorch raises where a capture would have to know a value."""

LIKE = frozenset({Tensor.to, Tensor.type_as})
"""Functions that take another tensor for its type alone."""


def constant(tensor: Tensor) -> Tensor | None:
    """Return the value of a tensor that is a constant of the capture; None for others, and for large ones."""
    if tensor.requires_grad:  # what is asked may be its gradient
        return None
    if type(tensor) is not Tensor:
        return None if knowledge.is_body() else knowledge.known(tensor, VALUE)  # a body gets others in later turns
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized or tensor.numel() > LARGEST:
        return None
    functorch: Any = torch._C._functorch  # type: ignore[attr-defined]  # the stubs lack it
    if functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):  # type: ignore[attr-defined]
        return None
    with _eagerly():
        return tensor.detach().clone()  # so that no call writes to the model's own


@contextmanager
def _eagerly() -> Iterator[None]:
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


class ConstantsKnown(Part):
    """Compute what follows from constants alone, and answer Python from it.

    Attributes:
        has_answered: Whether Python was told a value.
        are_rebound: Whether a tensor got the memory of another one.
    """

    functions = MADE | REBINDING

    def __init__(self) -> None:
        self.has_answered = self.are_rebound = False

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        for each in args:
            kind = type(each)
            if kind is Tensor or (kind is FakeTensor and knowledge.FACTS in each.__dict__):
                return True
            if kind in (list, tuple) and each and type(each[0]) in (Tensor, FakeTensor):
                return True
        return False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.are_rebound |= func in REBINDING
        run, given = (Tensor.to, _typed(*args)) if func in LIKE else (func, args)
        values = _values_of((given, kwargs)) if _is_followed(func) else None
        if values is not None and func in ASKING:
            self.has_answered = True
            return told(func, args, _computed(run, *values)[0])
        results = error = None
        try:
            results = func(*args, **kwargs)
        except UNKNOWN as raised:
            error = raised
        if values is not None and not any(map(_is_large, pytree.tree_leaves(results))):
            answer, is_new = _computed(run, *values)
            if is_new:
                return paired(results, answer, _with_value)
        if error is not None:
            raise error
        return results


def _is_followed(func: Any) -> bool:
    """Return whether the results of a function on known values are known, and no kernel of a user's runs for them."""
    if func in REBINDING or isinstance(func, HigherOrderOperator):
        return False
    return not isinstance(func, knowledge.OPERATORS) or str(func).startswith("aten.")


def _is_large(result: Any) -> bool:
    return isinstance(result, FakeTensor) and not free_unbacked_symbols(result) and result.numel() > LARGEST


def _typed(tensor: Tensor, *args: Any) -> tuple[Any, ...]:
    return (tensor, *(each.dtype if isinstance(each, Tensor) else each for each in args))


def _values_of(call: Any) -> Any:
    """Return the arguments of a call with their values for tensors; None if one of them is not known."""
    leaves, spec = pytree.tree_flatten(call)
    if not all(isinstance(each, Tensor) or _is_plain(each) for each in leaves):
        return None
    values = [constant(each) if isinstance(each, Tensor) else each for each in leaves]
    if any(value is None and each is not None for value, each in zip(values, leaves, strict=True)):
        return None
    return pytree.tree_unflatten(values, spec)


def _is_plain(value: Any) -> bool:
    """Return whether an argument is one and the same in each run; what stands for a number or a list is none."""
    if type(value) is slice:
        return all(map(_is_plain, (value.start, value.stop, value.step)))
    return type(value) in PLAIN


def is_unknown(value: Any) -> bool:
    """Return whether a value is a number of the capture, or a slice by one or by a tensor."""
    if isinstance(value, slice):
        return any(isinstance(each, Tensor) or is_unknown(each) for each in (value.start, value.stop, value.step))
    return isinstance(value, (SymInt, SymFloat, SymBool))


def _computed(func: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, bool]:
    """Run a call, and return whether its results are the same each time, and it writes to none of its arguments."""
    given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    versions = [each._version for each in given]
    devices = {each.device for each in given if each.is_cuda}
    with _eagerly(), torch.random.fork_rng(devices):
        states = _random_states(devices)
        answer = func(*args, **kwargs)
        is_new = all(map(torch.equal, _random_states(devices), states))
    return answer, is_new and [each._version for each in given] == versions


def _random_states(devices: Iterable[torch.device]) -> list[Tensor]:
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]


def told(func: Any, args: Any, answer: Any) -> Any:
    """Return the answer to a question; a write to an array of it, or to the tensor, is seen."""
    if func in ARRAYS:
        answer.setflags(write=False)
        note_shared(args[0], answer, references=0)
    return answer


def paired(results: Any, answer: Any, pair: Callable[[Any, Tensor], Any]) -> Any:
    """Return the results of the capture, each tensor as `pair` makes it of the result, if there is one, and its value.

    A call that gives no tensors gives its answer, where the capture had none.
    """
    values, spec = pytree.tree_flatten(answer)
    if not any(isinstance(value, Tensor) for value in values):
        return answer if results is None else results
    leaves = [None] * len(values) if results is None else pytree.tree_leaves(results)
    made = [
        pair(result, value) if isinstance(value, Tensor) else result
        for result, value in zip(leaves, values, strict=True)
    ]
    return pytree.tree_unflatten(made, spec)


def _with_value(result: Any, value: Tensor) -> Any:
    """Note the value of a result; one whose size the capture does not know becomes a constant."""
    if value.is_meta or (value.numel() > LARGEST and result is not None):
        return result
    if not isinstance(result, FakeTensor) or free_unbacked_symbols(result):
        result = torch.tensor(value.tolist(), dtype=value.dtype, device=value.device)
    knowledge.note(result, VALUE, value)
    return result


def are_written(exported: ExportedProgram) -> bool:
    """Return whether a program, as torch.export traced it, writes to constants or to views of them."""
    signature = exported.graph_signature
    held = {each.arg.name for each in signature.input_specs if each.kind is InputKind.CONSTANT_TENSOR}
    views: set[Node] = set()
    for node in exported.graph.nodes:
        if not views.isdisjoint(written(node)):
            return True
        if node.op == "get_attr" or (node.op == "placeholder" and node.name in held) or _views_one_of(node, views):
            views.add(node)
    return False


def _views_one_of(node: Node, views: Container[Node]) -> bool:
    """Return whether a node may give a view of one of these, or a part of such a result."""
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    may_view = schema is None or any(each.alias_info is not None for each in schema.returns)
    return may_view and any(each in views for each in node.all_input_nodes)
