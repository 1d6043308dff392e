"""`fxport check --executor ray` on a real Ray of this machine: the same rows and files as by local processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fxport.exporter.cli import main

Output = pytest.CaptureFixture[str]

NETS = """
import os
import torch


class Branching(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def good():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3).eval(), (torch.ones(2, 4),)


def bad():
    return Branching(), (torch.ones(2, 4),)


def sharded():
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    return fully_shard(torch.nn.Linear(4, 3).eval()), (torch.ones(2, 4),)


def dies():
    os.kill(os.getpid(), 9)
"""
NAMES = ("good", "bad", "dies")
SHARDED = '[[model]]\nname = "sharded"\nsource = "nets.py:sharded"\nranks = 2\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    tables = (f'[[model]]\nname = "{name}"\nsource = "nets.py:{name}"\n' for name in NAMES)
    (tmp_path / "fxport.toml").write_text("\n".join((*tables, SHARDED)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(project: Path, capsys: Output, *options: str) -> list[tuple[object, ...]]:
    assert main(["check", "--format", "json", "--no-cache", *options]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    return sorted((each["rule"], each["place"]["path"], each["place"]["line"], each["message"]) for each in found)


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_the_same_rows_and_files(project: Path, capsys: Output) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'fxport[ray]'")
    models = [project / ".fxport" / "models" / f"{name}.onnx" for name in ("good", "sharded")]
    local, files = findings(project, capsys), [model.read_bytes() for model in models]
    for model in models:
        model.unlink()
    assert findings(project, capsys, "--executor", "ray", "--jobs", "2") == local
    assert [model.read_bytes() for model in models] == files
    assert [rule for rule, *_ in local] == ["FXP1002", "FXP9003"]


def test_without_ray_the_command_says_what_to_install(
    project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["check", "--executor", "ray"]) == 2
    assert "pip install 'fxport[ray]'" in capsys.readouterr().err
