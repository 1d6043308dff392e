"""Values of inputs that Python asks for: constants where the user accepts them, an error elsewhere."""

from __future__ import annotations

import inspect
import linecache
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Options, export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.capture.patches.sized_numbers import Quotient
from tests.running import assert_same, run_session, session_of

ALLOWED = Options(allow_specialization=True)


class Chunks(nn.Module):
    """Attention within each part, whose sizes are counted by what data tell."""

    def forward(self, x: Tensor, grids: Tensor) -> Tensor:
        lengths = torch.repeat_interleave(grids[:, 1] * grids[:, 2], grids[:, 0])
        ends = nn.functional.pad(lengths.cumsum(0), (1, 0))
        total: Any = grids.prod(-1).sum()  # the stubs know no tensors as sizes
        order = torch.arange(total) % 3
        parts = (x + order).split((ends[1:] - ends[:-1]).tolist(), dim=1)
        return torch.cat([part.softmax(1) for part in parts], dim=1)


KNOWN = {9: ""}


class Compared(nn.Module):
    """A branch on one item, and a text by a number, which no graph has; the rest stays in the graph."""

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        first = next(iter(sizes))
        return x * sizes[1] if max(first, sizes[1]) > 3 and KNOWN.get(int(first), "other") else x - first


class Sized(nn.Module):
    """Sizes that are tensors of one element: of parts, of views, of slices."""

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        pairs: Any = sizes  # the stubs know no tensors as sizes
        parts = x.split([h * w for h, w in pairs], dim=1)
        rows = [part.view(-1, h, w).sum(2) for part, (h, w) in zip(parts, pairs, strict=True)]
        return torch.cat([each[:, :h].softmax(1) for each, (h, _) in zip(rows, pairs, strict=True)], dim=1)


class Written(Compared):
    """What is written into a tensor of known values is not known, nor are its views."""

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        counts = sizes + 0
        part = counts[:1]
        counts[0] = x[0].argmax()
        return super().forward(x, sizes)[:, : int(part[0])]


class Switched(nn.Module):
    """A branch on a number in a buffer that does what no graph can choose."""

    def __init__(self, *, counting: bool = False) -> None:
        super().__init__()
        self.counting = counting
        self.register_buffer("limits", torch.tensor([0.0, 3.0]))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> list[Tensor]:
        outputs = [x]
        if self.counting:
            self.limits += 1
        for limit in self.limits:
            if limit > 1:
                outputs.append(self.linear(x))
        return outputs


GRIDS = torch.tensor([[1, 2, 4], [2, 4, 2]])
CASES = {
    "compared": (Compared(), (torch.randn(3, 24), torch.tensor([3, 4])), "max(first"),
    "sized": (Sized(), (torch.randn(3, 24), torch.tensor([[2, 3], [6, 3]])), "x.split("),
    "written": (Written(), (torch.randn(3, 24), torch.tensor([3, 4])), "max(first"),
}


@pytest.mark.parametrize("name", list(CASES))
def test_values_of_the_example(name: str) -> None:
    model, args, line = CASES[name]
    log = Log()
    program = export(model, args, dynamic_shapes=({0: "rows"}, None), options=ALLOWED, log=log)
    (found,) = [each for each in log.findings if each.rule is rules.VALUES_SPECIALIZED]
    assert found.level is Level.WARNING
    assert found.facts["name"] == list(inspect.signature(model.forward).parameters)[1]
    assert found.place is not None
    assert line in linecache.getline(found.place.path, found.place.line)
    session = session_of(program)
    for rows in (3, 5):
        fed = (torch.randn(rows, 24), args[1])
        assert_same(run_session(session, program, fed), [model(*fed)])


@pytest.mark.parametrize("name", list(CASES))
def test_they_are_an_error_by_default(name: str) -> None:
    model, args, _ = CASES[name]
    with pytest.raises(ExportError) as caught:
        export(model, args, dynamic_shapes=({0: "rows"}, None))
    (found,) = caught.value.log.findings
    assert found.rule in {rules.DATA_DEPENDENT_CONTROL_FLOW, rules.CAPTURE_FAILED}


