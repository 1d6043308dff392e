"""Fixes that are not offered, as they would not work: of numbers, of other sizes, and of requests for other models."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxport.diagnostics import Rule, rules
from fxport.diagnostics.fixes import suggested
from tests.diagnostics.test_fixes import finding_in

PLAIN = {
    "a length": "def f(x):\n    i = x.nonzero()\n    return x if «len(i) > 0» else -x\n",
    "a length by its name": "def f(x):\n    n = x.shape[0]\n    if «n > 0»:\n        return x\n    return -x\n",
    "a number of a function of the file": "def g(x):\n    return int(x.sum())\n\n\ndef f(x):\n    k = g(x)\n"
    "    return x if «k > 3» else -x\n",
}


@pytest.mark.parametrize("marked", PLAIN.values(), ids=PLAIN)
def test_torch_where_is_not_offered_for_a_condition_that_is_no_tensor(tmp_path: Path, marked: str) -> None:
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    assert "Choose by torch.where." not in [each.description for each in suggested(found)]


NUMBERS = {
    "a truth value": "def f(x):\n    a = (x[0] / x[1]).item()\n    return «x + (math.isinf(a) or a != a)»\n",
    "an item": "def f(x):\n    return «x + x.sum().item()»\n",
    "a size": "def f(x):\n    b, n = x.shape\n    return «x + n»\n",
    "a sum of a loop": "def f(x):\n    n = 0\n    for each in x.tolist():\n        n += each\n    return «x + n»\n",
    "an annotated argument": "def f(x, n: int):\n    return «x + n»\n",
    "a number of the model": "class M:\n    def __init__(self):\n        self.n = 0\n\n    def f(self, x):\n"
    "        return «x + self.n»\n",
}


@pytest.mark.parametrize("marked", NUMBERS.values(), ids=NUMBERS)
def test_a_number_is_not_cast_as_a_tensor_is(tmp_path: Path, marked: str) -> None:
    found, _ = finding_in(tmp_path, rules.IMPLICIT_TYPE_PROMOTION, marked, target="float32", operand=1)
    assert suggested(found) == ()


def test_an_item_of_a_list_may_be_a_tensor(tmp_path: Path) -> None:
    marked = "def f(x, rows):\n    m = rows[0]\n    return «x + m»\n"
    found, _ = finding_in(tmp_path, rules.IMPLICIT_TYPE_PROMOTION, marked, target="float32", operand=1)
    assert [each.description for each in suggested(found)] == ["Cast 'm' where it is used."]


CALLS = {
    "a number": "def f(x):\n    a = x[0].item()\n    return x + «math.isinf(a)»\n",
    "the base of a logarithm": "def f(x):\n    return «math.log(x.sum(), 2)»\n",
    "the larger of a tensor and a number": "def f(x):\n    return «np.maximum(x, 0)»\n",
    "places after the point": "def f(x):\n    return «np.round(x, 2)»\n",
}


@pytest.mark.parametrize("marked", CALLS.values(), ids=CALLS)
def test_no_function_of_torch_is_offered_that_does_not_take_these_arguments(tmp_path: Path, marked: str) -> None:
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    assert [each.description for each in suggested(found) if each.edits] == []


MODELS = "class A:\n    def f(self, x):\n        return «x»\n\n\nclass B:\n    def f(self, x):\n        return x\n\n\n"
CUT = "def f(x):\n    if «x.any()»:\n        return x[:3]\n    return x[:2]\n"


def test_torch_where_is_not_offered_between_parts_of_other_sizes(tmp_path: Path) -> None:
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, CUT)
    assert [each.description for each in suggested(found)] == ["Choose by torch.cond."]


REQUESTS = {
    "one call for each model": ("export(A(), ({0: 'n'},))\nexport(B(), ({0: 'n'},))\n", [11]),
    "models that have names": ("a = A()\nb = B()\nexport(a, ({0: 'n'},))\nexport(b, ({0: 'n'},))\n", [13]),
    "a model within another": ("class C:\n    a = A()\n\n\nexport(C(), ({0: 'n'},))\nexport(B(), ({0: 'n'},))\n", [15]),
    "another model alone": ("export(B(), ({0: 'n'},))\n", []),
    "two calls for one model": ("export(A(), ({0: 'n'},))\nexport(A(), ({0: 'n'},), opset=18)\n", []),
    "a request that both have": ("n = Dim('n')\nexport(A(), ({0: n},))\nexport(B(), ({0: n},))\n", []),
    "a request with a name": ("S = {'x': {0: 'n'}, 'y': {0: 'n'}}\nexport(A(), dynamic_shapes=S)\n", [11, 11]),
    "a request that nothing here uses": ("S = {'x': {0: 'n'}}\n", [11]),
}


@pytest.mark.parametrize(("after", "lines"), REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("rule", [rules.DIMENSION_SPECIALIZED, rules.DIMENSION_RANGE_NARROWED, rules.DIMENSIONS_TIED])
def test_only_the_requests_for_this_model_are_edited(tmp_path: Path, rule: Rule, after: str, lines: list[int]) -> None:
    facts = {"dim": "n", "other": "m", "relation": "n == m", "range": "at most 8", "value": 8}
    found, _ = finding_in(tmp_path, rule, MODELS + after, **facts)
    assert [edit.line for fix in suggested(found) for edit in fix.edits] == lines
