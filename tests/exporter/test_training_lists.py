"""Functions of lists of tensors in optimizers and their hooks, and averaged copies of a model beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.optim import swa_utils

from tests.training import assert_teacher_forced, batches, classify

DATA = batches(8, 5, shape=(6,))
OF_LISTS: Any = torch  # whose functions of lists no stub has
SIZES: dict[str, Any] = {"dynamic_shapes": ({0: "n"}, {0: "n"})}


class OfLists(optim.Optimizer):
    """Adam and some decay, by functions of lists."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.05})

    def _init_group(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            if not self.state[parameter]:
                self.state[parameter] |= {"mean": torch.zeros_like(parameter), "square": torch.zeros_like(parameter)}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            self._init_group(group)
            parameters: list[Tensor] = group["params"]
            gradients = OF_LISTS._foreach_add([p.grad for p in parameters], parameters, alpha=0.01)
            means = [self.state[each]["mean"] for each in parameters]
            squares = [self.state[each]["square"] for each in parameters]
            OF_LISTS._foreach_lerp_(means, gradients, 0.1)
            OF_LISTS._foreach_mul_(squares, 0.9)
            OF_LISTS._foreach_addcmul_(squares, gradients, gradients, 0.1)
            roots = OF_LISTS._foreach_sqrt(squares)
            OF_LISTS._foreach_add_(roots, 1e-3)
            norms = OF_LISTS._foreach_norm(means)
            OF_LISTS._foreach_div_(means, OF_LISTS._foreach_maximum(norms, 0.01))
            OF_LISTS._foreach_addcdiv_(parameters, means, roots, value=-0.05)


def clipped_in_lists(parameters: Any) -> optim.Optimizer:
    optimizer = optim.SGD(parameters, lr=0.1, momentum=0.9)

    def clip(optimizer: optim.Optimizer, *_: Any) -> None:
        gradients = [each.grad for each in optimizer.param_groups[0]["params"]]
        OF_LISTS._foreach_clamp_min_(gradients, -0.1)
        OF_LISTS._foreach_mul_(gradients, torch.tensor(0.5))

    optimizer.register_step_pre_hook(clip)
    return optimizer


@pytest.mark.parametrize("make", [OfLists, clipped_in_lists])
def test_functions_of_lists(make: Callable[[Any], optim.Optimizer], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))
    assert_teacher_forced(model, make(model.parameters()), classify, DATA, tmp_path, steps=6, **SIZES)


class Averaged(nn.Module):
    """A model, and the average of what it has been."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
        self.average = swa_utils.AveragedModel(self.net, **how).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9), "use_buffers": True},
        {"avg_fn": lambda average, current, count: average + (current - average) / (count + 2)},
    ],
    ids=["equally", "exponentially", "by a function"],
)
def test_an_averaged_model_follows_in_a_hook(how: dict[str, Any], tmp_path: Path) -> None:
    """From its first update on, in which it is a copy."""
    torch.manual_seed(0)
    model = Averaged(**how)
    optimizer = optim.SGD(model.net.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: model.average.update_parameters(model.net))
    assert_teacher_forced(model, optimizer, classify, DATA, tmp_path, steps=5, **SIZES)
    assert int(model.average.n_averaged) == 5
