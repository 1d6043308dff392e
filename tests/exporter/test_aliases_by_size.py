"""Views at some sizes and copies at others, as `x.t().flatten()`: what a write reaches is so at every size, or told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported

Forward = Callable[..., tuple[Tensor, ...]]


class Model(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.run = forward

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.run(x)


class Pair(Model):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return self.run(x, y)


def _copy_written_to(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    flat = made.t().flatten()
    flat.add_(1)
    return made, flat


def _source_written_to(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    flat = made.t().reshape(-1)
    made[0] = 7
    return made, flat


def _heads(x: Tensor) -> tuple[Tensor, ...]:
    heads = x.view(x.shape[0], 2, 2).transpose(0, 1).contiguous()
    heads.mul_(2)
    return heads, x + 0


def _through_views_of_both(x: Tensor) -> tuple[Tensor, ...]:
    made = (x * 2).view(x.shape[0], 2, 2)
    columns = made.transpose(0, 1)[:, :, :1].reshape(-1, 1)
    columns.reshape(-1).add_(1)
    return made, columns


def _summed(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    total = made.sum_to_size(1, 4)
    total.add_(1)
    return made, total


def _in_a_branch(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    turned = made.t().contiguous()
    if x.sum() > 0:
        turned.add_(1)
    return made, turned


def _made_in_a_region(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        flat = made.t().flatten()
    flat.add_(1)
    return made, flat


def _made_under_autocast(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    with torch.autocast("cpu"):
        flat = made.t().flatten()
    flat.add_(1)
    return made, flat


@pytest.mark.parametrize(
    "forward",
    [
        *(_copy_written_to, _source_written_to, _heads, _through_views_of_both, _summed, _in_a_branch),
        *(_made_in_a_region, _made_under_autocast),
    ],
    ids=lambda each: each.__name__,
)
def test_sizes_at_which_a_copy_is_a_view_are_told(forward: Forward) -> None:
    """A row of one is its own column. At all other sizes the results are PyTorch's."""
    model, log = Model(forward), Log()
    calls = [(torch.linspace(-1, 2, n * 4).view(n, 4),) for n in (3, 2, 6)]
    results = run_exported(model, calls, dynamic_shapes={"x": {0: "n"}}, log=log)
    for call, result in zip(calls, results, strict=True):
        given = call[0].clone()
        assert_same(result[:2], model(given))
    (finding,) = [each for each in log.findings if each.level is not Level.NOTE]
    assert finding.rule.id == "FXP2002"
    assert finding.facts["range"] == "at least 2"
    assert finding.place is not None


def _nothing_written(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    return made, made.t().flatten()


def _written_before(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    made.add_(1)
    return made, made.t().flatten() * 2


def _other_side_out_of_use(x: Tensor) -> tuple[Tensor, ...]:
    flat = (x * 2).t().flatten()
    flat.add_(1)
    return (flat,)


def _view_at_every_size(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    flat = made[1:].flatten()
    flat.add_(1)
    return made, flat


def _copy_at_every_size(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    copied = made.t().clone().flatten()
    copied.add_(1)
    return made, copied


def _turned_in_a_region(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    with torch.enable_grad():
        turned = torch.einsum("ij->ji", made)
    turned.add_(1)
    return made, turned


def _added_to_a_residual(x: Tensor) -> tuple[Tensor, ...]:
    heads = x.view(x.shape[0], 2, 2).transpose(0, 1)
    out = (heads @ heads.transpose(1, 2) @ heads).transpose(0, 1).contiguous().view(x.shape[0], 4)
    out += x
    return (out,)


@pytest.mark.parametrize(
    "forward",
    [
        *(_nothing_written, _written_before, _other_side_out_of_use),
        *(_view_at_every_size, _copy_at_every_size, _turned_in_a_region, _added_to_a_residual),
    ],
    ids=lambda each: each.__name__,
)
def test_nothing_is_told_where_no_size_differs(forward: Forward) -> None:
    model, log = Model(forward), Log()
    calls = [(torch.randn(n, 4),) for n in (3, 1, 6)]
    results = run_exported(model, calls, dynamic_shapes={"x": {0: "n"}}, log=log)
    for call, result in zip(calls, results, strict=True):
        assert_same(result, model(*call))
    assert not log.findings


def test_sizes_that_are_equal() -> None:
    """All columns of a tensor follow each other in memory; some of them do not."""

    def columns(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        made = x * 2
        taken = made.narrow(1, 0, y.shape[0]).contiguous()
        taken.add_(1)
        return made, taken

    model, log = Pair(columns), Log()
    calls = [
        (torch.randn(3, 5), torch.randn(2)),
        (torch.randn(4, 9), torch.randn(7)),
        (torch.randn(2, 3), torch.ones(1)),
    ]
    shapes = {"x": {0: "a", 1: "b"}, "y": {0: "c"}}
    for call, result in zip(calls, run_exported(model, calls, dynamic_shapes=shapes, log=log), strict=True):
        assert_same(result, model(*call))
    told = {(each.rule.id, each.facts.get("range", each.facts.get("relation"))) for each in log.findings}
    assert told == {("FXP2002", "at least 2"), ("FXP2003", "b != c")}


def test_an_example_of_one_row() -> None:
    """The general capture does not hold for it, so that the size is a constant, which is told."""
    model, log = Model(_copy_written_to), Log()
    calls = [(torch.randn(1, 4),)]
    with pytest.raises(ExportError):
        export(model, calls[0], dynamic_shapes={"x": {0: "n"}}, log=log)
    assert {finding.rule.id for finding in log.findings if finding.level is Level.ERROR} == {"FXP2001"}


def _rows_that_data_tells(x: Tensor) -> tuple[Tensor, ...]:
    made = x[x[:, 0] > 0]
    flat = made.t().flatten()
    flat.add_(1)
    return made, flat


def _below_autograd(x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    flat = made.t().flatten()
    flat.add_(1)
    return torch.func.grad(lambda each: (each**2).sum())(made), flat


@pytest.mark.parametrize(
    ("forward", "line"),
    [(_rows_that_data_tells, "flat.add_(1)"), (_below_autograd, "flat = made.t().flatten()")],
    ids=["data", "below autograd"],
)
def test_what_no_condition_tells_is_refused_at_its_line(forward: Forward, line: str) -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Model(forward), (torch.ones(3, 4),), dynamic_shapes={"x": {0: "n"}}, log=log)
    (finding,) = [each for each in log.findings if each.level is Level.ERROR]
    assert finding.rule.id == "FXP1003"
    assert finding.place is not None
    assert finding.place.snippet is not None
    assert line in finding.place.snippet
