"""Branches and turns that data decides on and that keep things: attributes, buffers, lists, containers of tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import rules
from tests.running import assert_same, run_session, session_of


class Base(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("seen", torch.zeros(()))
        self.count = 0
        self.last: Tensor | None = None

    def noted(self, x: Tensor) -> Tensor:
        self.count += 1
        self.seen += 0.5
        return x * 2


class Counting(Base):
    """A number that a branch counts, itself and in what it calls; a tensor that it keeps."""

    def forward(self, x: Tensor) -> Tensor:
        self.count = 3
        if x.sum() > 0:
            self.count += 1
            self.last = x
            x = self.noted(x) * self.count
        return x * self.count + self.seen


class Buffered(Base):
    """A buffer that loops write to: in a `while`, and in a branch of one over a dynamic size, in what it calls."""

    def forward(self, x: Tensor) -> Tensor:
        while x.abs().max() > 0.5:
            self.seen.add_(1)
            x = x * 0.5
        total = torch.zeros(4)
        for row in x:
            if row.sum() > 0:
                row = self.noted(row)
            total = total + row * self.seen
        return total


class Appending(Base):
    """Lists that branches append to: one of them, either, and in a loop over a dynamic size that may end early."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        some, all_, rows = [x], [], []
        h = torch.zeros(4)
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0:
                some.append(x)
                all_.append(x)
            else:
                all_.append(x * 2)
        for row in x:
            h = torch.tanh(h + row)
            rows.append(h)
            if h.sum() > 0.5:
                break
        count = torch.tensor(len(some))
        return torch.stack(some).sum(0), torch.stack(all_), torch.stack(rows), count


class Flagged(Base):
    """A truth that begins as a constant: what it is in the first turn says nothing of the others."""

    def forward(self, x: Tensor) -> Tensor:
        h, stop, late = torch.zeros(4), torch.tensor(False), False
        for t in range(x.shape[0]):
            if stop:
                h = h * 0.5
            if h.sum() > 0.1:
                stop = True
            if not late:
                h = h + x[t]
                late = h.max() > 0.9
        return h


@dataclass
class State:
    h: Tensor
    c: Tensor


class Contained(Base):
    """A dataclass and a dict as the state of loops."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = State(torch.zeros(4), torch.ones(4))
        for row in x:
            state = State(torch.tanh(state.h + row), state.c * 0.5 + state.h)
        held = {"x": x, "turns": 0}
        while held["x"].abs().max() > 0.1:
            held["x"] = held["x"] * 0.5
            held["turns"] += 1
        while state.h.abs().max() > 0.25:
            state = replace(state, h=state.h * 0.5)
        if state.h.sum() > 0:
            state.c = state.c + 1
        return state.h + state.c, held["x"] + held["turns"]


class Elif(Base):
    """Of several arms only some return."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1:
            return x * 2
        elif x.sum() > 0:  # noqa: RET505  # it is what is tried
            x = x + 1
        elif x.max() > 0.5:
            return x - 3
        return x.sin()


class Decoding(Base):
    """Viterbi: back pointers of as many steps as there are, walked from the last one."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        score, back, layer = x[0], [], self.layers[0]
        for t in range(1, x.shape[0]):
            best, pointers = (score.unsqueeze(1) + layer.get_parameter("weight")).max(0)
            score = best + x[t]
            back.append(pointers)
        place = score.argmax()
        path = [place]
        for pointers in reversed(back):
            place = pointers[place]
            path.append(place)
        path.reverse()
        return torch.stack(path), score.max()


X = torch.arange(12.0).reshape(3, 4).sin()
ROWS = [(X,), (X.repeat(2, 1)[:5] - 2,), (X[:2] + 2,), (X * 0.001,)]
MODELS = (Counting, Buffered, Appending, Flagged, Contained, Elif, Decoding)


@pytest.mark.parametrize("make", MODELS, ids=lambda each: each.__name__)
def test_each_way(make: type[Base]) -> None:
    program = export(make().eval(), (X.clone(),), dynamic_shapes={"x": {0: "n"}})
    session, names = session_of(program), [str(value.name) for value in program.model.graph.outputs]
    for case in ROWS:
        fresh = make().eval()
        with torch.no_grad():
            result = fresh(*case)
        results = list(result) if isinstance(result, tuple) else [result]
        left = {f"{name}.updated": buffer for name, buffer in fresh.named_buffers()}
        assert_same(run_session(session, program, case), [*results, *(left[name] for name in names[len(results) :])])


def test_what_a_branch_sets_is_put_back_and_said() -> None:
    model = Counting().eval()
    program = export(model, (X,))
    assert (model.count, model.last) == (0, None)
    assert {f.facts["name"] for f in program.log.findings if f.rule == rules.PYTHON_STATE_BAKED} == {"count", "last"}
