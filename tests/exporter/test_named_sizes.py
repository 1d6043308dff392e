"""Pictures scaled by fractions that their own size determines, over whose sizes PyTorch's algebra takes minutes."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._sympy.functions import FloorDiv, FloorToInt, Identity, ToFloat

from fxport import Options, export
from fxport.diagnostics import Log, rules
from fxport.fx_passes.sizes import NamedSize, rebuilt, unfolded
from tests.running import assert_same, run_session, session_of

SIZES = ((96, 128), (90, 131), (131, 90), (40, 200))


class Framed(nn.Module):
    """What torchvision's detectors do first: a picture made to fit a frame, and a batch of it whose sides are even."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2, 1)

    def scaled(self, x: Tensor) -> Tensor:
        sides = x.shape[-2:]
        scale = min(96 / min(sides), 128 / max(sides))
        return F.interpolate(x[None], scale_factor=scale, mode="bilinear", recompute_scale_factor=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.scaled(x)
        height, width = (int(math.ceil(float(side) / 32) * 32) for side in y.shape[-2:])
        batch = y.new_full((1, 3, height, width), 0)
        batch[0, :, : y.shape[2], : y.shape[3]].copy_(y[0])
        fine = self.conv(batch)
        coarse = self.conv(F.max_pool2d(batch, 2))
        merged = fine + F.interpolate(coarse, size=fine.shape[-2:], mode="nearest")
        return merged.view(1, 2, 2, *merged.shape[2:]).permute(0, 3, 4, 1, 2).reshape(1, -1, 2)


class Asked(Framed):
    """Goes two ways, by a scaled size."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.scaled(x)
        if y.shape[3] > 100:
            return y * 2
        return y


class Square(nn.Module):
    """Patches of a picture, put back into rows whose number is the root of theirs, as in DPT and DiT."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 4, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        side = int(patches.shape[1] ** 0.5)
        return patches.reshape(x.shape[0], side, side, 4).permute(0, 3, 1, 2).softmax(2)


@pytest.mark.parametrize("dims", [{2: "side", 3: "side"}, {2: "side", 3: "2*half"}, {2: "high", 3: "wide"}])
def test_root_of_sizes_of_one_name(dims: dict[int, str]) -> None:
    torch.manual_seed(0)
    model = Square().eval()
    program = export(model, (torch.rand(2, 3, 16, 16),), dynamic_shapes={"x": dims})
    session = session_of(program)
    for side in (16, 20, 32, 12):
        x = torch.rand(2, 3, side, side)
        assert_same(run_session(session, program, (x,)), (model(x),))


@pytest.mark.parametrize("example", [(96, 128), (90, 131)])
def test_any_size_of_a_picture(example: tuple[int, int]) -> None:
    log = Log()
    model = Framed().eval()
    program = export(model, (torch.rand(3, *example),), dynamic_shapes=({1: "height", 2: "width"},), log=log)
    assert not log.findings
    session = session_of(program)
    for size in SIZES:
        x = torch.rand(3, *size)
        assert_same(run_session(session, program, (x,)), [model(x)])


def test_what_is_asked_of_a_named_size_is_told() -> None:
    log = Log()
    shapes = ({1: "height", 2: "width"},)
    export(Asked(), (torch.rand(3, 90, 131),), dynamic_shapes=shapes, options=Options(rewrite=False), log=log)
    (finding,) = log.findings
    assert finding.rule is rules.DIMENSIONS_TIED
    assert finding.place is not None
    assert finding.place.snippet == "if y.shape[3] > 100:"
    assert "math.floor(min(96 / min(height, width), 128 / max(height, width)) * float(width)) > 100" in finding.message


@pytest.mark.parametrize("text", ["min(h, w, 7)", "max(h, 3, w)", "min(h / 2, w / 3, 4.5)", "max(h / 2, 5.5)"])
def test_extremes_of_sizes(text: str) -> None:
    class Extreme(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            h, w = x.shape
            return x * eval(text, {}, {"h": h, "w": w})

    log = Log()
    program = export(Extreme(), (torch.rand(6, 8),), dynamic_shapes=({0: "h", 1: "w"},), log=log)
    assert not log.findings
    session = session_of(program)
    for size in ((6, 8), (9, 3), (2, 21), (30, 30)):
        x = torch.rand(size)
        assert_same(run_session(session, program, (x,)), [Extreme()(x)])


def test_named_sizes_keep_their_definition() -> None:
    n, m = sympy.Symbol("n", integer=True), sympy.Symbol("m", integer=True)
    half: Any = FloorToInt(sympy.Float(0.5) * ToFloat(n))  # functions have no types
    inner = NamedSize("s1", half, integer=True, nonnegative=True)
    outer = NamedSize("s2", inner + m, integer=True)
    for twin in (copy.deepcopy(outer), pickle.loads(pickle.dumps(outer))):
        assert twin == outer
        assert twin.definition == outer.definition
    assert outer != NamedSize("s2", inner, integer=True)
    condition = unfolded(outer > 3)
    assert condition.free_symbols == {n, m}
    assert rebuilt(condition, {n: sympy.Integer(5), m: sympy.Integer(2)}) == sympy.true
    assert rebuilt(condition, {n: sympy.Integer(3), m: sympy.Integer(2)}) == sympy.false


class RelativePositions(nn.Module):
    """Attention over distances, as in Transformer-XL, over the frames that strided convolutions leave."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = nn.Sequential(nn.Conv1d(1, 4, 6, 4), nn.Conv1d(4, 4, 3, 2))
        self.register_buffer("places", torch.randn(99, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.frames(x[:, None]).transpose(1, 2)
        batch, n, _ = h.shape
        middle = self.places.shape[0] // 2
        scores = h @ self.places[middle - n + 1 : middle + n].T
        shifted = torch.cat([torch.zeros(batch, n, 1), scores], -1).view(batch, scores.shape[2] + 1, n)
        return shifted[:, 1:].view_as(scores)[:, :, : scores.shape[-1] // 2 + 1] + h @ h.mT


def test_equalities_that_fix_no_size() -> None:
    """PyTorch takes each equality of one size to be solved by a number, and stops where a range of sizes solves it."""
    model = RelativePositions()
    program = export(model, (torch.randn(2, 47),), dynamic_shapes=({0: "batch", 1: "samples"},))
    session = session_of(program)
    for size in ((2, 47), (3, 22), (1, 400)):
        x = torch.randn(size)
        assert_same(run_session(session, program, (x,)), [model(x)], tol=(1e-4, 1e-5))


def test_numbers_of_identities_are_numbers() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    condition = sympy.Eq(FloorDiv(Identity(n * 5), 4), 5, evaluate=False)
    assert rebuilt(condition, {n: sympy.Integer(4)}) == sympy.true
    assert rebuilt(condition, {n: sympy.Integer(5)}) == sympy.false
