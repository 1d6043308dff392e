"""The makers of fixes: from a finding in a source to edits, by text alone."""

from __future__ import annotations

import ast
import linecache
from dataclasses import replace
from pathlib import Path

import pytest

from fxport.diagnostics import Applicability, Edit, Finding, Fix, Level, Place, Rule, rules
from fxport.diagnostics.edits import applied
from fxport.diagnostics.fixes import MAKERS, suggested
from fxport.diagnostics.fixes.operators import stub
from fxport.diagnostics.text import code_of
from tests.cases import failures

OPENED, CLOSED = "«", "»"


def finding_in(tmp_path: Path, rule: Rule, marked: str, **facts: object) -> tuple[Finding, str]:
    """A finding at the marked part of a source, and the source."""
    before = marked[: marked.index(OPENED)]
    text = marked.replace(OPENED, "").replace(CLOSED, "")
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    linecache.checkcache(str(file))
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    length = marked.index(CLOSED) - marked.index(OPENED) - 1
    return Finding(rule, rule.level, "", Place(str(file), line, column, column + length), facts), text


def after_first(tmp_path: Path, rule: Rule, marked: str, **facts: object) -> str:
    found, text = finding_in(tmp_path, rule, marked, **facts)
    return applied(text, suggested(found)[0].edits)


