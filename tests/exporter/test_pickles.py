"""Pickles that never end when they are loaded, or that ask for all memory, are refused; real ones are loaded."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
import torch

from fxport.diagnostics.limits import DCP, PICKLE, LimitError
from fxport.exporter.weights.pickles import load_restricted, require_small
from tests.hostile.tensors import HASHED, zipped

NOTED = b"\x80\x02}r" + (1 << 30).to_bytes(4, "little") + b"."


@pytest.mark.parametrize("content", HASHED.values(), ids=HASHED)
def test_objects_in_objects_are_refused(content: bytes, tmp_path: Path) -> None:
    for form in (content, zipped(content)):
        (tmp_path / "a.pt").write_bytes(form)
        with pytest.raises(LimitError, match="it holds more than 50,000,000 objects"):
            load_restricted(tmp_path / "a.pt")
        with pytest.raises(LimitError, match="it holds more than 50,000,000 objects"):
            load_restricted(io.BytesIO(form))


def test_a_note_of_a_high_number_is_refused() -> None:
    with pytest.raises(LimitError, match="it numbers its 3th object 1,073,741,824"):
        require_small(io.BytesIO(NOTED), DCP)


def test_what_grows_later_is_counted() -> None:
    value: list[object] = []
    whole = [(value, value)] * 1000
    value += [0] * 100_000
    with pytest.raises(LimitError):
        require_small(io.BytesIO(pickle.dumps(whole, 2)), PICKLE)


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_are_whole(protocol: int) -> None:
    cycle: list[object] = [1, (2, 3), {"a": {4}}, frozenset((5,)), b"6", 7 << 70, bytearray(b"8"), torch.Size((9,))]
    cycle.append(cycle)
    file = io.BytesIO(pickle.dumps(cycle, protocol) + b"rest")
    assert require_small(file, PICKLE)
    assert file.read() == b"rest"


@pytest.mark.parametrize("zipped_file", [True, False])
def test_files_of_pytorch_are_loaded(zipped_file: bool, tmp_path: Path) -> None:
    shared = torch.ones(3)
    held = {"a": shared, "b": shared[1:], "c": {"d": [1, (2.5, None)]}, "e": torch.nn.Parameter(torch.ones(2))}
    torch.save(held, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped_file)
    found = load_restricted(tmp_path / "a.pt")
    assert found["c"] == held["c"]
    torch.testing.assert_close(found["b"], shared[1:])
    with (tmp_path / "a.pt").open("rb") as file:
        assert load_restricted(file)["c"] == held["c"]
