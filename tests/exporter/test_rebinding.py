"""`y.data = z`: another name of the memory of `z`, while views of what `y` was keep their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_exported, run_session, session_of

Forward = Callable[["Model", Tensor], tuple[Tensor, ...]]


class Model(nn.Module):
    first: Tensor
    second: Tensor

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.register_buffer("first", torch.ones(4))
        self.register_buffer("second", torch.arange(4.0))
        self.plain = torch.full((4,), 2.0)
        self.run = forward

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.run(self, x)


def _part_of_another(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    x = x.clone()
    row = x[0]
    row.data = x[1] * 5
    return x, row


def _with_a_view(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    row = made[0]
    made.data = made * 5
    return made, row


def _detached(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    other = x.detach()
    other.data = x * 5
    return x + 0, other


def _source_written_to(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    made, source = x * 2, x * 3
    made.data = source
    source.add_(1)
    return made, source


def _target_written_to(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    made, source = x * 2, x * 3
    made.data = source
    made[0].add_(1)
    return made, source


def _twice(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    made = x * 2
    made.data = x
    made.data = x * 3
    return made, x + 0


def _other_sizes_and_type(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    made, other = x * 2, x * 3
    made.data = torch.cat([x, x])
    other.data = x.double()
    return made + 1, other + 1


def _bound_that_another_name_ends(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    numbers = torch.arange(x.shape[0]) % 3
    other = torch.zeros_like(numbers)
    other.data = numbers
    other.add_(5)
    return (torch.bincount(numbers, minlength=3),)


LOCAL = [
    *(_part_of_another, _with_a_view, _detached, _source_written_to, _target_written_to, _twice),
    *(_other_sizes_and_type, _bound_that_another_name_ends),
]


@pytest.mark.parametrize("forward", LOCAL, ids=lambda each: each.__name__)
def test_tensors_of_a_run(forward: Forward) -> None:
    model, calls = Model(forward), [(torch.randn(n, 4),) for n in (3, 5)]
    results = run_exported(model, calls, dynamic_shapes={"x": {0: "n"}})
    for call, result in zip(calls, results, strict=True):
        assert_same(result, model(call[0].clone()))


def _buffer_with_a_view(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    part = model.first[1:]
    model.first.data = model.first + x.sum(0)
    part.add_(100)
    return part + 0, model.first + 0


def _buffers_exchanged(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    kept = model.first.data
    model.first.data = model.second.data
    model.second.data = kept
    return (x + model.first * 2 + model.second,)


def _buffer_from_another(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    model.first.data = model.second
    model.first.add_(x.sum(0))
    return (model.second + 0,)


def _source_of_a_buffer_written_to(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    source = model.first + x.sum(0)
    model.first.data = source
    source.mul_(2)
    return (x + model.first,)


def _attribute(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    total = x.sum(0)
    model.plain.data = total
    return (model.plain + total,)


STATE: Mapping[Forward, tuple[str, ...]] = {
    _buffer_with_a_view: ("first",),
    _buffers_exchanged: ("first", "second"),
    _buffer_from_another: ("first", "second"),
    _source_of_a_buffer_written_to: ("first",),
    _attribute: ("plain",),
}


@pytest.mark.parametrize("forward", STATE, ids=lambda each: each.__name__)
def test_state(forward: Forward) -> None:
    model, x = Model(forward), torch.randn(3, 4)
    program = export(model, (x,))
    names = [str(value.name) for value in program.model.graph.outputs]
    session = session_of(program)  # first: the program holds the model's own tensors
    want = model(x)
    changed = [f"{name}.updated" for name in STATE[forward]]
    assert names[len(want) :] == changed
    state = [getattr(model, name) for name in STATE[forward]]
    assert_same(run_session(session, program, (x,)), [*want, *state])


def _buffer_of_other_sizes(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    model.first.data = torch.cat([model.first, x[0]])
    return (model.first,)


def _attribute_with_a_view(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    part = model.plain[:2]
    model.plain.data = x.sum(0)
    return (part + 0,)


def _source_of_an_attribute_written_to(model: Model, x: Tensor) -> tuple[Tensor, ...]:
    total = x.sum(0)
    model.plain.data = total
    total.add_(1)
    return (model.plain + 0,)


@pytest.mark.parametrize(
    ("forward", "line"),
    [
        (_buffer_of_other_sizes, "model.first.data = torch.cat([model.first, x[0]])"),
        (_attribute_with_a_view, "model.plain.data = x.sum(0)"),
        (_source_of_an_attribute_written_to, "total.add_(1)"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_cannot_be_followed_is_refused_at_its_line(forward: Forward, line: str) -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Model(forward), (torch.randn(3, 4),), log=log)
    (finding,) = [each for each in log.findings if each.level is Level.ERROR]
    assert finding.rule.id == "FXP1003"
    assert finding.place is not None
    assert finding.place.snippet is not None
    assert line in finding.place.snippet


class OfThisType(nn.Module):
    """Turns its layer to the type of the input, as some models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.layer = self.layer.to(x.dtype)
        y = self.layer(x)
        return y + self.layer.weight.sum() if y.sum() > 0 else y


def test_a_layer_of_this_type_stays_as_it_is() -> None:
    log, model = Log(), OfThisType()
    calls = [(torch.full((2, 3), sign),) for sign in (1.0, -1.0)]
    for got, call in zip(run_exported(model, calls, log=log), calls, strict=True):
        assert_same(got, [model(*call)])
    assert all(each.level is Level.NOTE for each in log.findings)
