"""The providers that these tests run on: each that was asked for and comes up; others are skipped with the reason."""

from __future__ import annotations

import pytest

from fxport.ort_runner.providers import PROVIDERS, why_not


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`provider` is a parameter of every test; before any other, so that what is skipped is skipped once a test."""
    if "provider" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--provider") or [name for name in PROVIDERS if name != "cpu"]
    reasons = {name: None if name == "cpu" else why_not(PROVIDERS[name]) for name in asked}
    rows = [
        pytest.param(name, marks=pytest.mark.skip(reason=f"{name} does not work here: {reason}") if reason else ())
        for name, reason in reasons.items()
    ]
    metafunc.parametrize("provider", rows)
