"""Several losses that alternate, each with an optimizer of its own, as those of the two networks of a GAN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from fxport import ExportError
from fxport.exporter.cli import main
from fxport.exporter.training import TrainingError, export_training_step, load_into
from fxport.exporter.training.seeded import SeededRandom
from fxport.ort_runner.train import TrainingSession
from tests.training import fed, opened

NOISE, WIDTH = 3, 5


class Gan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.make = nn.Sequential(nn.Linear(NOISE, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, WIDTH))
        self.judge = nn.Sequential(nn.Linear(WIDTH, 8), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(8, 1))


def of_judge(gan: Gan, real: Tensor, noise: Tensor) -> Tensor:
    made = gan.judge(gan.make(noise).detach())
    wrong = binary_cross_entropy_with_logits(made, torch.zeros_like(made))
    return wrong + softplus(-gan.judge(real)).mean()


def of_maker(gan: Gan, real: Tensor, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    made = gan.make(noise)
    return softplus(-gan.judge(made)).mean(), {"apart": (made.mean(0) - real.mean(0)).norm()}


def optimizers_of(gan: Gan) -> list[optim.Optimizer]:
    first, *rest = gan.judge.parameters()
    judge = optim.Adam([{"params": [first], "lr": 2e-3}, {"params": rest}], lr=1e-3, betas=(0.5, 0.9))
    return [judge, optim.SGD(gan.make.parameters(), lr=0.05, momentum=0.9)]


def batches(*rows: int) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(n, WIDTH) + 1, torch.randn(n, NOISE)) for n in rows]


def eager_steps(gan: Gan, optimizers: Sequence[optim.Optimizer], data: Sequence[Any], clip: float | None = None) -> Any:
    """Alternate as people write it, and yield both losses of each step."""
    for number, batch in enumerate(data):
        losses = []
        with SeededRandom(torch.tensor(number)):
            for optimizer, loss_fn in zip(optimizers, (of_judge, of_maker), strict=True):
                optimizer.zero_grad()
                result = loss_fn(gan, *batch)
                loss = result[0] if isinstance(result, tuple) else result
                loss.backward()
                if clip is not None:
                    own = [each for group in optimizer.param_groups for each in group["params"]]
                    nn.utils.clip_grad_norm_(own, clip)
                optimizer.step()
                losses.append(loss.item())
        yield losses


@pytest.mark.parametrize("clip", [None, 0.05])
def test_each_steps_at_what_the_other_came_to(clip: float | None, tmp_path: Path) -> None:
    torch.manual_seed(0)
    gan, data = Gan().train(), batches(8, 3, 5) * 4
    optimizers = optimizers_of(gan)
    shapes = ({0: "rows"}, {0: "rows"})
    program = export_training_step(
        gan, optimizers, [of_judge, of_maker], data[0], dynamic_shapes=shapes, clip_grad_norm=clip
    )
    session = opened(program, tmp_path)
    for number, losses in enumerate(eager_steps(gan, optimizers, data, clip)):
        results = session.step(fed(("batch/real", "batch/noise"), data[number]))
        np.testing.assert_allclose([results["loss/0"], results["loss/1"]], losses, rtol=1e-5)
        np.testing.assert_allclose(results["loss"], sum(losses), rtol=1e-5)
        assert results["apart"].shape == ()
    trained = Gan()
    load_into(trained, optimizers_of(trained), session.state())
    for name, value in gan.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_a_run_goes_on_to_the_same_bits_and_several_steps_are_one_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    gan, data = Gan().train(), [fed(("real", "noise"), each) for each in batches(4, 4, 4, 4)]
    losses = [of_judge, of_maker]
    export_training_step(gan, optimizers_of(gan), losses, batches(4)[0]).save(tmp_path / "step.onnx")
    export_training_step(gan, optimizers_of(gan), losses, batches(4)[0], steps=2).save(tmp_path / "two.onnx")
    whole, part = (TrainingSession(tmp_path / "step.onnx", provider="cpu", seed=3) for _ in range(2))
    whole.rates["lr/2"] = part.rates["lr/2"] = 0.1
    whole.fit(data)
    part.fit(data[:1], checkpoint=tmp_path / "run.safetensors")
    resumed = TrainingSession(tmp_path / "step.onnx", provider="cpu")
    resumed.resume(tmp_path / "run.safetensors")
    resumed.fit(data[1:])
    by_two = TrainingSession(tmp_path / "two.onnx", provider="cpu", seed=3)
    by_two.rates["lr/2"] = 0.1
    by_two.fit([{name: np.stack([one[name], two[name]]) for name in one} for one, two in (data[:2], data[2:])])
    for name, value in whole.state().items():
        np.testing.assert_array_equal(resumed.state()[name], value, err_msg=name)
        np.testing.assert_allclose(by_two.state()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_parameter_without_a_gradient_of_its_own_loss_is_told() -> None:
    gan = Gan().train()
    with pytest.raises(ExportError, match=r"loss does not depend on the parameter 'judge\.0\.weight'"):
        export_training_step(
            gan, optimizers_of(gan), [lambda gan, *_: gan.make[0].weight.sum(), of_maker], batches(4)[0]
        )


def mistaken(**how: Any) -> None:
    gan = Gan().train()
    losses, optimizers = how.pop("losses", [of_judge, of_maker]), optimizers_of(gan)
    export_training_step(gan, how.pop("optimizers", optimizers), losses, batches(4)[0], **how)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"losses": [of_judge]}, "as many optimizers as loss functions"),
        ({"losses": []}, "loss_fn is of type 'list'; give a function"),
        ({"optimizers": optimizers_of(Gan())[0]}, "as many optimizers as loss functions"),
        ({"evaluate": True}, "give evaluate=function"),
        ({"outputs": ["grad_norm"]}, "there are several; take 'grad'"),
        ({"losses": [of_maker, of_maker]}, "two loss functions return a tensor 'apart'"),
    ],
)
def test_a_mistake_is_told(how: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        mistaken(**how)


STEP = """
from tests.exporter.test_training_alternating import *

def step():
    torch.manual_seed(0)
    gan = Gan().train()
    return gan, optimizers_of(gan), [of_judge, of_maker], batches(4)[0], ({0: "rows"}, {0: "rows"})
"""


def test_the_command_line_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gan.py").write_text(STEP)
    assert main(["train-step", f"{tmp_path / 'gan.py'}:step", "-o", str(tmp_path / "gan.onnx")]) == 0
    assert "equal to PyTorch" in capsys.readouterr().out
    assert main(["bench", str(tmp_path / "gan.onnx"), "--against", f"{tmp_path / 'gan.py'}:step", "--runs", "2"]) == 0
