"""Captures that were rewritten are compared with the model in PyTorch: planted faults are found, nothing is left."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Options, export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.capture.control_flow import branches
from fxport.exporter.capture.fake import without_memory
from fxport.exporter.capture.self_check import checking
from tests.running import assert_same, run_session, session_of, within_conditions

X = torch.linspace(-1, 2, 12).reshape(4, 3)


class Counts(nn.Module):
    """A branch on data, with a buffer and an attribute."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.seen += x.sum(0)
            x = x * self.scale
        else:
            x = x - 1
        return x


@pytest.fixture
def _branches_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the capture: each condition is turned round."""
    predicate = branches.predicate
    monkeypatch.setattr(branches, "predicate", lambda value: predicate(value).logical_not())


def rules_of(log: Log, level: Level | None = None) -> list[str]:
    return [each.rule.id for each in log.findings if level in (None, each.level)]


@pytest.mark.usefixtures("_branches_swapped")
def test_a_wrong_capture_is_an_error_at_its_line() -> None:
    log = Log()
    with pytest.raises(ExportError, match="FXP1033"):
        export(Counts(), (X,), log=log)
    (found,) = (each for each in log.findings if each.rule.id == "FXP1033")
    assert found.place is not None
    assert found.place.path == __file__
    assert found.place.line == Counts.forward.__code__.co_firstlineno + 1
    assert found.facts["call"] == "the example"


@pytest.mark.usefixtures("_branches_swapped")
def test_only_who_asks_for_no_check_gets_a_wrong_capture() -> None:
    log = Log()
    export(Counts(), (X,), options=Options(self_check="never"), log=log)
    assert "FXP1033" not in rules_of(log)


HELD: list[Tensor] = [torch.zeros(3)]
"""A list whose new entries no branch may leave to data."""


class AppendsAndWrites(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x, held = x * 1, HELD
        if (x[0] > 0.5).any():
            held.append(x[-1])
            x.sub_(0.5)
        return x * len(held)


def test_no_branch_runs_on_top_of_one_that_has_written() -> None:
    log = Log()
    with pytest.raises(ExportError, match="made elsewhere"):
        export(AppendsAndWrites(), (X,), options=Options(self_check="never"), log=log)


@pytest.mark.usefixtures("_branches_swapped")
def test_a_model_without_values_is_checked_with_drawn_ones() -> None:
    with without_memory():
        model = Counts()
    with pytest.raises(ExportError, match="FXP1033"):
        export(model, (X,))
    assert model.scale.is_meta


def test_the_check_leaves_the_model_as_it_was() -> None:
    model = Counts()
    export(model, (X,), options=Options(self_check="always"))
    assert torch.equal(model.seen, torch.zeros(3))
    assert all(type(each) in (Tensor, nn.Parameter) for each in (*model.buffers(), *model.parameters()))


def test_the_check_leaves_the_random_numbers_as_they_were() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    export(Counts(), (X,), options=Options(self_check="always"))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_model_runs_twice_with_the_values_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    called = checking.called

    def counted(module: nn.Module, call: Any) -> Any:
        runs.append(torch.equal(call[0][0], X))
        return called(module, call)

    monkeypatch.setattr(checking, "called", counted)
    export(Counts(), (X,), options=Options(self_check="always"))
    assert sum(runs) == 2
    assert len(runs) > sum(runs)


class AtOne(nn.Module):
    """The number of parts is 2 unless there is but one row."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x * 2
        return x + len(x.chunk(2, 0))


def test_a_size_at_which_they_differ_is_left_out() -> None:
    log = Log()
    program = export(AtOne(), (X,), dynamic_shapes=({0: "n"},), log=log)
    assert "FXP2002" in rules_of(log, Level.WARNING)
    assert not within_conditions(program, (X[:1],))
    for x in (X, X[:2], -X):
        assert_same(run_session(session_of(program), program, (x,)), [AtOne()(x)])


class Rare(nn.Module):
    """A branch that no draw takes."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1e9:
            x = x - 1
        return x


def test_a_branch_that_never_ran_is_told() -> None:
    log = Log()
    export(Rare(), (X,), log=log)
    (found,) = (each for each in log.findings if each.rule.id == "FXP1034")
    assert found.level is Level.WARNING
    assert found.place is not None
    assert found.place.line == Rare.forward.__code__.co_firstlineno + 1


class Settled(nn.Module):
    """A loop that ends by its condition, never in the first turn."""

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        while True:
            new = torch.tanh(z * 0.5 + x + 1)
            if (new - z).norm() < 1e-3:
                break
            z = new
        return new


def test_the_branch_of_a_first_turn_that_never_ran_is_told_as_that_of_the_first_turn() -> None:
    log = Log()
    export(Settled(), (torch.ones(5),), log=log)
    told = [each.facts["branch"] for each in log.findings if each.rule.id == "FXP1034"]
    assert told == ["In the first iteration, the branch in which this condition is true"]


class Indexed(nn.Module):
    """One of three layers; no draw chooses the first, whose own condition never holds either."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((Rare(), nn.ReLU(), nn.Sigmoid()))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[int((x.sum() * 0).long() + 1)](x)


