"""Conditions on sizes in a model's metadata, read back from their words."""

from __future__ import annotations

import json

import pytest

from fxport.exporter.capture.sizes.conditions import words_for
from fxport.ort_runner.size_limits import CONDITIONS, limits_in

TRIED = range(1, 40)


@pytest.mark.parametrize(
    "passing",
    [
        *(range(5, 40), range(1, 9), range(4, 20), range(3, 4), range(4, 40, 4), range(5, 40, 4)),
        *([each for each in TRIED if each not in left] for left in ((3,), (3, 7), (3, 7, 11))),
        *([each for each in TRIED if each % 9 in rests] for rests in ((2, 3), (0, 8), (*range(1, 9),), (*range(8),))),
    ],
    ids=str,
)
def test_words_mean_what_they_were_made_of(passing: list[int]) -> None:
    words = words_for(passing, TRIED)
    (limit,) = limits_in({CONDITIONS: json.dumps([f"n: {words}"])})
    assert limit.name == "n"
    assert [each for each in TRIED if limit.allows(each)] == [*passing], words


@pytest.mark.parametrize("written", ["", "{", "7", "[7, null]", '["n"]', '["n <= m"]', '["n: one of 1, 2 or some"]'])
def test_other_words_limit_nothing(written: str) -> None:
    assert all(limit.allows(each) for limit in limits_in({CONDITIONS: written}) for each in TRIED)
