"""`fxport check` from the command line to the files, with models that crash, hang, and take all memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fxport.exporter.cli import main

MODELS = """\
import os, resource, signal, subprocess, sys, time
import numpy, torch
from torch import nn
from parts import Bent, Scale

def sound():
    print("noise on standard output")
    return Scale(2.0), (torch.ones(2, 3),), {}, {"x": {0: "rows"}}

def weighted():
    return Scale(float(numpy.load("scale.npy"))), (torch.ones(2, 3),)

def bent():
    return Bent(), (torch.randn(3, 3),)

def crash():
    os.kill(os.getpid(), signal.SIGSEGV)

def orphan():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)

def hang():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("child.pid", "w").write(str(child.pid))
    time.sleep(600)

def huge():
    return nn.Linear(50_000, 100_000), (torch.ones(2, 50_000),)  # 20 GB

def quits():
    sys.exit("enough")
"""
PARTS = """\
import torch
from torch import nn

class Scale(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))

    def forward(self, x):
        return x * self.by

class Bent(nn.Module):
    def forward(self, x):
        return x.to_sparse() @ x
"""
FULL = """\
import resource, torch
def full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    return torch.nn.Linear(100, 100), (torch.ones(2, 100),)
"""
OTHER = """\
import torch
def other():
    return torch.nn.Linear(3, 4).eval(), (torch.ones(2, 3),)
