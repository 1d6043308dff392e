"""Negative controls: the gate is red where it must be; and files that are no log of ours are a clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fxport.diagnostics import Log
from fxport.diagnostics.sarif import as_text, read_sarif, to_sarif, write_sarif
from fxport.diagnostics.sarif.objects import SarifError, from_dict, om, to_dict
from tests.diagnostics.sarif_checks import breaches, strict


def planted(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], list[str]]:
    def run(document: dict[str, Any]) -> list[str]:
        broken = deepcopy(document)
        change(broken["runs"][0])
        return list(breaches(broken))

    return run


CONTROLS = {
    "an enum typo": lambda run: run["results"][0].update(level="eror"),
    "suppressions.state": lambda run: [
        r.update(suppressions=[{"kind": "inSource", "state": "accepted"}]) for r in run["results"]
    ],
    "line 0": lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
    "an extra property": lambda run: run.update(colour="red"),
    "a result nowhere": lambda run: run["results"][0].update(locations=[{"message": {"text": "x"}}]),
    "kind pass with a level": lambda run: run["results"][0].update(kind="pass"),
    "half the baseline": lambda run: run["results"][0].update(baselineState="new"),
    "half the suppressions": lambda run: run["results"][0].update(suppressions=[]),
    "a URI with blanks": lambda run: run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"].update(
        uri="a b"
    ),
    "a root without its slash": lambda run: run["originalUriBaseIds"]["SRCROOT"].update(uri="file:///x"),
    "no columnKind": lambda run: run.pop("columnKind"),
    "another rule's index": lambda run: run["results"][0].update(ruleIndex=1),
    "markdown in a message": lambda run: run["results"][0]["message"].update(markdown="x"),
    "arguments of another text": lambda run: run["results"][0]["message"].update(arguments=["x", "y"]),
    "a rank": lambda run: run["results"][0].update(rank=3.0),
    "a guid twice": lambda run: run["results"][0].update(guid=run["results"][1]["guid"]),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_planted_fault_is_red(name: str, log: Log) -> None:
    document = strict(as_text(to_sarif(log)))
    try:
        found = planted(CONTROLS[name])(document)
    except KeyError:
        found = ["the key is gone"]
    assert found


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": Infinity}', '{"a": 1, "a": 2}'])
def test_loose_json_is_red(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|twice"):
        strict(text)


def test_the_serializer_refuses_what_the_schema_refuses() -> None:
    with pytest.raises(SarifError, match=r"\$\.message: required by Result"):
        to_dict(om.Result(message=None))
    wrong = om.Result(message=om.Message(text="x"))
    wrong.levle = "error"
    with pytest.raises(SarifError, match=r"\$: Result has no levle"):
        to_dict(wrong)
    with pytest.raises(SarifError, match=r"\$\.runs\[0\]\.tool\.driver: ToolComponent has no nmae"):
        from_dict({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x", "nmae": "y"}}}]})


def test_the_serializer_mends_the_misnamed_field() -> None:
    assert to_dict(om.Suppression(kind="external", state="accepted")) == {"kind": "external", "status": "accepted"}


# Bad input


def log_of(**run: object) -> str:
    tool = {"driver": {"name": "fxport"}}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": tool, **run}]})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "more than 64 levels deep"),
        ('{"version": NaN}', "NaN is not JSON"),
        ("[]", "an object is expected"),
        ("{}", "required by SarifLog"),
        ('{"version": "2.1.0", "runs": 3}', "an object is expected"),
        ('{"version": "2.0.0", "runs": []}', "'2.1.0' is expected"),
        ('{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "pylint"}}}]}', "not of 'pylint'"),
        (log_of(results=[{"message": {"text": "x"}, "level": "bad"}]), r"results\[0\]"),
        (log_of(results=[{"message": {"text": "x"}, "locations": [{}]}]), r"results\[0\]"),
        (log_of(results=[{"message": {"text": "x"}, "properties": {"suggestions": [1]}}]), r"results\[0\]"),
    ],
)
def test_what_is_no_log_of_ours_is_a_clear_error(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "old.sarif"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SarifError, match=says) as raised:
        read_sarif(file)
    assert str(raised.value).startswith(str(file))
    assert "\n" not in str(raised.value)


def test_a_truncated_a_binary_and_a_huge_file(log: Log, tmp_path: Path) -> None:
    file = write_sarif(log, tmp_path / "log.sarif")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(SarifError, match="not JSON"):
        read_sarif(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SarifError, match="not JSON"):
        read_sarif(file)
    with file.open("wb") as huge:
        huge.truncate(200 * 2**20)
    with pytest.raises(SarifError, match="64 MB are too much"):
        read_sarif(file)
    with pytest.raises(OSError, match="no ordinary file"):
        read_sarif("/dev/zero")
    with pytest.raises(FileNotFoundError):
        read_sarif(tmp_path / "absent.sarif")