ROWS = {
    "if": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    if «x.sum() > 0»:\n        return x\n    return -x\n",
        {},
        "def f(x):\n    return torch.where(x.sum() > 0, x, -x)\n",
    ),
    "if with an assignment in place": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    if not «x.any()»:\n        x += 1\n    return x\n",
        {},
        "def f(x):\n    x = torch.where(~(x.any()), x + 1, x)\n    return x\n",
    ),
    "branches of several statements": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x, w):\n    if «x.sum() > 0»:\n        y = x @ w\n        z = y * 2\n    else:\n        y = x\n        z = w\n"
        "    return y + z\n",
        {},
        "def f(x, w):\n    def on_true():\n        y = x @ w\n        z = y * 2\n        return y, z\n\n"
        "    def on_false():\n        y = x\n        z = w\n        return y.clone(), z.clone()\n\n"
        "    y, z = torch.cond(x.sum() > 0, on_true, on_false)\n    return y + z\n",
    ),
    "a branch with a name of its own": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    top = x.max().item()\n    if «top > 1.0»:\n        y = x / top\n        x = y * 2\n    else:\n        x = x * 2\n"
        "    return x\n",
        {},
        "def f(x):\n    top = x.max()\n\n    def on_true(x):\n        y = x / top\n        x = y * 2\n        return x\n\n"
        "    def on_false(x):\n        x = x * 2\n        return x\n\n"
        "    x = torch.cond(top > 1.0, on_true, on_false, (x,))\n    return x\n",
    ),
    "while": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    while «x.norm() > 1»:\n        x = x / 2\n    return x\n",
        {},
        "def f(x):\n    def go_on(x):\n        return x.norm() > 1\n\n    def turn(x):\n        x = x / 2\n        return (x,)\n\n"
        "    (x,) = torch.while_loop(go_on, turn, (x,))\n    return x\n",
    ),
    "while and its body on one line": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    while «x.norm() > 1»: x = x / 2\n    return x\n",
        {},
        "def f(x):\n    def go_on(x):\n        return x.norm() > 1\n\n    def turn(x):\n        x = x / 2\n        return (x,)\n\n"
        "    (x,) = torch.while_loop(go_on, turn, (x,))\n    return x\n",
    ),
    "item": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    top = x.max().item()\n    return x / top if «top > 1» else x\n",
        {},
        "def f(x):\n    top = x.max()\n    return torch.where(top > 1, x / top, x)\n",
    ),
    "chained": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    return x if «0 < float(x.mean()) < 1» else -x\n",
        {},
        "def f(x):\n    return torch.where((0 < x.mean()) & (x.mean() < 1), x, -x)\n",
    ),
    "any": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    return x if «any(row.sum() > 1 for row in x)» else -x\n",
        {},
        "def f(x):\n    return torch.where(torch.stack([row.sum() > 1 for row in x]).any(), x, -x)\n",
    ),
    "two results": (
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        "def f(x):\n    if «x.sum() > 0»:\n        return x, -x\n    return -x, +x\n",
        {},
        "def f(x):\n    def on_true():\n        return x.clone(), -x\n\n    def on_false():\n        return -x, +x\n\n"
        "    return torch.cond(x.sum() > 0, on_true, on_false)\n",
    ),
    "print": (
        rules.CAPTURE_FELL_BACK,
        "def f(x):\n    print(«'{:f}'.format(x.sum())»)\n    return x\n",
        {},
        "def f(x):\n    if not torch.compiler.is_exporting():\n        print('{:f}'.format(x.sum()))\n    return x\n",
    ),
    "numpy and back": (
        rules.CAPTURE_FELL_BACK,
        "def f(x):\n    return torch.from_numpy(«x.cpu().numpy()».cumsum(0)) + 1\n",
        {},
        "def f(x):\n    return x.cpu().cumsum(0) + 1\n",
    ),
    "dtype": (
        rules.IMPLICIT_TYPE_PROMOTION,
        "def f(mask):\n    return («1.0 - mask») * 2\n",
        {"target": "float32"},
        "def f(mask):\n    return (1.0 - mask.to(torch.float32)) * 2\n",
    ),
    "dataclass": (
        rules.UNSUPPORTED_VALUE,
        "@dataclass\nclass Pair:\n    x: int\n\n\ndef f(x):\n    «return Pair(x)»\n",
        {"type": "models.Pair", "name": "outputs"},
        "@dataclass\nclass Pair:\n    x: int\n\n\ntorch.export.register_dataclass(Pair)\n\n\ndef f(x):\n    return Pair(x)\n",
    ),
    "eval": (
        rules.TRAINING_MODE_CAPTURED,
        "class M:\n    «def forward(self, x):»\n        return x\n\n\nmodel = M()\n",
        {},
        "class M:\n    def forward(self, x):\n        return x\n\n\nmodel = M().eval()\n",
    ),
    "train": (
        rules.TRAINING_MODE_CAPTURED,
        "class M:\n    «def forward(self, x):»\n        return x\n\n\nmodel = M().train()\n",
        {},
        "class M:\n    def forward(self, x):\n        return x\n\n\nmodel = M().eval()\n",
    ),
    "dropout": (
        rules.RANDOMNESS_CAPTURED,
        "class M:\n    def forward(self, x):\n        return «F.dropout(x, 0.5)» * 3\n",
        {},
        "class M:\n    def forward(self, x):\n        return F.dropout(x, 0.5, training=self.training) * 3\n",
    ),
    "written input": (
        rules.STATE_MUTATED,
        "def f(x):\n    «x.add_(1)»\n    return x\n",
        {"name": "x"},
        "def f(x):\n    x = x.clone()\n    x.add_(1)\n    return x\n",
    ),
    "bounded dimension": (
        rules.DIMENSION_RANGE_NARROWED,
        "def f(x):\n    return «x»\n\n\nSHAPES = ({0: Dim('rows')}, {1: 'rows', 0: None})\n",
        {"dim": "rows", "range": "at least 4 and at most 16"},
        "def f(x):\n    return x\n\n\n"
        'SHAPES = ({0: Dim("rows", min=4, max=16)}, {1: torch.export.Dim("rows", min=4, max=16), 0: None})\n',
    ),
    "dimension of a multiple": (
        rules.DIMENSION_RANGE_NARROWED,
        "def f(x):\n    return «x»\n\n\nSHAPES = ({0: Dim('rows')}, {1: 'rows'})\n",
        {"dim": "rows", "range": "at least 5 and at most 64 and a multiple of 4"},
        "def f(x):\n    return x\n\n\n"
        'SHAPES = ({0: 4 * Dim("rows", min=2, max=16)}, {1: 4 * torch.export.Dim("rows", min=2, max=16)})\n',
    ),
    "fake kernel": (
        rules.MISSING_FAKE_KERNEL,
        "@torch.library.custom_op('my::op', mutates_args=())\ndef op(x: Tensor, n: int = 1) -> Tensor:\n    return x\n\n\n"
        "def f(x):\n    return «op(x)»\n",
        {"op": "my::op"},
        "@torch.library.custom_op('my::op', mutates_args=())\ndef op(x: Tensor, n: int = 1) -> Tensor:\n    return x\n\n\n"
        "@op.register_fake\ndef _(x: Tensor, n: int=1) -> Tensor:\n    return torch.empty_like(x)\n\n\n"
        "def f(x):\n    return op(x)\n",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_first_fix(name: str, tmp_path: Path) -> None:
    rule, marked, facts, wanted = ROWS[name]
    changed = after_first(tmp_path, rule, marked, **facts)
    ast.parse(changed)
    assert changed == wanted


NOTHING = {
    "an attribute changes": "def f(self, x):\n    if «x.sum() > 0»:\n        self.n = 1\n    return x\n",
    "a call in the branch": "def f(x):\n    if «x.sum() > 0»:\n        log(x)\n    return x\n",
    "a name of one branch": "def f(x):\n    if «x.sum() > 0»:\n        y = x\n        x = y\n    return x + y\n",
    "a name of the condition": "def f(x):\n    while «(gap := x.sum()) > 0»:\n        x = x - gap\n    return x\n",
    "None": "def f(x):\n    return None if «x.min() < 0» else x.sqrt()\n",
    "a dtype": "def f(x):\n    dt = torch.float64 if «x.min() < 0» else torch.float32\n    return x.to(dt)\n",
    "text": "def f(x):\n    if «x.sum() > 0»:\n        return x, 'positive'\n    return x, 'other'\n",
    "one of two lists": "def f(x):\n    a, b = [], []\n    (a if «x.sum() > 0» else b).append(x)\n    return a\n",
    "a dict": "def f(x):\n    d = {}\n    if «x.sum() > 0»:\n        return x, d\n    return -x, d\n",
    "a value among those of a list": "def f(x):\n    k = []\n    k.append(x)\n    if «x in k»:\n        x = x + 1\n    return x\n",
    "a part of a list": "def f(x, k):\n    k.append(x)\n    if «x.sum() > 0»:\n        k = k[1:]\n    return k\n",
    "a name of the function around": "def f(x):\n    nonlocal y\n    if «x.sum() > 0»:\n        y = x * 2\n        z = y\n"
    "    else:\n        z = x\n    return z\n",
    "the number of a turn": "def f(x):\n    for k in range(x.shape[0]):\n        y = x[k - 1] if «k > 0» else x[0] * 2\n    return y\n",
    "a loop that breaks": "def f(x):\n    while «x.sum() > 0»:\n        break\n    return x\n",
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_cannot_be_moved_into_the_graph_stays(name: str, tmp_path: Path) -> None:
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, NOTHING[name])
    edits = [edit.text for fix in suggested(found) for edit in fix.edits if "torch._check" not in edit.text]
    assert edits == []


GROWING = "def f(x):\n    while «x.sum() < 9»:\n        x = torch.cat([x, x])\n    return x\n"
EMPTIED = "def f(x):\n    while «x.numel() > 0»:\n        x = x[1:]\n    return x\n"


@pytest.mark.parametrize("marked", [GROWING, EMPTIED])
def test_a_loop_that_was_rewritten_in_vain_is_not_to_be_rewritten_by_hand(marked: str, tmp_path: Path) -> None:
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked, reason="sizes change")
    assert suggested(found) == ()
    untried, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    first, *_ = suggested(untried)
    assert ("a mask of those that are left" if marked == EMPTIED else "torch.while_loop.") in first.description
    assert not [fix for fix in suggested(untried) if "Promise" in fix.description]


