"""THE table of rules: ids, messages, pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fxport.diagnostics import Rule, rule_pages, rules, validation_rules

RULES = sorted(rules.RULES.values(), key=lambda rule: rule.id)
HEADINGS = ["What it means", "Why", "Example", "What to do"]
MODULE = Path(rules.__file__)


def test_no_id_and_no_name_is_given_twice() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (MODULE, Path(validation_rules.__file__))]
    made = [
        [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule"
    ]
    assert len({rule_id for rule_id, _ in made}) == len({name for _, name in made}) == len(made) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_well_named(rule: Rule) -> None:
    assert re.fullmatch(r"FXP[1-9]\d{3}", rule.id)
    assert re.fullmatch(r"([A-Z][a-z]+)+", rule.name)
    constants = [name for name, value in vars(rules).items() if value is rule]
    assert constants == [re.sub(r"(?<!^)(?=[A-Z])", "_", rule.name).upper()]
    assert rules.stage(rule)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_message_keeps_the_rules_of_messages(rule: Rule) -> None:
    first = re.split(r"(?<=\.) ", rule.message)[0]
    assert rule.message.endswith(".")
    assert len(first) <= 100
    assert not first.startswith(rule.id)
    assert re.sub(r"'[^']*'", "", first).count("{") == 0, "dynamic parts of the first sentence stand in quotes"
    assert ":" not in re.findall(r"\{[^}]*\}", first), "no number in the first sentence"
    assert "\n" not in rule.message


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_says_what_why_and_what_to_do(rule: Rule) -> None:
    page = rule_pages.page(rule)
    assert page.startswith(f"# {rule.id} {rule.name}\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    for heading in HEADINGS:
        assert len(rule_pages.section(rule, heading)) > 20, heading
    assert rule_pages.hint(rule).endswith(".")
    assert "\n" not in rule_pages.hint(rule)
    assert len(rule_pages.hint(rule)) <= 160
    assert page.count("```") % 2 == 0


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_python_of_a_page_is_python(rule: Rule) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", rule_pages.page(rule), re.MULTILINE | re.DOTALL):
        ast.parse(block)


def test_every_page_belongs_to_a_rule() -> None:
    pages = {file.name for file in (MODULE.parent / "pages").iterdir()}
    assert pages == {rule_pages.page_name(rule) for rule in RULES}


def test_a_page_is_found_by_id_and_name() -> None:
    assert rule_pages.page_name(rules.DIMENSION_RANGE_NARROWED) == "FXP2002-dimension-range-narrowed.md"
    assert rule_pages.help_uri(rules.NO_ONNX_LOWERING) == "https://fxport.readthedocs.io/rules/FXP3001"
