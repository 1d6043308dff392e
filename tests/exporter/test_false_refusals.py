"""Programs that were refused though they can be captured, beside those that cannot, each told for what it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Options, export
from fxport.diagnostics import Log
from tests.running import run_exported

ROWS = {0: torch.export.Dim.DYNAMIC}


class BranchBesideVmap(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.vmap(lambda row: row * 2)(x)
        return y + 1 if x.sum() > 0 else y


class BranchBesideGradient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.func.grad(lambda all: (all * all).sum())(x)
        if x.sum() > 0:
            y = y + 1
        return y


class Copied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        held = copy.deepcopy({"x": x, "same": x})
        held["x"].add_(1)
        return copy.deepcopy(self.layer)(held["same"]) + x


class Listed(nn.Module):
    """Makes tensors of lists of tensors and numbers."""

    def forward(self, x: Tensor) -> Tensor:
        mixed = torch.as_tensor([x.sum(), 2, 0.5, x.argmax()]) + torch.as_tensor(3, dtype=torch.float32)
        return x * mixed + torch.tensor([x.amax(), x.amin(), 1, True]) * torch.asarray([x.shape[0], 1, 2, 3])


class Spaced(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.logspace(0, 1, x.shape[0])[:, None] * torch.signal.windows.hann(x.shape[0])[:, None]


class Kept(nn.Module):
    """Pools along one axis, and leaves the other as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.adaptive_max_pool2d(x, (None, 3))