def test_nothing_is_promised_of_the_value_of_a_tensor(tmp_path: Path) -> None:
    marked = "def f(self, x):\n    if «x.sum() > 0»:\n        self.on = torch.tensor(True)\n    return x\n"
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    assert not [fix for fix in suggested(found) if "Promise" in fix.description]


def test_the_unchanged_lines_within_a_fix_are_printed(tmp_path: Path) -> None:
    marked = "def f(x):\n    while «x.norm() > 1»:\n        x = x / 2\n    return x\n"
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    fix, *_ = suggested(found)
    code = code_of(replace(found, fixes=(fix,)))
    assert [line for line in code if line[0] == " "] == ["         x = x / 2"]
    assert (code[0][0], code[-1][0]) == ("-", "+")


def test_lines_between_changes_that_are_far_apart_are_left_out_with_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "far.py"
    file.write_text("a\n" + "b\n" * 50 + "c\n", encoding="utf-8")
    edits = (Edit(str(file), 1, 1, 1, 2, "A"), Edit(str(file), 52, 1, 52, 2, "C"))
    far = Finding(rules.CAPTURE_FAILED, Level.ERROR, "", None, fixes=(Fix("Write.", edits),))
    assert code_of(far) == ["-a", "+A", " …", "-c", "+C"]