def test_sizes_of_parts_that_data_tell_need_no_values() -> None:
    model, log = Chunks(), Log()
    program = export(model, (torch.randn(3, 24), GRIDS), dynamic_shapes=({0: "rows"}, None), log=log)
    assert not [each for each in log.findings if each.rule is rules.VALUES_SPECIALIZED]
    session = session_of(program)
    for rows, grids in (
        (3, GRIDS),
        (5, torch.tensor([[2, 4, 1], [4, 2, 2]])),
        (1, torch.tensor([[1, 1, 20], [1, 2, 2]])),
    ):
        fed = (torch.randn(rows, 24), grids)
        assert_same(run_session(session, program, fed), [model(*fed)])


class Anchors(nn.Module):
    """A branch and a number for each row of a tensor that is no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = [torch.tensor([[1.0, 4.0], [2.0, 0.5]])]

    def forward(self, x: Tensor) -> Tensor:
        wide = [w.item() for w, h in self.anchors[0] if w > h]
        return x * wide[0] + len(wide) + self.anchors[0].numpy().max()


def test_questions_about_constants_are_none_about_data() -> None:
    model, log = Anchors(), Log()
    program = export(model, (torch.randn(2, 4),), log=log)
    assert not log.findings
    assert not [node for node in program.model.graph if node.op_type in {"If", "Loop", "Scan"}]
    fed = (torch.randn(2, 4),)
    assert_same(run_session(session_of(program), program, fed), [model(*fed)])


class Named(nn.Module):
    """Look up a number by the text of a tensor."""

    def __init__(self, known: bool) -> None:
        super().__init__()
        self.known, self.level = known, [torch.tensor([1.0, 2.0])]

    def forward(self, x: Tensor) -> Tensor:
        text = f"{self.level[0] * 2 if self.known else x}"
        return x * (3 if text == "tensor([2., 4.])" else 5)


@pytest.mark.parametrize("known", [True, False])
def test_the_text_of_a_constant_is_that_of_eager_pytorch(known: bool) -> None:
    """Tell the text of data, which is frozen as it is in this run."""
    model, log = Named(known), Log()
    program = export(model, (torch.ones(2),), log=log)
    assert [each.rule for each in log.findings] == ([] if known else [rules.VALUE_MADE_TEXT])
    fed = (torch.randn(2),)
    assert_same(run_session(session_of(program), program, fed), [model(*fed)])


def test_a_branch_on_a_buffer() -> None:
    log = Log()
    program = export(Switched(), (torch.randn(2, 4),), dynamic_shapes=({0: "rows"},), log=log)
    (found,) = [each for each in log.findings if each.rule is rules.VALUES_SPECIALIZED]
    assert found.facts["name"] == "limits"
    assert len(program.model.graph.outputs) == 2


def test_a_branch_on_a_buffer_that_changes() -> None:
    with pytest.raises(ExportError) as caught:
        export(Switched(counting=True), (torch.randn(2, 4),))
    assert [each.rule for each in caught.value.log.findings] == [rules.DATA_DEPENDENT_CONTROL_FLOW]


class Blocked(nn.Module):
    """A branch on a value, which can be allowed, and behind it what cannot."""

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        if count > 1:
            self.seen = x.shape
            return torch.from_numpy(x.numpy().copy())
        return x


def test_what_is_left_is_told_where_values_are_allowed() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Blocked(), (torch.ones(3), torch.tensor(2)), options=ALLOWED, log=log)
    (finding,) = (each for each in log.findings if each.level is Level.ERROR)
    assert finding.place is not None
    assert "x.numpy()" in (finding.place.snippet or "")


class Refused(nn.Module):
    """Programs that are refused where data tell their numbers, and right where these are known."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        k: Any = n.item()  # the stubs have a float for it
        kept = torch.tensor([each for each in (k, k + 1) if each > 2])
        return x[::k] * math.gamma(k) + math.fsum([k, 2]) + kept


