"""Packed sequences against eager PyTorch: lengths that are data, in any order, batch and time of other sizes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from fxport import export, ort_runner
from fxport.diagnostics import Level, Log
from fxport.exporter.validation import reference
from tests.exporter.test_recurrent import CLASSES, check, made
from tests.running import session_of

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


class Takes(nn.Module):
    """Packed sequences go in and come out, also inside of other containers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 6, bidirectional=True)

    def forward(self, sequences: dict[str, PackedSequence], state: Tensor) -> dict[str, Any]:
        steps, last = self.layer(sequences["first"], state)
        return {"steps": steps, "last": [last, sequences["second"].data.sum(0)]}


@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_as_inputs_and_outputs(enforce_sorted: bool, tmp_path: Path) -> None:
    """Padded values and lengths, at the sizes of the example and at others."""
    model = made(Takes)
    (x, lengths), (y, others) = cases(False, enforce_sorted)[:2]
    packed = {
        "first": pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted),
        "second": pack_padded_sequence(y, others, enforce_sorted=enforce_sorted),
    }
    call = (packed, torch.randn(2, len(lengths), 6))
    shapes = {
        "sequences": {name: {"values": {0: f"{name}_time", 1: name}, "lengths": {0: name}} for name in packed},
        "state": {1: "first"},
    }
    log = Log()
    program = export(model, call, dynamic_shapes=shapes, log=log)
    program.save(tmp_path / "model.onnx")
    recorded = list(reference.cases(model, call, {}, program, log))
    assert [each.label for each in recorded] == ["sample", "resized", "other values"]
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    for each in samples:
        assert each.inputs["sequences.first.lengths"].max() == len(each.inputs["sequences.first.values"])
    assert len(samples[0].inputs["sequences.first.values"]) != len(samples[1].inputs["sequences.first.values"])
    ort_runner.validate(tmp_path / "model.onnx", samples, provider="cpu", log=log)
    assert not [finding for finding in log.findings if finding.level is Level.ERROR]

    session = session_of(program)
    metadata = session.get_modelmeta().custom_metadata_map
    values, lengths = pad_packed_sequence(packed["first"])
    again, others = pad_packed_sequence(packed["second"])
    arguments = {
        "sequences": {
            "first": {"values": values.numpy(), "lengths": lengths.numpy()},
            "second": {"values": again.numpy(), "lengths": others.numpy()},
        },
        "state": call[1].numpy(),
    }
    got = session.run(None, ort_runner.flattened(arguments, metadata))
    nested = ort_runner.restored(dict(zip([each.name for each in session.get_outputs()], got, strict=True)), metadata)
    want, want_lengths = pad_packed_sequence(model(*call)["steps"])
    torch.testing.assert_close(torch.from_numpy(nested["steps"]["values"]), want)
    assert nested["steps"]["lengths"].tolist() == want_lengths.tolist()
