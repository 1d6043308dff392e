"""The device's side of examples/lora.py: trains the adaptation on texts of its own, without PyTorch.

python examples/lora_on_device.py lora.onnx --save adaptation.safetensors
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
from safetensors.numpy import save_file

from fxport.ort_runner.train import TrainingSession

EPOCHS, STEPS = 5, 20
VOCABULARY, BATCH, LENGTH = 64, 16, 24


def texts(seed: int, count: int, length: int = LENGTH) -> Iterator[dict[str, np.ndarray]]:
    """Yield batches of int64 [batch, length]: counting by three from a random token, in place of a text."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        begin = random.integers(0, VOCABULARY, (BATCH, 1))
        yield {"tokens": (begin + 3 * np.arange(length)) % VOCABULARY}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the step that fxport train-step --evaluate wrote")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--save", help="write the trained adaptation there, as safetensors")
    options = parser.parse_args(arguments)
    session = TrainingSession(options.model)
    unseen = next(texts(seed=-1 % 2**32, count=1, length=2 * LENGTH))  # longer than any that it trains on
    say(f"before: loss {session.evaluate(unseen)['loss']:.3f} on unseen texts")
    for epoch in range(options.epochs):
        losses = session.fit(texts(epoch, STEPS))
        say(f"epoch {epoch + 1}: loss {losses[-1]:.3f}, {session.evaluate(unseen)['loss']:.3f} on unseen texts")
    if options.save:
        trained = {name: value for name, value in session.state().items() if ".lora_" in name and "param/" in name}
        save_file({name.removeprefix("param/"): value for name, value in trained.items()}, options.save)
        say(f"{sum(each.nbytes for each in trained.values()) / 1024:.0f} KiB in {options.save}")


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # what the example is there for


if __name__ == "__main__":
    main()
