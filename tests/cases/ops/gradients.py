"""Rows for fx_passes/decompositions/gradients.py."""

from typing import Any

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

INF = float("inf")
ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF)
X1 = [[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]]
X2 = [[0.5, -1.0, 2.0], [1.5, 1.0, 1.0], [0.0, 0.25, -2.0]]
"""With a row of the other, and with an element of it."""


def _distances(p: float) -> list[list[float]]:
    return torch.cdist(torch.tensor(X1), torch.tensor(X2), p, compute_mode="donot_use_mm_for_euclid_dist").tolist()


def _pairs(p: float) -> list[float]:
    return torch.pdist(torch.tensor(X2), p).tolist()


PICTURE, GRID = f(2, 3, 5, 7), f(2, 4, 3, 2, low=-1.3, high=1.3)
VOLUME, PLACES = f(2, 2, 4, 3, 5), f(2, 2, 3, 2, 3, low=-1.3, high=1.3)
SAMPLING = {"padding_mode": (0, 1, 2), "output_mask": ([True, True],)}
CORNERS = [{**SAMPLING, "align_corners": (is_aligned,)} for is_aligned in (False, True)]

# Eight indices in bags that begin at 0, 4, 4 and 7: the second is empty.
INDICES, OFFSETS = v([1, 2, 4, 5, 4, 3, 2, 9], torch.int64), v([0, 4, 4, 7], torch.int64)
BAGS, SIZES = v([0, 0, 0, 0, 2, 2, 2, 3], torch.int64), v([4, 0, 3, 1], torch.int64)
LARGEST = v([[1, 2, 5], [-1, -1, -1], [4, 3, 2], [9, 9, 9]], torch.int64)
BAG = (f(4, 3), INDICES, BAGS, SIZES, LARGEST, 10)


def _by_frequency(grad: torch.Tensor, indices: torch.Tensor, bags: torch.Tensor, *rest: Any) -> torch.Tensor:
    """PyTorch's kernel on the CPU takes the frequencies of other indices; that of `embedding` does not."""
    return aten.embedding_dense_backward(grad[bags], indices, 10, -1, True)


