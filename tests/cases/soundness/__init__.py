"""Ordinary but awkward programs, both ways: those that must export and be right, and those that must be refused."""

from __future__ import annotations

from tests.cases.soundness import branches, functions, loops, names, numbers, tensors
from tests.cases.soundness.case import Row as Row

CASES = (*loops.CASES, *branches.CASES, *names.CASES, *numbers.CASES, *tensors.CASES, *functions.CASES)
