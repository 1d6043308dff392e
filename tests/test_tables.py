"""Every row of a table has what belongs to it: a rule its page and its use, a lowering its case, a pass its golden.

The checks are functions from plain values to complaints, so that the same function is run on planted gaps.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch._ops import HigherOrderOperator

import tests.cases.ops
from fxport.diagnostics import rule_pages, rules
from fxport.diagnostics.model import Rule
from fxport.exporter import cli
from fxport.exporter.capture import patches
from fxport.exporter.capture.control_flow.found_places import FINDING
from fxport.exporter.capture.patches import data_calls, sized_calls, sized_factories, sized_transforms, sized_windows
from fxport.exporter.capture.sizes.held import HELD
from fxport.exporter.lowering import lowerings
from fxport.exporter.lowering.lower.registry import registered
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.fx_passes import decompositions, passes, pipeline
from fxport.fx_passes.base import FxPass
from tests import operators

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
CONTROL_FLOW = "tests/exporter/test_control_flow.py"
HEADINGS = ("What it means", "Why", "Example", "What to do")
SHORTEST_SECTION = 20


def page_gaps(rule: Rule, page: str | None) -> list[str]:
    """What the page of a rule lacks: itself, its id, or one of the sections, in their order and filled."""
    if page is None:
        return [f"{rule.id} has no page {rule_pages.page_name(rule)}"]
    gaps = [] if rule.id in page.partition("\n")[0] else [f"the first line of {rule.id}'s page does not name it"]
    _, *sections = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    found = dict(zip(sections[::2], sections[1::2], strict=True))
    in_order = [title for title in found if title in HEADINGS]
    if in_order != list(HEADINGS):
        gaps.append(f"{rule.id}'s page has the sections {in_order}, not {list(HEADINGS)}")
    empty = [title for title in in_order if len(found[title].strip()) < SHORTEST_SECTION]
    return gaps + [f"{rule.id}'s page says nothing under '{title}'" for title in empty]


def words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", text)}


def unused(constants: Iterable[str], texts: Iterable[str], where: str) -> list[str]:
    """Names of rules that no text mentions as a whole word."""
    words = words_of(texts)
    return [f"{name} is never mentioned in {where}" for name in constants if name not in words]


def row_gaps(lowered: Mapping[Any, Collection[Any]], tried: Collection[Any]) -> list[str]:
    """Lowered targets that no row of tests/cases/ops calls; the values are all targets of the same lowering.

    A `prims` target, which only decompositions bring, is tried with an ATen target of the same lowering.
    """
    twins = {
        target: [target, *each] if str(target).startswith("prims.") else [target] for target, each in lowered.items()
    }
    untried = [target for target, each in twins.items() if not set(each) & set(tried)]
    return [f"{target} has a lowering but no row in tests/cases/ops" for target in untried]


def control_flow_gaps(lowered: Iterable[HigherOrderOperator], text: str) -> list[str]:
    """Higher-order operators that the tests of control flow never name, with or without torch's `_impl`."""
    words = set(re.findall(r"\w+", text))
    untried = [op.name() for op in lowered if not {op.name(), op.name().removesuffix("_impl")} & words]
    return [f"{name} has a lowering but no test in {CONTROL_FLOW}" for name in untried]


def schema_gaps(name: str, document: str | None, targets: Collection[Any]) -> list[str]:
    """A lowering whose first docstring line is not the ATen schema of one of its targets."""
    schemas = [str(target._schema) for target in targets if not isinstance(target, HigherOrderOperator)]
    if not schemas:
        return []
    first = (document or "").strip().partition("\n")[0]
    try:
        said = str(torch._C.parse_schema(first if "::" in first else f"aten::{first}"))
    except RuntimeError:
        return [f"{name}: the first line of its docstring is no ATen schema: '{first}'"]
    plain = {unspaced(schema) for schema in schemas}
    return [] if unspaced(said) in plain else [f"{name}: '{said}' is the schema of none of {sorted(schemas)}"]


STORAGE = re.compile(
    r",(Layout\??layout|Device\??device|bool\??pin_memory|MemoryFormat\??memory_format|Generator\??generator)(=None)?"
)
"""Arguments that no lowering is given; a docstring may leave them out of the schema."""


def unspaced(schema: str) -> str:
    """A schema without its namespace, alias annotations and storage arguments, none of which says anything to ONNX."""
    plain = re.sub(r"\([a-z*]!?(\s*->\s*[a-z*|]+)?\)", "", schema.partition("::")[2]).replace(" ", "")
    return STORAGE.sub("", plain).replace(",*)", ")")


