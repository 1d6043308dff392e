"""The pytest plugin, run by pytest on test files of its own."""

from __future__ import annotations

import contextlib
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fxport.diagnostics import Log
from fxport.exporter.checks import in_test
from tests.plugin import PLUGIN
from tests.test_packages import SETUP

pytest_plugins = ["pytester"]


MODEL = """
import pytest
import torch


class Bent(torch.nn.Module):
    def forward(self, x):
        return torch.bmm(x.to_sparse(), x)


class Sound(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1
"""


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import before pytester takes its note of the modules that it will forget: later tests have the same ones.

    These are the modules that torch imports on use, and all of ours.
    """
    for package in map(importlib.import_module, SETUP["packages"]):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ModuleNotFoundError):  # of a library that is optional
                    importlib.import_module(module.name)
    folder = tmp_path_factory.mktemp("warm")
    in_test.check(torch.nn.ReLU(), torch.ones(2), folder=folder, logs=[Log()], at=(__file__, 1))


def run(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_models=MODEL + tests)
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *arguments)


def results_of(path: Path) -> list[dict]:
    (whole,) = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return whole["results"]


def test_a_sound_model_passes_and_returns_what_was_made(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_sound(onnx_check, tmp_path):
    checked = onnx_check(Sound(), torch.randn(2, 3), dynamic_shapes=({0: "rows"},), provider="cpu")
    assert checked.validation.passed
    assert [sample.label for sample in checked.validation.samples][:2] == ["sample", "resized"]
    assert checked.program.model.graph.inputs[0].shape[0].value == "rows"
    assert (tmp_path / "model.onnx").is_file()
    assert (tmp_path / "model.sarif").is_file()
    onnx_check(Sound(), kwargs={"x": torch.randn(2)}, name="again", output_names=("y",))
    assert (tmp_path / "again-2.onnx").is_file()
""",
    )
    result.assert_outcomes(passed=1)


def test_a_failure_is_the_findings_text_at_the_users_line(pytester: pytest.Pytester) -> None:
    result = run(pytester, "\ndef test_bent(onnx_check):\n    onnx_check(Bent(), torch.randn(2, 3, 3))\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "error[[]FXP3001[]]: No ONNX lowering for 'aten.to_sparse.default'.",
            "*--> test_models.py:7:26",
            "7 |         return torch.bmm(x.to_sparse(), x)",
            "  |                          ^^^^^^^^^^^^^",
            "  = help: *",
            "1 error",
            "Artifacts are kept in *",
            "FAILED test_models.py::test_bent - *FXP3001*",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "in_test.py" not in result.stdout.str()


def test_a_warning_fails_on_request_and_is_shown_otherwise(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def noisy():
    return torch.nn.Dropout(0.0).train()

def test_strict(onnx_check):
    onnx_check(noisy(), torch.randn(2, 3), fail_on="warning")

def test_lax(onnx_check):
    onnx_check(noisy(), torch.randn(2, 3))
    assert False, "to be shown"
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["warning[[]FXP10*", "*- fxport -*", "warning[[]FXP10*"])


def test_inputs_that_do_not_fit_are_one_line(pytester: pytest.Pytester) -> None:
    result = run(pytester, "\ndef test_unfit(onnx_check):\n    onnx_check(torch.nn.Linear(2, 2), torch.ones(5, 5))\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*'Linear' does not run in PyTorch with these inputs. It raises RuntimeError*"])