def test_what_an_index_never_chose_is_told_by_its_index() -> None:
    log = Log()
    export(Indexed(), (X,), log=log)
    told = [each.facts["branch"] for each in log.findings if each.rule.id == "FXP1034"]
    assert told == ["What is at index 0"]


def test_without_rewriting_a_branch_on_data_is_refused() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Rare(), (X,), options=Options(rewrite=False), log=log)
    assert rules_of(log, Level.ERROR) == ["FXP1002"]


def test_only_what_was_rewritten_is_checked_unless_all_is(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[str]()
    called = checking.called
    monkeypatch.setattr(checking, "called", lambda *args: runs.append("eager") or called(*args))
    export(nn.Linear(3, 2), (X,))
    assert not runs
    export(nn.Linear(3, 2), (X,), options=Options(self_check="always"))
    assert runs


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn_like(x)
        if x.sum() > 0:
            x = x + noise
        return x


class Attends(nn.Module):
    """Attention of a CPU gives other strides than its fake kernel; the view after it is not one of real memory."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        torch._assert(x.dim() == 3, f"{x.shape} has no batch")
        return self.attention(x, x, x, need_weights=False)[0]


def test_a_view_that_real_memory_does_not_allow_is_a_copy() -> None:
    log = Log()
    export(Attends().eval(), (torch.randn(2, 5, 8),), dynamic_shapes={"x": {0: "batch"}}, log=log)
    assert "FXP1033" not in rules_of(log)


def test_what_cannot_be_compared_is_told() -> None:
    log = Log()
    export(Noisy(), (X,), log=log)
    (found,) = (each for each in log.findings if each.rule is rules.CAPTURE_UNCHECKED)
    assert found.level is Level.WARNING
    assert found.facts["reason"] == "it gives other results each time that it runs"


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="'sometimes'"):
        Options(self_check="sometimes")  # type: ignore[arg-type]


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * 0.5 if self.count > 1 else x * 3 + self.count


class HeldTwice(nn.Module):
    """A module under two names, called by each: its buffer is one of the graph's states."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Turned()
        self.inner = nn.Sequential(self.first, nn.Tanh(), Turned())

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.first(x))


def test_a_buffer_of_two_names_is_compared_as_one() -> None:
    model = HeldTwice()
    program = export(model, (X,))
    results = run_session(session_of(program), program, (X,))
    assert_same([results[0], torch.stack(results[1:])], [model(X), torch.tensor([2.0, 1.0])])


class AreTheyOne(nn.Module):
    """Gives something else where both inputs are one tensor."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * 2 if x is y else x + y * 3


def test_one_tensor_as_two_inputs_is_told_where_it_matters() -> None:
    log = Log()
    with pytest.raises(ExportError, match="FXP1038"):
        export(AreTheyOne(), (X, X), log=log)
    (found,) = (each for each in log.findings if each.rule is rules.INPUTS_ARE_ONE)
    assert found.facts["inputs"] == "'x' and 'y'"
    program = export(AreTheyOne(), (X, X + 1))
    assert_same(run_session(session_of(program), program, (X, X + 1)), [AreTheyOne()(X, X + 1)])


class Appends(nn.Module):
    """Reads in one list what it has put into another one."""

    def forward(self, x: list[Tensor], y: list[Tensor]) -> Tensor:
        x.append(x[0] * 2)
        return torch.stack(y).sum(0)


class AddsTo(nn.Module):
    def forward(self, x: dict[str, Tensor], y: dict[str, Tensor]) -> Tensor:
        x["more"] = x["first"] * 2
        return torch.stack([*y.values()]).sum(0)


class Reads(nn.Module):
    def forward(self, x: list[Tensor], y: list[Tensor]) -> Tensor:
        return x[0] + y[0]


@pytest.mark.parametrize(("model", "held"), [(Appends(), [X]), (AddsTo(), {"first": X})], ids=["list", "dict"])
def test_one_container_as_two_inputs_is_told_where_it_matters(model: nn.Module, held: Any) -> None:
    with pytest.raises(ExportError, match="FXP1038"):
        export(model, (held, held))


def test_one_container_as_two_inputs_that_is_read_alone() -> None:
    held = [X]
    program = export(Reads(), (held, held))
    assert_same(run_session(session_of(program), program, (held, held)), [X + X])