def pass_gaps(declared: Mapping[str, object], placed: Collection[object], goldens: Collection[str]) -> list[str]:
    """Passes that stand in no pipeline, or whose effect no golden `<pass>….fx.txt` shows."""
    lost = [f"{name} is in no pipeline" for name, each in declared.items() if each not in placed]
    unseen = [
        name for name in declared if not any(file.startswith(name) and file.endswith(".fx.txt") for file in goldens)
    ]
    return lost + [f"{name} has no golden tests/golden/{name}.fx.txt" for name in unseen]


def command_gaps(table: Collection[str], modules: Mapping[str, ModuleType]) -> list[str]:
    """Modules of the command line with a `command` that the table does not list, or the reverse."""
    able = {name.replace("_", "-") for name, module in modules.items() if hasattr(module, "command")}
    unlisted = [f"exporter/cli/{name}.py has a command that COMMANDS does not list" for name in able - set(table)]
    return unlisted + [f"COMMANDS lists '{name}', which has no command" for name in set(table) - able]


def modules_in(package: ModuleType) -> dict[str, ModuleType]:
    """The modules of a package by their short names."""
    names = [info.name for info in pkgutil.iter_modules(package.__path__) if info.name != "__main__"]
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def texts(folders: Iterable[str], *without: str) -> list[str]:
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return [file.read_text(encoding="utf-8") for file in files if str(file.relative_to(ROOT)) not in without]


CONSTANTS = {name: value for name, value in vars(rules).items() if isinstance(value, Rule)}


def test_every_rule_has_a_page() -> None:
    folder = ROOT / "diagnostics" / "pages"
    pages = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.md")}
    named = {rule_pages.page_name(rule): rule for rule in CONSTANTS.values()}
    gaps = [gap for name, rule in named.items() for gap in page_gaps(rule, pages.get(name))]
    strays = [f"{name} is the page of no rule" for name in set(pages) - set(named)]
    assert not gaps + strays, "\n".join(gaps + strays)


def test_every_rule_is_reported_somewhere_and_tested() -> None:
    packages = ("diagnostics", "fx_passes", "exporter", "ort_runner")
    gaps = unused(CONSTANTS, texts(packages, "diagnostics/rules.py", "diagnostics/validation_rules.py"), "the packages")
    tested = words_of(texts(["tests"], "tests/test_tables.py"))
    untested = [name for name, rule in CONSTANTS.items() if not {name, rule.id, rule.name} & tested]
    gaps += [f"{name} is mentioned in no test" for name in untested]
    assert not gaps, "\n".join(gaps)


def test_every_lowering_has_a_row() -> None:
    cases = [case for module in modules_in(tests.cases.ops).values() for case in module.CASES]
    lowered = registered(LOWERINGS)  # the rows, imported above, register the ops that are declared by name
    control_flow = [target for target in lowered if isinstance(target, HigherOrderOperator)]
    overloads = {target: entry.targets for target, entry in lowered.items() if target not in control_flow}
    gaps = row_gaps(overloads, {case.target for case in cases})
    gaps += control_flow_gaps(control_flow, (ROOT / CONTROL_FLOW).read_text(encoding="utf-8"))
    assert not gaps, "\n".join(gaps)


def test_rows_stand_in_the_family_of_their_lowering_decomposition_or_rewritten_call() -> None:
    families = {
        *modules_in(lowerings),
        *modules_in(decompositions),
        *modules_in(patches),
    }
    tried = set(modules_in(tests.cases.ops))
    assert tried <= families, f"rows for nothing that stands in a file of that name: {sorted(tried - families)}"


def test_every_lowering_begins_with_its_schema() -> None:
    modules_in(tests.cases.ops)
    unique = {id(entry): entry for entry in registered(LOWERINGS).values()}.values()
    gaps = [gap for entry in unique for gap in schema_gaps(entry.name, entry.__doc__, entry.targets)]
    assert not gaps, "\n".join(gaps)


def test_every_operator_is_on_its_page() -> None:
    assert operators.is_current(), operators.FIX


def test_every_pass_is_placed_and_shown() -> None:
    modules = modules_in(passes).values()
    declared = {each.name: each for module in modules for each in vars(module).values() if isinstance(each, FxPass)}
    pipelines = [value for value in vars(pipeline).values() if isinstance(value, tuple)]
    placed = [each for pipeline in pipelines for each in pipeline]
    gaps = pass_gaps(declared, placed, [file.name for file in GOLDEN.glob("*")])
    assert not gaps, "\n".join(gaps)


