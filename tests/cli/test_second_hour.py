"""Messages that misled a second new user: each says what to do, and doing that helps."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
import torch

from fxport import onnx as fxport_onnx
from fxport.diagnostics import Finding, Level, rules
from fxport.diagnostics.amounts import allowed
from fxport.diagnostics.fixes.shapes import bounds_in_words
from fxport.exporter.checks import work
from fxport.exporter.checks.pool import Pool
from fxport.exporter.checks.reasons import fixes_for
from fxport.exporter.checks.supervised import ended_cleanly
from fxport.exporter.cli import edge, main, streams
from fxport.exporter.language_models.package_files import described
from fxport.exporter.pipeline.exporting import export
from fxport.exporter.sources.dynamic import parse_dynamic
from fxport.exporter.sources.settings import settings_near, unread_in
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.child import environment
from fxport.ort_runner.package_config import PackageError
from tests.cli.test_hostile_processes import TASK

Output = pytest.CaptureFixture[str]

SOURCE = """
import torch
from torch import nn


class Bounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 8))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Fours(nn.Module):
    def forward(self, x):
        return x.view(x.shape[0] // 4, 4, -1).sum(1)


class Nothing(nn.Module):
    def forward(self, x):
        return {}


class Full(nn.Module):
    def __init__(self):
        super().__init__()
        raise OSError(28, "No space left on device")

    def forward(self, x):
        return x


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            y = self.one(x)
        else:
            y = self.other(x)
        return y


linear = nn.Linear(4, 3)
stack = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "shape", "first", "advice"),
    [
        ("Bounded", "2x5x8", "x:1=n", "x:1=n[..16]"),
        ("Fours", "8x3", "x:0=n", "x:0=4*n"),
    ],
)
def test_the_limit_of_a_dimension_is_told_as_the_command_line_takes_it(
    name: str, shape: str, first: str, advice: str, folder: Path, capsys: Output
) -> None:
    asked = ["export", f"net.py:{name}", "--input", f"x={shape}", "--no-validate", "--fail-on", "warning", "--dynamic"]
    assert main([*asked, first]) == 1
    said = capsys.readouterr().out
    assert f"`--dynamic {advice}`" in said
    assert main([*asked, advice]) == 0


def test_a_number_that_is_limited_has_no_index_to_type() -> None:
    facts = {"dim": "times", "input": "times", "axis": None, "range": "at most 16"}
    (made,) = bounds_in_words(Finding(rules.DIMENSION_RANGE_NARROWED, Level.NOTE, "", facts=facts))
    assert made.description == "Ask for `Dim('times', max=16)`."


def test_multiples_of_a_dim() -> None:
    _, dims = parse_dynamic("x:0=4*n[2..8],1=m")
    assert (dims[0].times, dims[0].name, dims[0].low, dims[0].high, dims[1].times) == (4, "n", 2, 8, 1)
    with pytest.raises(UsageError, match="no name of a dim"):
        parse_dynamic("x:0=0*n")


def test_a_number_has_no_dims_and_a_vector_is_offered(folder: Path, capsys: Output) -> None:
    assert main(["export", "net.py:Fours", "--input", "x=8", "--dynamic", "x:0=n"]) == 2
    assert "'x' is 8, and only a tensor has dims; write --input x=8:float32" in capsys.readouterr().err


def test_an_empty_container_is_not_called_none(folder: Path, capsys: Output) -> None:
    assert main(["export", "net.py:Nothing", "--input", "x=2x3"]) == 1
    assert "It returns: a container without a value." in capsys.readouterr().out


def test_a_model_is_no_training_step(folder: Path, capsys: Output) -> None:
    assert main(["train-step", "net.py:linear"]) == 2
    assert "'net.py:linear' is a model; name a function that returns" in capsys.readouterr().err


def test_a_full_disk_that_a_model_meets_is_a_finding(folder: Path, capsys: Output) -> None:
    assert main(["export", "net.py:Full", "--input", "x=2x3"]) == 2
    said = capsys.readouterr().out
    assert "error[FXP9005]" in said
    assert "net.py:28:9" in said


def test_a_full_disk_that_a_model_meets_is_not_told_of_its_file() -> None:
    def forward() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as raised:
        forward()
    assert "there is not enough space on the disk" in str(work.reason_of(raised.value))
    assert "the model cannot be written" in str(work.reason_of(OSError(errno.EFBIG, "File too large")))


def test_of_settings_in_two_files_one_is_read(folder: Path, capsys: Output) -> None:
    """Keys of a pyproject.toml beside an fxport.toml are not read, and a warning says so."""
    (folder / "fxport.toml").write_text('# ours\n[[model]]\nname = "n"\nsource = "net.py:linear"\n')
    (folder / "pyproject.toml").write_text('[project]\nname = "p"\n\n[tool.fxport]\nfail_on = "warning"\n')
    warning = "fxport: pyproject.toml:4: [tool.fxport] is not read, but fxport.toml:2 beside it; have all keys there.\n"
    settings, _ = settings_near("net.py:linear")
    assert settings.fail_on is None
    assert main(["export", "net.py:linear", "--input", "input=2x4", "--no-validate"]) == 0
    assert capsys.readouterr().err.count(warning) == 1
    assert main(["check", "unknown"]) == 2
    assert capsys.readouterr().err.count(warning) == 1


