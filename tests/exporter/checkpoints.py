"""A small model that has every kind of weight, and checkpoints of it in every format."""

from __future__ import annotations

import io
import json
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.state_dict import get_state_dict

from fxport.exporter.capture.fake import without_memory

Tensors = dict[str, torch.Tensor]


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.up(self.norm(x))


class Small(nn.Module):
    """Tied weights, a buffer that checkpoints hold, one that they do not, and a constant."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 16, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.rand(width))
        self.register_buffer("frequencies", torch.arange(width) / width, persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * self.scale + self.frequencies
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


IDS = torch.arange(6).reshape(2, 3)


def small(seed: int = 0, width: int = 8) -> Small:
    torch.manual_seed(seed)
    return Small(width).eval()


def fake(width: int = 8) -> Small:
    with without_memory():
        return Small(width).eval()


def untied(model: nn.Module) -> Tensors:
    """The state dict as safetensors can hold it: tied weights once."""
    return {name: value.clone() for name, value in model.state_dict().items() if name != "head.weight"}


def to_safetensors(model: nn.Module, folder: Path) -> Path:
    safetensors.torch.save_file(untied(model), folder / "model.safetensors")
    return folder / "model.safetensors"


def to_shards(model: nn.Module, folder: Path) -> Path:
    state = untied(model)
    index = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(state)}
    for shard in set(index.values()):
        safetensors.torch.save_file({name: state[name] for name in state if index[name] == shard}, folder / shard)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}), encoding="utf-8")
    return path


def to_folder(model: nn.Module, folder: Path) -> Path:
    return to_shards(model, folder).parent


def to_shards_alone(model: nn.Module, folder: Path) -> Path:
    to_shards(model, folder).unlink()
    return folder


def to_torch(model: nn.Module, folder: Path) -> Path:
    torch.save(model.state_dict(), folder / "model.pt")
    return folder / "model.pt"


def to_torch_of_a_script(model: nn.Module, folder: Path) -> Path:
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.save({"epoch": 3, "model": state, "optimizer": {"state": {}}}, folder / "last.ckpt")
    return folder / "last.ckpt"


def to_torch_before_zip(model: nn.Module, folder: Path) -> Path:
    torch.save(model.state_dict(), folder / "old.pth", _use_new_zipfile_serialization=False)
    return folder / "old.pth"


def to_strided(model: nn.Module, folder: Path) -> Path:
    """Weights that are views: transposed, and a part of another tensor."""
    state: dict[str, Any] = dict(model.state_dict())
    state["layers.0.up.weight"] = state["layers.0.up.weight"].t().contiguous().t()
    state["layers.1.up.bias"] = torch.cat([torch.zeros(3), state["layers.1.up.bias"]])[3:]
    torch.save(state, folder / "views.pt")
    return folder / "views.pt"


def to_dcp(model: nn.Module, folder: Path) -> Path:
    """As a training script saves: model and optimizer, with numbers beside them."""
    optimizer = torch.optim.AdamW(model.parameters())
    states = dict(zip(("model", "optim"), get_state_dict(model, optimizer), strict=True))
    return to_dcp_of({**states, "epoch": 3}, folder)


def to_dcp_of(states: Mapping[str, Any], folder: Path) -> Path:
    """A checkpoint of any states, saved by one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is no process group is as it is meant
        state_dict_saver.save(dict(states), checkpoint_id=folder / "dcp", no_dist=True)
    return folder / "dcp"


def to_dcp_in_pieces(model: nn.Module, folder: Path) -> Path:
    """As two ranks save: every weight with rows in two files, some of them in uneven parts."""
    (folder / "dcp").mkdir()
    entries, storage = {}, {}
    files = [(folder / "dcp" / f"__{rank}_0.distcp").open("wb") for rank in range(2)]
    for name, tensor in model.state_dict().items():
        size, properties = tensor.shape, TensorProperties(dtype=tensor.dtype)
        middle = (size[0] + 1) // 2 if size else 0
        chunks = []
        for rank, rows in enumerate((tensor[:middle], tensor[middle:])):
            offsets = torch.Size([rank * middle, *[0] * (len(size) - 1)])
            chunks.append(ChunkStorageMetadata(offsets, rows.shape))
            held, begin = io.BytesIO(), files[rank].tell()
            torch.save(rows.clone(), held)
            files[rank].write(held.getvalue())
            info = _StorageInfo(f"__{rank}_0.distcp", begin, held.tell())
            storage[MetadataIndex(name, offsets, rank)] = info
        entries[name] = TensorStorageMetadata(properties, size, chunks)
    for file in files:
        file.close()
    (folder / "dcp" / ".metadata").write_bytes(pickle.dumps(Metadata(entries, storage_data=storage)))
    return folder / "dcp"
