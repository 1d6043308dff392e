"""A small convolutional net that learns handwritten digits, trained in ONNX Runtime alone.

    fxport train-step examples/digits.py:step -o digits.onnx      one training step, and the state it begins with
    python examples/digits.py                                      exports it, trains, and tests in PyTorch

The digits are those of scikit-learn (1,797 pictures of 8 by 8): `python -m pip install scikit-learn`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

BATCH = 64
EPOCHS = 8
TESTED = 400
"""Pictures at the end that are not learnt from."""


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 4 * 4, 10),
    )


def loss(net: nn.Module, image: torch.Tensor, digit: torch.Tensor) -> torch.Tensor:
    return cross_entropy(net(image), digit)


def step() -> tuple[Any, ...]:
    """(model, optimizer, loss_fn, batch, dynamic_shapes), as `fxport train-step` takes it."""
    net = model().train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    batch = (torch.rand(BATCH, 1, 8, 8), torch.randint(0, 10, (BATCH,)))
    return net, optimizer, loss, batch, ({0: "batch"}, {0: "batch"})


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Pictures, float32 [1797, 1, 8, 8] in [0, 1], and digits, int64 [1797]."""
    from sklearn.datasets import load_digits  # type: ignore[import-not-found]  # for this example alone

    images, targets = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32).reshape(-1, 1, 8, 8), targets.astype(np.int64)


def batches(images: np.ndarray, targets: np.ndarray, epochs: int) -> Iterator[dict[str, np.ndarray]]:
    order = np.random.default_rng(0)
    for _ in range(epochs):
        shuffled = order.permutation(len(images))
        for start in range(0, len(images), BATCH):
            chosen = shuffled[start : start + BATCH]
            yield {"image": images[chosen], "digit": targets[chosen]}


def main() -> None:
    from exporter.training import export_training_step, load_into
    from ort_runner.train import TrainingSession

    net, optimizer, loss_fn, batch, shapes = step()
    images, targets = digits()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        export_training_step(net, optimizer, loss_fn, batch, dynamic_shapes=shapes).save(path)
        session = TrainingSession(path)
        losses = session.fit(batches(images[:-TESTED], targets[:-TESTED], EPOCHS))
        load_into(net, optimizer, session.state())
    with torch.no_grad():
        answers = net.eval()(torch.from_numpy(images[-TESTED:])).argmax(1).numpy()
    right = (answers == targets[-TESTED:]).mean()
    print(  # noqa: T201  # the result of the example
        f"{session.steps} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}; {right:.1%} of {TESTED} new digits right"
    )


if __name__ == "__main__":
    main()
