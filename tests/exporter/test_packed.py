"""Packed sequences against eager PyTorch: lengths that are data, in any order, batch and time of other sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from exporter import export
from tests.exporter.test_recurrent import CLASSES, check, made

AUTO = Dim.AUTO
DYNAMIC = ({0: AUTO, 1: AUTO}, {0: AUTO})


class Packs(nn.Module):
    """A recurrent layer that sees no padding."""

    def __init__(
        self, layer: nn.Module, batch_first: bool = True, enforce_sorted: bool = False, total: Any = None
    ) -> None:
        super().__init__()
        self.layer, self.batch_first, self.enforce_sorted, self.total = layer, batch_first, enforce_sorted, total

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, self.batch_first, self.enforce_sorted)
        steps, last = self.layer(packed)
        total = x.shape[1 if self.batch_first else 0] if self.total == "time" else self.total
        return *pad_packed_sequence(steps, self.batch_first, -1.0, total), last


def cases(batch_first: bool, enforce_sorted: bool, dtype: torch.dtype = torch.float32) -> list[tuple[Tensor, Tensor]]:
    lengths = [[5, 3, 2], [4, 4, 2, 1], [7]] if enforce_sorted else [[2, 5, 3], [1, 3, 3, 2, 4], [6]]
    made = []
    for each, spare in zip(lengths, (0, 2, 1), strict=True):
        x = torch.randn(len(each), max(each) + spare, 4, dtype=dtype)
        made.append((x if batch_first else x.transpose(0, 1).contiguous(), torch.tensor(each)))
    return made


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("enforce_sorted", "total"), [(False, "time"), (True, None), (False, 9)])
def test_inside_forward(name: str, batch_first: bool, enforce_sorted: bool, total: Any) -> None:
    layer = made(CLASSES[name], 4, 6, num_layers=2, bidirectional=True, batch_first=batch_first)
    model = Packs(layer, batch_first, enforce_sorted, total)
    dynamic = (DYNAMIC[0], {0: AUTO})
    check(model, cases(batch_first, enforce_sorted), dynamic)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_step_by_step() -> None:
    """Projections and float64, which ONNX Runtime's operators do not have."""
    check(Packs(made(nn.LSTM, 4, 6, bidirectional=True, proj_size=3)), cases(True, False), DYNAMIC)
    check(Packs(made(nn.GRU, 4, 6).double()), cases(True, False, torch.float64), DYNAMIC)


class Data(nn.Module):
    """Computes on the steps without padding, with states of its own, and returns no step of them."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(4, 5), nn.LSTM(5, 6, num_layers=2)

    def forward(self, x: Tensor, lengths: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        wide = PackedSequence(self.before(packed.data).relu(), *packed[1:])
        steps, (last, _) = self.layer(wide, (h, c))
        padded, _ = pad_packed_sequence(steps._replace(data=steps.data * 2))
        return padded, steps.data.mean(0), last, packed.batch_sizes


def test_computing_on_the_steps() -> None:
    def case(time: int, lengths: list[int]) -> tuple[Tensor, ...]:
        batch = len(lengths)
        x, h, c = torch.randn(time, batch, 4), torch.randn(2, batch, 6), torch.randn(2, batch, 6)
        return x, torch.tensor(lengths), h, c

    shapes = ({0: AUTO, 1: AUTO}, {0: AUTO}, {1: AUTO}, {1: AUTO})
    check(made(Data), [case(5, [2, 5, 3]), case(6, [1, 4]), case(3, [1, 2, 3, 3, 1])], shapes)


def test_one_operator_for_each_layer() -> None:
    """Nothing is packed where only the layers see the packed steps."""
    model = Packs(made(nn.GRU, 4, 6, num_layers=2, batch_first=True))
    program = export(model, cases(True, False)[0], dynamic_shapes=DYNAMIC)
    count = Counter(node.op_type for node in program.model.graph)
    assert count["GRU"] == 2
    assert not {"NonZero", "GatherND", "ScatterND", "Loop", "Scan"} & set(count)
