"""`torch.vmap` of a dynamic size: each batching rule beside a loop over the rows, and exports that keep the size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fxport.exporter.capture.patches.batched_ops import OPENED, RULES, rules_registered
from tests.running import run_exported

ROWS = 4
Function = Callable[..., Any]


def t(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def i(*sizes: int, high: int = 3, seed: int = 0) -> Tensor:
    return torch.randint(high, sizes, generator=torch.Generator().manual_seed(seed))


def slope(function: Function) -> Function:
    """Return the gradient of the sum of a function's results by its first argument, which tells each of them apart."""

    def summed(x: Tensor, *others: Tensor) -> Tensor:
        result = function(x, *others)
        return (result * torch.arange(1.0, 1 + result.numel()).reshape(result.shape)).sum()

    return grad(summed)


IMAGE, LINE, VOLUME = t(ROWS, 2, 3, 6, 5), t(ROWS, 2, 3, 8), t(ROWS, 2, 2, 4, 5, 3)
SQUARES = t(ROWS, 3, 3)
PLACES, FILTERS, SMALL, CUBES, SCALE = i(2, 3), t(4, 3, 3, 2), t(4, 3, 2, 2), t(3, 2, 2, 2, 2), t(4)
MASK, SORTED = t(2, 1, 3, 3), torch.arange(3.0, dtype=torch.float64)

CASES: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "gather": (lambda x, index: x.gather(-1, index), (SQUARES, i(ROWS, 3, 2))),
    "gather from one for all": (lambda index: SQUARES[0].gather(0, index), (i(ROWS, 2, 3),)),
    "gather by one for all": (lambda x: x.gather(0, PLACES), (SQUARES,)),
    "gather of numbers": (lambda x, index: x.gather(0, index * 0), (t(ROWS), i(ROWS))),
    "gather of numbers, one place": (lambda x, index: x.gather(0, index * 0), (t(ROWS), i(ROWS, 1))),
    "scatter": (lambda x, index, src: x.scatter(1, index, src), (SQUARES, i(ROWS, 3, 1), t(ROWS, 3, 1))),
    "scatter a number": (lambda x, index: x.scatter(0, index, 7.0), (SQUARES, i(ROWS, 1, 3))),
    "scatter a number into a number": (lambda x, index: x.scatter(0, index * 0, 7.0), (t(ROWS), i(ROWS, 1))),
    "scatter_add into zeros": (
        lambda index, src: torch.zeros(3, dtype=torch.float64).scatter_add(0, index, src),
        (i(ROWS, 5), t(ROWS, 5)),
    ),
    "scatter with reduce": (lambda x, index: x.scatter(0, index, 2.0, reduce="multiply"), (SQUARES, i(ROWS, 1, 3))),
    "scatter with reduce by rows": (
        lambda x, index, src: x.scatter(0, index, src, reduce="add"),
        (SQUARES, i(ROWS, 1, 3), t(ROWS, 1, 3)),
    ),
    "scatter_reduce": (
        lambda x, index, src: x.scatter_reduce(1, index, src, "amax", include_self=False),
        (SQUARES, i(ROWS, 3, 3), t(ROWS, 3, 3)),
    ),
    "index_select": (lambda x, index: x.index_select(1, index), (SQUARES, i(ROWS, 4))),
    "index_select by one for all": (lambda x: x.index_select(-1, PLACES[0]), (SQUARES,)),
    "index_select from one for all": (lambda index: SQUARES[0].index_select(0, index), (i(ROWS, 2),)),
    "index_add": (lambda x, index, src: x.index_add(0, index, src), (SQUARES, i(ROWS, 2), t(ROWS, 2, 3))),
    "index_copy": (lambda x, src: x.index_copy(0, torch.tensor([2, 0]), src), (SQUARES, t(ROWS, 2, 3))),
    "cat": (lambda x, y: torch.cat([x, y, SQUARES[0]], -1), (SQUARES, t(ROWS, 3, 2))),
    "cat with nothing": (lambda x: torch.cat([torch.empty(0, dtype=torch.float64), x]), (SQUARES,)),
    "cat by name": (lambda x: torch.cat((x, x), dim=1), (SQUARES,)),
    "searchsorted": (lambda x, y: torch.searchsorted(x.sort(-1)[0], y), (SQUARES, t(ROWS, 3, 2))),
    "searchsorted in one axis": (lambda x, y: torch.searchsorted(x.sort()[0], y), (t(ROWS, 5), t(ROWS, 2, 3))),
    "searchsorted in one for all": (lambda y: torch.searchsorted(SORTED, y, right=True), (t(ROWS, 2, 3),)),
    "conv2d": (lambda x: F.conv2d(x, FILTERS, SCALE, 2, 1), (IMAGE,)),
    "conv2d of one image": (lambda x: F.conv2d(x, FILTERS, SCALE), (IMAGE[:, 0],)),
    "conv2d by weights of rows": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        (IMAGE, t(ROWS, 4, 3, 3, 2), t(ROWS, 4)),
    ),
    "conv2d of one for all": (lambda w: F.conv2d(IMAGE[0], w, dilation=2), (t(ROWS, 4, 3, 3, 2),)),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=3), (IMAGE, t(ROWS, 6, 1, 2, 2))),
    "conv2d, offsets of rows": (lambda x, b: F.conv2d(x, SMALL, b), (IMAGE, t(ROWS, 4))),
    "conv1d": (lambda x, w: F.conv1d(x, w, stride=2), (LINE, t(ROWS, 2, 3, 2))),
    "conv3d": (lambda x: F.conv3d(x, CUBES), (VOLUME,)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (IMAGE, t(ROWS, 3, 2, 3, 2))),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, y), (SQUARES, i(ROWS, 3))),
    "nll_loss of one": (lambda x, y: F.nll_loss(x, y), (t(ROWS, 5), i(ROWS))),
    "layer_norm": (lambda x: F.layer_norm(x, (3,), SCALE[:3], SCALE[1:]), (SQUARES,)),
    "group_norm": (lambda x, w: F.group_norm(x, 3, w), (IMAGE, t(ROWS, 3))),
    "batch_norm": (lambda x: F.batch_norm(x, SCALE[1:] * 0, SCALE[1:].exp()), (IMAGE,)),
    "cross": (lambda x, y: torch.linalg.cross(x, y), (SQUARES, t(ROWS, 3, 3, seed=1))),
    "attention": (F.scaled_dot_product_attention, (t(ROWS, 1, 2, 5, 4), t(ROWS, 1, 2, 3, 4), t(ROWS, 1, 2, 3, 4))),
    "attention with masks of rows": (
        lambda q, mask: F.scaled_dot_product_attention(q, q, q, attn_mask=mask),
        (t(ROWS, 2, 2, 3, 4), t(ROWS, 3, 3)),
    ),
    "attention with a mask": (
        lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=MASK),
        (t(ROWS, 2, 2, 3, 4),),
    ),
    "reflection_pad1d": (lambda x: F.pad(x, (2, 1), mode="reflect"), (LINE,)),
    "reflection_pad2d": (lambda x: F.pad(x, (2, 1, 1, 0), mode="reflect"), (IMAGE,)),
    "replication_pad1d": (lambda x: F.pad(x, (2, 1), mode="replicate"), (LINE[:, 0],)),
    "replication_pad2d": (lambda x: F.pad(x, (2, 1, 1, 0), mode="replicate"), (IMAGE,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, 1, 1), (IMAGE,)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (VOLUME,)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (IMAGE,)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (VOLUME,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (IMAGE,)),
    "linear": (lambda x: F.interpolate(x, size=5, mode="linear"), (LINE,)),
    "nearest1d": (lambda x: F.interpolate(x, scale_factor=2), (LINE,)),
    "bilinear": (lambda x: F.interpolate(x, size=(4, 7), mode="bilinear"), (IMAGE,)),
    "bicubic": (lambda x: F.interpolate(x, size=(4, 7), mode="bicubic"), (IMAGE,)),
    "nearest2d": (lambda x: F.interpolate(x, scale_factor=2), (IMAGE,)),
    "trilinear": (lambda x: F.interpolate(x, size=(3, 4, 2), mode="trilinear"), (VOLUME,)),
    "nearest3d": (lambda x: F.interpolate(x, scale_factor=2), (VOLUME,)),
    "grid_sample": (lambda x, grid: F.grid_sample(x, grid, align_corners=True), (IMAGE, t(ROWS, 2, 3, 4, 2))),
}

