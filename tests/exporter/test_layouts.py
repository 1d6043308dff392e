"""A model that asks how its inputs lie in memory is exported as it is for those of the example, and that is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Log, export, export_and_validate
from fxport.diagnostics import Level, rules
from fxport.exporter.capture.arguments.strides import laid_out_as, overlaps
from tests.running import run_session, session_of


class Asking(nn.Module):
    """Gives something else for strides that are not those of a contiguous tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.is_contiguous() else x * 3


class Striding(nn.Module):
    """Computes with a stride."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.stride(0) + 1)


class Catching(nn.Module):
    """Gives something else where no view is possible."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            return x.view(-1) * 2
        except RuntimeError:
            return x.reshape(-1) * 3


class Heeding(nn.Module):
    """Gives the same for all strides."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            flat = x.view(-1)
        except RuntimeError:
            flat = x.reshape(-1)
        return flat if x.is_contiguous() else x.contiguous().flatten()


LAYOUTS: Mapping[str, Callable[[], Tensor]] = {
    "transposed": lambda: torch.randn(4, 3).T,
    "every second column": lambda: torch.randn(3, 9)[:, 1::2],
    "expanded": lambda: torch.randn(1, 4).expand(3, 4),
}
"""Tensors of 3 rows and 4 columns by names."""

STRIDED: Mapping[str, Callable[[], Tensor]] = {
    **LAYOUTS,
    "channels_last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "one channel": lambda: torch.randn(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "a part of each row": lambda: torch.randn(3, 8)[:, 2:5],
    "every second row of a transposed tensor": lambda: torch.randn(5, 4, 6).permute(2, 0, 1)[::2],
    "every second of an odd number": lambda: torch.randn(3, 9)[:, ::2],
    "behind others": lambda: torch.randn(5, 4)[2:],
    "conjugated": lambda: torch.randn(3, 4, dtype=torch.complex64).T.conj(),
    "windows": lambda: torch.randn(9).unfold(0, 3, 1),
    "empty": lambda: torch.randn(4, 0).T,
    "a number": lambda: torch.tensor(1.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", [Asking(), Striding(), Catching()], ids=lambda model: type(model).__name__)
def test_results_that_depend_on_strides_are_told(model: nn.Module, layout: str) -> None:
    log, x = Log(), LAYOUTS[layout]()
    program = export(model, (x,), log=log)
    (found,) = [each for each in log.findings if each.rule is rules.ENVIRONMENT_BAKED]
    assert "the strides of x" in found.message
    assert found.place is not None
    assert found.place.path.endswith("test_layouts.py")
    (got,) = run_session(session_of(program), program, (x.contiguous(),))
    torch.testing.assert_close(got, model(x))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_that_do_not_are_not(layout: str) -> None:
    log, x = Log(), LAYOUTS[layout]()
    program = export(Heeding(), (x,), log=log)
    assert not log.findings
    (got,) = run_session(session_of(program), program, (x.contiguous(),))
    torch.testing.assert_close(got, x.flatten())


def test_a_contiguous_example_is_as_onnx_has_it() -> None:
    log = Log()
    export(Asking(), (torch.randn(3, 4),), log=log)
    assert not log.findings


def test_other_sizes_lie_in_memory_as_the_example_does() -> None:
    log = Log()
    program = export(
        Asking(), (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),), log=log, dynamic_shapes=({0: "n"},)
    )
    assert [each.rule for each in log.findings] == [rules.ENVIRONMENT_BAKED]
    x = torch.randn(7, 3, 4, 5)
    (got,) = run_session(session_of(program), program, (x,))
    torch.testing.assert_close(got, x * 3)


@pytest.mark.parametrize("layout", ["transposed", "every second column"])
def test_validation_runs_with_the_strides_of_the_example(layout: str, tmp_path: Path) -> None:
    checked = export_and_validate(Asking(), (LAYOUTS[layout](),), path=tmp_path / "model.onnx", provider="cpu")
    assert checked.validation is not None
    assert checked.validation.passed


class Writing(nn.Module):
    """Writes to a view of the input, or to a copy."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.reshape(-1)[0] = 7.0
        return y


class AskingByName(nn.Module):
    """Asks in a way that its code does not show."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if getattr(x, "is_" + "contiguous")() else x * 3


class Drawing(nn.Module):
    """Draws random numbers, in the order of memory, and asks for strides."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x) + x if x.is_contiguous() else x + torch.randn_like(x)


@pytest.mark.parametrize("model", [Writing(), AskingByName()], ids=lambda model: type(model).__name__)
def test_what_code_does_not_show_is_told(model: nn.Module) -> None:
    log = Log()
    export(model, (LAYOUTS["transposed"](),), log=log)
    assert [each.rule for each in log.findings if each.level is Level.WARNING] == [rules.ENVIRONMENT_BAKED]