def test_every_subcommand_is_in_the_table() -> None:
    gaps = command_gaps(cli.COMMANDS, modules_in(cli))
    assert not gaps, "\n".join(gaps)


def test_ci_runs_the_second_command_of_the_readme() -> None:
    blocks = re.findall(r"^```\w*\n(.+?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 2, "README.md has fewer than two code blocks"
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    places = [text.find(f"\n{part}") for part in blocks[1].strip().split(" && ")]
    assert -1 not in places
    assert places == sorted(places)


aten = torch.ops.aten
SOME_RULE = Rule("FXP3001", "NoOnnxLowering", rules.ERROR, "No ONNX lowering for '{op}'.")
FULL_PAGE = "# FXP3001 NoOnnxLowering\n" + "".join(
    f"## {title}\nA sentence that says something.\n" for title in HEADINGS
)
GELU = 'gelu(Tensor self, *, str approximate="none") -> Tensor'


@pytest.mark.parametrize(
    "gaps",
    [
        page_gaps(SOME_RULE, None),
        page_gaps(SOME_RULE, FULL_PAGE.replace("FXP3001", "FXP3002")),
        page_gaps(SOME_RULE, FULL_PAGE.replace("## Why", "## Wherefore")),
        page_gaps(SOME_RULE, FULL_PAGE.replace("## Example\nA sentence that says something.", "## Example\n")),
        unused(["FUSION_MISSED"], ["rules.FUSION_MISSED_TWICE", "x"], "the packages"),
        row_gaps({aten.gelu.default: [aten.gelu.default, aten.relu.default]}, {aten.relu.default}),
        row_gaps({torch.ops.prims.sin.default: [torch.ops.prims.sin.default]}, {aten.sin.default}),
        control_flow_gaps([torch.ops.higher_order.scan], "scanned = associative_scan(x)"),
        schema_gaps("gelu", None, [aten.gelu.default]),
        schema_gaps("gelu", "Gaussian error linear unit.", [aten.gelu.default]),
        schema_gaps("gelu", GELU.replace('"none"', '"tanh"'), [aten.gelu.default]),
        schema_gaps("gelu", GELU, [aten.relu.default]),
        pass_gaps({"drop_copies": 1}, [], ["drop_copies.fx.txt"]),
        pass_gaps({"drop_copies": 1}, [1], ["drop_copies.onnx.txt", "fold.fx.txt"]),
        command_gaps(["export"], {}),
        command_gaps([], {"cli": cli} | {"rules": importlib.import_module("fxport.exporter.cli.rules")}),
    ],
)
def test_a_planted_gap_is_told(gaps: list[str]) -> None:
    assert len(gaps) == 1


@pytest.mark.parametrize(
    "gaps",
    [
        page_gaps(SOME_RULE, FULL_PAGE),
        unused(["FUSION_MISSED"], ["log.report(rules.FUSION_MISSED)"], "the packages"),
        row_gaps({aten.gelu.default: [aten.gelu.default]}, {aten.gelu.default}),
        control_flow_gaps([torch.ops.higher_order.scan], "scan(body, init, x)"),
        row_gaps({torch.ops.prims.sin.default: [torch.ops.prims.sin.default, aten.sin.default]}, {aten.sin.default}),
        schema_gaps("gelu", f"{GELU}\n\n    More.", [aten.relu.default, aten.gelu.default]),
        schema_gaps("cond", "If: each branch is lowered in place.", [torch.ops.higher_order.cond]),
        pass_gaps({"drop_copies": 1}, [1], ["drop_copies-view.fx.txt"]),
        command_gaps(["rules"], {"rules": importlib.import_module("fxport.exporter.cli.rules")}),
    ],
)
def test_what_is_complete_is_not_told(gaps: list[str]) -> None:
    assert gaps == []


def test_no_call_is_replaced_by_two_tables() -> None:
    modules = (data_calls, sized_calls, sized_factories, sized_transforms, sized_windows)
    tables = {"held": HELD, "found_places": FINDING, **{each.__name__: each.REWRITES for each in modules}}
    owners: dict[Any, list[str]] = {}
    for name, table in tables.items():
        for call in table:
            owners.setdefault(call, []).append(name)
    assert {call: names for call, names in owners.items() if len(names) > 1} == {}
