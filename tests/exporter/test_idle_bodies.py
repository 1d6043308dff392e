"""Bodies of `if` on sizes that change nothing where the test is false always run; others bind the sizes to one side."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._sympy.functions import Mod

from fxport import Options, export
from fxport.diagnostics import Log
from fxport.exporter.capture.sizes.implied import follows
from tests.running import run_session, session_of

DYNAMIC = torch.export.Dim.DYNAMIC


class Cut(nn.Module):
    """Works on blocks of four, and cuts off what was padded, as Mamba2 does."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        padding = (4 - n % 4) % 4
        x = F.pad(x, (0, padding))
        x = x.reshape(x.shape[0], -1, 4).cumsum(-1).reshape(x.shape[0], -1)
        if padding > 0:
            x = x[:, :n]
        return x.reshape(x.shape[0], n) + 1


class Odd(nn.Module):
    """Pads odd sizes, as the patch merging of Swin does."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:]
        if (height % 2 == 1) or (width % 2 == 1):
            x = F.pad(x, (0, width % 2, 0, height % 2))
        return F.max_pool2d(x[:, None], 2)


class Windows(nn.Module):
    """Cuts windows off in both directions, by a test with a name, as Swin does."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.size(1), x.size(2)
        paddings = (0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4)
        y = F.pad(x, paddings).cumsum(2)
        was_padded = paddings[1] > 0 or paddings[3] > 0
        if was_padded:
            y = y[:, :height, :width].contiguous()
        return y.view(x.shape[0], height * width)


class Chosen(nn.Module):
    """Chooses by an expression, by the padding itself, and by an `else`."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        padding = -n % 4
        y = F.pad(x, (0, padding), value=float("-inf")) if padding else x
        if padding != 0:  # noqa: SIM108  # another form of the same
            z = F.pad(x, [0, padding], mode="constant")
        else:
            z = x
        return y.reshape(x.shape[0], -1, 4).amax(-1) + z.reshape(x.shape[0], -1, 4).sum(-1)


class Doubled(nn.Module):
    """Pads by a whole block where nothing is to be padded, if it ran then."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        if n % 4 > 0:
            x = F.pad(x, (0, 4 - n % 4))
        return x * 2


class Below(nn.Module):
    """Would cut off from larger sizes, if it ran at them."""

    def forward(self, x: Tensor) -> Tensor:
        padding = 8 - x.shape[1]
        if padding > 0:
            x = F.pad(x, (0, padding))
        return x * 2


class Half(nn.Module):
    """Cuts off in both directions where only one of them is tested."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:]
        y = F.pad(x, (0, -width % 4, 0, -height % 4))
        if -height % 4 > 0:
            y = y[:, :height, :width]
        return y * 2


class NamedTwice(nn.Module):
    """Uses what an `or` gives again, for a body that is not like these."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:]
        below, right = -height % 4, -width % 4
        y = F.pad(x, (0, right, 0, below))
        was_padded = below > 0 or right > 0
        if was_padded:
            y = y[:, :height, :width]
        if was_padded:
            y = y * 2
        return y


class Written(nn.Module):
    """Writes to what is a copy at some sizes only."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        padding = -x.shape[1] % 4
        z = F.pad(y, (0, padding)) if padding > 0 else y
        z.add_(1)
        return y


class Counted(nn.Module):
    """Fills with what a call gives, which may do more."""

    def fill(self) -> float:
        return 2.0

    def forward(self, x: Tensor) -> Tensor:
        padding = -x.shape[1] % 4
        if padding > 0:
            x = F.pad(x, (0, padding), value=self.fill())
        return x * 2


def line(n: int) -> Tensor:
    return torch.randn(2, n, generator=torch.Generator().manual_seed(n))


def plane(n: int) -> Tensor:
    return torch.randn(2, n, n + 3, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize("example", [5, 7, 8])
@pytest.mark.parametrize(("model", "make"), [(Cut(), line), (Odd(), plane), (Windows(), plane), (Chosen(), line)])
def test_a_body_without_effect_always_runs(model: nn.Module, make: Callable[[int], Tensor], example: int) -> None:
    _hold(model, make, example, limits=isinstance(model, Windows) and example == 5)


@pytest.mark.parametrize("example", [5, 8])
@pytest.mark.parametrize(
    ("model", "make"),
    [(Doubled(), line), (Below(), line), (Half(), plane), (NamedTwice(), plane), (Written(), line), (Counted(), line)],
)
def test_other_bodies_limit_the_sizes(model: nn.Module, make: Callable[[int], Tensor], example: int) -> None:
    _hold(model, make, example, limits=True, rewrite=False)


@pytest.mark.parametrize("example", [5, 8])
@pytest.mark.parametrize(("model", "make"), [(Doubled(), line), (Below(), line), (Half(), plane), (Counted(), line)])
def test_other_bodies_are_branches(model: nn.Module, make: Callable[[int], Tensor], example: int) -> None:
    _hold(model, make, example, limits=False)


def _hold(model: nn.Module, make: Callable[[int], Tensor], example: int, *, limits: bool, rewrite: bool = True) -> None:
    """Compare all sizes that the model is said to accept with PyTorch."""
    log, x = Log(), make(example)
    shapes = (dict.fromkeys(range(1, x.dim()), DYNAMIC),)
    program = export(model, (x.clone(),), dynamic_shapes=shapes, options=Options(rewrite=rewrite), log=log)
    limited = [finding for finding in log.findings if finding.rule.id == "FXP2002"]
    assert bool(limited) is limits
    session = session_of(program)
    for n in [example] if limits else range(1, 18):
        case = make(n)
        (given,) = run_session(session, program, (case,))
        torch.testing.assert_close(given, model(case.clone()))


N = sympy.Symbol("n", integer=True, nonnegative=True)
PADDING = Mod(4 - Mod(N, 4), 4)


@pytest.mark.parametrize(
    ("bound", "known", "expected"),
    [
        (PADDING, [sympy.Le(PADDING, 0)], True),
        (PADDING, [], False),
        (PADDING - 3, [], True),
        (4 - Mod(N, 4), [sympy.Eq(Mod(N, 4), 0)], False),
        (Mod(N, 2), [sympy.Ne(Mod(N, 2), 1)], True),
        (N - 6, [sympy.Le(N, 6)], True),
        (N - 6, [sympy.Lt(N, 7)], True),
        (N - 6, [sympy.Lt(N, 8)], False),
        (6 - N, [sympy.Ge(N, 6)], True),
        (6 - N, [sympy.Gt(N, 4)], False),
        (N - 6, [sympy.Ge(N, 6)], False),
        (-N, [], True),
        (N, [], False),
    ],
)
def test_a_bound_follows_for_all_sizes(bound: sympy.Expr, known: list[sympy.Basic], expected: bool) -> None:
    assert follows(bound, known) is expected
