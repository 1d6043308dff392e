"""Summary lines of docstrings: plain statements of what a thing does or is, and no indirect questions.

"Return the node that makes a value", not "What makes a value"; "Return True if a call writes", not "Whether a call
writes". Docstrings behind constants and fields are summaries as well.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("diagnostics", "exporter", "fx_passes", "ort_runner")
INDIRECT = re.compile(r"(What|Whatever|Whether|That|Those|How|Where|Why|Who|Whose|Which|When) ")


def riddles(text: str) -> Iterator[str]:
    """Yield the line number and the summary of each docstring that begins like an indirect question."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            summary = node.value.value.strip().partition("\n")[0]
            if INDIRECT.match(summary):
                yield f"{node.lineno}: {summary}"


@pytest.mark.parametrize("package", PACKAGES)
def test_summaries_are_statements(package: str) -> None:
    paths = sorted((ROOT / package).rglob("*.py"))
    assert paths, "nothing was read"
    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in riddles(path.read_text(encoding="utf-8"))]
    assert not found, "say what it does, gives or holds (CONTRIBUTING.md):\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        '"""What a module is for."""',
        'def f():\n    """Whether it writes."""',
        'class A:\n    """Those that stay."""',
        'SIZE = 3\n"""How many there are."""',
        'class A:\n    size: int\n    """That of the root."""',
        'def f():\n    r"""\n    Where it is.\n    """',
    ],
)
def test_an_indirect_question_is_found(text: str) -> None:
    assert len(list(riddles(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """Return True if it writes."""',
        'def f(pattern):\n    """Build a Where.\n\n    Where PyTorch has none, this stays.\n    """',
        'SIZE = "What is a value, and no docstring"',
        'def f():\n    """Whatever_is_one_word_stays."""',
    ],
)
def test_a_statement_is_left_alone(text: str) -> None:
    assert not list(riddles(text))
