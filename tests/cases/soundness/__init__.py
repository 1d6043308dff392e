"""Ordinary but awkward programs, both ways: those that must export and be right, and those that must be refused."""

from __future__ import annotations

from tests.cases.soundness import (
    alternatives,
    apart,
    arrays,
    branches,
    branches_in_loops,
    calls,
    choices,
    containers,
    first_turns,
    functions,
    identities,
    leaving,
    loops,
    math_calls,
    memberships,
    names,
    number_lists,
    numbers,
    ragged,
    replaced,
    returned,
    sizes,
    steps_of_data,
    tensors,
    writes,
)
from tests.cases.soundness.case import Row as Row

FAMILIES = (
    loops,
    first_turns,
    ragged,
    branches,
    branches_in_loops,
    writes,
    names,
    numbers,
    memberships,
    number_lists,
    math_calls,
    steps_of_data,
    tensors,
    functions,
    calls,
    choices,
    containers,
    replaced,
    identities,
    leaving,
    apart,
    alternatives,
    arrays,
    returned,
    sizes,
)

CASES = tuple(row for family in FAMILIES for row in family.CASES)
