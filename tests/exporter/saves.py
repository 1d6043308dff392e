"""Save models while processes are killed or race; `test_save_kills.py` runs this and reads what it prints.

Run as `python -m tests.exporter.saves kills|races KIND FOLDER ROUNDS`: it forks writers, since a start of PyTorch takes
longer than all their saves, and prints one JSON object with the number of rounds and what was wrong.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import torch

from fxport.diagnostics.folders import written_folder
from fxport.diagnostics.paths import write_whole
from fxport.exporter.lowering.lower.weights import RegionTensor
from fxport.exporter.onnx_program.in_place import SAVED
from fxport.exporter.onnx_program.save import save
from fxport.exporter.training.saved import beside_a_step, numbered
from fxport.exporter.weights.stored import Region
from fxport.ort_runner.train_checkpoint import read_checkpoint
from fxport.ort_runner.train_files import EVALUATION_SUFFIX, STATE_SUFFIX, opened_beside
from fxport.ort_runner.train_inputs import RefusedInput

PARTS, SIZE = 4, 40_000
CHECKPOINT, PACKAGE, BESIDE = "weights.bin", "package", "number.txt"
LONGEST_LIFE = 0.2  # seconds that a writer has until it is killed: several saves


def model_of(number: int, folder: Path | None = None) -> ir.Model:
    """A model whose weights are all `number`; with a folder, one of them lies in a checkpoint there."""
    small = ir.tensor(np.full(3, number, np.float32), name="small")
    tensors = [small, *(ir.tensor(np.full(SIZE, number, np.float32), name=f"w{part}") for part in range(PARTS))]
    if folder is not None:
        length = 4 * SIZE
        region = Region(folder / CHECKPOINT, number * length, length)
        tensors.append(RegionTensor("stored", ir.DataType.FLOAT, ir.Shape([SIZE]), region))
    held = [ir.Value(name=str(t.name), type=ir.TensorType(t.dtype), shape=t.shape, const_value=t) for t in tensors]
    graph = ir.Graph([], held[:1], nodes=[], initializers=held, opset_imports={"": 20}, name="g")
    return ir.Model(graph, ir_version=10)


def numbers_in(path: Path) -> set[float]:
    """The numbers that are in the weights of a model on disk: one, if it is whole.

    Raises FileNotFoundError where its weights have been replaced since it was read.
    """
    found: set[float] = set()
    if (beside := path.parent / BESIDE).exists():
        found.add(float(beside.read_text()))
    model = onnx.load(path, load_external_data=False)
    found |= numbers_of(model, path)
    if save := next((entry.value for entry in model.metadata_props if entry.key == SAVED), None):
        found |= opened_beside(path, STATE_SUFFIX, save, numbers_of_state)
        found |= opened_beside(path, EVALUATION_SUFFIX, save, numbers_of_evaluation)
    return found


def numbers_of(model: onnx.ModelProto, path: Path) -> set[float]:
    found: set[float] = set()
    for tensor in model.graph.initializer:
        at = {entry.key: entry.value for entry in tensor.external_data}
        if at:
            values = np.fromfile(path.parent / at["location"], np.float32, SIZE, offset=int(at["offset"]))
            assert values.size == SIZE
        else:
            values = onnx.numpy_helper.to_array(tensor)
        found |= set(values.tolist())
    return found


def numbers_of_state(path: Path) -> tuple[set[float], str | None]:
    run = read_checkpoint(path)
    return {float(each) for tensor in run.tensors.values() for each in np.unique(tensor)}, run.save


def numbers_of_evaluation(path: Path) -> tuple[set[float], str | None]:
    model = onnx.load(path, load_external_data=False)
    return numbers_of(model, path), next(entry.value for entry in model.metadata_props if entry.key == SAVED)


def step(folder: Path, number: int, external: bool) -> None:
    """A training step: a model, its state, and a graph for evaluation."""
    model, evaluation = model_of(number), model_of(number)
    state = {f"param/w{part}": torch.full((SIZE,), float(number)) for part in range(PARTS)}
    with numbered(model, state, evaluation):
        beside = beside_a_step(state, evaluation, model.metadata_props[SAVED])
        save(model, folder / "m.onnx", external, beside=beside)


def write_text(folder: Path, number: int) -> None:
    write_whole(folder / "m.onnx", model_bytes[number])


def package(folder: Path, number: int) -> None:
    """A folder of several files, each of which has the number."""
    with written_folder(folder / PACKAGE) as draft:
        (draft / BESIDE).write_text(str(number))
        save(model_of(number), draft / "m.onnx", True)


model_bytes = {number: ir.to_proto(model_of(number)).SerializeToString() for number in (0, 1)}

KINDS: dict[str, Callable[[Path, int], object]] = {
    "single": lambda folder, number: save(model_of(number), folder / "m.onnx", False),
    "external": lambda folder, number: save(model_of(number), folder / "m.onnx", True),
    "mixed": lambda folder, number: save(model_of(number), folder / "m.onnx", bool(number)),
    "in place": lambda folder, number: save(model_of(number, folder), folder / "m.onnx", True, weights_in_place=True),
    "sharded": lambda folder, number: save(model_of(number, folder), folder / "m.onnx", True),
    "package": package,
    "link": lambda folder, number: save(model_of(number), folder / "link.onnx", True),
    "text": write_text,
    "step": lambda folder, number: step(folder, number, False),
    "step with weights": lambda folder, number: step(folder, number, True),
}


def prepare(kind: str, folder: Path) -> None:
    np.repeat(np.arange(2, dtype=np.float32), SIZE).tofile(folder / CHECKPOINT)
    if kind == "link":
        (folder / "link.onnx").symlink_to("m.onnx")
    KINDS[kind](folder, 0)


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


@contextmanager
def opened(folder: Path) -> Iterator[Path]:
    """The model that lies there, as who opens its folder once sees it: a package may be replaced in the meantime."""
    package = folder / PACKAGE
    if not package.exists():
        yield folder / "m.onnx"
        return
    descriptor = os.open(package, os.O_RDONLY)
    try:
        yield Path(f"/dev/fd/{descriptor}") / "m.onnx"
    finally:
        os.close(descriptor)


def wrong_in(folder: Path) -> str | None:
    """What is wrong with the model that lies there."""
    try:
        with opened(folder) as model:
            found = numbers_in(model)
    except Exception as error:  # noqa: BLE001 - whatever makes it unreadable is what is looked for
        return f"{type(error).__name__}: {error}"
    return None if len(found) == 1 else f"a mixture: {sorted(found)}"


def left_in(kind: str, folder: Path) -> list[str]:
    """The files beyond those of one model."""
    places = (folder, folder / PACKAGE) if kind == "package" else (folder,)
    names = {each.name for place in places for each in place.iterdir()}
    names -= {"m.onnx", "link.onnx", CHECKPOINT, PACKAGE, BESIDE, "m.state.safetensors", "m.evaluate.onnx"}
    data = {name.partition(".onnx.")[0]: name for name in names if name.endswith(".data")}
    return sorted(names - set(data.values()))


def kills(kind: str, folder: Path, rounds: int) -> dict[str, object]:
    """Kill a writer at a random point, look at the model, save once more, and look at what is left."""
    wrong, left, drafts = [], [], 0
    for _ in range(rounds):

        def write_on() -> None:
            for turn in range(1_000_000):
                KINDS[kind](folder, turn % 2)

        pid = forked(write_on)
        time.sleep(random.uniform(0, LONGEST_LIFE))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wrong += filter(None, [wrong_in(folder)])
        drafts += any(each.name.startswith(".fxport-") for each in folder.iterdir())
        KINDS[kind](folder, random.randrange(2))
        wrong += filter(None, [wrong_in(folder)])
        left += left_in(kind, folder)
    return {"rounds": rounds, "wrong": wrong, "left": left, "with drafts": drafts}


def races(kind: str, folder: Path, rounds: int) -> dict[str, object]:
    """Two writers at once, with a reader that starts anew where the weights of a model were replaced meanwhile."""
    wrong, left, reads, again = [], [], 0, 0
    for _ in range(rounds):
        start = time.monotonic() + 0.02

        def write_some(number: int, start: float = start) -> None:
            time.sleep(max(0.0, start - time.monotonic()))
            for _ in range(3):
                KINDS[kind](folder, number)

        writers = [forked(lambda n=number: write_some(n)) for number in (0, 1)]
        while writers:
            try:
                with opened(folder) as model:
                    found = numbers_in(model)
                reads += 1
                wrong += [f"a mixture: {sorted(found)}"] if len(found) > 1 else []
            except (FileNotFoundError, RefusedInput):  # replaced after the model was read: told, and opened again
                again += 1
            for pid in list(writers):
                ended, code = os.waitpid(pid, os.WNOHANG)
                if ended:
                    writers.remove(pid)
                    wrong += [f"a writer failed: {code}"] if code else []
        wrong += filter(None, [wrong_in(folder)])
        left += left_in(kind, folder)
    return {"rounds": rounds, "wrong": wrong, "left": left, "reads": reads, "read again": again}


if __name__ == "__main__":
    _, what, kind, place, rounds = sys.argv
    prepare(kind, Path(place))
    sys.stdout.write(json.dumps({"kills": kills, "races": races}[what](kind, Path(place), int(rounds))))