@pytest.mark.parametrize(
    ("rule", "facts", "said"),
    [
        (
            rules.DIMENSION_RANGE_NARROWED,
            {"dim": "x.2", "range": "5 to 9"},
            "Ask for `Dim.AUTO(min=5, max=9)`.",
        ),
        (
            rules.DIMENSION_RANGE_NARROWED,
            {"dim": "x.2", "range": "at least 5 and a multiple of 4"},
            "",
        ),
        (
            rules.UNSUPPORTED_VALUE,
            {"name": "inputs", "type": "numpy.ndarray"},
            "Give a tensor: torch.from_numpy(array).",
        ),
        (
            rules.UNSUPPORTED_VALUE,
            {"name": "inputs", "type": "numpy.float32"},
            "Give a tensor, torch.tensor(number), or a number of Python's, which becomes a constant.",
        ),
    ],
)
def test_what_is_told_in_words(rule: Rule, facts: dict[str, object], said: str, tmp_path: Path) -> None:
    found, _ = finding_in(tmp_path, rule, "def f(x):\n    return «x»\n", **facts)
    assert [fix.description for fix in suggested(found)] == [said] * bool(said)


def test_what_restricts_the_model_is_for_a_person_to_decide(tmp_path: Path) -> None:
    fixed, _ = finding_in(
        tmp_path, rules.DIMENSION_SPECIALIZED, "def f(x):\n    return «x»\n\n\nS = {0: 'n'}\n", dim="n"
    )
    assert [fix.applicability for fix in suggested(fixed)] == [Applicability.DECISION]
    marked = "def f(x):\n    n = x.sum().item()\n    if «n > 3»:\n        g(x)\n    return x\n"
    chosen, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    assert {fix.applicability for fix in suggested(chosen) if fix.edits} == {Applicability.DECISION}


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        ("my::op(Tensor x, *, int n=1) -> Tensor", "def op(op, x, *, n=1):"),
        (
            "my::op.out(Tensor(a!) x, int[2] size=[1, 2], str mode='mean') -> Tensor(a!)",
            "def op(op, x, size=[1, 2], mode=",
        ),
        (
            "my::lambda(Tensor? from=None, bool flag=False, float p=0.5) -> ()",
            "def lambda_(op, from_=None, flag=False, p=0.5):",
        ),
    ],
)
def test_a_stub_has_the_signature_of_the_operator(schema: str, first: str) -> None:
    code = stub("my.op.default", schema)
    assert code is not None
    assert code.startswith(first)
    assert "LOWERINGS = {torch.ops.my.op.default: " in code
    ast.parse(code)


