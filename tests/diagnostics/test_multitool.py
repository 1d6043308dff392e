"""Microsoft's validator on our log: no error, no warning. It comes as a package of node's; see tests/node.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fxport.diagnostics import Log
from fxport.diagnostics.sarif import PROFILES, About, write_sarif
from tests.diagnostics.sarif_checks import breaches, strict
from tests.diagnostics.test_sarif_gate import CONTROLS
from tests.node import module, requires

EXECUTABLE = "@microsoft/sarif-multitool-linux/Sarif.Multitool"
# SARIF2006 opens the URLs of a log.
OFFLINE = (
    '<Properties><Properties Key="SARIF2006.UrisShouldBeReachable.Options"><Property Key="RuleEnabled" '
    'Value="Disabled" Type="Driver.RuleEnabledState" /></Properties></Properties>'
)
pytestmark = requires(EXECUTABLE)


def run(*arguments: str) -> str:
    tool = module(EXECUTABLE)
    assert tool is not None
    tool.chmod(0o755)  # npm unpacks it without
    done = subprocess.run([str(tool), *arguments], capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def complaints(log: Path) -> list[str]:
    """Errors and warnings: `validate` itself always exits with 0."""
    config, report = log.with_suffix(".xml"), log.with_suffix(".report")
    config.write_text(OFFLINE, encoding="utf-8")
    levels = ("--rule-kind", "Sarif;Ghas", "--level", "Error;Warning;Note")
    run("validate", str(log), "-c", str(config), *levels, "--log", "ForceOverwrite", "-o", str(report))
    results = json.loads(report.read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    return [f"{r['ruleId']} {r['message']}" for r in results if r.get("level", "warning") in ("error", "warning")]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_validator_has_nothing_to_say(profile: str, log: Log, tmp_path: Path) -> None:
    assert complaints(write_sarif(log, tmp_path / "log.sarif", profile=profile, about=About("bert", "ci"))) == []


def gate(file: Path) -> list[str]:
    """What our own checks and the validator find in a log; neither is enough alone."""
    try:
        own = list(breaches(strict(file.read_text(encoding="utf-8"))))
    except (ValueError, KeyError) as error:
        own = [str(error)]
    return [*own, *complaints(file)]


@pytest.mark.parametrize(
    "name", ["an enum typo", "suppressions.state", "line 0", "an extra property", "another rule's index", "NaN"]
)
def test_a_planted_fault_is_red(name: str, log: Log, tmp_path: Path) -> None:
    file = write_sarif(log, tmp_path / "log.sarif")  # of which the validator has nothing to say: above
    document = json.loads(file.read_text(encoding="utf-8"))
    if name == "NaN":
        document["runs"][0]["results"][0]["properties"] = {"ratio": float("nan")}
    else:
        CONTROLS[name](document["runs"][0])
    file.write_text(json.dumps(document), encoding="utf-8")
    assert gate(file)


def test_a_planted_fault_is_red_to_the_validator_alone(log: Log, tmp_path: Path) -> None:
    file = write_sarif(log, tmp_path / "log.sarif")
    document = json.loads(file.read_text(encoding="utf-8"))
    document["runs"][0]["results"][0]["ruleIndex"] = 99
    file.write_text(json.dumps(document), encoding="utf-8")
    assert complaints(file)


def test_a_moved_line_is_the_same_result(log: Log, tmp_path: Path, model_file: str) -> None:
    old = write_sarif(log, tmp_path / "old.sarif")
    source = Path(model_file).read_text(encoding="utf-8")
    document = json.loads(old.read_text(encoding="utf-8").replace('"startLine": 6', '"startLine": 9'))
    new = tmp_path / "new.sarif"
    new.write_text(json.dumps(document), encoding="utf-8")
    Path(model_file).write_text("\n\n\n" + source, encoding="utf-8")
    merged = tmp_path / "merged.sarif"
    run("match-results-forward", str(new), "-r", str(old), "-o", str(merged), "--log", "ForceOverwrite")
    results = json.loads(merged.read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    assert results
    assert "new" not in {result["baselineState"] for result in results}