def _attended(is_causal: bool, mask: list[Any] | None, keys: int = 4) -> tuple[Any, ...]:
    """The operands of the derivative of attention, whose last two are what the forward op gave."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, length, 8, generator=generator) for length in (4, keys, keys))
    forward = aten._scaled_dot_product_flash_attention_for_cpu.default
    given = None if mask is None else torch.tensor(mask)
    out, logsumexp = forward(query, key, value, 0.0, is_causal, attn_mask=given)
    return tuple(v(each.tolist()) for each in (query, key, value, out, logsumexp))


MASK = [[0.0, -INF, 0.5, 1.0], [0.0, 0.0, -INF, 2.0], [-1.0, 0.0, 0.0, -INF], [0.25, 0.5, 0.75, 1.0]]
HIDDEN = [*MASK[:3], [-INF] * 4]
"""The last query sees nothing."""

SEGMENTED = [[2.0, 0.0], [2.0, 3.0], [1.0, float("nan")], [0.0, 0.0], [4.0, 0.0]]
SEGMENTS = torch.tensor([3, 0, 2])
LENGTHS, BOUNDS = {"lengths": v([3, 0, 2], torch.int64)}, {"offsets": v([0, 3, 3, 5], torch.int64)}


def _reduced(reduce: str) -> list[list[float]]:
    return torch.segment_reduce(torch.tensor(SEGMENTED), reduce, lengths=SEGMENTS).tolist()


CASES = (
    *(
        OpCase(
            aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
            f(2, 3, 4, 8),
            *_attended(causal, mask),
            0.0,
            causal,
            attn_mask=None if mask is None else v(mask),
        )
        for causal, mask in ((False, None), (True, None), (False, MASK), (False, HIDDEN))
    ),
    OpCase(
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
        f(2, 3, 4, 8),
        *_attended(True, None, keys=6),
        0.0,
        True,
    ),
    *(OpCase(aten._cdist_backward.default, f(2, 3), v(X1), v(X2), p, v(_distances(p))) for p in ORDERS),
    OpCase(
        aten._cdist_backward.default, f(2, 4, 5), f(2, 4, 3), f(2, 5, 3), 2.0, f(2, 4, 5, low=0.5), dynamic="n,n,n,n"
    ),
    *(OpCase(aten._pdist_backward.default, f(3), v(X2), p, v(_pairs(p))) for p in ORDERS),
    OpCase(aten.hardshrink_backward.default, f(2, 3), v([[0.5, -0.5, 0.6], [-0.7, 0.0, float("nan")]]), 0.5),
    OpCase(aten.softshrink_backward.default, f(2, 3), v([[0.5, -0.5, 0.6], [-0.7, 0.0, float("nan")]]), 0.5),
    OpCase(aten._weight_norm_interface_backward.default, f(3, 4), f(3, 4), f(3, 1), f(3, 1, low=0.5), 0),
    OpCase(aten._weight_norm_interface_backward.default, f(3, 4, 2), f(3, 4, 2), f(1, 1, 2), f(1, 1, 2, low=0.5), 2),
    OpCase(aten._embedding_bag_dense_backward.default, *BAG, False, 0, None, vary={"padding_idx": (-1, 4)}),
    OpCase(aten._embedding_bag_dense_backward.default, *BAG, False, 0, f(8)),
    OpCase(aten._embedding_bag_dense_backward.default, *BAG, True, 0, None, reference=_by_frequency),
    OpCase(aten._embedding_bag_dense_backward.default, *BAG, False, 1, None, vary={"padding_idx": (-1, 4)}),
    OpCase(aten._embedding_bag_dense_backward.default, *BAG, False, 2, None),
    OpCase(
        aten._embedding_bag_backward.default, f(4, 3), INDICES, OFFSETS, BAGS, SIZES, LARGEST, 10, False, 1, False, None
    ),
    OpCase(
        aten._embedding_bag_per_sample_weights_backward.default,
        f(4, 3),
        f(10, 3),
        INDICES,
        OFFSETS,
        BAGS,
        0,
        vary={"padding_idx": (-1, 4)},
    ),
    *(
        OpCase(aten.grid_sampler_2d_backward.default, f(2, 3, 4, 3), PICTURE, GRID, mode, vary=vary)
        for mode in (0, 1, 2)
        for vary in CORNERS
    ),
    *(
        OpCase(aten.grid_sampler_3d_backward.default, f(2, 2, 2, 3, 2), VOLUME, PLACES, m, vary=vary)
        for m in (0, 1)
        for vary in CORNERS
    ),
    OpCase(aten.grid_sampler_2d_backward.default, f(2, 3, 4, 3), PICTURE, GRID, 0, 0, False, [False, True], results=2),
    OpCase(aten._cdist_backward.default, f(0, 3, 4), f(3, 5), f(0, 4, 5), 2.0, f(0, 3, 4)),
    OpCase(
        aten.masked_scatter_backward.default, f(2, 3), v([[True, False, True], [False, True, True]], torch.bool), [5]
    ),
    OpCase(aten.masked_scatter_backward.default, f(2, 3), v([True, False, True], torch.bool), [3, 2]),
    OpCase(
        aten.masked_scatter_backward.default,
        f(2, 3),
        v([[True, True, True], [False] * 3], torch.bool),
        [3],
        dynamic="n m, n m",
    ),
    *(
        OpCase(aten._segment_reduce_backward.default, f(3, 2), v(_reduced(each)), v(SEGMENTED), each, **places, axis=0)
        for each in ("sum", "mean", "max", "min", "prod")
        for places in (LENGTHS, BOUNDS)
    ),
)
