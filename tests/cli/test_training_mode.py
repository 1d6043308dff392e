"""Models that were left in training mode: one finding for all layers, and no false difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxport.exporter.cli import main

Output = pytest.CaptureFixture[str]


def test_forty_layers_in_training_mode_are_one_finding(folder: Path, capsys: Output) -> None:
    text = """\
import torch
from torch import nn


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        names = [f"{a}{b}" for a in "abcd" for b in "efg"]
        self.blocks = nn.ModuleDict({name: nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.1)) for name in names})

    def forward(self, x):
        for name in self.blocks:
            x = self.blocks[name](x)
        return x


def make():
    return Blocks(), (torch.randn(2, 4),)
"""
    (folder / "blocks.py").write_text(text, encoding="utf-8")
    main(["export", "blocks.py:make", "--format", "json", "--no-validate"])
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["rule"] == "FXP1007"
    assert "What dropout gives is random. Statistics that it updates became 36 outputs." in found["message"]


def test_dropout_in_training_mode_is_no_difference(folder: Path, capsys: Output) -> None:
    (folder / "drops.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Dropout(0.5), (torch.ones(64, 64),)\n", encoding="utf-8"
    )
    assert main(["export", "drops.py:make"]) == 0
    said = capsys.readouterr().out
    assert "random output compared by its distribution: output" in said
    assert "NOT equal" not in said
