"""The memory that an export adds when its weights come from a checkpoint, in every format.

    python benchmarks/checkpoint_memory.py --gigabytes 4 --folder /path/with/three/times/that/space

A stack of linear layers is saved in each format by one process, and exported from it by another, with the model made
without memory; the files are removed before the next format. Peak is the highest resident memory of the exporting
process above what it held before the export, with everything imported. Files that were only mapped count as well.

- memory: no checkpoint: the model holds its weights, which are not counted.
- dcp in pieces: as two ranks of FSDP save it, every tensor in two files.
- in place: the model refers to the shards of safetensors.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fresh_process import in_a_fresh_process, peak, start_of_peak

WIDTH = 2048
LAYER_BYTES = 8 * WIDTH * WIDTH * 4
"""Of two weights of [2048, 8192], in float32."""

SHARD_LAYERS = 4
MB, GB = 1e6, 1e9


def model_of(layers: int) -> Any:
    """Linear layers in residual pairs, as in a transformer."""
    import torch

    class Pair(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(torch.relu(self.up(x)))

    return torch.nn.Sequential(*(Pair() for _ in range(layers))).eval()


def save_safetensors(model: Any, folder: Path) -> Path:
    """Shards of a few layers, with an index."""
    import safetensors.torch

    index: dict[str, str] = {}
    for first in range(0, len(model), SHARD_LAYERS):
        shard = f"part-{first}.safetensors"
        rows = {f"{first + i}.": layer for i, layer in enumerate(model[first : first + SHARD_LAYERS])}
        state = {prefix + name: value for prefix, layer in rows.items() for name, value in layer.state_dict().items()}
        safetensors.torch.save_file(state, folder / shard)
        index |= dict.fromkeys(state, shard)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": index}), encoding="utf-8")
    return path


def save_torch(model: Any, folder: Path) -> Path:
    import torch

    torch.save({"model": model.state_dict()}, folder / "model.pt")
    return folder / "model.pt"


def save_dcp(model: Any, folder: Path) -> Path:
    from torch.distributed.checkpoint import state_dict_saver

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is no process group
        state_dict_saver.save({"model": model.state_dict()}, checkpoint_id=folder / "dcp", no_dist=True)
    return folder / "dcp"


def save_dcp_in_pieces(model: Any, folder: Path) -> Path:
    from tests.exporter.checkpoints import to_dcp_in_pieces

    return to_dcp_in_pieces(model, folder)


SAVERS: Mapping[str, Callable[[Any, Path], Path]] = {
    "memory": lambda _, folder: folder,
    "safetensors": save_safetensors,
    "in place": save_safetensors,
    "torch.save": save_torch,
    "dcp": save_dcp,
    "dcp in pieces": save_dcp_in_pieces,
}


def export_it(form: str, layers: int, path: Path, target: Path) -> dict[str, float]:
    """The export in this process: seconds, and MB above what was held before."""
    import torch

    from fxport import Options, export
    from fxport.exporter.capture.fake import without_memory

    export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # all imports, and PyTorch's own first use
    x = torch.ones(2, 3, WIDTH)  # of three dims, as in transformers: weights are then stored transposed
    held = model_of(layers) if form == "memory" else None
    before = start_of_peak()
    start = time.perf_counter()
    if held is not None:
        program = export(held, (x,), dynamic_shapes=({0: "rows", 1: "tokens"},))
    else:
        with without_memory():
            model = model_of(layers)
        options = Options(weights_in_place=form == "in place")
        program = export(model, (x,), dynamic_shapes=({0: "rows", 1: "tokens"},), weights=path, options=options)
    files = program.save(target, external_data=True)
    seconds = time.perf_counter() - start
    written = sum(file.stat().st_size for file in files if file.name.startswith(target.name))
    return {"seconds": seconds, "peak_mb": (peak() - before) / MB, "written_mb": written / MB}


def measure(form: str, layers: int, above: Path | None = None) -> dict[str, float]:
    """Save and export in processes of their own, in a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=above))
    try:
        path = in_a_fresh_process(__file__, "--save", form, "--layers", str(layers), "--folder", str(folder))
        return in_a_fresh_process(__file__, "--export", form, "--layers", str(layers), "--folder", path)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--formats", nargs="*", choices=SAVERS, default=list(SAVERS))
    parser.add_argument("--save", choices=SAVERS, help=argparse.SUPPRESS)
    parser.add_argument("--export", choices=SAVERS, help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.save:
        model = None if given.save == "memory" else model_of(given.layers)
        print(json.dumps(str(SAVERS[given.save](model, given.folder))))
        return
    if given.export:
        folder = given.folder if given.folder.is_dir() else given.folder.parent
        print(json.dumps(export_it(given.export, given.layers, given.folder, folder / "model.onnx")))
        return
    layers = max(1, round(given.gigabytes * GB / LAYER_BYTES))
    print(f"{layers * LAYER_BYTES / GB:.2f} GB of weights, the largest {LAYER_BYTES / 2 / MB:.0f} MB\n")
    print("| checkpoint | export and save, s | peak, MB | written, MB |\n| --- | --- | --- | --- |")
    for form in given.formats:
        row = measure(form, layers, given.folder)
        print(f"| {form} | {row['seconds']:.1f} | {row['peak_mb']:.0f} | {row['written_mb']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
