"""The calls that `agree` is asked to judge share exports, as far as nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz import agreement


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    if getattr(pyfuncitem.module, "agree", None) is not agreement.agree:
        return (yield)
    with agreement.together() as shared:
        result = yield
    if shared.faults:
        pyfuncitem.obj()  # which fails at the least call that is wrong
        raise shared.faults[0]  # only beside the others
    return result
