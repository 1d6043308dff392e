"""Tokenizers that never end, take all memory or panic are refused, by a process with limits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fxport.ort_runner import tokenizer_trial
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.tokenizer import Tokenizer
from tests.hostile import packages

pytest.importorskip("tokenizers")


def written(folder: Path, normalizer: object = None) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(packages.TOKENIZER | {"normalizer": normalizer}))
    return folder


def test_a_sound_one_passes(tmp_path: Path) -> None:
    tokenizer_trial.require_bounded(written(tmp_path), ["a", "b"], [0, 1])
    assert Tokenizer(tmp_path).encode("b") == [1]


def test_a_panic_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, packages.replace("(a+)+$", "b"))
    with pytest.raises(PackageError, match=r"fails for a text: PanicException: Onig.*retry-limit"):
        Tokenizer(tmp_path).encode("a" * 40 + "!")
    with pytest.raises(PackageError, match="fails for a text: PanicException"):
        tokenizer_trial.require_bounded(tmp_path, ["a" * 40 + "!"])


def test_time_and_memory_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_trial, "LIMIT", replace(tokenizer_trial.LIMIT, seconds=1.5))
    written(tmp_path, {"type": "Sequence", "normalizers": [packages.replace("a", "aaaa")] * 20})
    with pytest.raises(PackageError, match=r"takes more than (1\.5 s|2 GB) for a text"):
        tokenizer_trial.require_bounded(tmp_path, ["a" * 64])
