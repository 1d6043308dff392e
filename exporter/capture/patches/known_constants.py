"""Values of constants: tensors that a model holds beside its weights, or makes of plain numbers.

A list of steps, of anchors or of strides is the same in every run. What Python asks of it, and of what is computed of
such tensors alone, is no question about data: it is answered as eager PyTorch answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator, OpOverload
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

ALIAS = torch.ops.aten.alias.default
"""Makes a tensor of the capture of one that the model holds."""

LIKE = frozenset({Tensor.to, Tensor.type_as})
"""Functions that take another tensor for its type alone."""


def noted(tensor: Tensor) -> Tensor | None:
    """Return the value that is noted of a traced tensor; None for others, and in bodies, which run on others."""
    return None if tensor.requires_grad or knowledge.is_body() else knowledge.known(tensor, VALUE)


@contextmanager
def _eagerly() -> Iterator[None]:
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def _version(tensor: Tensor) -> int:
    with torch._C.DisableTorchFunction():
        return -1 if tensor.is_inference() else tensor._version


@dataclass(frozen=True, slots=True)
class Given:
    """An array that Python was given of a tensor, and what it held."""

    array: Any
    content: bytes


class ConstantsKnown(Part):
    """Compute what follows from constants alone, and answer Python from it.

    Args:
        model: Its parameters and buffers are none, and neither is what shares memory with them.
        answers: Whether Python is answered; else what is asked of a tensor that was written to is asked of the capture.
    """

    functions = MADE | REBINDING

    def __init__(self, model: torch.nn.Module, *, answers: bool = True) -> None:
        self.answers = answers
        self.registered = {_memory(each) for each in (*model.parameters(), *model.buffers()) if _has_memory(each)}
        self.held: dict[int, tuple[Tensor, int]] = {}
        self.given: list[Given] = []
        self.has_answered = self.are_rebound = False

    def are_misled(self, exported: ExportedProgram) -> bool:
        """Return whether Python was told what may not be so: a tensor, or an array of one, was written to."""
        if not self.has_answered:
            return False
        is_written = any(_version(tensor) != version for tensor, version in self.held.values())
        is_changed = any(each.array.tobytes() != each.content for each in self.given)
        return self.are_rebound or is_written or is_changed or are_written(exported)

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
        values = self.values((given, kwargs)) if _is_followed(func) else None
        values = values if self.answers else None
        if func in ASKING:
            return self.told(func, args, kwargs, values)
        results = error = None
        try:
            results = func(*args, **kwargs)
        except UNKNOWN as raised:
            error = raised
        if values is not None and not any(map(_is_large, pytree.tree_leaves(results))):
            answer, is_new = _computed(run, *values)
            if is_new:
                return paired(results, answer, self.paired)
        if error is not None:
            raise error
        return results

    def told(self, func: Any, args: Any, kwargs: Any, values: Any) -> Any:
        """Return the answer to a question; where Python is not answered, it is one for the capture."""
        if values is None:
            is_asked = not self.answers
            args = tuple(ALIAS(each) if is_asked and type(each) is Tensor else each for each in args)
            return func(*args, **kwargs)
        self.has_answered = True
        answer, _ = _computed(func, *values)
        return as_told(func, args, answer, self.given)

    def paired(self, result: Any, value: Tensor) -> Any:
        """Note the value of a result; one whose size the capture does not know becomes a constant."""
        if value.is_meta or (value.numel() > LARGEST and result is not None):
            return result
        if result is None or (isinstance(result, FakeTensor) and free_unbacked_symbols(result)):
            self.has_answered = True
            result = torch.tensor(value.tolist(), dtype=value.dtype, device=value.device).reshape(value.shape)
        if isinstance(result, FakeTensor):
            knowledge.note(result, VALUE, value)
        return result

    def values(self, call: Any) -> Any:
        """Return the arguments of a call with their values for tensors; None if one of them is not known."""
        leaves, spec = pytree.tree_flatten(call)
        if not all(isinstance(each, Tensor) or _is_plain(each) for each in leaves):
            return None
        values = [self.constant(each) if isinstance(each, Tensor) else each for each in leaves]
        if any(value is None and each is not None for value, each in zip(values, leaves, strict=True)):
            return None
        return pytree.tree_unflatten(values, spec)

    def constant(self, tensor: Tensor) -> Tensor | None:
        """Return the value of a tensor that is a constant of the capture; None for others, and for large ones."""
        if type(tensor) is not Tensor:
            return noted(tensor)
        functorch: Any = torch._C._functorch  # type: ignore[attr-defined]  # the stubs lack it
        if functorch.peek_interpreter_stack() is not None or torch._is_functional_tensor(tensor):  # type: ignore[attr-defined]
            return None
        is_large = tensor.is_meta or tensor.numel() > LARGEST
        if is_large or tensor.requires_grad or not _has_memory(tensor) or _memory(tensor) in self.registered:
            return None
        self.held.setdefault(id(tensor), (tensor, _version(tensor)))
        with _eagerly():
            return tensor.detach().clone()  # so that no call writes to the model's own


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _has_memory(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_quantized


def _is_followed(func: Any) -> bool:
    """Return whether the results of a function on known values are known, and no kernel of a user's runs for them."""
    if func in REBINDING or isinstance(func, HigherOrderOperator):
        return False
    return not isinstance(func, knowledge.OPERATORS) or str(func).startswith("aten.")


def _is_large(result: Any) -> bool:
    return isinstance(result, FakeTensor) and not free_unbacked_symbols(result) and result.numel() > LARGEST


def _typed(tensor: Tensor, *args: Any) -> tuple[Any, ...]:
    return (tensor, *(each.dtype if isinstance(each, Tensor) else each for each in args))


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
    versions = [*map(_version, given)]
    devices = {each.device for each in given if each.is_cuda}
    with _eagerly(), torch.random.fork_rng(devices):
        states = _random_states(devices)
        answer = func(*args, **kwargs)
        is_new = all(map(torch.equal, _random_states(devices), states))
    return answer, is_new and [*map(_version, given)] == versions


def _random_states(devices: Iterable[torch.device]) -> list[Tensor]:
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]


def as_told(func: Any, args: Any, answer: Any, given: list[Given]) -> Any:
    """Return the answer to a question; an array as a copy, of which is kept what it holds, and whose memory it has."""
    if func not in ARRAYS:
        return answer
    array = answer.copy()
    given.append(Given(array, array.tobytes()))
    note_shared(args[0], array, references=1)
    return array


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


def are_written(exported: ExportedProgram) -> bool:
    """Return whether a program, as torch.export traced it, writes to constants or to what may be views of them."""
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
    """Return whether a node may give a view of one of these, or a part of such a result.

    What is made of other ops may give its argument, as dropout in eval mode does, and does not declare it.
    """
    if node.op != "call_function" or not any(each in views for each in node.all_input_nodes):
        return False
    if not isinstance(node.target, OpOverload):
        return True
    declares = any(each.alias_info is not None for each in node.target._schema.returns)
    return declares or node.target.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