class Means(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.complex(x, x * 2)
        return torch.view_as_real(z.mean(0, keepdim=True)), torch.view_as_real(torch.mean(z))


class Clusters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(4, 12, [4, 8], div_value=1.5)

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        found = self.layer(x, target)
        return found.output, found.loss


class Told(nn.Module):
    """Writes sizes into the text of a check, and prints them."""

    def forward(self, x: Tensor) -> Tensor:
        torch._assert(x.shape[0] > 0, f"no rows: {x.shape[0]}")
        print(f"{x.shape[0]:03d}")  # noqa: T201  # as users write it
        print("%03d rows of %.1f" % (x.shape[0], x.shape[0] / 2))  # noqa: T201, UP031
        return x * 2


class Members(nn.Module):
    """Looks for numbers among the elements of a tensor, and for an element among numbers; for keys in a dict, too."""

    known = (3, 5)

    def forward(self, x: Tensor) -> Tensor:
        named = {"a": 1}
        if "a" in named and "b" not in named and (int(x[0]) in self.known or 7 in x):
            return x * 2 + (2 not in x)
        return x - 1


class InSet(nn.Module):
    """A set has tensors by their identity, and numbers by their value."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() in {0, 3}:
            return x * 3
        return x * 2 if int(x.sum()) in {0, 3} else x


class Experts(nn.Module):
    """Takes one of several layers, by the data."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x: Tensor, chosen: Tensor) -> Tensor:
        expert = self.experts[int(chosen)]
        return expert(x) + self.experts[chosen.item() - 1](x) * expert.bias


class Offsets(nn.Module):
    """Writes sums of counts of data to parts of a tensor, as torch_geometric does to tell where graphs begin."""

    def forward(self, groups: Tensor) -> Tensor:
        count = int(groups.max()) + 1
        sizes = groups.new_zeros(count).scatter_add_(0, groups, torch.ones_like(groups))
        offsets = sizes.new_empty(count + 1)
        offsets.narrow(0, 0, 1).zero_()
        torch.cumsum(sizes, 0, out=offsets.narrow(0, 1, count))
        return offsets[groups]


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


RIGHT: tuple[tuple[nn.Module, tuple[tuple[Any, ...], ...], Any], ...] = (
    (BranchBesideVmap(), ((rows(3, 4) + 1,), (rows(3, 4) - 1,)), None),
    (BranchBesideGradient(), ((rows(3, 4) + 1,), (rows(5, 4) - 1,)), (ROWS,)),
    (Copied(), ((rows(3, 4),), (rows(5, 4),)), (ROWS,)),
    (Listed(), ((rows(3, 4),), (rows(5, 4),)), (ROWS,)),
    (Spaced(), ((rows(3, 4),), (rows(6, 4),)), (ROWS,)),
    (Kept(), ((rows(1, 2, 5, 6),), (rows(1, 2, 7, 6),)), ({2: torch.export.Dim.DYNAMIC},)),
    (Means(), ((rows(3, 4),), (rows(5, 4),)), (ROWS,)),
    (Clusters(), ((rows(3, 4), torch.tensor([1, 5, 9])), (rows(2, 4), torch.tensor([11, 0]))), (ROWS, ROWS)),
    (Told(), ((rows(3, 4),), (rows(5, 4),)), (ROWS,)),
    (Offsets(), ((torch.tensor([0, 1, 1, 2]),), (torch.tensor([0, 0, 3, 3, 3]),)), (ROWS,)),
    (
        Members(),
        ((torch.tensor([1, 2]),), (torch.tensor([3, 4]),), (torch.tensor([5, 2]),), (torch.tensor([0, 7]),)),
        None,
    ),
    (InSet(), ((torch.tensor([1, 2]),), (torch.tensor([1, 1]),)), None),
    (Experts(), tuple((rows(2, 3), torch.tensor(chosen)) for chosen in (1, 0, 2, -1)), None),
)


@pytest.mark.parametrize(("model", "calls", "shapes"), RIGHT, ids=lambda each: type(each).__name__)
def test_it_is_exported_and_right(model: nn.Module, calls: Any, shapes: Any) -> None:
    log = Log()
    found = run_exported(model, calls, dynamic_shapes=shapes, log=log)
    for got, call in zip(found, calls, strict=True):
        want = model(*call)
        for one, other in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            torch.testing.assert_close(one, other)
    assert "FXP1024" not in {each.rule.id for each in log.findings}


class Named(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * {"003": 2.0}.get("%03d" % len(x), 3.0)  # noqa: UP031


def test_a_size_in_a_text_that_decides_is_told() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Named(), (rows(3, 4),), dynamic_shapes=(ROWS,), log=log)
    assert {"FXP1024", "FXP1033"} <= {each.rule.id for each in log.findings}


def test_an_average_of_all_batches_is_a_part_of_the_graph() -> None:
    layer, x = nn.BatchNorm1d(4, momentum=None), rows(5, 4)
    layer(rows(6, 4))
    (y, *state), eager = run_exported(layer, [(x,)])[0], copy.deepcopy(layer)
    torch.testing.assert_close(y, eager(x))
    torch.testing.assert_close(state, [eager.running_mean, eager.running_var, eager.num_batches_tracked])


class Shared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(2)
        y.set_(x.clone())
        return y * 2


class Replaced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held: Any = torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        self.held = [x]
        return x * 2


class Unset(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", None)

    def forward(self, x: Tensor) -> Tensor:
        self.total = x.sum()
        return x * 2


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Shared(), "Reason: it gives a tensor the memory of another one."),
        (Replaced(), "It was another object before the call."),
        (Unset(), "forward assigns a tensor to 'total', which is no buffer with a value"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_it_is_told_for_what_it_is(model: nn.Module, told: str) -> None:
    log = Log()
    try:
        export(model, torch.ones(3, 4), log=log)
    except ExportError:
        assert len(log.findings) == 1
    assert any(told in each.message for each in log.findings)


class Kinds(nn.Module):
    """Layers of several kinds, one of which data chooses."""

    def __init__(self, ask: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.ask = ask

    def forward(self, x: Tensor, k: Tensor) -> Any:
        layer = self.layers[int(k)]
        return self.ask(layer, x)


def set_count(layer: Any, x: Tensor) -> Tensor:
    layer.count = 1
    return layer(x)


ASKED: dict[str, Callable[[Any, Tensor], Any]] = {
    "its kind": lambda layer, x: layer(x) * 2 if isinstance(layer, nn.ReLU) else layer(x),
    "a change": set_count,
    "which one": lambda layer, x: {layer: 1}[layer] * x,
}


class Same(Kinds):
    def forward(self, x: Tensor, k: Tensor) -> Any:
        layer = self.layers[int(k)]
        return layer(x) * 2 if layer is self.layers[0] else layer(x)


class Typed(Kinds):
    def forward(self, x: Tensor, k: Tensor) -> Any:
        layer = self.layers[int(k)]
        return layer(x) * 2 if type(layer) is nn.ReLU else layer(x)


@pytest.mark.parametrize("kind", [Same, Typed])
def test_a_layer_that_data_choose_is_not_told_apart(kind: type[Kinds]) -> None:
    with pytest.raises(ExportError, match="FXP1002"):
        export(kind(set_count), (torch.randn(3, 4), torch.tensor(1)), options=Options(self_check="never"))


@pytest.mark.parametrize("asked", ASKED)
def test_a_layer_that_data_choose_is_only_called(asked: str) -> None:
    with pytest.raises(ExportError, match="FXP1002"):
        export(Kinds(ASKED[asked]), (torch.randn(3, 4), torch.tensor(1)))


class Chosen(nn.Module):
    """Has its function from a `try` that is over when it is called."""

    def __init__(self) -> None:
        super().__init__()
        try:
            self.root = lambda x: torch.linalg.cholesky(x + 2 * torch.eye(3))
        except RuntimeError:
            self.root = torch.sqrt

    def forward(self, x: Tensor) -> Tensor:
        return self.root(x)


def test_a_lambda_is_not_within_the_try_that_makes_it() -> None:
    x = torch.eye(3)
    torch.testing.assert_close(run_exported(Chosen(), [(x,)]), [[Chosen()(x)]])


class Popped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = [x]
        if x.sum() > 0:
            held.append(x + 1)
        return held.pop(1)


class PutAmong(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = list(x[x > 0])
        held[3] = x[0]
        return held[0]


class PoppedFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = []
        for each in range(x.shape[0]):
            held.append(x[each])
        held.pop(0)
        return held[0]


LENGTHS = {
    Popped: "a list whose length a condition decides",
    PutAmong: "a list whose length the data decide",
    PoppedFirst: "a list of as many elements as a dynamic size has",
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_the_reason_says_what_decides_the_length_of_a_list(kind: type[nn.Module]) -> None:
    with pytest.raises(ExportError, match=f"it needs single elements of {LENGTHS[kind]}"):
        export(kind(), (torch.rand(5),), dynamic_shapes=({0: "n"},) if kind is PoppedFirst else None)


class WrittenWindows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(x.shape[0] * 4)
        windows = y.unfold(0, 4, 4)
        windows[:] = x[:, :1]
        return y


def test_a_write_to_a_view_that_fixes_a_size_is_told_at_its_line() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(WrittenWindows(), (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), log=log)
    (found,) = (each for each in log.findings if each.rule.id == "FXP2001")
    assert found.place is not None
    assert found.place.line == WrittenWindows.forward.__code__.co_firstlineno + 3
    assert "Reason: it writes to a view" in found.message