GRADIENTS = (
    *("gather", "scatter", "index_select", "cat", "conv2d", "conv2d in groups", "conv1d", "conv_transpose2d"),
    *("cross_entropy", "layer_norm", "group_norm", "batch_norm", "attention", "reflection_pad1d", "reflection_pad2d"),
    *("avg_pool2d", "max_pool2d", "adaptive_avg_pool2d"),
)

CASES |= {f"gradient of {name}": (slope(CASES[name][0]), CASES[name][1]) for name in GRADIENTS} | {
    "gradient by the weights of conv2d": (
        slope(lambda w, x: F.conv2d(x, w, stride=(2, 1), padding=1, dilation=(1, 2), groups=3)),
        (t(ROWS, 6, 1, 3, 2), IMAGE),
    ),
    "gradient by one weight for all": (
        lambda x: slope(lambda w: F.conv2d(x, w, stride=2))(FILTERS),
        (IMAGE,),
    ),
    "gradient by the weights of conv_transpose2d": (
        slope(lambda w, x: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)),
        (t(ROWS, 3, 2, 3, 2), IMAGE),
    ),
    "gradient by the weights of conv1d": (slope(lambda w, x: F.conv1d(x, w, dilation=2)), (t(ROWS, 2, 3, 2), LINE)),
    "gradient by the weights of conv3d": (slope(lambda w, x: F.conv3d(x, w)), (t(ROWS, 3, 2, 2, 2, 2), VOLUME)),
    "gradient by offsets": (slope(lambda b, x: F.conv2d(x, SMALL, b)), (t(ROWS, 4), IMAGE)),
    "gradient of an embedding": (slope(lambda w, x: F.embedding(x, w)), (t(ROWS, 5, 2), i(ROWS, 3, high=5))),
    "gradient of gelu": (slope(F.gelu), (SQUARES,)),
    "gradient of a slice": (slope(lambda x: x[1:] * 2), (SQUARES,)),
    "gradient of windows": (slope(lambda x: x.unfold(0, 2, 1)), (SQUARES,)),
}


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter with Tensor src is deprecated:UserWarning")
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", CASES)
def test_rules(name: str, axis: int) -> None:
    function, args = CASES[name]
    want = torch.stack([function(*row) for row in zip(*args, strict=True)])
    moved = [each.movedim(0, axis) for each in args]
    with rules_registered():
        assert torch.allclose(vmap(function, in_dims=axis)(*moved), want, rtol=1e-10, atol=1e-10)
        twice = vmap(lambda _: vmap(function, in_dims=axis)(*moved))(torch.zeros(2))
    assert torch.allclose(twice, want.expand(2, *want.shape), rtol=1e-10, atol=1e-10)


