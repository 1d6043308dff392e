"""The sample repository `examples/ci`: the verdict of each model, and what one changed line does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ci"
VERDICTS = {
    "classifier": "passed",
    "detector": "expected",
    "encoder": "passed",
    "quantized": "passed",
    "custom": "passed",
    "decoder-step": "passed",
    "recurrent-opset18": "passed",
    "recurrent-opset23": "passed",
    "pinned": "expected",
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "ci"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns(".fxport", "__pycache__", "report"))
    return folder


def check(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, the rows of the JSON report, and what was printed."""
    command = [sys.executable, "-m", "fxport", "check", "--jobs", "2", "--report", "report", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads((folder / "report" / "report.json").read_text())["rows"], done.stdout


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_verdicts_then_one_changed_line(sample: Path) -> None:
    code, rows, said = check(sample)
    assert {row["id"]: row["verdict"] for row in rows} == VERDICTS, said
    assert code == 0
    states = {(row["id"], finding["rule"]): finding["baseline"] for row in rows for finding in row["findings"]}
    assert states == {("detector", "FXP3001"): "unchanged", ("pinned", "FXP2001"): "unchanged"}

    change(sample / "models" / "custom_onnx.py", "alpha=slope", "alpha=0.5")
    code, rows, said = check(sample)
    assert code == 1
    assert [row["id"] for row in rows if not row["unchanged"]] == ["custom"]
    assert {row["id"]: row["verdict"] for row in rows} == VERDICTS | {"custom": "failed"}
    new = [finding for row in rows for finding in row["findings"] if finding["baseline"] == "new"]
    assert [(finding["rule"], Path(finding["place"]["path"]).name) for finding in new] == [("FXP5002", "custom.py")]
    line = (sample / "models" / "custom.py").read_text().splitlines()[new[0]["place"]["line"] - 1]
    assert "leaky(self.linear(x), 0.125)" in line
    assert "8 from the cache" in said


def test_the_readme_names_each_model() -> None:
    text = (SAMPLE / "README.md").read_text(encoding="utf-8")
    table = {line.split("`")[1]: line.split("|")[3].strip() for line in text.splitlines() if line.startswith("| `")}
    assert table == {name.split("-opset")[0]: verdict for name, verdict in VERDICTS.items()}