@pytest.mark.parametrize(
    "text",
    [
        '[project]\nname = "p"\ndependencies = ["fxport"]\n',
        "[tool.fxport-user]\nkey = 1\n",
        "[tool.fxport]\n",
        '[project]\nname = \n[tool.fxport]\nfail_on = "warning"\n',
        "tool = 3  # fxport\n",
    ],
)
def test_a_project_without_settings_is_passed_over(text: str, folder: Path) -> None:
    """A file that is not read may even be broken."""
    (folder / "fxport.toml").write_text('fail_on = "never"\n')
    (folder / "pyproject.toml").write_text(text)
    settings, at = settings_near("net.py:linear")
    assert (settings.fail_on, unread_in(at)) == ("never", "")


@pytest.mark.parametrize("share", [1e-192, 0.00005])
def test_shares_too_small_to_see_are_told_so(share: float) -> None:
    assert allowed(share) == "less than 0.01% of the allowed error"
    assert (allowed(0), allowed(0.0002)) == ("0% of the allowed error", "0.02% of the allowed error")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("its process was killed by SIGSEGV", "another version of its library"),
        ("the process crashed (SIGILL: Illegal instruction) while this line ran", "another version of its library"),
        ("it was not done within 8 seconds and was stopped", "raise `time_limit`"),
        ("it takes more memory than it may", "Raise `memory`"),
        ("it ended its process: SystemExit: 0", "Take what ends the process out"),
        ("the process was killed (SIGKILL), as the system does when memory runs out", "a loop that makes a tensor"),
    ],
)
def test_the_advice_is_that_for_the_reason(reason: str, advice: str) -> None:
    (fix,) = fixes_for(reason)
    assert advice in fix.description
    assert ("time_limit" in fix.description) == ("stopped" in reason)


@pytest.mark.parametrize(("number", "said"), [(signal.SIGSEGV, "import torch"), (signal.SIGKILL, "too little memory")])
def test_a_worker_that_crashes_at_its_start_does_not_lack_memory(number: int, said: str, tmp_path: Path) -> None:
    command = (sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})")
    pool = Pool(tmp_path, lambda task: tmp_path / "m.onnx", command=command)
    with pytest.raises(UsageError, match=re.escape(said)):
        list(pool.run([TASK], 1))


def test_a_child_does_not_get_the_encoding_of_the_users_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-16")
    assert "PYTHONIOENCODING" not in environment()


def test_bars_of_libraries_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "info")
    with edge.libraries_silent():
        told = {name: os.environ.get(name) for name in edge.QUIET}
    assert told == {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "info"}
    assert "HF_HUB_DISABLE_PROGRESS_BARS" not in os.environ


@pytest.mark.parametrize("dims", [({0: "batch"}, 0), ({1: "time"}, 1), ({0: "batch", 1: "time"}, 1)])
def test_files_of_one_model_whose_sizes_vary_otherwise_are_compared(
    dims: tuple[dict[int, str], int], folder: Path, capsys: Output
) -> None:
    for name, asked in (("a.onnx", None), ("b.onnx", (dims[0],))):
        export(torch.nn.Linear(4, 3), (torch.zeros(2, 5, 4),), dynamic_shapes=asked).save(folder / name)
    assert main(["diff", "a.onnx", "b.onnx", "--no-run"]) == 1
    said = capsys.readouterr().out
    assert "unrelated" not in said
    assert "'input input' has changed" in said
    assert "fxport check" not in said  # which has nothing to do with two files


def test_files_of_two_models_are_told_to_be_so(folder: Path, capsys: Output) -> None:
    export(torch.nn.Linear(4, 3), (torch.zeros(2, 4),)).save(folder / "a.onnx")
    export(torch.nn.Conv1d(4, 3, 1), (torch.zeros(2, 4, 7),)).save(folder / "b.onnx")
    for path, weights in (("a.onnx", "first"), ("b.onnx", "second")):
        model = onnx.load(path)
        for number, each in enumerate(model.graph.initializer):
            old, each.name = each.name, f"{weights}{number}"
            for node in model.graph.node:
                node.input[:] = [each.name if name == old else name for name in node.input]
        onnx.save(model, path)
    assert main(["diff", "a.onnx", "b.onnx", "--no-run"]) == 1
    assert "= help: Name two files of one model" in capsys.readouterr().out


def with_tokens(pad: object, end: object, *, own_file: bool = True) -> SimpleNamespace:
    """A model whose settings for generation have these tokens, from a file of their own or from config.json."""
    settings = SimpleNamespace(pad_token_id=pad, eos_token_id=end, bos_token_id=1, _from_model_config=not own_file)
    text = SimpleNamespace(vocab_size=100)
    return SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text), generation_config=settings)