"""
NAMES = ("sound", "weighted", "bent", "crash", "orphan", "hang", "huge", "quits")
MANIFEST = "[defaults]\ntime_limit = 300\n" + "".join(
    f'\n[[model]]\nname = "{name}"\nsource = "{"models" if name in NAMES else name}.py:{name}"\n'
    for name in (*NAMES, "full", "other")
)
MANIFEST = MANIFEST.replace('"hang"\n', '"hang"\ntime_limit = 3\n').replace('"huge"\n', '"huge"\nmemory = "6 GB"\n')
MANIFEST = MANIFEST.replace('"other"\n', '"other"\nopset = [18, 23]\nbudget = { latency = 1000 }\n')
DEAD = {"crash", "orphan", "hang", "huge", "quits", "full"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills processes as Linux does")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "models.py").write_text(MODELS)
    (folder / "parts.py").write_text(PARTS)
    (folder / "full.py").write_text(FULL)
    (folder / "other.py").write_text(OTHER)
    (folder / "fxport.toml").write_text(MANIFEST)
    set_scale(folder, 2.0)
    return folder


def set_scale(folder: Path, value: float) -> None:
    import numpy

    numpy.save(folder / "scale.npy", numpy.float32(value))


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fxport", "check", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def verdicts(said: str) -> dict[str, tuple[str, bool]]:
    """Row → verdict and whether it is told as from the cache, from the lines of the progress."""
    lines = [line.split("] ")[1] for line in said.splitlines() if line.startswith("[")]
    rows = [line.split(": ", 1) for line in lines]
    return {name: (rest.split(",")[0], rest.endswith("from cache")) for name, rest in rows}


@pytest.fixture(scope="module")
def first(project: Path) -> subprocess.CompletedProcess[str]:
    return check(project, "--jobs", "2", "--sarif", "all.sarif")


def test_each_death_costs_one_row(project: Path, first: subprocess.CompletedProcess[str]) -> None:
    assert first.returncode == 1, first.stderr
    rows = {name: verdict for name, (verdict, _) in verdicts(first.stderr).items()}
    fine = {"sound": "passed", "weighted": "passed", "other-opset18": "passed", "other-opset23": "passed"}
    assert rows == {**fine, "bent": "failed", **dict.fromkeys(DEAD, "not checked")}
    for reason in (
        "killed by SIGSEGV",
        "killed by SIGKILL",
        "not done within 3 seconds",
        "more memory than it may",
        "SystemExit",
        "cannot be written: File too large",
    ):
        assert reason in first.stdout
    assert "4 passed, 1 failed, 6 not checked" in first.stdout
    assert "noise" not in first.stdout


def test_nothing_is_left_behind(project: Path, first: subprocess.CompletedProcess[str]) -> None:
    models = {path.name for path in (project / ".fxport" / "models").iterdir()}
    assert models == {"sound.onnx", "weighted.onnx", "other-opset18.onnx", "other-opset23.onnx"}
    assert (project / ".fxport" / ".gitignore").read_text() == "*\n"
    child = int((project / "child.pid").read_text())
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z", "what a hanging model started still runs"


def test_a_run_of_sarif_for_each_row(project: Path, first: subprocess.CompletedProcess[str]) -> None:
    runs = json.loads((project / "all.sarif").read_text())["runs"]
    found = {run["automationDetails"]["id"]: [result["ruleId"] for result in run["results"]] for run in runs}
    assert found["fxport/bent/check"] == ["FXP3001"]
    assert found["fxport/crash/check"] == ["FXP9003"]
    for model, text in (("crash", "    os.kill(os.getpid(), signal.SIGSEGV)"), ("hang", "    time.sleep(600)")):
        (dead,) = (run["results"][0] for run in runs if run["automationDetails"]["id"] == f"fxport/{model}/check")
        at = dead["locations"][0]["physicalLocation"]["region"]
        assert (project / "models.py").read_text().splitlines()[at["startLine"] - 1] == text
    assert found["fxport/sound/check"] == []
    (bent,) = (run["results"][0] for run in runs if run["automationDetails"]["id"] == "fxport/bent/check")
    place = bent["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("parts.py", 14)


def test_what_has_not_changed_is_not_run_again(project: Path, first: subprocess.CompletedProcess[str]) -> None:
    again = check(project, "sound", "weighted", "bent", "other")
    assert verdicts(again.stderr) == {
        "sound": ("passed", True),
        "weighted": ("passed", True),
        "bent": ("failed", True),
        "other-opset18": ("passed", True),
        "other-opset23": ("passed", True),
    }
    assert again.returncode == 1
    assert "4 passed, 1 failed (5 from the cache)" in again.stdout


def test_only_what_has_changed_is_run_again(project: Path, first: subprocess.CompletedProcess[str]) -> None:
    (project / "other.py").write_text(OTHER.replace("(3, 4)", "(3, 5)"))
    set_scale(project, 3.0)
    rows = verdicts(check(project, "sound", "weighted", "other", "--jobs", "1").stderr)
    assert {name for name, (_, unchanged) in rows.items() if unchanged} == {"sound"}


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_all_and_shows_what_is_known(project: Path, first: subprocess.CompletedProcess[str]) -> None:
    (project / "child.pid").unlink(missing_ok=True)
    text = MANIFEST.replace("time_limit = 3\n", "time_limit = 500\n")
    (project / "long.toml").write_text(text)
    command = [sys.executable, "-m", "fxport", "check", "--manifest", "long.toml", "--no-cache", "sound", "hang"]
    with subprocess.Popen(
        command,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("[1/2] sound: passed")
        until = time.monotonic() + 120
        while not (project / "child.pid").exists() and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "fxport: interrupted" in err
    assert "1 passed" in out, err
    assert "from cache" not in out
    stat = Path(f"/proc/{(project / 'child.pid').read_text() or os.getpid()}/stat")
    until = time.monotonic() + 120
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < until, "what a hanging model started still runs"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["soun"], "There is no model 'soun' in the manifest. Did you mean 'sound'?"),
        (["--manifest", "nothing.toml"], "'nothing.toml' cannot be read"),
        (["--sarif", "models.py/x.sarif"], "is a file; name a folder"),
        (["--output", "models.py"], "is a file; name a folder"),
        (["--init"], "There is a fxport.toml already"),
    ],
)
def test_usage(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(project)
    assert main(["check", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_init_then_check_needs_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.py").write_text(OTHER.replace("():", "() -> torch.nn.Module:"))
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--init"]) == 0
    assert "fxport.toml: 1 model." in capsys.readouterr().out
    assert 'source = "other.py:other"' in (tmp_path / "fxport.toml").read_text()
