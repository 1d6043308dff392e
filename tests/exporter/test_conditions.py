"""Sizes that the captured graph does not hold for: found, told at the line that asked, and avoided where it goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fxport import ExportError, Options, export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.capture.sizes.conditions import words_for
from fxport.exporter.capture.sizes.resizing import promised
from fxport.exporter.validation.reference import cases
from tests.exporter.test_capture import line_of
from tests.running import assert_same, run_session, session_of


class Patches(nn.Module):
    """A vision transformer's positions: as they are for the size that they were made for, else interpolated."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 4, 8, 8)
        self.positions = nn.Parameter(torch.randn(1, 4, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2] // 8, x.shape[3] // 8
        if height * width == 16:
            return self.patches(x) + self.positions
        return self.patches(x) + F.interpolate(self.positions, size=(height, width), mode="bicubic")


class Half(nn.Module):
    """Keeps half of the tokens, by Python's arithmetic."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.topk(int(x.shape[1] * 0.5), dim=1)[0]


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(4, -1) * 2


class Pyramid(nn.Module):
    """Sums over windows of several sizes, to which the picture is padded: at first it fits one window of each."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, _ = x.shape
        for size in (4, 8, 12):
            padded = F.pad(x, (0, 0, 0, -width % size, 0, -height % size))
            rows, columns = padded.shape[1] // size, padded.shape[2] // size
            parts = padded.view(batch, rows, size, columns, size, -1).permute(0, 1, 3, 2, 4, 5).contiguous()
            sums = parts.view(-1, size * size, parts.shape[-1]).cumsum(1)
            sums = sums.view(-1, rows, columns, size, size, parts.shape[-1]).permute(0, 1, 3, 2, 4, 5).contiguous()
            x = x + sums.view(batch, rows * size, columns * size, -1)[:, :height, :width]
        return x


@pytest.mark.parametrize(
    ("model", "example", "other", "shapes", "again"),
    [
        (Patches(), (2, 3, 32, 32), (1, 3, 48, 40), {0: "batch", 2: "height", 3: "width"}, True),
        (Half(), (2, 8), (3, 21), {0: "batch", 1: "time"}, False),
        (Rows(), (4, 3), (6, 10), {0: "rows", 1: "columns"}, True),
        (Pyramid(), (2, 3, 3, 3), (1, 27, 5, 3), {0: "batch", 1: "height", 2: "width"}, True),
    ],
)
def test_the_way_for_every_size_is_captured(
    model: nn.Module, example: Any, other: Any, shapes: Any, again: bool
) -> None:
    """At once, or `again`, at another size than the example's."""
    log = Log()
    program = export(model, (torch.randn(example),), dynamic_shapes=(shapes,), log=log)
    assert ("FXP1004" in {finding.rule.id for finding in log.findings}) is again
    session = session_of(program)
    for sizes in (example, other):
        x = torch.randn(sizes)
        assert_same(run_session(session, program, (x,)), [model(x)], tol=(1e-4, 1e-5))


class Fitting(nn.Module):
    """Takes few sizes, and says so."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] // 8 == 2:
            return x * 2
        raise ValueError("16 to 23 columns")


def test_a_dimension_with_few_sizes_left_is_lost() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Fitting(), (torch.randn(2, 16),), dynamic_shapes=({0: "rows", 1: "columns"},), log=log)
    (finding,) = [each for each in log.findings if each.level is Level.ERROR]
    assert (finding.rule.id, finding.facts["dim"], finding.facts["value"]) == ("FXP2001", "columns", "16 to 23")
    assert finding.place is not None
    assert finding.place.line == line_of(Fitting.forward, "// 8")
    (other,) = [each for each in log.findings if each.rule is rules.OTHER_CAPTURE_FAILED]
    assert "16 to 23 columns" in other.message
    assert other.place is not None
    assert other.place.line == line_of(Fitting.forward, "raise")


class Halves(nn.Module):
    """Does something else for some columns and for few."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 23:
            return x * 3
        return x * 2 if x.shape[1] // 8 == 2 else x * 4


def test_the_sizes_of_another_example_are_told() -> None:
    log, options = Log(), Options(rewrite=False)
    with pytest.raises(ExportError):
        export(Halves(), (torch.randn(2, 16),), dynamic_shapes=({1: "columns"},), options=options, log=log)
    (other,) = [each for each in log.findings if each.rule is rules.OTHER_CAPTURE_FAILED]
    assert "right where columns: at least 24" in other.message


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1] // 4, 4, -1) * 2


