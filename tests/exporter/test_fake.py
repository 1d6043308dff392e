"""Models made without memory: every way in which modules hold parameters, and what is read before a model is saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fxport import export
from fxport.exporter.capture.fake import without_memory
from fxport.exporter.weights import Stored, dcp_folders
from fxport.exporter.weights.fill import fill, memory_to_run
from tests.exporter.checkpoints import IDS, fake, small, to_dcp_in_pieces

X = torch.rand(2, 5, 8, generator=torch.Generator().manual_seed(0))


class Recurrent(nn.Module):
    """Its parameters stand in a list of its own too."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(8, 8, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x)[0]


class Lists(nn.Module):
    """Complex and real parameters in containers, one of them registered twice."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = nn.ParameterList(nn.Parameter(torch.randn(8)) for _ in range(2))
        self.named = nn.ParameterDict({"filter": nn.Parameter(torch.randn(8, dtype=torch.complex64))})
        self.again = self.listed[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filtered = torch.fft.ifft(torch.fft.fft(x) * self.named["filter"]).real
        return filtered * self.listed[0] + self.listed[1] * self.again


def weight_normed() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))


def cast() -> nn.Module:
    return nn.Sequential(nn.Conv1d(5, 5, 3, padding=1), nn.BatchNorm1d(5), nn.Linear(8, 8)).half().float()


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


MAKERS: tuple[Callable[[], nn.Module], ...] = (Recurrent, Attending, Lists, weight_normed, cast, encoder)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_weights_are_those_of_the_model_with_memory(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    model = make().eval()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    with without_memory():
        empty = make().eval()
    assert all(parameter.is_meta for parameter in empty.parameters())
    assert len(list(empty.parameters())) == len(list(model.parameters()))
    program = export(empty, (X,), weights=tmp_path / "model.pt")
    got, want = (each.model.graph.initializers for each in (program, export(model, (X,))))
    assert {name: value.const_value.tobytes() for name, value in got.items() if value.const_value is not None} == {
        name: value.const_value.tobytes() for name, value in want.items() if value.const_value is not None
    }
    fill(empty, program.program)
    with torch.no_grad():
        torch.testing.assert_close(empty(X), model(X))


def test_a_lazy_parameter_is_left_to_its_first_call() -> None:
    with without_memory():
        model = nn.LazyLinear(4)
    model(X)
    assert model.weight.shape == (4, 8)


def test_no_large_weight_is_read_before_the_model_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    assembled = dcp_folders._assembled

    def counted(name: str, *others: object) -> torch.Tensor:
        read.append(name)
        return assembled(name, *others)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(dcp_folders, "_assembled", counted)
    path = to_dcp_in_pieces(small(width=64), tmp_path)
    program = export(fake(width=64), (IDS,), weights=path)
    large = {name for name, tensor in small(width=64).state_dict().items() if tensor.numel() > 256}
    assert len(large) == 5
    assert not large & set(read)
    read.clear()
    program.save(tmp_path / "m.onnx", external_data=True)
    assert sorted(name for name in read if name in large) == sorted(large - {"embed.weight"})  # tied, so written once


def test_running_needs_memory_for_what_cannot_be_mapped(tmp_path: Path) -> None:
    torch.save(small().state_dict(), tmp_path / "model.pt")
    mapped = export(fake(), (IDS,), weights=tmp_path / "model.pt").program
    pieces = export(fake(), (IDS,), weights=to_dcp_in_pieces(small(), tmp_path)).program
    weights = sum(each.nbytes for each in mapped.sources.values() if isinstance(each, Stored))
    assert memory_to_run(pieces) - memory_to_run(mapped) == weights
