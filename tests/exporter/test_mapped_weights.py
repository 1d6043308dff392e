"""Weights that do not fit in memory: packages of them are the same, and nothing of the files is left."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models import mapped_weights
from fxport.exporter.language_models.few_bits import rounded
from fxport.exporter.language_models.folders import model_of
from tests.cases.language_models import TOKENIZER
from tests.exporter.test_language_packages import small

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free memory is read from /proc")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder whose weights are in bfloat16, and settings of its own."""
    folder = tmp_path / "source"
    small(tie_word_embeddings=True).bfloat16().save_pretrained(folder)
    (folder / "tokenizer.json").write_text(TOKENIZER)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "repetition_penalty": 1.5}))
    return folder


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_weights, "available_memory", lambda: 1 << 10)


def test_the_package_is_the_same(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = package(source, tmp_path / "before", weights="int4", steps=4)
    short(monkeypatch)
    got = package(source, tmp_path / "after", weights="int4", steps=4)
    assert got.verdict == want.verdict
    assert [path.name for path in got.files] == [path.name for path in want.files]
    assert [path.read_bytes() for path in got.files] == [path.read_bytes() for path in want.files]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after", "before", "source"]


def test_weights_and_their_numbers_are_in_files(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short(monkeypatch)
    model = model_of(source, Log(), near=tmp_path / "none" / "package").model
    assert {mapped_weights.folder_of_file(each) for each in model.parameters()} == {tmp_path}
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    with rounded(model, 4, 32, restore=False) as made:
        for name, held in made.items():
            assert isinstance(held.numbers, np.memmap)
            assert isinstance(held.scales, np.memmap)
            assert held.stands_for(model.get_parameter(name).detach().numpy())
    assert {mapped_weights.folder_of_file(each) for each in model.parameters()} == {tmp_path}
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_weights_that_fit_are_in_memory(source: Path, tmp_path: Path) -> None:
    model = model_of(source, Log(), near=tmp_path / "package").model
    assert {mapped_weights.folder_of_file(each) for each in model.parameters()} == {None}


def test_a_disk_without_room_is_told(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short(monkeypatch)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(mapped_weights.os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        package(source, tmp_path / "package", weights="int4")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
