"""Models that cannot be exported as asked, or are changed by it: each with the rule and the exact place."""

from tests.cases.failures import operators, outside, python, shapes, state, values, written
from tests.cases.failures.case import FailureCase

CASES: tuple[FailureCase, ...] = (
    *values.CASES,
    *python.CASES,
    *operators.CASES,
    *shapes.CASES,
    *state.CASES,
    *outside.CASES,
    *written.CASES,
)
