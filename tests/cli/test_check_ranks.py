"""`fxport check` and `pytest --fxport` on models that several ranks hold: a process for each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from fxport.exporter.checks.pool import Worker
from fxport.exporter.cli import main
from tests.plugin import PLUGIN

NETS = """
import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def group():
    dist.init_process_group("gloo")
    torch.manual_seed(0)


def sharded():
    group()
    return fully_shard(torch.nn.Linear(4, 3).eval()), (torch.ones(2, 4),)


def apart():
    group()
    return fully_shard(torch.nn.Linear(4, 3 + dist.get_rank()).eval()), (torch.ones(2, 4),)


def lonely():
    group()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    return fully_shard(torch.nn.Linear(4, 3).eval()), (torch.ones(2, 4),)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    rows = (
        f'[[model]]\nname = "{name}"\nsource = "nets.py:{name}"\nranks = 2\n' for name in ("sharded", "apart", "lonely")
    )
    (tmp_path / "fxport.toml").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.timeout(300)
def test_each_row_has_its_process_group(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started, start = [], Worker._start
    monkeypatch.setattr(Worker, "_start", lambda self: (started.append(self), start(self))[1])
    assert main(["check", "--format", "json", "--no-cache", "--jobs", "1"]) == 1
    found = [(each["rule"], each["message"]) for each in json.loads(capsys.readouterr().out)["findings"]]
    assert [rule for rule, _ in found] == ["FXP1020", "FXP9003"], found
    assert "rank 1: its process was killed by SIGKILL" in found[1][1]
    assert len(started) == 2  # a worker for each rank, kept from row to row
    models = project / ".fxport" / "models"
    assert [path.name for path in models.iterdir()] == ["sharded.onnx"]
    graph = onnx.load(models / "sharded.onnx").graph
    assert sorted(list(weight.dims) for weight in graph.initializer) == [[3], [3, 4]]


@pytest.mark.timeout(300)
def test_a_row_of_a_manifest_in_pytest(project: Path) -> None:
    manifest = project / "fxport.toml"
    manifest.write_text(manifest.read_text().partition("\n\n")[0])
    command = [sys.executable, "-m", "pytest", "-q", *PLUGIN, "-p", "no:cacheprovider"]
    ended = subprocess.run([*command, "--fxport", str(manifest)], capture_output=True, text=True, check=False)
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
