"""Rows of `complex_to_real`: products of matrices and vectors, and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxport.fx_passes.equations import labels_of
from fxport.fx_passes.passes.complex_arithmetic import Row
from fxport.fx_passes.passes.complex_values import Complex, Packed, minus, plus

aten = torch.ops.aten


def product(target: Callable[..., torch.Tensor], x: Any, y: Any, *args: Any, **kwargs: Any) -> Complex:
    """An op that is linear in each of two operands: four products of parts, two where one operand is real."""
    a, b = Complex.of(x), Complex.of(y)

    def part(one: Any, other: Any) -> Any:
        zero = isinstance(one, float) or isinstance(other, float)
        return 0.0 if zero else target(one, other, *args, **kwargs)

    return Complex(minus(part(a.re, b.re), part(a.im, b.im)), plus(part(a.re, b.im), part(a.im, b.re)))


def _bilinear(target: Any) -> Row:
    return lambda x, y, *args, **kwargs: product(target, x, y, *args, **kwargs)


def _vdot(x: Any, y: Any) -> Complex:
    return product(aten.dot.default, Packed(parts=Complex.of(x).conj), y)


def _linear(x: Any, weight: Any, bias: Any = None) -> Complex:
    result = product(aten.linear.default, x, weight)
    return result if bias is None else result + Complex.of(bias)


def _added(target: Any) -> Row:
    """`beta * bias + alpha * (x @ y)`; with `beta` 0 the bias does not count, whatever it holds."""

    def row(bias: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Complex:
        result = product(target, x, y) * Complex.of(alpha)
        return result if beta == 0 else result + Complex.of(bias) * Complex.of(beta)

    return row


def _sum_of_products(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sum(torch.bmm(x, y), 0)


def _outer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.unsqueeze(x, 1) * torch.unsqueeze(y, 0)


def _convolution(x: Any, weight: Any, bias: Any, *args: Any) -> Complex:
    result = product(lambda a, b: aten.convolution.default(a, b, None, *args), x, weight)
    if bias is None:
        return result
    spatial = len(args[0])
    z = Complex.of(bias)
    parts = (part if isinstance(part, float) else part.reshape(-1, *[1] * spatial) for part in (z.re, z.im))  # type: ignore[union-attr]
    return result + Complex(*parts)


def _einsum(equation: str, operands: Sequence[Any], *, path: Sequence[int] | None = None) -> Complex:
    """Pair by pair from the left, as PyTorch does where no path is given."""
    (first, *rest), output = labels_of(equation)
    z, held = Complex.of(operands[0]), first
    if not rest:
        return Complex(
            *(part if isinstance(part, float) else aten.einsum.default(equation, [part]) for part in (z.re, z.im))
        )
    for number, labels in enumerate(rest):
        needed = {label for later in rest[number + 1 :] for label in later} | {*output}
        last = number == len(rest) - 1
        kept = output if last else tuple(label for label in dict.fromkeys(held + labels) if label in needed)
        step = f"{''.join(held)},{''.join(labels)}->{''.join(kept)}"
        z, held = product(_pair_by(step), Packed(parts=z), operands[number + 1]), kept
    return z


def _pair_by(equation: str) -> Callable[..., torch.Tensor]:
    return lambda x, y: aten.einsum.default(equation, [x, y])


ROWS: Mapping[Any, Row] = {
    **{
        target: _bilinear(target)
        for target in (
            aten.bmm.default,
            aten.dot.default,
            aten.linalg_cross.default,
            aten.matmul.default,
            aten.mm.default,
            aten.mv.default,
        )
    },
    aten.vdot.default: _vdot,
    aten.linear.default: _linear,
    aten.addmm.default: _added(aten.mm.default),
    aten.addmv.default: _added(aten.mv.default),
    aten.addr.default: _added(_outer),
    aten.baddbmm.default: _added(aten.bmm.default),
    aten.addbmm.default: _added(_sum_of_products),
    aten.convolution.default: _convolution,
    aten.einsum.default: _einsum,
}
