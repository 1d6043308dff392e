"""Say what SOURCE is if it is no model: a file of another kind, or a function that returns something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fxport.exporter.cli import main
from fxport.exporter.sources import source
from fxport.exporter.sources.usage import UsageError

Output = pytest.CaptureFixture[str]


@pytest.fixture
def files(folder: Path) -> Path:
    """One file of each kind that people take for a model."""
    layer = torch.nn.Linear(2, 2)
    torch.save(layer.state_dict(), "weights.pt")
    torch.save({"model": layer.state_dict(), "epoch": 3}, "last.ckpt", _use_new_zipfile_serialization=False)
    torch.save(layer, "whole.pth")
    torch.jit.trace(layer, torch.ones(1, 2)).save("script.pt")
    torch.export.save(torch.export.export(layer, (torch.ones(1, 2),)), "program.pt2")
    Path("program.pt2").rename("program.pt")
    Path("w.safetensors").write_bytes(b"")
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("weights.pt", "holds weights (a state dict) and no model; write a function"),
        ("last.ckpt", "give the file with --weights"),
        ("whole.pth", "is a pickled torch.nn.modules.linear.Linear"),
        ("script.pt", "is a TorchScript model"),
        ("program.pt", "give it the ending .pt2"),
        ("w.safetensors", "holds weights and no model"),
        ("models.py", "models.py:NAME. It has: "),
        ("model.pyy", "There is no file 'model.pyy'"),
        ("./models", "There is no folder 'models'"),
        ("nothing", "names no model; write FILE.py:NAME"),
    ],
)
def test_the_kind_of_a_file_is_told(files: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        source.load(text)
    assert said in str(error.value)


GIVEN = """\
import argparse

import numpy
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=3)
EPOCHS = parser.parse_args().epochs


class Pair(nn.Module):
    def forward(self, x, mask):
        return x * mask


X = torch.ones(2, 3)
unmade = lambda: (Pair, X)
function = lambda: (torch.relu, X)
weights = nn.Linear(3, 2).state_dict()
nothing = lambda: None
numbers = lambda: (Pair(), X.numpy())
named = lambda: (Pair(), {"x": X, "mask": X})
missing = lambda: (Pair(), (X,))
misspelt = lambda: (Pair(), (X,), {"msk": X})
bare = lambda: (nn.Linear(3, 2), (X,), {}, {"input": "batch"})
swapped = lambda: (nn.Linear(3, 2), (X,), {}, {"input": {"batch": 0}})
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unmade", "gives the class 'Pair', which is not called: Pair() as its first value"),
        ("function", "gives the function 'relu', which is no nn.Module: call it in the forward of one"),
        ("weights", "gives a state dict, which has weights and no code"),
        ("nothing", "gives nothing; it should be a model"),
        ("numbers", "is of type 'ndarray'; it should be the tuple of args, and its arrays tensors: torch.from_numpy"),
        ("named", "keyword arguments come after it: (model, (), {'name': value})"),
        ("missing", "missing a required argument: 'mask'; let SOURCE return (model, args, kwargs)"),
        ("misspelt", "forward has no argument 'msk', which 'misspelt' gives. Did you mean 'mask'?"),
        (
            "bare",
            "'batch' for 'input', where a mapping of dimensions belongs, such as {0: 'batch'}",
        ),
        ("swapped", "the key 'batch' for 'input'; keys are the numbers of dimensions: {0: 'batch'}"),
    ],
)
def test_mistakes_of_a_function_are_told_by_what_it_gives(folder: Path, capsys: Output, name: str, said: str) -> None:
    """The script reads the command line: it finds no arguments there, and those of fxport are not taken for its own."""
    (folder / "given.py").write_text(GIVEN)
    assert main(["export", f"given.py:{name}"]) == 2
    assert said in capsys.readouterr().err


def test_weights_without_values_are_one_finding(folder: Path, capsys: Output) -> None:
    (folder / "empty.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef model():\n    with torch.device('meta'):\n"
        "        layers = [nn.Linear(3, 3) for _ in range(2)]\n"
        "    return nn.Sequential(*layers, nn.Linear(3, 3, device='meta')), torch.ones(1, 3)\n"
    )
    assert main(["export", "empty.py:model", "--format", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["message"].startswith(
        "'*.weight' was made without memory, and nothing gives it values. Others like it: "
    )


def test_a_file_of_a_package_may_import_relatively(folder: Path) -> None:
    inner = folder / "pkg_first_hour" / "sub"
    inner.mkdir(parents=True)
    for each in (inner.parent, inner):
        (each / "__init__.py").write_text("")
    (inner.parent / "parts.py").write_text("from torch import nn\n\n\nclass Part(nn.Identity):\n    pass\n")
    (inner / "net.py").write_text("from ..parts import Part\n\n\nclass Net(Part):\n    pass\n")
    made = source.load(str(Path("pkg_first_hour/sub/net.py:Net")))
    assert type(made.model).__module__ == "pkg_first_hour.sub.net"


def test_relative_imports_without_a_package_say_what_is_missing(folder: Path) -> None:
    (folder / "lone.py").write_text("from .parts import Part\n")
    with pytest.raises(UsageError, match=r"has no __init__\.py; add one, or name the module: "):
        source.load("lone.py:Part")
