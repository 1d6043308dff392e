"""Models as files, in a folder of their own that is the current one."""

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MODELS = '''\
"""Models to name on a command line."""
import torch
from torch import nn


class Adder(nn.Module):
    def forward(self, x, y=None, *, scale=1.0):
        return x * scale if y is None else x * scale + y


class NeedsWidth(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2)

    def forward(self, x):
        return self.linear(x)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x)


class Anything(nn.Module):
    def forward(self, x, **others):
        return x + sum(others.values())


adder = Adder()
number = 3


def linear():
    return NeedsWidth(4)


def with_inputs():
    return NeedsWidth(4), (torch.ones(2, 4),)


def with_all():
    return Adder(), (torch.ones(2, 3),), {"scale": 2.0}, {"x": {0: "rows"}}


def lone_tensor():
    return Adder(), torch.ones(2, 3)


def takes(width):
    return NeedsWidth(width)


def broken():
    sizes = [1, 2]
    return sizes[7]


def bad_args():
    return Adder(), 5
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with `models.py`, entered; modules and paths imported in it are forgotten afterwards."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    linecache.clearcache()  # another test has a models.py of its own
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]
