"""Ops within `torch.vmap` of a dynamic size: batching rules in Python that keep the size.

PyTorch's own rules of these ops are written in C++ and make the size of the batch a constant. A rule here is given what
the op was called with, where each batched tensor has its batch as its first axis, and does all rows at once; or it is a
decomposition into ops whose own rules keep the size. They stand for PyTorch's while a `vmap` of a dynamic size is
captured, and only then.

What each op gives is that of its ATen schema for each row by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import SymInt, Tensor
from torch._decomp import decomposition_table
from torch._functorch import apis, vmap
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

functorch: Any = torch._C._functorch  # type: ignore[attr-defined]  # the stubs lack it
aten = torch.ops.aten

KEY = "FuncTorchBatched"
BATCHED = torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)


@dataclass(frozen=True, slots=True)
class Batched:
    """A tensor of which each row of a vmap has its own part: `value` has them along its first axis."""

    value: Tensor


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an op within a vmap.

    Attributes:
        op: The op.
        size: The number of rows.
        args: The arguments, in which `Batched` stands for a tensor that each row has its own of.
        kwargs: Those by name.
    """

    op: OpOverload
    size: int | SymInt
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def whole(self, value: Any) -> Any:
        """Return a tensor with all rows along its first axis; what is no tensor as it is."""
        if isinstance(value, Batched):
            return value.value
        return value.expand(self.size, *value.shape) if isinstance(value, Tensor) else value


Rule = Callable[[Call], Any]
"""Return what the op gives for all rows, which are the first axis of each tensor."""


def _rank(value: Batched | Tensor) -> int:
    """Return how many axes each row has."""
    return value.value.dim() - 1 if isinstance(value, Batched) else value.dim()


def _along(call: Call) -> Any:
    """Run an op along an axis of tensors of one rank: `gather(x, dim, index)`, `scatter(x, dim, index, src)`."""
    x, dim, *others = call.args
    first, *rest = [call.whole(each) for each in (x, *others)]
    if _rank(x):
        return call.op(first, dim % _rank(x) + 1, *rest, **call.kwargs)
    rows = [each.reshape(call.size, -1) if isinstance(each, Tensor) else each for each in (first, *rest)]
    shape = rest[0].shape if call.op is aten.gather.default else first.shape
    return call.op(rows[0], 1, *rows[1:], **call.kwargs).reshape(shape)


def _selected(call: Call) -> Any:
    """Run `index_select(x, dim, index)`."""
    x, dim, index = call.args
    lone = not _rank(x)
    rows = call.whole(x).unsqueeze(-1) if lone else call.whole(x)
    axis = 1 if lone else dim % _rank(x) + 1
    if isinstance(index, Batched):
        places = call.whole(index).reshape(call.size, -1)
        shape = [call.size, *[1] * (axis - 1), places.shape[1], *[1] * (rows.dim() - axis - 1)]
        wanted = [*rows.shape[:axis], places.shape[1], *rows.shape[axis + 1 :]]
        result = torch.gather(rows, axis, places.reshape(shape).expand(wanted))
    else:
        result = call.op(rows, axis, index)
    return result.squeeze(-1) if lone else result


def _joined(call: Call) -> Any:
    """Run `cat(tensors, dim)`; tensors of shape [0] are left out, as PyTorch does."""
    tensors, dim = [*call.args, *([] if len(call.args) > 1 else [call.kwargs.get("dim", 0)])]
    kept = [each for each in tensors if not (_rank(each) == 1 and call.whole(each).shape[1] == 0)] or tensors[:1]
    return call.op([call.whole(each) for each in kept], dim % _rank(kept[0]) + 1)


