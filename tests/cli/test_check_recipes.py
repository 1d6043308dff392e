"""Recipes for CI: the action's steps outside of GitHub, the files for GitLab, pre-commit and VS Code, the docs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fxport.diagnostics import Log, Place, rules
from fxport.diagnostics.formats import RENDERERS, SARIF_FILE
from fxport.diagnostics.text import render
from fxport.exporter.checks.manifest import Choices, Manifest, Model
from fxport.exporter.checks.report_formats import REPORTS
from fxport.exporter.sources.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
MODELS = """\
import torch

def sound():
    return torch.nn.ReLU(), (torch.ones(2),)

def broken():
    raise RuntimeError("planted")
"""


def step(name: str) -> dict[str, Any]:
    return next(each for each in ACTION["runs"]["steps"] if each["name"] == name)


def run_step(name: str, folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """A step's script, as GitHub runs it: inputs that are not given have their defaults."""
    values = {key: str(each.get("default", "")) for key, each in ACTION["inputs"].items()} | given
    environment = {
        variable: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], expression)
        for variable, expression in step(name)["env"].items()
    }
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step(name)["run"]],
        cwd=folder,
        env={**os.environ, **files, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    tables = (f'[[model]]\nname = "{name}"\nsource = "models.py:{name}"\n' for name in ("sound", "broken"))
    (tmp_path / "fxport.toml").write_text("\n".join(tables))
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for bash")
def test_the_actions_check_annotates_summarizes_and_goes_on(project: Path) -> None:
    done = run_step("Check", project, jobs="1", models="sound broken")
    assert done.returncode == 0, done.stderr
    assert "::error file=" in done.stdout or "::error title=" in done.stdout
    outputs = dict(line.split("=", 1) for line in (project / "GITHUB_OUTPUT").read_text().splitlines())
    assert outputs["exit-code"] == "1"
    files = {RENDERERS[form].file for form in REPORTS} | {SARIF_FILE}
    assert {path.name for path in Path(outputs["report"]).iterdir()} == files
    assert "1 passed, 1 not checked" in (project / "GITHUB_STEP_SUMMARY").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for bash")
def test_the_other_steps(project: Path) -> None:
    assert run_step("Install fxport", project, package="").returncode == 0
    wrong = run_step("Check", project, manifest="nothing.toml")
    assert (wrong.returncode, (project / "GITHUB_OUTPUT").read_text().splitlines()[0]) == (0, "exit-code=2")
    for code in (0, 1, 3):
        verdict = step("Verdict")["run"].replace("$CODE", str(code))
        assert subprocess.run(["bash", "-c", verdict], check=False).returncode == code


def test_scripts_take_inputs_from_the_environment_only() -> None:
    scripts = [each["run"] for each in ACTION["runs"]["steps"] if "run" in each]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script], "an input in a script is code"
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])


def test_gitlab_and_pre_commit_name_real_options_and_files() -> None:
    job = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab-ci.yml").read_text(encoding="utf-8"))["fxport"]
    assert job["script"] == ["fxport check --report .fxport/report"]
    assert {Path(path).name for path in job["artifacts"]["reports"].values()} == {"junit.xml", "codequality.json"}
    hooks = yaml.safe_load((ROOT / "docs" / "ci" / "pre-commit-config.yaml").read_text(encoding="utf-8"))
    (hook,) = hooks["repos"][0]["hooks"]
    assert (hook["entry"], hook["pass_filenames"]) == ("fxport check", False)
    assert re.search(hook["files"], "models/encoder.py")
    assert not re.search(hook["files"], "notes.txt")


def test_the_problem_matcher_reads_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("a\nb = c(d)\n")
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, at=Place(str(tmp_path / "m.py"), 2, call="c"), op="aten.foo.default")
    task = json.loads((ROOT / "docs" / "ci" / "vscode-tasks.json").read_text(encoding="utf-8"))["tasks"][0]
    first, second = (re.compile(each["regexp"]) for each in task["problemMatcher"]["pattern"])
    lines = render(log).splitlines()
    said, place = first.match(lines[0]), second.match(lines[1])
    assert said is not None
    assert place is not None
    assert said.groups() == ("error", "FXP3001", "No ONNX lowering for 'aten.foo.default'.")
    assert (Path(place[1]).name, place[2], place[3]) == ("m.py", "2", "5")


def test_the_page_explains_every_key_and_file() -> None:
    keys = {*Model.model_fields, *Choices.model_fields}
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    table = set(re.findall(r"`(\w+)`", "".join(cells)))
    assert keys <= table, keys - table
    assert {RENDERERS[form].file for form in REPORTS} | {SARIF_FILE} <= set(re.findall(r"`([\w.]+)`", PAGE))


def test_the_blocks_of_the_page_work() -> None:
    blocks = re.findall(r"^```(\w+)\n(.+?)^```", PAGE, re.M | re.S)
    manifest, project = [tomllib.loads(text) for kind, text in blocks if kind == "toml"]
    assert [model.name for model in Manifest.model_validate(manifest).model] == ["encoder"]
    assert Settings.model_validate(project["tool"]["fxport"]).model_fields_set == Settings.model_fields.keys()
    (steps,) = [yaml.safe_load(text)["steps"] for kind, text in blocks if kind == "yaml"]
    assert set(steps[-1]["with"]) <= set(ACTION["inputs"])
    (test,) = [text for kind, text in blocks if kind == "python"]
    assert "def test_encoder(onnx_check)" in test
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]
    assert not [link for link in links if not (ROOT / "docs" / link).exists()]
