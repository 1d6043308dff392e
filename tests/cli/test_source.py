"""SOURCE: every form of it, and one line for every mistake in it."""

import re
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
import torch
from torch import nn

from fxport.exporter.sources.search_path import NEEDED
from fxport.exporter.sources.source import load
from fxport.exporter.sources.usage import UsageError


@pytest.mark.parametrize("where", ["models.py", "models"])
@pytest.mark.parametrize("name", ["adder", "Adder", "linear", "with_inputs", "with_all", "lone_tensor"])
def test_each_form_gives_a_model(folder: Path, where: str, name: str) -> None:
    source = load(f"{where}:{name}")
    assert isinstance(source.model, nn.Module)
    assert source.name == name


def test_a_function_brings_inputs_and_dims(folder: Path) -> None:
    source = load("models.py:with_all")
    assert source.args is not None
    assert [value.shape for value in source.args if isinstance(value, torch.Tensor)] == [(2, 3)]
    assert source.kwargs == {"scale": 2.0}
    assert source.dynamic_shapes == {"x": {0: "rows"}}
    assert load("models.py:linear").args is None


def test_a_class_is_constructed_in_eval_mode_and_an_instance_keeps_its_own(folder: Path) -> None:
    built, made = load("models.py:Normed").model, load("models.py:adder").model
    assert isinstance(built, nn.Module)
    assert isinstance(made, nn.Module)
    assert not built.training
    assert made.training


@pytest.mark.parametrize("name", ["adder", "Adder", "linear"])
def test_weights_that_nobody_has_trained_are_the_same_in_every_run(folder: Path, name: str) -> None:
    (folder / "random_net.py").write_text(
        "import torch\nfrom torch import nn\nclass Adder(nn.Linear):\n    def __init__(self):\n"
        "        super().__init__(4, 1)\nadder = Adder()\ndef linear():\n    return Adder(), (torch.randn(2, 4),)\n"
    )
    made = [load(f"random_net.py:{name}") for _ in range(2)]
    weights = [each.model.state_dict()["weight"] for each in made if isinstance(each.model, nn.Module)]
    assert torch.equal(*weights)


def test_a_file_sees_its_neighbours(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "parts.py").write_text("WIDTH = 4\n")
    (folder / "inner" / "net.py").write_text("import parts\nfrom torch import nn\nnet = nn.Linear(parts.WIDTH, 1)\n")
    assert isinstance(load("inner/net.py:net").model, nn.Linear)


def test_a_file_in_a_folder_sees_the_current_one_as_well(folder: Path) -> None:
    (folder / "nets_of_folder").mkdir()
    (folder / "nets_of_folder" / "shared.py").write_text("WIDTH = 4\n")
    text = "from nets_of_folder.shared import WIDTH\nfrom torch import nn\nnet = nn.Linear(WIDTH, 1)\n"
    (folder / "nets_of_folder" / "net_of_folder.py").write_text(text)
    assert isinstance(load("nets_of_folder/net_of_folder.py:net").model, nn.Linear)


@pytest.mark.parametrize("hidden", ["onnx.py", "onnx/__init__.py"])
def test_what_hides_a_package_of_fxport_is_named(folder: Path, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "plain_net.py").write_text("from torch import nn\nnet = nn.Identity()\n")
    (folder / hidden).parent.mkdir(exist_ok=True)
    (folder / hidden).write_text("")
    monkeypatch.delitem(sys.modules, "onnx", raising=False)
    with pytest.raises(UsageError, match=r"'onnx(\.py)?' hides the package 'onnx', which fxport needs; rename it"):
        load("plain_net.py:net")
    (folder / hidden).rename(folder / "other.txt")
    load("plain_net.py:net")


def test_the_packages_that_may_be_hidden_are_those_of_the_distribution() -> None:
    required = [each for each in requires("fxport") or () if "extra ==" not in each]
    names = {re.split(r"[^\w-]", each)[0].replace("-", "_").removesuffix("_gpu") for each in required}
    assert names | {"google"} == set(NEEDED)


def test_a_file_may_have_the_name_of_an_imported_module(folder: Path) -> None:
    (folder / "torch.py").write_text("from torch import nn\nnet = nn.Identity()\n")
    assert isinstance(load("torch.py:net").model, nn.Identity)


def test_an_exported_program_comes_with_its_inputs(folder: Path) -> None:
    program = torch.export.export(nn.Linear(4, 2), (torch.ones(2, 4),))
    torch.export.save(program, "linear.pt2")
    source = load("linear.pt2")
    assert source.name == "linear"
    assert source.args is not None
    assert len(source.args) == 1


TWO = """\
import torch
from torch import nn
from pathlib import Path
class Net(nn.Module): pass
net, number = Net(), 3
def args(): return (3,)
def cuda(): raise AssertionError("Torch not compiled with CUDA enabled")
"""
MISTAKES = [
    ("models.py", "say which of its names is the model"),
    ("modles.py:adder", "no file 'modles.py'. Did you mean 'models.py'?"),
    ("modles:adder", "no module 'modles'"),
    ("models.inner:adder", "no module 'models.inner'"),
    (".:adder", "no module"),
    ("models.py:ader", "'models.py' has no 'ader'. Did you mean 'adder'"),
    ("models.py:NEEDSWIDTH", "Did you mean 'NeedsWidth'?"),
    ("models.py:adder.inner", "has no 'adder.inner'"),
    ("models.py:number", "gives a value of type 'int'"),
    ("models.py:NeedsWidth", "without arguments: missing a required argument: 'width'"),
    ("models.py:takes", "without arguments: missing a required argument: 'width'"),
    ("models.py:broken", "Calling 'models.py:broken' raised IndexError at models.py:60: list index out of range."),
    ("models.py:bad_args", "The second value of 'models.py:bad_args' is of type 'int'"),
    ("missing.pt2", "no file 'missing.pt2'"),
    ("garbage.pt2", "cannot be loaded by torch.export.load"),
    ("syntax.py:x", "Importing 'syntax.py' raised SyntaxError at syntax.py:1: '(' was never closed."),
    ("lacks.py:x", "at lacks.py:1: No module named 'not_there'; install it in the environment of fxport."),
    ("leaves.py:x", "Importing 'leaves.py' raised SystemExit at leaves.py:2: 3; its code ends the program"),
    ("two.py:Nett", "Did you mean 'Net' or 'net'?"),
    ("two.py:other", "'two.py' has no 'other'. Known: Net, args, cuda, net."),
    ("two.py:args", "gives a value of type 'int' as its first value; it should be"),
    ("two.py:cuda", "Torch not compiled with CUDA enabled; make the model on the CPU: an export needs no GPU."),
    ("parts:x", "'parts' is a folder; name a file in it: parts/FILE.py:NAME."),
    ("folder.py:x", "'folder.py' is a directory"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_one_line(folder: Path, text: str, said: str) -> None:
    (folder / "garbage.pt2").write_bytes(b"no archive")
    (folder / "syntax.py").write_text("x = (\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "lacks.py").write_text("import not_there\n")
    (folder / "two.py").write_text(TWO)
    (folder / "parts").mkdir()
    (folder / "folder.py").mkdir()
    with pytest.raises(UsageError) as caught:
        load(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_argument_of_init_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"'models.py:takes' has no argument 'widht'. Did you mean 'width'"):
        load("models.py:takes", {"widht": 3})