def _folded(tensors: int, axes: int) -> Rule:
    """Make the rule of an op that treats each image of a batch alone: the rows are images of one batch.

    Args:
        tensors: How many of the first arguments are tensors.
        axes: The rank of an image without its batch, that with it being one more.
    """

    def rule(call: Call) -> Any:
        given = [call.whole(each) for each in call.args[:tensors]]
        rest = call.args[tensors:]
        if given[0].dim() == axes + 1:
            return call.op(*given, *rest, **call.kwargs)
        images = given[0].shape[1]
        result = call.op(*(each.flatten(0, 1) for each in given), *rest, **call.kwargs)
        return pytree.tree_map_only(Tensor, lambda each: each.unflatten(0, (call.size, images)), result)

    return rule


def _channels_joined(value: Tensor) -> Tensor:
    """Return [N, rows * C, ...] of [rows, N, C, ...]."""
    return value.movedim(0, 1).flatten(1, 2)


def _channels_parted(value: Tensor, rows: int | SymInt) -> Tensor:
    """Return [rows, N, C, ...] of [N, rows * C, ...]."""
    return value.unflatten(1, (rows, value.shape[1] // rows)).movedim(1, 0)


def _convolved(call: Call) -> Any:
    """Run `convolution`: rows are images of one batch, or groups where each row has a weight of its own."""
    x, weight, bias, *how, groups = call.args
    if not isinstance(weight, Batched) and not isinstance(bias, Batched):
        images = x.value.shape[1]
        return call.op(x.value.flatten(0, 1), weight, bias, *how, groups).unflatten(0, (call.size, images))
    filters = call.whole(weight).flatten(0, 1)
    joined = call.op(_channels_joined(call.whole(x)), filters, None, *how, groups * call.size)
    result = _channels_parted(joined, call.size)
    if bias is None:
        return result
    offsets = call.whole(bias)
    return result + offsets.reshape(call.size, 1, -1, *[1] * (result.dim() - 3))


def _convolved_back(call: Call) -> Any:
    """Run `convolution_backward`: what each row's own weight gets is that of a group."""
    gradient, x, weight, sizes, *how, groups, (for_input, for_weight, for_bias) = call.args
    gradients, rows = call.whole(gradient), call.whole(x)
    transposed = how[3]
    to_input = to_weight = to_bias = None
    if for_input and not isinstance(weight, Batched):
        given = (gradients.flatten(0, 1), rows.flatten(0, 1), weight, sizes, *how, groups, [True, False, False])
        to_input = call.op(*given)[0].unflatten(0, (call.size, rows.shape[1]))
    if for_weight and rows.dim() <= 5:
        window = (weight.value.shape[3:] if isinstance(weight, Batched) else weight.shape[2:], *how[:3])
        # A transposed convolution leads from the results of the other one to its images.
        to_weight = _to_weights(*((rows, gradients) if transposed else (gradients, rows)), window, groups)
    mask = [for_input and to_input is None, for_weight and to_weight is None, False]
    if any(mask):
        joined = (_channels_joined(gradients), _channels_joined(rows), call.whole(weight).flatten(0, 1))
        found = call.op(*joined, sizes, *how, groups * call.size, mask)
        to_input = _channels_parted(found[0], call.size) if mask[0] else to_input
        to_weight = found[1].unflatten(0, (call.size, -1)) if mask[1] else to_weight
    if for_bias:
        to_bias = gradients.sum([1, *range(3, gradients.dim())])
    return to_input, to_weight, to_bias


def _to_weights(gradients: Tensor, x: Tensor, window: Sequence[Any], groups: int | SymInt) -> Tensor:
    """Return the gradient of each row's weight: products of windows of the images with the gradients of the results.

    Args:
        gradients: [rows, N, C_out, *results].
        x: [rows, N, C_in, *image], with one or two axes of an image.
        window: The size of the kernel, its stride, padding and dilation.
        groups: The groups of the convolution.

    Returns:
        [rows, C_out, C_in / groups, *kernel].
    """
    kernel, stride, padding, dilation = window
    rows, images, channels = x.shape[:3]
    flat = x.dim() == 4
    folded = x.flatten(0, 1).unsqueeze(2) if flat else x.flatten(0, 1)
    pairs = [[1, *kernel], [1, *dilation], [0, *padding], [1, *stride]] if flat else [kernel, dilation, padding, stride]
    windows = aten.im2col.default(folded, *pairs)  # [rows * N, C_in * kernel, results]
    sides = windows.reshape(rows, images, groups, -1, windows.shape[-1])
    results = gradients.reshape(rows, images, groups, gradients.shape[2] // groups, -1)
    products = torch.einsum("bngol,bngil->bgoi", results, sides)
    return products.reshape(rows, gradients.shape[2], channels // groups, *kernel)


def _searched(call: Call) -> Any:
    """Run `searchsorted(sequence, values)`: a sequence of one axis is one for all values."""
    sequence, values = call.args
    if isinstance(sequence, Batched) and _rank(sequence) == 1:
        sought = call.whole(values)
        found = call.op(sequence.value, sought.reshape(call.size, -1), **call.kwargs)
        return found.reshape(sought.shape)
    if isinstance(sequence, Batched):
        return call.op(sequence.value, call.whole(values), **call.kwargs)
    if _rank(sequence) == 1:
        return call.op(sequence, values.value, **call.kwargs)
    return call.op(call.whole(sequence), call.whole(values), **call.kwargs)


def _attended(call: Call) -> Any:
    """Run attention, or its gradient: the rows are entries of one batch. A mask may be one for all of them."""
    mask = call.kwargs.get("attn_mask")
    batch = call.whole(call.args[0]).shape[1]
    if isinstance(mask, Batched):
        axes = [1] * (4 - _rank(mask))
        whole = mask.value.reshape(call.size, *axes, *mask.value.shape[1:])
        mask = whole.expand(call.size, batch, *whole.shape[2:]).flatten(0, 1)
    elif mask is not None and _rank(mask) == 4:
        mask = call.whole(mask.expand(batch, *mask.shape[1:])).flatten(0, 1)
    given = [call.whole(each).flatten(0, 1) if isinstance(each, (Batched, Tensor)) else each for each in call.args]
    results = call.op(*given, **{**call.kwargs, "attn_mask": mask})
    return pytree.tree_map_only(Tensor, lambda each: each.unflatten(0, (call.size, batch)), results)


def _sliced_back(call: Call) -> Any:
    """Run `slice_backward(gradient, sizes, dim, start, end, step)`."""
    gradient, sizes, dim, *ends = call.args
    return call.op(gradient.value, [call.size, *sizes], dim % len(sizes) + 1, *ends)


FOLDED: Mapping[Any, tuple[int, int]] = {
    aten.reflection_pad1d: (1, 2),
    aten.replication_pad1d: (1, 2),
    aten.upsample_linear1d: (1, 2),
    aten.upsample_nearest1d: (1, 2),
    aten.avg_pool2d: (1, 3),
    aten.max_pool2d_with_indices: (1, 3),
    aten._adaptive_avg_pool2d: (1, 3),
    aten.reflection_pad2d: (1, 3),
    aten.replication_pad2d: (1, 3),
    aten.upsample_bilinear2d: (1, 3),
    aten.upsample_bicubic2d: (1, 3),
    aten.upsample_nearest2d: (1, 3),
    aten.grid_sampler_2d: (2, 3),
    aten.avg_pool2d_backward: (2, 3),
    aten._adaptive_avg_pool2d_backward: (2, 3),
    aten.reflection_pad1d_backward: (2, 2),
    aten.reflection_pad2d_backward: (2, 3),
    aten.avg_pool3d: (1, 4),
    aten.max_pool3d_with_indices: (1, 4),
    aten.upsample_nearest3d: (1, 4),
    aten.upsample_trilinear3d: (1, 4),
}
"""Ops that treat each image alone: how many of their first arguments are tensors, and the rank of an image."""

RULES: Mapping[OpOverload, Rule] = {
    **dict.fromkeys((aten.gather.default, aten.scatter.src, aten.scatter.value, aten.scatter_add.default), _along),
    **dict.fromkeys((aten.scatter.reduce, aten.scatter.value_reduce, aten.scatter_reduce.two), _along),
    aten.index_select.default: _selected,
    aten.slice_backward.default: _sliced_back,
    aten.cat.default: _joined,
    aten.convolution.default: _convolved,
    aten.convolution_backward.default: _convolved_back,
    aten.searchsorted.Tensor: _searched,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attended,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attended,
    **{packet.default: _folded(*form) for packet, form in FOLDED.items()},
}
"""For each op, how all rows are done at once."""

OPENED: Sequence[OpOverload] = (
    *(aten.nll_loss_forward.default, aten.nll_loss_backward.default),
    *(aten.native_layer_norm.default, aten.native_layer_norm_backward.default),
    *(aten.native_group_norm.default, aten.native_batch_norm.default, aten.native_batch_norm_backward.default),
    *(aten.unfold_backward.default, aten.gelu_backward.default),
    *(aten.linalg_cross.default, aten.index_add.default, aten.index_copy.default),
    *(aten.max_pool2d_with_indices_backward.default, aten.embedding_dense_backward.default),
)
"""Ops that are decomposed by PyTorch's own decompositions."""


def _kernel(op: OpOverload, rule: Rule) -> Callable[..., Any]:
    """Make the function that the dispatcher calls, with the batched tensors of functorch."""

    def run(*args: Any, **kwargs: Any) -> Any:
        level = functorch.peek_interpreter_stack().level()

        def unwrapped(value: Any) -> Any:
            if not functorch.is_batchedtensor(value) or functorch.maybe_get_level(value) != level:
                return value
            tensor, axis = functorch._unwrap_batched(value, level)
            return Batched(tensor.movedim(axis, 0))

        with torch._C._ExcludeDispatchKeyGuard(BATCHED):
            given, named = pytree.tree_map_only(Tensor, unwrapped, (args, kwargs))
            batched = [each for each in pytree.tree_leaves((given, named)) if isinstance(each, Batched)]
            if not batched:
                return op(*args, **kwargs)
            result = rule(Call(op, batched[0].value.shape[0], given, named))
        return pytree.tree_map_only(Tensor, lambda each: functorch._add_batch_dim(each, 0, level), result)

    return run


@contextmanager
def rules_registered() -> Iterator[None]:
    """Meanwhile the rules stand for PyTorch's."""
    library = torch.library.Library("aten", "IMPL")
    kernels = {op: _kernel(op, rule) for op, rule in RULES.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning only once for all operators")
        for op, kernel in (kernels | {op: decomposition_table[op] for op in OPENED}).items():
            library.impl(op, kernel, KEY, allow_override=True)
    try:
        yield
    finally:
        library._destroy()


@contextmanager
def sized_batches() -> Iterator[None]:
    """Let ops within a `vmap` of a dynamic size keep it; all rows are one chunk, as a graph has no list of them."""
    begin: Any = vmap._vmap_increment_nesting  # type: ignore[attr-defined]  # it is imported there
    run: Any = apis.vmap_impl  # type: ignore[attr-defined]
    registered: list[AbstractContextManager[None]] = []

    def unchunked(
        func: Any, in_dims: Any, out_dims: Any, randomness: str, chunk: Any, *args: Any, **kwargs: Any
    ) -> Any:
        size, *_ = vmap._process_batched_inputs(in_dims, args, func)
        return run(func, in_dims, out_dims, randomness, None if isinstance(size, SymInt) else chunk, *args, **kwargs)

    with ExitStack() as entered:

        def begun(size: int | SymInt, randomness: str) -> int:
            if isinstance(size, SymInt) and not registered:
                registered.append(rules_registered())
                entered.enter_context(registered[0])
            return begin(size, randomness)

        entered.enter_context(mock.patch.object(vmap, "_vmap_increment_nesting", begun))
        entered.enter_context(mock.patch.object(apis, "vmap_impl", unchunked))
        yield