class DrawingAlone(nn.Module):
    """Draws random numbers, and asks for nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.randn_like(x) + x


@pytest.mark.parametrize(("model", "is_told"), [(Drawing(), True), (DrawingAlone(), False)])
def test_random_numbers_are_not_compared_and_reads_are_told(model: nn.Module, is_told: bool) -> None:
    log = Log()
    export(model, (LAYOUTS["transposed"](),), log=log)
    assert (rules.ENVIRONMENT_BAKED in [each.rule for each in log.findings]) == is_told


class WritingToInput(nn.Module):
    """Writes to a row of the input, which are all rows of an expanded one."""

    def forward(self, x: Tensor) -> Tensor:
        x[0] = 1.0
        return x + 1


@pytest.mark.parametrize("layout", ["expanded", "windows"])
def test_writes_to_inputs_that_overlap_are_refused(layout: str) -> None:
    with pytest.raises(ExportError) as caught:
        export(WritingToInput(), (STRIDED[layout](),))
    assert "several elements are one place in memory" in str(caught.value)


@pytest.mark.parametrize("layout", ["transposed", "every second column", "a part of each row"])
def test_writes_to_other_inputs_are_not(layout: str) -> None:
    export(WritingToInput(), (STRIDED[layout](),))


@pytest.mark.parametrize("layout", STRIDED)
def test_elements_overlap_where_indices_share_a_place(layout: str) -> None:
    x = STRIDED[layout]()
    places = torch.arange(1_000)[: x.untyped_storage().nbytes() // x.element_size()].as_strided(x.shape, x.stride())
    assert overlaps(x) == (places.unique().numel() < x.numel())


class Flattening(nn.Module):
    """Asks about an image in channels_last, which is contiguous once it is one pixel."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(memory_format=torch.channels_last)
        return y.flatten(1) if y.is_contiguous() else y.permute(0, 2, 3, 1).flatten(1)


def test_sizes_that_are_one_together_are_told() -> None:
    log = Log()
    export(Flattening(), (torch.randn(2, 3, 4, 5),), log=log, dynamic_shapes=({0: "n", 2: "h", 3: "w"},))
    (found,) = log.findings
    assert found.rule is rules.DIMENSIONS_TIED
    assert "'h != 1 or w != 1'" in found.message


class CutWindows(nn.Module):
    """Works on windows of four, which are filled up, and cuts off what it has filled up."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:]
        below, beside = -height % 4, -width % 4
        y = nn.functional.pad(x, (0, beside, 0, below))
        y = y - y.mean((1, 2), keepdim=True)
        if below > 0 or beside > 0:
            y = y[:, :height, :width].contiguous()
        return y.view(x.shape[0], height * width) * 2


def test_a_copy_for_what_lies_apart_in_memory_limits_no_size() -> None:
    log = Log()
    program = export(CutWindows(), (torch.randn(2, 8, 12),), log=log, dynamic_shapes=({0: "n", 1: "h", 2: "w"},))
    assert not log.findings
    for height, width in ((8, 12), (9, 12), (8, 11), (5, 7), (1, 1)):
        x = torch.randn(3, height, width)
        (got,) = run_session(session_of(program), program, (x,))
        torch.testing.assert_close(torch.as_tensor(got), CutWindows()(x))


WITHOUT = ("windows", "conjugated", "empty")
"""Layouts that copies do not have."""


@pytest.mark.parametrize("layout", STRIDED)
def test_copies_have_the_strides_of_the_example(layout: str) -> None:
    x = STRIDED[layout]()
    copy = laid_out_as(x, x.clone())
    assert torch.equal(copy, x)
    assert copy.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() or not x.numel()
    assert (copy.stride(), copy.storage_offset()) == (x.stride(), x.storage_offset()) or layout in WITHOUT


def test_other_sizes_have_gaps_like_those_of_the_example() -> None:
    assert laid_out_as(torch.ones(3, 8)[:, ::2], torch.ones(5, 6)).stride() == (12, 2)
    assert laid_out_as(torch.ones(3, 8)[:, :4], torch.ones(5, 6)).stride() == (12, 1)
    assert laid_out_as(torch.ones(1, 4).expand(3, 4), torch.ones(5, 6)).stride() == (0, 1)


def test_a_part_of_a_large_memory_is_copied_alone() -> None:
    large = torch.empty(2**26)  # of which no page is touched
    part = large[2**25 :: 2**23].fill_(1.0)
    assert laid_out_as(part, part.clone()).untyped_storage().nbytes() == 4 * part.numel()
