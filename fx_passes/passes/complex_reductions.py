"""Rows of `complex_to_real`: reductions and cumulative ops that do not act on each part by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fxport.fx_passes.passes.complex_arithmetic import Row, truth
from fxport.fx_passes.passes.complex_functions import exp, log, logaddexp
from fxport.fx_passes.passes.complex_values import Complex, NoRealForm, as_tensors
from fxport.fx_passes.sizes import is_symbolic, size_of

aten = torch.ops.aten


def _prod(x: Any, *, dtype: Any = None) -> Complex:
    z = Complex.of(x)
    flat = Complex(*(part.reshape(-1) for part in as_tensors(z)))
    return product_along(flat, 0, False)


def _prod_dim(x: Any, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Complex:
    return product_along(Complex(*as_tensors(Complex.of(x))), dim, keepdim)


def product_along(z: Complex, dim: int, keepdim: bool) -> Complex:
    """Halves by halves, as many times as the size has bits; the size has to be a number."""
    re, im = as_tensors(z)
    if re.dim() == 0:
        return z
    size = _number(re.shape[dim])
    if size == 0:
        return Complex(torch.prod(re, dim, keepdim), 0.0)
    while size > 1:
        half = size // 2
        a, b = (Complex(*(part.narrow(dim, start, half) for part in (re, im))) for start in (0, half))
        both = a * b
        rest = [part.narrow(dim, 2 * half, size - 2 * half) for part in (re, im)]
        re, im = (
            p if size == 2 * half else torch.cat([p, r], dim) for p, r in zip(as_tensors(both), rest, strict=True)
        )
        size -= half
    return Complex(re, im) if keepdim else Complex(re.squeeze(dim), im.squeeze(dim))


def _scanned(combine: Callable[[Complex, Complex], Complex]) -> Row:
    """Hillis and Steele's scan ("Data Parallel Algorithms", 1986): steps of 1, 2, 4 …; the size has to be a number."""

    def row(x: Any, dim: int, *, dtype: Any = None) -> Complex:
        re, im = as_tensors(Complex.of(x))
        if re.dim() == 0:
            return Complex(re, im)
        size, step = _number(re.shape[dim]), 1
        while step < size:
            early, late = (
                Complex(re.narrow(dim, at, size - step), im.narrow(dim, at, size - step)) for at in (0, step)
            )
            both = as_tensors(combine(early, late))
            heads = (part.narrow(dim, 0, step) for part in (re, im))
            re, im = (torch.cat([head, part], dim) for head, part in zip(heads, both, strict=True))
            step *= 2
        return Complex(re, im)

    return row


def _number(size: Any) -> int:
    known = size_of(size)
    if is_symbolic(known):
        raise NoRealForm(f"a product over an axis of unknown size {known}")
    return known


def _var(x: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The variance of a complex variable is the sum of those of its parts."""
    re, im = as_tensors(Complex.of(x))
    target = aten.var.correction
    return target(re, *args, **kwargs) + target(im, *args, **kwargs)


def _std(x: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.sqrt(_var(x, *args, **kwargs))


def _var_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> list[Any]:
    re, im = as_tensors(Complex.of(x))
    dims = list(range(re.dim())) if dim is None else dim
    mean = Complex(*(torch.mean(part, dims, keepdim) for part in (re, im)))
    return [_var(x, dim, correction=correction, keepdim=keepdim), mean]


def _std_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> list[Any]:
    var, mean = _var_mean(x, dim, correction=correction, keepdim=keepdim)
    return [torch.sqrt(var), mean]


def _vector_norm(x: Any, *args: Any, dtype: Any = None) -> torch.Tensor:
    size = Complex.of(x).abs
    assert isinstance(size, torch.Tensor)
    return torch.linalg.vector_norm(size, *args)


def _on_truth(target: Any) -> Row:
    return lambda x, *args, **kwargs: target(truth(x), *args, **kwargs)


def _logsumexp(x: Any, dim: list[int], keepdim: bool = False) -> Complex:
    """Around the largest real part, so that no exponential overflows."""
    z = Complex(*as_tensors(Complex.of(x)))
    top = torch.amax(as_tensors(z)[0], dim, True)
    top = torch.where(torch.isinf(top), 0.0, top)
    powers = exp(z - Complex(top, 0.0))
    total = log(Complex(*(torch.sum(part, dim, keepdim) for part in as_tensors(powers))))
    return total + Complex(top if keepdim else torch.amax(top, dim), 0.0)


ROWS: Mapping[Any, Row] = {
    aten.prod.default: _prod,
    aten.prod.dim_int: _prod_dim,
    aten.cumprod.default: _scanned(lambda x, y: x * y),
    aten.logcumsumexp.default: _scanned(logaddexp),
    aten.var.correction: _var,
    aten.std.correction: _std,
    aten.var_mean.correction: _var_mean,
    aten.std_mean.correction: _std_mean,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.logsumexp.default: _logsumexp,
    **{
        target: _on_truth(target)
        for target in (
            aten.all.default,
            aten.all.dim,
            aten.all.dims,
            aten.any.default,
            aten.any.dim,
            aten.any.dims,
            aten.count_nonzero.default,
            aten.count_nonzero.dim_IntList,
            aten.nonzero.default,
            aten.nonzero_static.default,
            aten.argwhere.default,
        )
    },
}
