"""How much memory an export of a sharded model takes, measured in processes of their own."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from fxport import export

ROWS, WIDTH, LAYERS = 10_000, 1024, 40
"""An embedding of 41 MB, and 40 layers of 4 MB each: 200 MB."""

CPU = torch.device("cpu")


class Deep(nn.Module):
    def __init__(self, layers: int = LAYERS, rows: int = ROWS) -> None:
        super().__init__()
        self.embed = nn.Embedding(rows, WIDTH)
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embed(ids))


def shard(model: Deep, way: str) -> nn.Module:
    if way == "fsdp2":
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    if way == "fsdp1":
        for index, layer in enumerate(model.layers):
            model.layers[index] = FullyShardedDataParallel(layer, device_id=CPU)
        return FullyShardedDataParallel(model, device_id=CPU)
    styles = {f"layers.{i}": (ColwiseParallel, RowwiseParallel)[i % 2]() for i in range(len(model.layers))}
    styles["embed"] = RowwiseParallel()
    return parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), styles)


def peak(folder: str, way: str) -> tuple[int, int]:
    """Bytes beyond those held before, at the worst moment of the export, and bytes of the largest weight."""
    ids = torch.zeros(1, 4, dtype=torch.int64)
    export(shard(Deep(1, 8), way), (ids,)).save(Path(folder, f"{way}-small.onnx"))
    model = shard(Deep(), way)
    ctypes.CDLL(None).malloc_trim(0)  # what is free is not to be counted as held
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    export(model, (ids,)).save(Path(folder, f"{way}.onnx"))
    return status("VmHWM") - before, ROWS * WIDTH * 4


def status(field: str) -> int:
    """A figure of Linux about this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
