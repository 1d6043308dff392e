"""The table of limits: each row is held, refuses with a sentence, and stands in docs/security.md."""

from __future__ import annotations

import zipfile
from dataclasses import fields
from pathlib import Path

import pytest

from fxport.diagnostics import limits
from fxport.diagnostics.amounts import size
from fxport.diagnostics.limits import LIMITS, Limit, LimitError, json_of, read_bounded, require_unpackable

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def test_the_table_is_whole() -> None:
    named = {value for value in vars(limits).values() if isinstance(value, Limit)}
    assert named == set(LIMITS)
    for each in LIMITS:
        assert any(getattr(each, field.name) is not None for field in fields(Limit) if field.name != "what")


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.what)
def test_each_row_is_in_the_docs(limit: Limit) -> None:
    (line,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {limit.what} |")]
    for amount in (limit.bytes, limit.memory):
        assert amount is None or size(amount) in line
    for told in (limit.ratio, limit.depth, limit.items, limit.seconds):
        assert told is None or f"{told:,g}" in line or f"{told:,}" in line


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path, limit = tmp_path / "a", Limit("a thing", bytes=1000)
    path.write_bytes(bytes(1000))
    assert len(read_bounded(path, limit)) == 1000
    path.write_bytes(bytes(1001))
    with pytest.raises(LimitError, match=r"more than 1 kB are too much for a thing"):
        read_bounded(path, limit)


@pytest.mark.parametrize(
    "text", ["[" * 5 + "]" * 5, '{"a":' * 5 + "1" + "}" * 5, "[" * 100_000, "[" * 100_000 + "]" * 100_000]
)
def test_depth(text: str) -> None:
    limit = Limit("a thing", depth=4)
    with pytest.raises(LimitError, match=r"nests more than 4 levels deep"):
        json_of(text, limit)
    assert json_of('{"a": [[{"b": "[[[[[[[["}]]}', limit) == {"a": [[{"b": "[[[[[[[["}]]}


def test_an_archive_is_unpacked_up_to_its_limit(tmp_path: Path) -> None:
    path, limit = tmp_path / "a.zip", Limit("a thing", bytes=1000, ratio=2.0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(100_000))
    with pytest.raises(LimitError, match=r"it unpacks to 100 kB; 1 kB are the most for a thing of its size"):
        require_unpackable(path, limit)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zeros", bytes(100_000))
    require_unpackable(path, limit)