def test_a_schema_that_is_none_gives_no_stub() -> None:
    assert stub("my.op.default", "what?") is None


def test_no_fix_for_a_file_of_a_library_or_one_that_is_gone(tmp_path: Path) -> None:
    for path in (ast.__file__, str(tmp_path / "gone.py"), "<stdin>"):
        place = Place(path, 1, 1, 2)
        assert [
            fix for fix in suggested(Finding(rules.DATA_DEPENDENT_CONTROL_FLOW, rules.ERROR, "", place)) if fix.edits
        ] == []


@pytest.mark.parametrize("rule", MAKERS)
def test_any_place_of_a_real_file_is_survived(rule: str) -> None:
    """Lines of the corpus with a guess of their columns: no maker raises, and what is made can be applied."""
    facts = {
        "dim": "rows",
        "range": "at most 3",
        "type": "a.Pair",
        "name": "x",
        "op": "a::b",
        "target": "int64",
        "value": 3.0,
    }
    for module in (failures.values, failures.state):
        assert module.__file__ is not None
        lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
        text = "".join(linecache.getlines(module.__file__))
        for number, line in list(enumerate(lines, start=1))[:: 1 if rule == "FXP1002" else 7]:
            start, end = len(line) - len(line.lstrip()) + 1, len(line) + 1
            column = line.find("if ") + 4 if "if " in line else start
            place = Place(module.__file__, number, column, max(column + 1, end - line.endswith(":")))
            for fix in suggested(Finding(rules.RULES[rule], rules.ERROR, "", place, facts)):
                if fix.edits:
                    ast.parse(applied(text, fix.edits))


UNLIKE = {
    "the truth of a list": "def f(x):\n    out = []\n    return torch.stack(out) if «out» else x\n",
    "a part": "def f(x):\n    return x if «x.sum() > 0» else x[:0]\n",
    "another dtype": "def f(x):\n    return x if «x.sum() > 0» else x.double()\n",
    "stacked": "def f(x):\n    return torch.stack([t for t in x]) if «x.any()» else x\n",
    "two parts": "def f(x):\n    i = x.nonzero()[:, 0]\n    return x[i[0]:i[-1]] if «len(i) > 0» else x[:0]\n",
    "two dtypes": "def f(x):\n    return x.to(torch.int32) if «x.any()» else x.to(torch.int64)\n",
    "what the data choose": "def f(x, y):\n    return x.nonzero() if «x.any()» else y.nonzero()\n",
}


@pytest.mark.parametrize("marked", UNLIKE.values(), ids=UNLIKE)
def test_no_choice_is_offered_between_values_of_other_sizes_or_dtypes(tmp_path: Path, marked: str) -> None:
    found, _ = finding_in(tmp_path, rules.DATA_DEPENDENT_CONTROL_FLOW, marked)
    assert [each for each in suggested(found) if each.edits and each.description.startswith("Choose")] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("at most 64", "Ask for `Dim('seq', max=64)`, on the command line `--dynamic ids:1=seq[..64]`."),
        ("2 to 64", "Ask for `Dim('seq', min=2, max=64)`, on the command line `--dynamic ids:1=seq[2..64]`."),
        ("a multiple of 4", "Ask for `4 * Dim('seq')`, on the command line `--dynamic ids:1=4*seq`."),
    ],
)
def test_the_bounds_of_a_dimension_are_told_where_a_library_sets_them(words: str, said: str) -> None:
    facts = {"dim": "seq", "input": "ids", "axis": 1, "range": words}
    found = Finding(rules.DIMENSION_RANGE_NARROWED, Level.WARNING, "", Place(pytest.__file__, 1), facts)
    assert [fix.description for fix in suggested(found)] == [said]
