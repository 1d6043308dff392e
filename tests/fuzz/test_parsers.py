"""Every parser of files, on files that are almost right: a value, or an error that is meant, and nothing else.

The usual run takes some examples of each; `python -m tests.fuzz.fuzzing --seconds 1800` goes on for so long with each.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.fuzzing import fuzz
from tests.fuzz.parsers import PARSERS, Parser

EXAMPLES = 150
"""Of each parser in the usual run."""

SLOW_EXAMPLES = 8
"""Of one that takes a tenth of a second for each."""


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
@pytest.mark.filterwarnings("ignore")
def test_a_value_or_an_error_that_is_meant(parser: Parser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = fuzz(parser, tmp_path, random.Random(parser.name), examples=SLOW_EXAMPLES if parser.slow else EXAMPLES)
    assert found.sound, "none of the files to begin with is one"
    assert found.examples
    assert found.faults == {}
