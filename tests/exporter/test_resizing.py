"""The example call at another size: what its numbers become."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from fxport import ExportError, Options, export
from fxport.diagnostics import Log, rules
from fxport.exporter.capture.sizes.resizing import at_hard_sizes
from fxport.exporter.validation import reference


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def second(x: Tensor) -> Tensor:
    """The input at the second size that validation uses, both its axes dynamic."""
    program = export(Nothing(), (x,), dynamic_shapes={"x": {0: "batch", 1: "sequence"}})
    _, other = reference.cases(Nothing(), (x,), None, program, Log())
    return torch.from_numpy(other.inputs["x"])


def test_ids_are_not_repeated() -> None:
    """No row has a token twice, special ones stay what they are, and no id is larger than the largest."""
    ids = torch.tensor([[1, 40, 71, 12, 2], [1, 33, 98, 25, 2]])
    found = second(ids)
    assert found.shape == (4, 10)
    assert found.min() == 1
    assert found.max() == 98
    for row in found:
        tokens = row[(row != 1) & (row != 2)]
        assert len(tokens) == 6
        assert len(tokens.unique()) == 6
    assert torch.equal(found[:2, :5], ids)


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(torch.tensor([[1, 1, 1], [1, 1, 0]]), id="mask"),
        pytest.param(torch.tensor([[0, 1, 2]]).expand(2, 3), id="positions"),
    ],
)
def test_numbers_that_mean_something_are_repeated(x: Tensor) -> None:
    assert torch.equal(second(x), x.repeat(2, 2))


class Apart(nn.Module):
    """It takes another way at eight columns: a short cut to the same result, or something else altogether."""

    def __init__(self, same: bool) -> None:
        super().__init__()
        self.same = same
        self.register_buffer("table", torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 8:
            return x + self.get_buffer("table") if self.same else x - self.get_buffer("table")
        return x + nn.functional.interpolate(self.get_buffer("table")[None, None], size=x.shape[1])[0]


def test_capture_at_another_size_is_right_at_the_example() -> None:
    """A model that does something else at the example's size is not captured at another one in its place."""
    x, options = torch.randn(2, 8), Options(rewrite=False)
    program = export(Apart(same=True), (x,), dynamic_shapes={"x": {1: "n"}})
    assert program.program.dim_names
    with pytest.raises(ExportError) as caught:
        export(Apart(same=False), (x,), dynamic_shapes={"x": {1: "n"}}, options=options)
    told = {finding.rule for finding in caught.value.log.findings}
    assert told == {rules.OTHER_CAPTURE_FAILED, rules.DIMENSION_SPECIALIZED}


class Doubled(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, y + 1


class Pictures(nn.Module):
    """Puts one row of features in the place of each id 98; there must be as many of the one as of the other."""

    def forward(self, ids: Tensor, marks: Tensor, features: Tensor) -> Tensor:
        where = ids == 98
        if not torch.compiler.is_exporting() and int(where.sum()) != features.shape[0] * features.shape[1]:
            raise ValueError("features and ids do not match")
        embedded = nn.functional.one_hot(ids, 99).float()
        return embedded.masked_scatter(where.unsqueeze(-1), features.reshape(-1, 99)) + marks.unsqueeze(-1)


def test_ids_that_stand_for_something_are_not_appended() -> None:
    ids = torch.tensor([[7, 98, 98, 31], [12, 98, 98, 64]])
    marks = (ids == 98).long()
    features = torch.randn(2, 2, 99)
    shapes = ({0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}, {0: "batch"})
    program = export(Pictures(), (ids, marks, features), dynamic_shapes=shapes)
    log = Log()
    first, second = reference.cases(Pictures(), (ids, marks, features), None, program, log)
    assert (first.label, second.label) == ("sample", "resized")
    assert second.inputs["ids"].shape == (4, 8)
    assert (second.inputs["ids"] == 98).sum() == 8
    assert not second.inputs["marks"][:, 4:].any()
    assert not log.findings


def test_hard_sizes() -> None:
    """The smallest, a prime, the largest, each as far as the bounds let it be; 1 also where PyTorch traced from 2."""
    call = ((torch.randn(6, 2), torch.randn(5, 3)), {})
    shapes = {"x": {0: Dim("n", min=3, max=40)}, "y": {0: "m"}}
    program = export(Doubled(), *call, dynamic_shapes=shapes).program
    found = {label: args for label, (args, _) in at_hard_sizes(Doubled(), call, program)}
    sizes = {label: [tensor.shape[0] for tensor in args] for label, args in found.items()}
    assert sizes == {"smallest": [3, 1], "prime": [7, 7], "largest": [40, 5]}
