"""The pieces of programs, by family."""

from __future__ import annotations

from tests.fuzz.programs.features import (
    aliases,
    branches,
    containers,
    functions,
    loops,
    names,
    numbers,
    simple,
    sizes,
    state,
)

FAMILIES = {
    "aliases": aliases.FEATURES,
    "branches": branches.FEATURES,
    "containers": containers.FEATURES,
    "functions": functions.FEATURES,
    "loops": loops.FEATURES,
    "names": names.FEATURES,
    "numbers": numbers.FEATURES,
    "sizes": sizes.FEATURES,
    "state": state.FEATURES,
}

SIMPLE = simple.FEATURES
