"""What a project says once: where it is found, how an option replaces it, and what is said of a mistake in it."""

from __future__ import annotations

import inspect
import json
import tracemalloc
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from fxport.diagnostics.formats import RENDERERS, Format
from fxport.diagnostics.report import FailOn, SarifProfile
from fxport.diagnostics.sarif import PROFILES
from fxport.exporter.cli import COMMANDS, function_of, main
from fxport.exporter.cli.reporting import Reporting
from fxport.exporter.sources.settings import OF_CHECK, files_in, settings_near
from fxport.exporter.sources.usage import UsageError
from tests.diagnostics.sarif_checks import breaches, strict, validator

REPORTERS = ("export", "validate", "bisect", "place", "check", "train-step", "diff", "package")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose two ONNX files differ: a warning about a weight, and a note about operators.

    No runtime has their operators, so the files are not run."""
    monkeypatch.chdir(tmp_path)
    inner = tmp_path / "models"
    inner.mkdir()
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    for name, weight, ops in (("old", 1.0, ("Mul",)), ("new", 2.0, ("Mul", "Relu"))):
        w = helper.make_tensor("w", TensorProto.FLOAT, [2], [weight, weight])
        nodes = [helper.make_node("Mul", ["x", "w"], ["y" if ops == ("Mul",) else "z"], domain="nowhere")]
        nodes += [helper.make_node("Relu", ["z"], ["y"], domain="nowhere")] if len(ops) > 1 else []
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("nowhere", 1)]
        model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=opsets)
        onnx.save(model, str(inner / f"{name}.onnx"))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, str]]:
    """The exit code of a `diff`, and the level of each rule about a difference."""
    capsys.readouterr()
    code = main(["diff", "models/old.onnx", "models/new.onnx", "--format", "json", *options])
    said = capsys.readouterr()
    assert code < 2, said.err
    return code, {each["rule"]: each["level"] for each in json.loads(said.out)["findings"] if each["rule"] != "FXP5001"}


def written(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_nearest_file_upwards_from_the_source_decides(project: Path, capsys: Any) -> None:
    both = {"FXP7008": "note", "FXP7009": "warning"}
    assert told(capsys) == (0, both)
    written(project, '[tool.fxport]\nfail_on = "warning"\nignore = ["FXP7008"]\n')
    assert told(capsys) == (1, {"FXP7009": "warning"})
    written(project / "models", "[tool.other]\nname = 1\n")
    assert told(capsys)[0] == 1, "a file that does not speak of fxport is passed over"
    written(project / "models", '[tool.fxport.severity]\nFXP7009 = "note"\nFXP7008 = "error"\n')
    assert told(capsys) == (1, {"FXP7008": "error", "FXP7009": "note"})
    written(project / "models", 'fail_on = "never"\n', "fxport.toml")
    assert told(capsys) == (0, both), "fxport.toml is before pyproject.toml"


@pytest.mark.parametrize(
    ("options", "code", "rules"),
    [
        ((), 1, {"FXP7009": "error"}),
        (("--fail-on", "never"), 0, {"FXP7009": "error"}),
        (("--severity", "FXP7009=note"), 0, {"FXP7009": "note"}),
        (("--severity", "FXP7008=warning"), 1, {"FXP7008": "warning", "FXP7009": "error"}),
        (("--ignore", "FXP7009"), 0, {}),
        (("--select", "FXP7008"), 0, {"FXP7008": "note"}),
    ],
)
def test_an_option_replaces_its_key(
    project: Path, capsys: Any, options: tuple[str, ...], code: int, rules: dict[str, str]
) -> None:
    written(project, '[tool.fxport]\nselect = ["FXP7009"]\nseverity = { WeightsChanged = "error" }\n')
    assert told(capsys, *options) == (code, rules)


def test_a_baseline_and_a_profile_of_the_project(project: Path, capsys: Any) -> None:
    written(
        project, '[tool.fxport]\nbaseline = "known.sarif"\nfail_on = "new-error"\nseverity = { FXP7009 = "error" }\n'
    )
    assert told(capsys)[0] == 1, "a baseline that is not written yet knows nothing"
    told(capsys, "--sarif", "known.sarif")
    assert told(capsys)[0] == 0
    written(project, '[tool.fxport]\nsarif_profile = "github"\nbaseline = "known.sarif"\n')
    told(capsys, "--sarif", "github.sarif")
    (run,) = json.loads((project / "github.sarif").read_text())["runs"]
    assert run["automationDetails"]["id"].endswith("/diff")
    assert all("help" in rule and rule["fullDescription"].keys() == {"text"} for rule in run["tool"]["driver"]["rules"])
    written(project, '[tool.fxport]\nbaseline = "models/old.onnx"\n')
    assert main(["diff", "models/old.onnx", "models/new.onnx"]) == 2
    assert "baseline" in capsys.readouterr().err


MISTAKES = [
    ('fail-on = "error"', "pyproject.toml:2: unknown key 'fail-on'. Did you mean 'fail_on'?"),
    ("\nselct = []", "pyproject.toml:3: unknown key 'selct'. Did you mean 'select'?"),
    ('fail_on = "newerror"', "pyproject.toml:2: 'fail_on' is 'newerror'; it should be 'error', 'warning'"),
    ('ignore = ["FXP99"]', "pyproject.toml:2: no rule is called 'FXP99'"),
    ('ignore = ["FXP3001"]', "pyproject.toml:2: FXP3001 NoOnnxLowering stops the export, so it stays an error."),
    ('[tool.fxport.severity]\nFXP4001 = "note"\nFXP1 = "loud"', "pyproject.toml:4: 'severity.FXP1' is 'loud'"),
    ('[tool.fxport.severity]\nFXP4001 = "note"\nFXP99 = "note"', "pyproject.toml:4: no rule is called 'FXP99'"),
    ("ignore = [", "no TOML"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_a_mistake_is_told_with_its_line(project: Path, capsys: Any, text: str, said: str) -> None:
    written(project, f"[tool.fxport]\n{text}\n")
    assert main(["diff", "models/old.onnx", "models/new.onnx", "--report", "r"]) == 2
    assert said in capsys.readouterr().err
    assert not (project / "r").exists()


@pytest.mark.parametrize("text", ["tool = 3  # fxport", "[tool]\nfxport = 3"])
def test_what_is_no_table_is_told(project: Path, text: str) -> None:
    written(project, text)
    with pytest.raises(UsageError, match=r"pyproject.toml:\d: '(tool|fxport)' is no table"):
        settings_near("models/new.onnx")


def test_tables_of_models_are_left_to_check(project: Path) -> None:
    text = 'fail_on = "note"\n' + "".join(f"[[{name}]]\nnonsense = 1\n" for name in OF_CHECK)
    written(project, text, "fxport.toml")
    settings, folder = settings_near("models/new.onnx")
    assert (settings.fail_on, folder) == (FailOn.NOTE, project)


def test_a_dotted_source_is_looked_up_from_the_working_folder(project: Path) -> None:
    written(project, "[tool.fxport]\nselect = []\n")
    assert settings_near("package.module:model")[1] == project


@pytest.mark.parametrize("name", REPORTERS)
def test_every_subcommand_that_reports_has_the_same_options(name: str) -> None:
    wanted = set(Reporting.__dataclass_fields__) - ({"baseline"} if name == "check" else set())
    assert wanted <= inspect.signature(function_of(name)).parameters.keys()


def test_the_other_subcommands_report_nothing() -> None:
    others = set(COMMANDS) - set(REPORTERS)
    assert others == {"bench", "generate", "embed", "view", "watch", "explain", "rules", "ops"}
    for name in others - {"watch"}:  # which writes a log, and takes no level to fail on: it goes on
        assert "sarif" not in inspect.signature(function_of(name)).parameters


def test_profiles_are_those_of_sarif() -> None:
    assert [profile.value for profile in SarifProfile] == list(PROFILES)


def test_all_formats_are_printed_and_written(project: Path, capsys: Any) -> None:
    files = {renderer.file for renderer in RENDERERS.values() if renderer.file} | {"report.sarif"}
    for form, renderer in RENDERERS.items():
        main(["diff", "models/old.onnx", "models/new.onnx", "--format", form, "--report", "r"])
        printed = capsys.readouterr().out.rstrip("\n")
        assert {path.name for path in (project / "r").iterdir()} == files
        assert "FXP7009" in printed
        if renderer.file:
            assert printed == (project / "r" / renderer.file).read_text(encoding="utf-8").rstrip("\n")
        else:
            assert "nodes: 1 → 2" in printed


EVIL = "w\u202e<script>\x1b[31m`|[x](y)\"'&::error::%0A"


def test_nothing_of_the_users_is_interpreted(project: Path, capsys: Any) -> None:
    """A folder, files and a weight with a name that means something to a terminal, a page, or a workflow."""
    folder = project / EVIL.replace("/", "")
    (project / "models").rename(folder)
    for path in folder.iterdir():
        model = onnx.load(path)
        model.graph.initializer[0].name = model.graph.node[0].input[1] = EVIL
        onnx.save(model, path)
    files = [str(folder / name) for name in ("old.onnx", "new.onnx")]
    for form in Format:
        assert main(["diff", *files, "--format", form, "--report", "r"]) == 0
        printed = capsys.readouterr().out
        assert not set(printed) & {"\x1b", "\u202e"}, form
        assert form is not Format.HTML or printed.count("<script") == 1, "the page's own"
        commands = [line for line in printed.splitlines() if line.lstrip().startswith("::")]
        assert form is not Format.GITHUB or len(commands) == 3, "one for each finding"
    document = strict((project / "r" / "report.sarif").read_text(encoding="utf-8"))
    assert [error.message for error in validator().iter_errors(document)] == []
    assert list(breaches(document)) == []
    assert main(["diff", files[0], f"{EVIL}.onnx"]) == 2
    assert not set(capsys.readouterr().err) & {"\x1b", "\u202e"}


def test_a_baseline_of_another_tool_or_without_an_end_is_refused(project: Path, capsys: Any) -> None:
    other = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "ESLint"}}, "results": []}]}
    (project / "other.sarif").write_text(json.dumps(other), encoding="utf-8")
    (project / "cut.sarif").write_text(json.dumps(other)[:-9], encoding="utf-8")
    said = {
        "other.sarif": "not of 'ESLint'",
        "cut.sarif": "not JSON",
        "/dev/zero": "no ordinary file",
        "models": "directory",
    }
    for baseline, text in said.items():
        assert main(["diff", "models/old.onnx", "models/new.onnx", "--baseline", baseline, "--sarif", "x.sarif"]) == 2
        assert text in capsys.readouterr().err
    assert not (project / "x.sarif").exists()


def test_a_pyproject_of_others_may_have_any_size(tmp_path: Path) -> None:
    """It is not read into memory to see that it never speaks of fxport, and not parsed."""
    for size in (0, 200_000_000):
        with (tmp_path / "pyproject.toml").open("wb") as file:
            file.truncate(size)
        tracemalloc.start()
        try:
            assert list(files_in(tmp_path)) == []
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 1_000_000
