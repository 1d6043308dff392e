"""A sharded model is compared with PyTorch as any other: in float64 as well, and back to the user's line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fxport.diagnostics import rules
from tests.distributed.spawn import spawn


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Any]:
    outcomes = spawn("tests.distributed.validations", "validated", 2, str(tmp_path_factory.mktemp("validated")))
    assert all(outcome.code == 0 for outcome in outcomes), "\n".join(outcome.output for outcome in outcomes)
    return [outcome.result for outcome in outcomes]


def test_a_model_with_a_policy_is_equal(validated: Sequence[Any]) -> None:
    assert [told["right"] for told, _, _ in validated] == [("", [])] * 2


@pytest.mark.parametrize(
    ("name", "cause", "line"),
    [
        ("capture", "Cause: capture.", "return y * 2 if torch.compiler.is_compiling() else y"),
        ("lowering", "Cause: lowering of aten.gelu.default: ", "hidden = nn.functional.gelu(hidden)"),
    ],
)
def test_all_ranks_are_told_where_a_difference_comes_from(
    validated: Sequence[Any], name: str, cause: str, line: str
) -> None:
    for told, _, _ in validated:
        headline, findings = told[name]
        ((message, at),) = [(message, at) for rule, message, at in findings if rule == rules.OUTPUT_DRIFT.id]
        assert "is not what PyTorch gives" in headline
        assert cause in message
        assert at == line


def test_every_sample_has_outputs_in_float64(validated: Sequence[Any]) -> None:
    assert [exact for _, exact, _ in validated] == [["sample float64", "resized float64"], []]


def test_onnx_check_passes_and_fails_on_all_ranks_alike(validated: Sequence[Any]) -> None:
    for _, _, (code, said) in validated:
        assert code == pytest.ExitCode.TESTS_FAILED, said
        assert "1 failed, 1 passed" in said
        assert rules.OUTPUT_DRIFT.id in said
