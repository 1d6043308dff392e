"""What a training step cannot have is refused by its name, with something else to write, which works."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.ao import quantization
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fxport import ExportError, export
from fxport.diagnostics import rules
from fxport.exporter.training import TrainingError, export_training_step
from tests.running import run_session, session_of
from tests.training import assert_teacher_forced

DOCS = Path(__file__).resolve().parents[2] / "docs" / "training.md"


def with_ctc(model: nn.Module, x: Tensor, targets: Tensor, times: Tensor, lengths: Tensor) -> Tensor:
    return nn.functional.ctc_loss(model(x).log_softmax(-1), targets, times, lengths)


LABELS = torch.tensor([[1, 1, 2], [3, 4, 4]]), torch.tensor([7, 6]), torch.tensor([3, 2])


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.last = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.last(pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0])


def masked(y: Tensor, lengths: Tensor) -> Tensor:
    kept = torch.arange(y.shape[1]) < lengths[:, None]
    return (y[..., 0].square() * kept).sum() / lengths.sum()


def of_packed(model: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    return masked(model(x, lengths), lengths)


def of_padded(model: Any, x: Tensor, lengths: Tensor) -> Tensor:
    return masked(model.last(model.rnn(x)[0]), lengths)


@pytest.mark.parametrize(
    ("model", "loss", "batch", "said", "cure"),
    [
        (nn.Linear(6, 5), with_ctc, (torch.randn(7, 2, 6), *LABELS), "gradient of ctc_loss", "docs/training.md"),
        (Packed(), of_packed, (torch.randn(3, 5, 6), torch.tensor([5, 3, 2])), "packed sequences", "by a mask"),
    ],
    ids=["ctc", "packed"],
)
def test_the_finding_names_it_and_what_to_write(
    model: nn.Module, loss: Callable[..., Tensor], batch: tuple[Tensor, ...], said: str, cure: str
) -> None:
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss, batch)
    (told,) = [each for each in raised.value.log.findings if each.rule is rules.UNSUPPORTED_PYTHON_CONSTRUCT]
    assert said in str(told.facts["detail"])
    assert any(cure in fix.description for fix in told.fixes)
    assert told.place is not None
    assert told.place.path == __file__


def test_ctc_as_the_page_writes_it_is_trained(tmp_path: Path) -> None:
    found = re.search(r"```python\n(def ctc_by_parts.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    scope: dict[str, Any] = {"torch": torch}
    exec(found[1], scope)
    by_parts = scope["ctc_by_parts"]

    def loss(model: nn.Module, x: Tensor, targets: Tensor, times: Tensor, lengths: Tensor) -> Tensor:
        return by_parts(model(x).log_softmax(-1), targets, times, lengths)

    model, batch = nn.Linear(6, 5), (torch.randn(7, 2, 6), *LABELS)
    gradients = [torch.autograd.grad(each(model, *batch), list(model.parameters())) for each in (loss, with_ctc)]
    torch.testing.assert_close(*gradients)
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), loss, [batch], tmp_path, steps=3)


def test_a_mask_trains_as_packed_sequences_do(tmp_path: Path) -> None:
    model, batch = Packed(), (torch.randn(3, 5, 6), torch.tensor([5, 3, 2]))
    gradients = [torch.autograd.grad(each(model, *batch), list(model.parameters())) for each in (of_padded, of_packed)]
    torch.testing.assert_close(*gradients)
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), of_padded, [batch], tmp_path, steps=3)


def squared(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": torch.sin}, "model is of type 'builtin_function_or_method'; give an nn.Module"),
        (
            {"model": torch.compile(nn.Linear(6, 5))},
            "in a OptimizedModule, .* give the module in it: ._orig_mod",
        ),
        ({"optimizer": []}, "optimizer is of type 'list'; give an optimizer, or a list of several that step in turn"),
        ({"loss_fn": None}, "loss_fn is of type 'NoneType'; give a function"),
        ({"batch": torch.ones(3, 6)}, "batch is of type 'Tensor'; give a tuple"),
    ],
)
def test_parts_of_other_kinds(change: dict[str, Any], said: str) -> None:
    model = nn.Linear(6, 5)
    parts: dict[str, Any] = {
        "model": model,
        "optimizer": optim.SGD(model.parameters(), lr=0.1),
        "loss_fn": squared,
        "batch": (torch.ones(3, 6),),
    }
    with pytest.raises(TrainingError, match=said):
        export_training_step(**(parts | change))


class Placed(nn.Module):
    """A model in a file of the user's, so that findings have lines."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max:UserWarning")
def test_quantization_aware_training(tmp_path: Path) -> None:
    """The observers' ranges, scales and zero points are state of the step, once they have the sizes of the weights."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    model = quantization.prepare_qat(Placed(model))
    data = [(torch.randn(4, 6),) for _ in range(3)]
    with pytest.raises(ExportError) as raised:
        export(model, data[0])
    (told,) = [each for each in raised.value.log.findings if each.rule is rules.NO_ONNX_LOWERING]
    assert "Call the prepared model once on an example" in told.fixes[0].description
    model(data[0][0])
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.05), squared, data, tmp_path, steps=4)


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max:UserWarning")
@pytest.mark.parametrize("backend", ["fbgemm", "qnnpack"])  # a grid for each row of the weight, and one for all of it
def test_a_model_prepared_for_quantization_at_other_batches(backend: str) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).train()
    model.qconfig = quantization.get_default_qat_qconfig(backend)
    model = quantization.prepare_qat(Placed(model))
    model(torch.randn(4, 6))
    program = export(model.eval(), (torch.randn(4, 6),), dynamic_shapes=({0: "batch"},))
    session = session_of(program)
    for size in (1, 4, 7):
        x, there = torch.randn(size, 6) * 2, copy.deepcopy(model)
        names = [str(value.name) for value in program.model.graph.outputs]
        given = dict(zip(names, run_session(session, program, (x,)), strict=True))
        want = {"output": there(x), **{f"{name}.updated": value for name, value in there.named_buffers()}}
        for name in names:
            torch.testing.assert_close(given[name], want[name], rtol=0, atol=0)
