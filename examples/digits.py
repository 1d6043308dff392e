"""A small convolutional net that learns handwritten digits, trained in ONNX Runtime alone.

    fxport train-step examples/digits.py:step -o digits.onnx      one training step, and the state it begins with
    python examples/digits.py --run digits                         trains, and goes on where it was broken off
    python examples/digits.py --beside                             trains in PyTorch too, and compares

The digits are those of scikit-learn (1,797 pictures of 8 by 8): `python -m pip install scikit-learn`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fxport import export_training_step, load_into
from fxport.exporter.training.seeded import SeededRandom
from fxport.ort_runner.train import TrainingSession

BATCH = 64
EPOCHS = 8
EVERY = 5
"""Steps from one checkpoint to the next."""

CHECKPOINT = "run.safetensors"
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


def opened(folder: Path) -> TrainingSession:
    """The run that is kept in a folder, where it stopped; a new one if there is none."""
    model_file, checkpoint = folder / "digits.onnx", folder / CHECKPOINT
    if not model_file.exists():
        net, optimizer, loss_fn, batch, shapes = step()
        export_training_step(net, optimizer, loss_fn, batch, dynamic_shapes=shapes).save(model_file)
    session = TrainingSession(model_file)
    if checkpoint.exists():
        session.resume(checkpoint)
    return session


def accuracy(net: nn.Module, images: np.ndarray, targets: np.ndarray) -> float:
    with torch.no_grad():
        answers = net.eval()(torch.from_numpy(images)).argmax(1).numpy()
    net.train()
    return float((answers == targets).mean())


def beside(epochs: int) -> Iterator[float]:
    """The accuracy after each epoch of the same training in eager PyTorch, with the same random numbers."""
    images, targets = digits()
    net, optimizer, loss_fn, _, _ = step()
    for number, batch in enumerate(batches(images[:-TESTED], targets[:-TESTED], epochs), start=1):
        optimizer.zero_grad()
        with SeededRandom(torch.tensor(number - 1)):
            value = loss_fn(net, *(torch.from_numpy(array) for array in batch.values()))
        value.backward()
        optimizer.step()
        if number % steps_of(images) == 0:
            yield accuracy(net, images[-TESTED:], targets[-TESTED:])


def steps_of(images: np.ndarray) -> int:
    """Steps of an epoch."""
    return -(-(len(images) - TESTED) // BATCH)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="keep model and checkpoint there; a run that was broken off goes on")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--beside", action="store_true", help="train in eager PyTorch as well, and compare")
    options = parser.parse_args(arguments)
    images, targets = digits()
    with tempfile.TemporaryDirectory() as folder:
        kept = options.run or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        session = opened(kept)
        eager = beside(options.epochs) if options.beside else repeat(None)
        per_epoch = steps_of(images)
        data = batches(images[:-TESTED], targets[:-TESTED], options.epochs)
        for epoch in range(options.epochs):
            todo = list(islice(data, per_epoch))[max(0, session.steps - epoch * per_epoch) :]
            losses = session.fit(todo, checkpoint=kept / CHECKPOINT, every=EVERY)
            net, optimizer, *_ = step()
            load_into(net, optimizer, session.state())
            right, wanted = accuracy(net, images[-TESTED:], targets[-TESTED:]), next(eager)
            also = "" if wanted is None else f" ({wanted:.1%} in PyTorch)"
            if losses:
                say(f"epoch {epoch + 1}: loss {losses[-1]:.6f}, {right:.1%} of {TESTED} new digits right{also}")


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # what the example is there for


if __name__ == "__main__":
    main()