def test_what_data_cannot_tell_is_right_where_values_are_allowed() -> None:
    call = torch.arange(6.0).reshape(6, 1), torch.tensor(2)
    program = export(Refused(), call, options=ALLOWED)
    assert_same(run_session(session_of(program), program, call), [Refused()(*call)])
    with pytest.raises(ExportError):
        export(Refused(), call)


class Codec(nn.Module):
    """Pads so that a convolution covers the whole length, by numbers in buffers, as Encodec and Mimi do."""

    def __init__(self, kernel: int, stride: int, *, causal: bool = True) -> None:
        super().__init__()
        self.causal = causal
        self.register_buffer("stride", torch.tensor(stride))
        self.register_buffer("kernel", torch.tensor(kernel))
        self.register_buffer("padding", torch.tensor(kernel - stride))
        self.conv = nn.Conv1d(4, 4, kernel, stride)

    def further(self, x: Tensor) -> Any:
        frames: Any = (x.shape[-1] - self.kernel + self.padding) / self.stride + 1
        frames = torch.ceil(frames).to(torch.int64) - 1
        return frames * self.stride + self.kernel - self.padding - x.shape[-1]

    def padded(self, x: Tensor, before: Any, behind: Any) -> Tensor:
        longest, extra = max(before, behind), 0
        if x.shape[-1] <= longest:
            extra = longest - x.shape[-1] + 1
            x = nn.functional.pad(x, (0, extra))
        padded = nn.functional.pad(x, (before, behind), mode="reflect")
        return padded[..., : padded.shape[-1] - extra]

    def forward(self, x: Tensor) -> Tensor:
        further, padding = self.further(x), self.padding
        behind = 0 if self.causal else padding // 2
        return self.conv(self.padded(x, padding - behind, further + behind))


class Counted(Codec):
    """Writes to a buffer whose number it has asked for."""

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x)
        self.stride.add_(1)
        return result


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("kernel", "stride"), [(7, 1), (8, 4), (10, 5), (7, 3)])
def test_lengths_that_buffers_tell(kernel: int, stride: int, *, causal: bool) -> None:
    torch.manual_seed(0)
    model, log = Codec(kernel, stride, causal=causal).eval(), Log()
    program = export(model, (torch.rand(2, 4, 23),), dynamic_shapes={"x": {0: "b", 2: "n"}}, log=log)
    session = session_of(program)
    assert rules.VALUES_SPECIALIZED in {finding.rule for finding in log.findings}
    assert rules.DATA_DEPENDENT_SHAPE not in {finding.rule for finding in log.findings}
    for length in range(11, 45):
        x = torch.rand(1, 4, length)
        assert_same(run_session(session, program, (x,)), (model(x),))


def test_number_of_a_buffer_that_forward_changes_is_refused() -> None:
    with pytest.raises(ExportError):
        export(Counted(8, 4), (torch.rand(2, 4, 23),), dynamic_shapes={"x": {2: "n"}})


def test_numbers_that_float32_rounds_are_none() -> None:
    """The sums and quotients that are followed are right for all numbers that may occur; others are not followed."""
    for divisor in (3, 5, 7, 1000):
        for number in (2**21 - 1, 2**21 - divisor - 1, 2**20 + 1, divisor * (2**20 // divisor), -7):
            quotient = Quotient(number) / Quotient(divisor)
            assert quotient is not None
            value = torch.tensor(number) / divisor
            for added in (1, -1000, 1, 999):
                quotient = quotient + Quotient(added)
                assert quotient is not None
                value = value + added
                assert (quotient.ceil().number, quotient.floor().number) == (int(value.ceil()), int(value.floor()))
            assert quotient + Quotient(1) is None
    assert Quotient(7) / Quotient(2**11) is None
    assert (Quotient(7) / Quotient(2)) * Quotient(2) is None
