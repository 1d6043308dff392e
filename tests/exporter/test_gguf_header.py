"""The header of a GGUF file is measured before the library makes an object of each of its items."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fxport.exporter.language_models.gguf_header import require_bounded
from tests.hostile.packages import ARCHITECTURE, GGUFS, LIST, UINT8, entry, gguf, tensor, text

FOUND = {
    "empty": "cut off",
    "2^60 entries": "3,000,000 are the most for the header of a GGUF file",
    "2^60 tensors": "3,000,000 are the most",
    "a list of 2^60": "3,000,000 are the most",
    "a text of 2^62": "cut off",
    "lists in lists": "lists in lists",
    "an unknown type": "unknown type 99",
    "an unknown version": "of version 2 or 3",
    "a tensor of 2^32 axes": "4294967295 dimensions",
}


@pytest.mark.parametrize("name", FOUND)
def test_headers_that_claim_too_much(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(GGUFS[name])
    with pytest.raises(ValueError, match=FOUND[name]):
        require_bounded(tmp_path / "a.gguf")


def test_a_sound_header(tmp_path: Path) -> None:
    words = entry(b"words", LIST, struct.pack("<IQ", 8, 2) + text(b"a") + text(b"bc"))
    numbers = entry(b"numbers", LIST, struct.pack("<IQ", UINT8, 3) + b"abc")
    (tmp_path / "a.gguf").write_bytes(gguf(ARCHITECTURE + words + numbers, 3, tensor((4, 4)), 1))
    require_bounded(tmp_path / "a.gguf")