class Even(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (0, 0, 0, 1)) if x.shape[1] % 2 else x * 2


class Alike(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] // 3 == x.shape[2] // 3 else x


@pytest.mark.parametrize(
    ("model", "rule", "said"),
    [
        (Windows(), "FXP2002", "a multiple of 4"),
        (Even(), "FXP2002", "a multiple of 2"),
        (Alike(), "FXP2003", "(columns // 3) == (depth // 3)"),
    ],
)
def test_a_condition_is_told_and_kept_by_the_second_size(model: nn.Module, rule: str, said: str) -> None:
    log, x = Log(), torch.randn(2, 12, 12)
    shapes = ({0: "rows", 1: "columns", 2: "depth"},)
    program = export(model, (x,), dynamic_shapes=shapes, options=Options(rewrite=False), log=log)
    assert [each.rule.id for each in log.findings if said in each.facts.values()] == [rule]
    sample, other = cases(model, (x,), {}, program, log)
    assert sample.inputs["x"].shape != (shape := other.inputs["x"].shape)
    (result,) = run_session(session_of(program), program, (torch.from_numpy(other.inputs["x"]),))
    assert_same([result], [torch.from_numpy(*other.outputs.values())])
    assert shape[1] % 12 == 0


class Single(nn.Module):
    """Takes one frame as it is, and refuses any other number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] * 2 == 2:
            return x * 2
        raise ValueError("one frame")


def test_a_size_of_one_can_be_lost() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Single(), (torch.randn(1, 3),), dynamic_shapes=({0: "frames"},), log=log)
    assert [each.rule.id for each in log.findings if each.level is Level.ERROR] == ["FXP2001"]


class FewRows(nn.Module):
    """Two dictionaries, of which the first has few entries of a dynamic number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.stack(list({i: x[:, i] for i in range(min(2, x.shape[1]))}.values()), 1)
        x = x.flatten(1).cumsum(1).view(x.shape)
        return torch.stack(list({i: x[:, i] * (5, 7, 9)[i] for i in range(min(3, x.shape[1]))}.values()), 1)


class Pairs(nn.Module):
    """Pairs of neighbours where there are enough, after a column more for an odd number of rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.pad(x, (0, x.shape[1] % 2))
        return x.unfold(2, 2, 2).sum(-1) if x.shape[2] > 3 else x


@pytest.mark.parametrize(
    ("model", "said", "least"),
    [
        (FewRows(), ["rows: at least 2"], 1),
        (Pairs(), ["columns: at least 3", "columns + (rows % 2) > 3"], 2),
    ],
)
def test_what_the_second_size_keeps_to(model: nn.Module, said: list[str], least: int) -> None:
    """Also where Python's own ranges asked, and where PyTorch narrowed the range itself."""
    shapes = {1: "rows", 2: "columns"}
    example, options = (torch.randn(2, 6, 9),), Options(rewrite=False)
    program = export(model, example, dynamic_shapes=(shapes,), options=options).program
    assert [each.words for each in program.conditions] == said
    assert promised(model, ((torch.randn(2, 5, 7),), {}), program)
    assert not promised(model, ((torch.randn(2, least, least),), {}), program)


