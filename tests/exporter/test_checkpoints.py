"""What is said of a checkpoint that cannot be read: one clear line."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorProperties, TensorStorageMetadata

from fxport.exporter.weights import CheckpointError, open_checkpoint
from tests.exporter.checkpoints import small, to_dcp, to_safetensors, to_shards, to_torch


def cut(folder: Path) -> Path:
    path = to_safetensors(small(), folder)
    path.write_bytes(path.read_bytes()[:-10])
    return path


def cut_in_the_header(folder: Path) -> Path:
    path = to_safetensors(small(), folder)
    path.write_bytes(path.read_bytes()[:100])
    return path


def cut_zip(folder: Path) -> Path:
    path = to_torch(small(), folder)
    path.write_bytes(path.read_bytes()[:-2000])
    return path


def lying_index(folder: Path) -> Path:
    path = to_shards(small(), folder)
    index = json.loads(path.read_text(encoding="utf-8"))
    index["weight_map"]["embed.weight"] = "part-0.safetensors"
    path.write_text(json.dumps(index), encoding="utf-8")
    return path


def lost_shard(folder: Path) -> Path:
    path = to_shards(small(), folder)
    (folder / "part-1.safetensors").unlink()
    return path


def index_that_leads_away(folder: Path) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "../../secret.safetensors"}}), encoding="utf-8")
    return path


def whole_model(folder: Path) -> Path:
    torch.save(small(), folder / "model.pt")
    return folder / "model.pt"


def no_state_dict(folder: Path) -> Path:
    torch.save({"epoch": 3, "config": {"width": 8}}, folder / "model.pt")
    return folder / "model.pt"


def text_file(folder: Path) -> Path:
    (folder / "notes.txt").write_text("not a checkpoint", encoding="utf-8")
    return folder / "notes.txt"


def lying_header(folder: Path) -> Path:
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (folder / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    return folder / "m.safetensors"


def two_files(folder: Path) -> Path:
    to_torch(small(), folder)
    torch.save({}, folder / "other.pt")
    return folder


def cut_dcp(folder: Path) -> Path:
    path = to_dcp(small(), folder)
    (file,) = path.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-3000])
    return path


def dcp_without_a_file(folder: Path) -> Path:
    path = to_dcp(small(), folder)
    next(path.glob("*.distcp")).unlink()
    return path


def dcp_without_metadata(folder: Path) -> Path:
    path = to_dcp(small(), folder)
    (path / ".metadata").unlink()
    return path


def dcp_that_runs_code(folder: Path) -> Path:
    (folder / ".metadata").write_bytes(pickle.dumps(Path.home))
    return folder


def dcp_that_leads_away(folder: Path) -> Path:
    index, info = MetadataIndex("a", torch.Size([0])), _StorageInfo("../secret.distcp", 0, 8)
    entry = TensorStorageMetadata(TensorProperties(), torch.Size([2]), [])
    (folder / ".metadata").write_bytes(pickle.dumps(Metadata({"a": entry}, storage_data={index: info})))
    return folder


def damaged_dcp(folder: Path) -> Path:
    (folder / ".metadata").write_bytes(b"not a pickle")
    return folder


FAULTS: tuple[tuple[Callable[[Path], Path], str], ...] = (
    (cut, "is truncated: '.+' ends at byte"),
    (cut_in_the_header, "its header is incomplete"),
    (cut_zip, "cannot be read by torch.load"),
    (lying_index, "names 'embed.weight' in 'part-0.safetensors', which has no such tensor"),
    (lost_shard, "'part-1.safetensors', which is not there"),
    (index_that_leads_away, "outside of its folder"),
    (whole_model, "needs the code of '.*Small'"),
    (no_state_dict, "has no state dict; it has 'epoch', 'config'"),
    (text_file, "is no checkpoint"),
    (lying_header, "is damaged: 'a' is F32 .4., but 8 bytes long"),
    (two_files, "more than one checkpoint: model.pt, other.pt"),
    (cut_dcp, "is truncated: '.+' ends at byte"),
    (dcp_without_a_file, "which is not there; copy all files"),
    (dcp_without_metadata, "has parts of a checkpoint, but no '.metadata'"),
    (dcp_that_runs_code, "would run code, which is refused: it names"),
    (dcp_that_leads_away, "is outside of it"),
    (damaged_dcp, "is damaged"),
    (lambda folder: folder / "none", "there is no"),
    (lambda folder: folder, "has no checkpoint in it"),
)


@pytest.mark.parametrize(("make", "words"), FAULTS, ids=[make.__name__ for make, _ in FAULTS])
def test_a_checkpoint_that_cannot_be_read(make: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=words) as raised:
        open_checkpoint(make(tmp_path))
    assert len(str(raised.value).splitlines()) == 1
