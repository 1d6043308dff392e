"""Backward operators that training steps bring: the derivatives of distances, thresholds, bags and sampled grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fxport.fx_passes.decompositions.sampling import sampled

aten = torch.ops.aten

MEAN, MAXIMUM = 1, 2
"""Modes of an embedding bag; 0 is the sum."""


def cdist(grad: Tensor, x1: Tensor, x2: Tensor, p: float, distance: Tensor) -> Tensor:
    """By `x1`: [*, n, features] from the gradient [*, n, m] of the distances to each of [*, m, features].

    Where there are no distances, or no features, it is of the sizes of `x1`, also where `x2` has more batches.
    """
    if any(isinstance(size, int) and size == 0 for size in (*grad.shape, x1.shape[-1])):
        return torch.zeros_like(x1)
    slopes = _slopes(x1.unsqueeze(-2) - x2.unsqueeze(-3), distance.unsqueeze(-1), p)
    return (grad.unsqueeze(-1) * slopes).sum(-2)


def pdist(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    """By the rows of `x`, whose pairs are in the order of an upper triangle."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device).unbind(0)
    slopes = _slopes(x[first] - x[second], distance.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return torch.zeros_like(x).index_add(0, first, slopes).index_add(0, second, -slopes)


def _slopes(gap: Tensor, distance: Tensor, p: float) -> Tensor:
    """The derivatives of the p-norm `distance` of `gap` by its elements; 0 where the norm has none."""
    if p == 0:
        return torch.zeros_like(gap)
    if p == 1:
        return gap.sign()
    if p == float("inf"):
        return torch.where(gap.abs() == distance, gap.sign(), 0.0)
    flat = (distance == 0) | (gap == 0) if p < 1 else distance == 0
    safe = torch.where(flat, 1.0, distance)
    share = gap / safe if p == 2 else gap.sign() * (torch.where(flat, 1.0, gap.abs()) / safe).pow(p - 1)
    return torch.where(flat, 0.0, share)


def shrink(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    """Of `hardshrink` and `softshrink`: what they made 0 has no gradient."""
    return torch.where((x >= -lambd) & (x <= lambd), 0.0, grad)


def weight_norm(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """By direction and length of a weight `g · v / |v|`, normalized over all axes but `dim`."""
    axes = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    along = (grad * v).sum(axes, keepdim=True)
    shape = [size if axis == dim % v.dim() else 1 for axis, size in enumerate(v.shape)]
    norms, g = norms.reshape(shape).to(v.dtype), g.reshape(shape)
    by_length = along / norms
    return (g / norms) * (grad - v * (along / (norms * norms))), by_length


def embedding_bag(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """By the table of an embedding bag: each bag's gradient goes to its rows, [num_weights, features] in all."""
    empty = grad.new_zeros([num_weights, grad.shape[1]])
    if mode == MAXIMUM:
        found = (bag_size > 0).unsqueeze(1)
        return empty.scatter_add(0, torch.where(found, maximum_indices, 0), torch.where(found, grad, 0.0))
    share = grad[offset2bag]
    if mode == MEAN:
        share = share / bag_size[offset2bag].unsqueeze(1)
    if per_sample_weights is not None:
        share = share * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        counts = torch.zeros_like(empty[:, 0]).index_add(0, indices, torch.ones_like(share[:, 0]))
        share = share / counts[indices].unsqueeze(1)
    if padding_idx >= 0:
        share = torch.where((indices == padding_idx).unsqueeze(1), 0.0, share)
    return empty.index_add(0, indices, share)


def embedding_bag_of_any_kind(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """The bags are counted again, since the forward op leaves that out where it can.

    A gradient that PyTorch would hold as a sparse tensor is dense here.
    """
    bags = _bags(indices, offsets, grad.shape[0])
    counted = indices != padding_idx
    sizes = torch.zeros_like(grad[:, 0]).index_add(0, bags, counted.to(grad.dtype))
    filled = (grad, indices, bags, sizes, maximum_indices, num_weights, scale_grad_by_freq, mode)
    return embedding_bag(*filled, per_sample_weights, padding_idx)


def _bags(indices: Tensor, offsets: Tensor, count: Any) -> Tensor:
    """The bag of each index: the last that begins at it or before."""
    places = torch.arange(indices.shape[0], dtype=offsets.dtype, device=indices.device)
    return torch.searchsorted(offsets[:count], places, right=True) - 1


def embedding_bag_weights(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    """By the weight of each sample in the sum of its bag."""
    share = (grad[_bags(indices, offsets, grad.shape[0])] * weight[indices]).sum(1)
    return torch.where(indices == padding_idx, 0.0, share) if padding_idx >= 0 else share


def masked_scatter(grad: Tensor, mask: Tensor, sizes: Sequence[Any]) -> Tensor:
    """By the source, of `sizes`: its first elements have gone to where the mask is true, in order; the rest nowhere."""
    shared, mask = (each.reshape(-1) for each in torch.broadcast_tensors(grad, mask))
    empty = grad.new_zeros(sizes).reshape(-1)
    nowhere = empty.shape[0]
    places = torch.where(mask, mask.cumsum(0) - 1, nowhere)
    taken = torch.cat([empty, empty.new_zeros(1)]).scatter(0, places, shared)
    return taken[:nowhere].reshape(sizes)


def grid_sampler(
    grad: Tensor,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """By the picture and by the grid: the derivative of the sampling, written out."""
    options = (interpolation_mode, padding_mode, align_corners)
    derivative = torch.func.vjp(lambda picture, places: sampled(picture, places, *options), x, grid)[1]
    by_picture, by_grid = derivative(grad)
    return by_picture if output_mask[0] else None, by_grid if output_mask[1] else None


def attention(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """By query, key and value, from weights that are computed again. A row that the mask closes everywhere has none."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).tril().logical_not(), -torch.inf)
    weights = scores.softmax(-1) if attn_mask is None else aten._safe_softmax(scores + attn_mask, -1)
    by_weights = grad @ value.transpose(-2, -1)
    by_scores = weights * (by_weights - (grad * out).sum(-1, keepdim=True)) * factor
    return by_scores @ key, by_scores.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ grad


RULES: Mapping[str, Callable[..., Any]] = {
    "aten._cdist_backward.default": cdist,
    "aten._pdist_backward.default": pdist,
    "aten.hardshrink_backward.default": shrink,
    "aten.softshrink_backward.default": shrink,
    "aten._weight_norm_interface_backward.default": weight_norm,
    "aten._embedding_bag_dense_backward.default": embedding_bag,
    "aten._embedding_bag_backward.default": embedding_bag_of_any_kind,
    "aten._embedding_bag_per_sample_weights_backward.default": embedding_bag_weights,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": attention,
    "aten.masked_scatter_backward.default": masked_scatter,
    "aten.grid_sampler_2d_backward.default": grid_sampler,
    "aten.grid_sampler_3d_backward.default": grid_sampler,
}