@pytest.mark.parametrize(
    ("pad", "end", "own_file", "said"),
    [
        (None, 50256, False, "eos_token_id of config.json is 50256, and the vocabulary has 100 tokens"),
        (None, 50256, True, "eos_token_id of generation_config.json is 50256, and the vocabulary"),
        (-2, 2, True, "pad_token_id of generation_config.json is -2, and the vocabulary"),
        ([0], 2, False, "pad_token_id of config.json is [0], which is no single token"),
    ],
)
def test_a_token_that_the_vocabulary_lacks_is_named(pad: object, end: object, own_file: bool, said: str) -> None:
    with pytest.raises(PackageError, match=re.escape(said)):
        described(with_tokens(pad, end, own_file=own_file), {}, "gpt2")


def test_early_conversions_of_llama_have_no_token_that_fills_up() -> None:
    assert described(with_tokens(-1, 2), {}, "llama")["model"]["pad_token_id"] == 2


def test_the_nodes_of_branches_are_those_of_their_modules(folder: Path, capsys: Output) -> None:
    assert main(["export", "net.py:Branches", "--input", "x=2x4", "--no-validate"]) == 0
    said = capsys.readouterr().out
    assert "modules  one 1 node, 80 B; other 1 node, 80 B" in said


def test_a_model_without_lines_of_its_own_has_no_counts_of_nodes(folder: Path, capsys: Output) -> None:
    assert main(["export", "net.py:stack", "--input", "input=2x4", "--no-validate"]) == 0
    assert "modules  0: 80 B; 1: 60 B" in capsys.readouterr().out


def test_a_failure_of_a_model_without_lines_of_its_own_is_at_its_definition(folder: Path, capsys: Output) -> None:
    assert main(["export", "net.py:stack", "--input", "input=2x5"]) == 1
    assert (
        f"--> net.py:{SOURCE.splitlines().index('stack = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))') + 1}:1"
        in (capsys.readouterr().out)
    )


def test_a_file_as_a_plugin_gets_the_name_of_its_module(folder: Path, capsys: Output) -> None:
    (folder / "ours").mkdir()
    (folder / "ours" / "onnx_ops.py").write_text("LOWERINGS = {}")
    asked = ["export", "net.py:linear", "--input", "input=2x4", "--no-validate", "--plugin"]
    assert main([*asked, "ours/onnx_ops.py"]) == 2
    assert "name its module, 'ours.onnx_ops'" in capsys.readouterr().err
    assert main([*asked, "ours.onnx_ops"]) == 0


def test_a_manifest_that_leaves_out_a_file_says_so(folder: Path, capsys: Output) -> None:
    (folder / "broken.py").write_text("class Net(\n")
    assert main(["check", "--init"]) == 0
    assert "'broken.py' is no Python that can be read, and was left out." in capsys.readouterr().out


def test_a_warning_of_python_counts_the_further_outputs(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    with pytest.warns(fxport_onnx.ExportWarning) as told:
        fxport_onnx.export(model, (torch.randn(2, 4),), tmp_path / "m.onnx")
    (one,) = [str(each.message) for each in told]
    assert "Statistics that it updates became 3 outputs." in one


def test_a_call_names_the_argument_that_does_not_fit() -> None:
    class Two(torch.nn.Module):
        def forward(self, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
            return ids.sum() * weights

    program = fxport_onnx.export(
        Two(),
        (torch.ones(3, dtype=torch.int64), torch.ones(3)),
        dynamic_shapes={"ids": {0: "n"}, "weights": {0: "n"}},
    )
    assert program is not None
    (output,) = program(torch.ones(2, dtype=torch.int64), torch.ones(2))
    assert output.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="'ids' is float32; the model takes int64"):
        program(torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="'n' is 2 in 'ids' and 3 in 'weights'"):
        program(torch.ones(2, dtype=torch.int64), torch.ones(3))


def test_streams_without_a_buffer_stay_so() -> None:
    """PYTHONUNBUFFERED."""
    there, here = os.pipe()
    unbuffered = io.TextIOWrapper(io.FileIO(here, "w"), "utf-8", write_through=True)  # type: ignore[arg-type]
    made = streams._like(unbuffered, io.FileIO(os.dup(here), "w"))
    print("told", end="", file=made)
    assert os.read(there, 10) == b"told"
    for each in (unbuffered, made):
        each.close()
    os.close(there)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_process_that_is_asked_to_end_leaves_no_draft(tmp_path: Path) -> None:
    code = f"""
import time
from pathlib import Path
from fxport.diagnostics.drafts import draft_folder
from fxport.exporter.checks.supervised import ended_cleanly

def work():
    with draft_folder(Path({str(tmp_path)!r})):
        print("begun", flush=True)
        time.sleep(60)
    return 0

ended_cleanly(work)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.wait(30) == -signal.SIGTERM
    process.stdout.close()
    assert list(tmp_path.iterdir()) == []


def test_signals_are_as_they_were_after_the_work() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert ended_cleanly(lambda: 7) == 7
    assert signal.getsignal(signal.SIGTERM) is before