def test_the_mark_gives_opsets_and_tolerances(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.onnx_check(opsets=(18, 23))
def test_opsets(onnx_check, request):
    checked = onnx_check(Sound(), torch.randn(2))
    assert f"opset{checked.program.model.opset_imports['']}" in request.node.name

@pytest.mark.onnx_check(atol=0.0, rtol=0.0)
class TestExact:
    def test_exact(self, onnx_check):
        onnx_check(torch.nn.Tanh(), torch.linspace(-2, 2, 999))

    @pytest.mark.onnx_check(atol=1e-3)
    def test_near(self, onnx_check):
        onnx_check(torch.nn.Tanh(), torch.linspace(-2, 2, 999))
""",
        "-v",
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*test_opsets[[]opset18] PASSED*", "*test_opsets[[]opset23] PASSED*", "*FXP5002*"])


@pytest.mark.parametrize("opsets", ["range(22, 24)", "{23, 22}", "[22, 23]"])
def test_opsets_are_any_collection(pytester: pytest.Pytester, opsets: str) -> None:
    mark = f"@pytest.mark.onnx_check(opsets={opsets})"
    result = run(pytester, f"\n{mark}\ndef test_it(onnx_check, onnx_opset):\n    assert onnx_opset in (22, 23)\n", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_it[[]opset22] PASSED*", "*test_it[[]opset23] PASSED*"])


@pytest.mark.parametrize("mark", ["opset=18", "18", "opsets=18", 'opsets="18"'])
def test_a_mark_that_says_nothing_is_refused(pytester: pytest.Pytester, mark: str) -> None:
    result = run(pytester, f"\n@pytest.mark.onnx_check({mark})\ndef test_it(onnx_check):\n    pass\n")
    assert result.parseoutcomes().get("errors") == 1
    result.stdout.fnmatch_lines_random(["*onnx_check*opsets*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_an_unknown_argument_is_named_without_a_traceback(pytester: pytest.Pytester) -> None:
    call = "onnx_check(Sound(), torch.randn(2, 3), dynamic_shape=({0: 'n'},))"
    result = run(pytester, f"\ndef test_it(onnx_check):\n    {call}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*onnx_check() has no argument 'dynamic_shape': did you mean 'dynamic_shapes'?*"])
    result.stdout.no_fnmatch_line("*in_test.py*")


THREE = """
@pytest.mark.parametrize("size", [3, 4, 5])
def test_bent(onnx_check, size):
    onnx_check(Bent(), torch.randn(2, size, size))

def test_sound(onnx_check):
    onnx_check(Sound(), torch.randn(2))
"""


def test_one_sarif_file_for_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, THREE, "--fxport-sarif", "out/all.sarif")
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(["*- fxport: 1 finding in *all.sarif -*"])
    (found,) = results_of(pytester.path / "out" / "all.sarif")
    assert (found["ruleId"], found["occurrenceCount"]) == ("FXP3001", 3)
    assert found["locations"][0]["physicalLocation"]["region"]["startLine"] == 7


def test_workers_of_xdist_send_their_findings(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_models=MODEL + THREE)
    arguments = (*PLUGIN, "-n", "2", "-p", "no:cacheprovider", "--fxport-sarif", "all.sarif")
    result = pytester.runpytest_subprocess(*arguments, timeout=300)
    result.assert_outcomes(failed=3, passed=1)
    (found,) = results_of(pytester.path / "all.sarif")
    assert (found["ruleId"], found["occurrenceCount"]) == ("FXP3001", 3)


def test_no_check_is_an_empty_log(pytester: pytest.Pytester) -> None:
    result = run(pytester, "\ndef test_nothing():\n    pass\n", "--fxport-sarif", "all.sarif")
    result.assert_outcomes(passed=1)
    assert results_of(pytester.path / "all.sarif") == []


def test_the_example_of_the_docs(pytester: pytest.Pytester) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "check.md"
    (block,) = re.findall(r"^```python\n(.+?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    pytester.makepyfile(test_docs=block)
    result = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", "-v")
    result.assert_outcomes(passed=2)


def test_the_plugin_imports_nothing_heavy() -> None:
    script = "import sys, fxport.exporter.checks.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"torch", "onnx", "onnx_ir", "onnxruntime", "numpy", "sarif_om", "rich", "typer", "diagnostics"}
    assert not set(done.stdout.split()) & heavy


MANIFEST = """
[[model]]
name = "sound"
source = "models.py:Sound"
inputs = { x = "2x3" }

[[model]]
name = "bent"
source = "models.py:Bent"
inputs = { x = "2x3x3" }

[[model]]
name = "known"
source = "models.py:Bent"
inputs = { x = "2x3x3" }
expect = ["FXP3001"]
"""


def test_a_manifest_is_a_file_of_tests(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(models=MODEL)
    pytester.makepyfile(test_other="def test_other(): pass")
    (pytester.path / "fxport.toml").write_text(MANIFEST, encoding="utf-8")
    arguments = ("-p", "no:cacheprovider", "--fxport", "fxport.toml", "--fxport-sarif", "all.sarif", "-n", "2")
    result = pytester.runpytest_subprocess(*PLUGIN, *arguments)
    result.assert_outcomes(passed=2, failed=1, xfailed=1)
    result.stdout.fnmatch_lines(["*error[[]FXP3001[]]*", "*models.py:7:26*"])
    assert {each["ruleId"] for each in results_of(pytester.path / "all.sarif")} >= {"FXP3001"}


def test_a_manifest_with_a_mistake_is_told(pytester: pytest.Pytester) -> None:
    (pytester.path / "fxport.toml").write_text("[[model]]\nnam = 1\n", encoding="utf-8")
    result = pytester.runpytest_subprocess(*PLUGIN, "--fxport", "fxport.toml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'nam'*"])


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (torch.nn.ReLU(), {"opset": 17}, "opset 17 is out of range: fxport writes opsets 18 to 26"),
        (torch.nn.ReLU, {}, "'ReLU': model is the class 'ReLU'; give an instance of it"),
    ],
)
def test_what_cannot_be_asked_is_a_line(model: object, options: dict[str, int], said: str, tmp_path: Path) -> None:
    with pytest.raises(in_test.Failed, match=re.escape(said)):
        in_test.check(model, torch.ones(2), folder=tmp_path, logs=[], at=(__file__, 1), **options)
