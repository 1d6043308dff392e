"""Rows for fx_passes/passes: a pass, and a small model on which its effect is seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import flex_attention

from fxport.fx_passes import FxPass
from fxport.fx_passes.passes.complex_to_real import complex_to_real
from fxport.fx_passes.passes.drop_asserts import drop_asserts
from fxport.fx_passes.passes.drop_copies import drop_copies
from fxport.fx_passes.passes.expand_flex_attention import expand_flex_attention
from fxport.fx_passes.passes.factor_again import factor_again
from fxport.fx_passes.passes.functionalize import functionalize
from fxport.fx_passes.passes.fuse_gelu import fuse_gelu
from fxport.fx_passes.passes.fuse_rms_norm import fuse_rms_norm
from fxport.fx_passes.passes.inline_regions import inline_regions
from fxport.fx_passes.passes.promote_types import promote_types
from fxport.fx_passes.passes.rebase_strides import rebase_strides
from fxport.fx_passes.passes.rows_as_scan_inputs import rows_as_scan_inputs
from fxport.fx_passes.passes.rows_outside_bodies import rows_outside_bodies
from fxport.fx_passes.passes.shorten_gelu import shorten_gelu
from fxport.fx_passes.passes.trim_scans import trim_scans
from fxport.fx_passes.passes.writes_as_scan_outputs import writes_as_scan_outputs
from tests.cases.scans import branch, loop, numbers_of


@dataclass(frozen=True)
class PassCase:
    """`forward` is captured on `inputs`, the first dim dynamic; the pass runs after those in `before`.

    With `by_torch` it is a program that torch.export has made, of which a capture would leave the pass nothing to do.
    """

    each: FxPass
    forward: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    before: tuple[FxPass, ...] = ()
    by_torch: bool = False


def _region(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with torch.enable_grad():
        y = y.relu()
    return y + 1


def _slope_of_det(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(torch.linalg.det(leaf).sum(), leaf)
    return slope


def _masked(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


def _copies(x: torch.Tensor) -> torch.Tensor:
    y = x.clone().detach().to(torch.float32).contiguous()
    return torch.nn.functional.dropout(y, 0.5, training=False).expand(y.shape[0], 3) + 1


def _writes(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = 1.0
    y[1:].mul_(2)
    column = y.transpose(0, 1)[2]
    y.add_(1)
    return y + column.sum()


def _mixed(x: torch.Tensor) -> torch.Tensor:
    mask = (x > 0).to(torch.int64)
    return (1.0 - mask) * x + torch.cat([mask, x]).sum() + torch.where(x > 0, mask, 0.5)


def _rms(x: torch.Tensor) -> torch.Tensor:
    weight = x[0].detach() + 2
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def _gelu(x: torch.Tensor) -> torch.Tensor:
    approximate = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    return approximate + x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def _gelu_and_gradient(x: torch.Tensor) -> torch.Tensor:
    """As autograd leaves it in a training step, for a gradient of exp(x)."""
    factor, grad, half = math.sqrt(2.0 / math.pi), torch.exp(x), x * 0.5
    tanh = torch.tanh((x + torch.pow(x, 3.0) * 0.044715) * factor)
    plus_one = tanh + 1.0
    by_sum = grad * half * torch.rsub(tanh * tanh, 1) * factor
    by_cube = by_sum * 0.044715 * (torch.pow(x, 2.0) * 3.0)
    return torch.cat([half * plus_one, by_sum + by_cube + grad * plus_one * 0.5])


def _turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions as Llama has them, and an absolute value."""
    pairs = torch.view_as_complex(x.reshape(x.shape[0], -1, 2))
    turned = pairs * torch.polar(torch.ones(2), torch.tensor([0.0, 0.5]))
    return torch.view_as_real(turned).flatten(1) + turned.transpose(0, 1).abs().sum()


def _strided(x: torch.Tensor) -> torch.Tensor:
    row = x.t()[1:].as_strided((3,), (1,))
    turned = (x * 2).t().clone(memory_format=torch.preserve_format)
    return row + turned.as_strided((2, 3), (3, 1)).sum(0) + x.t().contiguous().as_strided((3,), (2,))


def _scored(x: torch.Tensor) -> torch.Tensor:
    one = x.reshape(1, 1, 4, 4)
    result = flex_attention(one, one, one, score_mod=lambda score, b, h, at, of: score + (at - of))
    assert isinstance(result, torch.Tensor)
    return result


def _reads_rows(x: torch.Tensor) -> torch.Tensor:
    numbers = numbers_of(1, x.shape[0])
    before, stack = loop(lambda t, h, x: (x[t], h - x[t - 1]), numbers, [x[0]], (x,))
    return torch.cat([stack, before[None]])


def _writes_rows(x: torch.Tensor) -> torch.Tensor:
    def body(t: Any, h: torch.Tensor, out: torch.Tensor) -> Any:
        out[t] += h
        return h * 2, out

    h, out = loop(body, numbers_of(1, x.shape[0]), [x[0], x])
    return out - h


def _row_in_branch(x: torch.Tensor) -> torch.Tensor:
    def body(t: Any, out: torch.Tensor, x: torch.Tensor) -> Any:
        def write(out: torch.Tensor, x: torch.Tensor, t: Any) -> Any:
            out[t] = x[t] * 2
            return (out,)

        return branch(x.sum() > 0, write, lambda out, x, t: (out,), (out, x, t))

    (out,) = loop(body, numbers_of(0, x.shape[0]), [x.cos()], (x,), (0, x.shape[0]))
    return out


def _unused(x: torch.Tensor) -> torch.Tensor:
    def body(t: Any, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor, same: torch.Tensor) -> Any:
        return a + b + same[0], b, c * a, a

    a, *_ = loop(body, numbers_of(0, x.shape[0]), [x[0], x[1], x[0]], (x, x))
    return a


FUNCTIONAL = (drop_asserts, functionalize, drop_copies)

CASES = (
    PassCase(inline_regions, _region, (torch.randn(4, 3),), by_torch=True),
    PassCase(expand_flex_attention, _scored, (torch.randn(4, 4),)),
    PassCase(drop_asserts, _masked, (torch.randn(4, 3),)),
    PassCase(rebase_strides, _strided, (torch.randn(4, 3),)),
    PassCase(drop_copies, _copies, (torch.randn(4, 3),)),
    PassCase(factor_again, _slope_of_det, (torch.randn(4, 3, 3),)),
    PassCase(functionalize, _writes, (torch.randn(4, 3),)),
    PassCase(rows_outside_bodies, _row_in_branch, (torch.randn(4, 3),), FUNCTIONAL),
    PassCase(trim_scans, _unused, (torch.randn(4, 3),), FUNCTIONAL),
    PassCase(rows_as_scan_inputs, _reads_rows, (torch.randn(4, 3),), FUNCTIONAL),
    PassCase(writes_as_scan_outputs, _writes_rows, (torch.randn(4, 3),), FUNCTIONAL),
    PassCase(complex_to_real, _turned, (torch.randn(3, 4),)),
    PassCase(promote_types, _mixed, (torch.randn(4, 3),)),
    PassCase(fuse_rms_norm, _rms, (torch.randn(4, 3),)),
    PassCase(fuse_gelu, _gelu, (torch.randn(4, 3),)),
    PassCase(shorten_gelu, _gelu_and_gradient, (torch.randn(4, 3),)),
)
