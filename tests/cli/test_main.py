"""The table of subcommands: what it costs to use it, and how it says no."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fxport.diagnostics.rules import RULES
from fxport.exporter import cli
from fxport.exporter.cli import COMMANDS, main
from fxport.exporter.cli.option_groups import GROUPS

HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime", "transformers", "numpy", "sarif_om")


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command line leaves imported, in a process of its own."""
    script = (
        f"import sys\nfrom fxport.exporter.cli import main\ncode = main({list(arguments)!r})\n"
        "print('\\nmodules:', *sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("modules:")[2].split())


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("rules",), ("explain", "FXP3001")],
)
def test_what_needs_no_torch_imports_none(arguments: tuple[str, ...]) -> None:
    assert not imported_by(*arguments) & set(HEAVY)


def test_no_help_imports_torch() -> None:
    """NumPy, which takes a tenth of a second, is all that `watch` brings."""
    asked = [["--help"], *([name, "--help"] for name in COMMANDS)]
    script = (
        "import sys\nfrom fxport.exporter.cli import main\n"
        f"for args in {asked!r}:\n    assert main(args) == 0, args\n"
        f"    loaded = {set(HEAVY) - {'numpy'}!r} & sys.modules.keys()\n    assert not loaded, (args, loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_only_the_chosen_subcommand_is_imported() -> None:
    modules = imported_by("rules")
    assert "fxport.exporter.cli.rules" in modules
    assert not modules & {f"fxport.exporter.cli.{name}" for name in COMMANDS if name != "rules"}


@pytest.mark.usefixtures("real_processes")
def test_version_and_module_form() -> None:
    done = subprocess.run([sys.executable, "-m", "fxport", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fxport ")


def test_every_subcommand_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name, summary in COMMANDS.items():
        assert main([name, "--help"]) == 0
        assert summary.rstrip(".")[:30] in capsys.readouterr().out.replace("\n  ", " ")


def test_the_help_groups_options(capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]) -> None:
    """Each option stands under what it is for, those of a lone option apart, and the table names no other."""
    overview, seen = [], set()
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        _, *sections = re.split(r"\n(?=\w[\w ]*:\n)", capsys.readouterr().out)
        found = {text.partition(":")[0]: re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M) for text in sections}
        assert found.pop("Options")[-1] == "--help"
        assert found.pop("Arguments", []) == []
        overview += [name, *(f"  {group}: {' '.join(options)}" for group, options in found.items()), ""]
        seen |= {option for options in found.values() for option in options}
    golden("options.txt", "\n".join(overview))
    assert seen == {option for options in GROUPS.values() for option in options}


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(RULES)
    for word in ("FXP3001", "fxp3001", "NoOnnxLowering"):
        assert main(["explain", word]) == 0
        assert "What to do" in capsys.readouterr().out


def test_lowerings_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "deform_conv2d"]) == 0
    assert capsys.readouterr().out.split() == ["torchvision.deform_conv2d.default", "detection", "opset", "19"]


def test_ctrl_c_before_the_work_begins(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr(cli, "function_of", interrupted)
    assert main(["export", "models.py:adder"]) == 130
    assert capsys.readouterr().err == "fxport: interrupted\n"


def test_ctrl_c_inside_of_a_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that reports no findings, or has not begun to."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fxport.exporter.cli.explain.page", interrupted)
    assert main(["explain", "FXP3001"]) == 130
    assert capsys.readouterr().err == "fxport: interrupted\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_no_model_takes_the_place_of_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    assert main(["export", "models.py:adder", "-o", "pipe"]) == 2
    assert "--output 'pipe' is no ordinary file" in capsys.readouterr().err
    assert (folder / "pipe").is_fifo()


USAGE = [
    (["explain", "FXP300"], "There is no rule 'FXP300'"),
    (["ops", "nothing_like_it"], "No operator with a lowering"),
    (["exprot"], "No such command 'exprot'"),
    (["export"], "Missing argument"),
    (["export", "models.py:adder", "--opset", "high"], "Invalid value for '--opset'"),
    (["export", "models.py:adder", "--fail-on", "sometimes"], "sometimes"),
    (["export", "models.py:adder", "--format", "yaml"], "yaml"),
    (["export", "models.py:adder", "--external-data", "perhaps"], "perhaps"),
    (["export", "models.py:adder", "-o", "."], "--output '.' is a directory"),
    (["export", "models.py:adder", "-o", "nowhere/a.onnx"], "there is no folder 'nowhere'"),
    (["export", "models.py:adder", "-o", "/proc/a.onnx"], "cannot be written"),
    (["export", "models.py:adder", "-o", "models.py"], "--output 'models.py' is the same file as SOURCE"),
    (["export", "models.py:adder", "-o", "a", "--sarif", "./a"], "--sarif 'a' is the same file as --output"),
    (["export", "models.py:adder", "--dump", "models.py"], "--dump 'models.py' is a file"),
    (["export", "models.py:adder", "--dump", "/proc/a/b"], "--dump '/proc/a/b' cannot be written"),
    (["export", "models.py:adder", "--rank-timeout", "0"], "'--rank-timeout'"),
    (["place", "models.py"], "'models.py' is no ONNX model"),
    (["export", "models.py:adder", "--sarif", "."], "--sarif '.' is a directory"),
    (["export", "models.py:adder", "--sarif", "models.py/a.sarif"], "--sarif 'models.py' is a file"),
]


@pytest.mark.parametrize(("arguments", "said"), USAGE)
def test_usage(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    if "/proc" in arguments[-1] and not os.path.isdir("/proc"):
        pytest.skip("this system has no /proc")
    before = set(folder.iterdir())
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert "Traceback" not in output.err
    assert output.out == ""
    assert set(folder.iterdir()) == before
