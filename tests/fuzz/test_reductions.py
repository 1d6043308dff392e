"""Generated reductions, running values and orders: over ranks, dtypes, dims, empty axes, NaN and infinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fuzz.agreement import DTYPES, agree, shapes, tensor

aten = torch.ops.aten
SEEDS = st.integers(0, 9)
FLOATS = st.sampled_from((torch.float32, torch.float64))
PECULIAR = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])


@dataclass(frozen=True)
class Reduced:
    """A tensor, the axes to reduce, and whether they are kept."""

    x: torch.Tensor
    dims: list[int]
    keepdim: bool

    @property
    def dim(self) -> int:
        return self.dims[0] if self.dims else 0


@st.composite
def reduced(draw: st.DrawFn, dtypes: st.SearchStrategy[torch.dtype] = DTYPES) -> Reduced:
    """Now and then some elements are NaN, infinite or 0."""
    shape = draw(shapes(0, 4, 4))
    rank = len(shape)
    dims = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if rank else []
    dims = [dim - rank if draw(st.booleans()) else dim for dim in dims]
    x = tensor(shape, draw(dtypes), draw(SEEDS))
    if x.is_floating_point() and x.numel() and draw(st.integers(0, 2)) == 0:
        generator = torch.Generator().manual_seed(draw(SEEDS))
        drawn = torch.randint(0, 4, x.shape, generator=generator)
        x = torch.where(torch.rand(x.shape, generator=generator) < 0.3, PECULIAR.to(x.dtype)[drawn], x)
    return Reduced(x, dims, draw(st.booleans()))


def apart(what: Reduced) -> torch.Tensor:
    """The same sizes with no two equal elements: of equal ones PyTorch leaves open which is taken."""
    count = what.x.numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    assume(what.x.dtype != torch.bool or count <= 1)
    return order.reshape(what.x.shape).to(what.x.dtype)


OVER_AXES: dict[str, Any] = {
    "sum": lambda x, r: aten.sum.dim_IntList(x, r.dims, r.keepdim),
    "mean": lambda x, r: aten.mean.dim(x, r.dims, r.keepdim),
    "amax": lambda x, r: aten.amax(x, r.dims, r.keepdim),
    "amin": lambda x, r: aten.amin(x, r.dims, r.keepdim),
    "any": lambda x, r: aten.any.dims(x, r.dims, r.keepdim),
    "all": lambda x, r: aten.all.dims(x, r.dims, r.keepdim),
    "logsumexp": lambda x, r: aten.logsumexp(x, r.dims, r.keepdim),
    "nansum": lambda x, r: aten.nansum(x, r.dims, r.keepdim),
    "nanmean": lambda x, r: aten.nanmean(x, r.dims, r.keepdim),
    "count_nonzero": lambda x, r: aten.count_nonzero.dim_IntList(x, r.dims),
}
ALONG: dict[str, Any] = {
    "prod": lambda x, r: aten.prod.dim_int(x, r.dim, r.keepdim),
    "max": lambda x, r: aten.max.dim(x, r.dim, r.keepdim),
    "min": lambda x, r: aten.min.dim(x, r.dim, r.keepdim),
    "argmax": lambda x, r: aten.argmax(x, r.dim, r.keepdim),
    "argmin": lambda x, r: aten.argmin(x, r.dim, r.keepdim),
    "aminmax": lambda x, r: aten.aminmax(x, dim=r.dim, keepdim=r.keepdim),
    "cumsum": lambda x, r: aten.cumsum(x, r.dim),
    "cumprod": lambda x, r: aten.cumprod(x, r.dim),
    "cummax": lambda x, r: aten.cummax(x, r.dim),
    "cummin": lambda x, r: aten.cummin(x, r.dim),
    "logcumsumexp": lambda x, r: aten.logcumsumexp(x, r.dim),
    "softmax": lambda x, r: aten.softmax.int(x, r.dim),
    "log_softmax": lambda x, r: aten.log_softmax.int(x, r.dim),
    "stable sort": lambda x, r: aten.sort.stable(x, stable=True, dim=r.dim, descending=r.keepdim),
}
WHOLE: dict[str, Any] = {
    "sum": aten.sum.default,
    "mean": aten.mean.default,
    "prod": aten.prod.default,
    "max": aten.max.default,
    "min": aten.min.default,
    "any": aten.any.default,
    "all": aten.all.default,
    "argmax": aten.argmax.default,
    "median": aten.median.default,
    "nanmedian": aten.nanmedian.default,
}
PLACES: dict[str, Any] = {
    "kthvalue": lambda x, r: aten.kthvalue(x, max(x.shape[r.dim] // 2, 1) if x.dim() else 1, r.dim, r.keepdim),
    "median": lambda x, r: aten.median.dim(x, r.dim, r.keepdim),
    "mode": lambda x, r: aten.mode(x, r.dim, r.keepdim),
    "sort": lambda x, r: aten.sort.default(x, r.dim, r.keepdim),
    "topk": lambda x, r: aten.topk(x, x.shape[r.dim] // 2 if x.dim() else 1, r.dim, r.keepdim),
}


@given(st.sampled_from(sorted(OVER_AXES)), reduced(), st.booleans())
def test_over_axes(name: str, what: Reduced, dynamic: bool) -> None:
    agree(lambda x: OVER_AXES[name](x, what), what.x, dynamic=dynamic)


@given(st.sampled_from(sorted(ALONG)), reduced(), st.booleans())
def test_along_an_axis(name: str, what: Reduced, dynamic: bool) -> None:
    agree(lambda x: ALONG[name](x, what), what.x, dynamic=dynamic)


@given(st.sampled_from(sorted(WHOLE)), reduced(), st.booleans())
def test_whole(name: str, what: Reduced, dynamic: bool) -> None:
    agree(WHOLE[name], what.x, dynamic=dynamic)


@given(st.sampled_from(sorted(PLACES)), reduced(), st.booleans())
def test_places(name: str, what: Reduced, dynamic: bool) -> None:
    agree(lambda x: PLACES[name](x, what), apart(what), dynamic=dynamic)


@given(
    st.sampled_from((aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction)),
    reduced(FLOATS),
    st.sampled_from((None, 0, 1, 2, 0.5)),
    st.booleans(),
)
def test_spread(target: Any, what: Reduced, correction: float | None, dynamic: bool) -> None:
    if target in (aten.var_mean.correction, aten.std_mean.correction):  # an infinity's mean is NaN or not by its place
        assume(bool(torch.isfinite(what.x).all()))
    agree(lambda x: target(x, what.dims, correction=correction, keepdim=what.keepdim), what.x, dynamic=dynamic)


@given(reduced(FLOATS), st.sampled_from((0, 1, 2, 3, 0.5, -1, float("inf"), -float("inf"))), st.booleans())
def test_vector_norm(what: Reduced, order: float, dynamic: bool) -> None:
    agree(lambda x: aten.linalg_vector_norm(x, order, what.dims, what.keepdim), what.x, dynamic=dynamic)