class Grown(nn.Module):
    """As many copies of each column as a function of Python's `math` says."""

    def __init__(self, function: Callable[[int], float]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.repeat(1, math.floor(self.function(x.shape[1])) + 1)[:, : x.shape[0]]


def root(n: int) -> float:
    return math.sqrt(n) / 2


def whole_root(n: int) -> float:
    return math.isqrt(n)


def exponential(n: int) -> float:
    return math.exp(n / 16)


def power(n: int) -> float:
    return math.pow(n, 0.3)


def angle(n: int) -> float:
    return math.atan(n) * 3


def wave(n: int) -> float:
    return math.cos(n) + 2


def product(n: int) -> float:
    return math.prod([n, 2]) / 9


GROWTHS = (
    root,
    whole_root,
    exponential,
    power,
    angle,
    wave,
    product,
)


@pytest.mark.parametrize("function", GROWTHS)
def test_functions_of_math_keep_sizes_dynamic(function: Callable[[int], float]) -> None:
    """Also where they stand in what torch.export asks of the sizes, which is tried in Python."""
    model = Grown(function)
    program = export(model, (torch.randn(3, 9),), dynamic_shapes=({0: "rows", 1: "columns"},))
    session = session_of(program)
    for sizes in ((3, 9), (2, 17), (5, 30)):
        x = torch.randn(sizes)
        assert_same(run_session(session, program, (x,)), [model(x)])


NORMS: dict[str, tuple[nn.Module, tuple[int, ...], dict[int, str], str | None]] = {
    "batch norm in training": (nn.BatchNorm1d(3).train(), (6, 3), {0: "n"}, "n"),
    "batch norm in eval mode": (nn.BatchNorm1d(3).eval(), (6, 3), {0: "n"}, None),
    "of images": (nn.BatchNorm2d(3).train(), (6, 3, 4, 4), {0: "n"}, None),
    "instance norm": (nn.InstanceNorm1d(3), (2, 3, 4), {2: "n"}, "n"),
    "group norm of one value": (nn.GroupNorm(6, 6), (4, 6), {0: "n"}, "n"),
    "group norm": (nn.GroupNorm(3, 6), (4, 6), {0: "n"}, None),
}
"""Layers, a shape, its dynamic axes, and the one that has to be at least 2: PyTorch refuses to normalize one value."""


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_one_value_are_left_out(name: str) -> None:
    norm, shape, axes, limited = NORMS[name]
    log = Log()
    export(norm, (torch.randn(shape),), dynamic_shapes=(axes,), log=log)
    told = [each.facts["dim"] for each in log.findings if each.rule.id == "FXP2002"]
    assert told == ([] if limited is None else [limited])
    one = torch.randn([1 if axis in axes else size for axis, size in enumerate(shape)])
    if limited is None:
        norm(one)
    else:
        with pytest.raises(ValueError, match="Expected more than 1"):
            norm(one)


TRIED = range(1, 131)

WORDS: dict[str, Callable[[int], bool]] = {
    "a multiple of 4": lambda n: n % 4 == 0,
    "1 more than a multiple of 4": lambda n: n % 4 == 1,
    "33 to 64 more than a multiple of 64": lambda n: -(-n // 32) % 2 == 0,
    "2 to 4 more than a multiple of 10": lambda n: n % 10 in (2, 3, 4),
    "not a multiple of 7": lambda n: n % 7 != 0,
    "not 3 more than a multiple of 7": lambda n: n % 7 != 3,
    "2 to 3, 5, 7 or in one of 27 other ranges up to 127": lambda n: n > 1 and all(n % k for k in range(2, n)),
    "2 to 4, 9 to 11, 60 to 70": lambda n: n in (2, 3, 4, 9, 10, 11, *range(60, 71)),
    "1 to 10, at least 20": lambda n: n < 11 or n > 19,
    "at least 9 and not 20 nor 30": lambda n: n > 8 and n not in (20, 30),
}
"""Words for sizes, and which of those from 1 to 130 they are."""


@pytest.mark.parametrize("words", WORDS)
def test_sizes_are_put_into_words(words: str) -> None:
    assert words_for([n for n in TRIED if WORDS[words](n)], TRIED) == words


def test_the_range_of_the_example_is_named() -> None:
    passing = [n for n in TRIED if n > 1 and all(n % k for k in range(2, n))]
    assert words_for(passing, TRIED, 61) == "2 to 3, 5, 7, 61 or in one of 26 other ranges up to 127"