def test_rules_within_a_vmap_of_other_rows() -> None:
    x, index = t(2, ROWS, 3), i(ROWS, 2)
    with rules_registered():
        found = vmap(lambda outer: vmap(lambda row, at: row.gather(0, at))(outer, index))(x)
    assert torch.equal(found, torch.stack([each.gather(1, index) for each in x]))


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter with Tensor src is deprecated:UserWarning")
def test_each_rule_has_a_case() -> None:
    seen = set()

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(func)
            return func(*args, **(kwargs or {}))

    for function, args in CASES.values():
        with Seen():
            function(*(each[0] for each in args))
    missing = sorted(map(str, {*RULES, *OPENED} - seen))
    assert not missing


class PerSample(nn.Module):
    """The gradients of the loss of each sample."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, target: Tensor) -> dict[str, Tensor]:
        def loss(weights: dict[str, Tensor], one: Tensor, wanted: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(self.net, weights, (one[None],)), wanted[None])

        return vmap(grad(loss), in_dims=(None, 0, 0))(dict(self.net.named_parameters()), x, target)


class Rows(nn.Module):
    def __init__(self, function: Function, **how: Any) -> None:
        super().__init__()
        self.function, self.how = function, how

    def forward(self, x: Tensor) -> Tensor:
        return vmap(self.function, **self.how)(x)


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16, 4)),
    )


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (PerSample(convolutions()), lambda n: (t(n, 2, 8, 8, seed=n, dtype=torch.float32), i(n, high=4, seed=n))),
        (
            Rows(lambda row: torch.cat([row, row.gather(0, row.argmax()[None])]), chunk_size=2),
            lambda n: (t(n, 3, dtype=torch.float32),),
        ),
        (
            Rows(lambda row: vmap(lambda one: F.cross_entropy(row + one, one.argmax()))(SQUARES[0].float())),
            lambda n: (t(n, 3, dtype=torch.float32),),
        ),
    ],
    ids=["gradients of each sample", "chunks", "within one of another"],
)
def test_size_stays_dynamic(model: nn.Module, inputs: Function) -> None:
    cases = [inputs(n) for n in (4, 1, 3, 9)]
    shapes = tuple({0: "n"} for _ in cases[0])
    for case, found in zip(cases, run_exported(model, cases, dynamic_shapes=shapes), strict=True):
        want = model(*case)
        for each, expected in zip(found, want.values() if isinstance(want, dict) else [want], strict=True):
            assert torch.allclose(each, expected, rtol=1e-4, atol=1e-5), case[0].shape
    assert torch.vmap(lambda row: row.gather(0, row.argmax()[None]))(t(2, 3)).shape == (
        2,
        1,
    )  # by PyTorch's rules again


TABLE = torch.arange(24.0).reshape(4, 3, 2)


class Lookups(nn.Module):
    """Indexes of each row, also negative ones and beside slices, axes, an ellipsis and plain numbers."""

    def forward(self, x: Tensor) -> Any:
        def looked_up(row: Tensor) -> tuple[Tensor, ...]:
            i, j = row.argmax(), row.argmin()
            return (
                *(row[i], row[i - 3], TABLE[i], TABLE[i, j], TABLE[1, i], TABLE[1:, i], TABLE[..., j // 2]),
                *(TABLE[..., i, :], TABLE[i, ..., j // 2], TABLE[None, :, i, None]),
            )

        return vmap(looked_up)(x), vmap(lambda k: x[k] * k)(torch.arange(x.shape[0]))


def test_rows_as_indexes() -> None:
    cases = [(t(n, 3, seed=n, dtype=torch.float32),) for n in (4, 1, 7)]
    for case, found in zip(cases, run_exported(Lookups(), cases, dynamic_shapes=({0: "n"},)), strict=True):
        first, second = Lookups()(*case)
        assert all(torch.equal(*pair) for pair in zip(found, [*first, second], strict=True))
