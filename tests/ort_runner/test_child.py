"""Child processes: a crash, a hang and a lack of memory are findings, and the next model is validated as ever."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from fxport.diagnostics import Log, rules
from fxport.ort_runner import Samples, validate
from fxport.ort_runner.child import WORKER, ChildSession, how_it_ended
from fxport.ort_runner.dtypes import BY_NAME
from fxport.ort_runner.failures import Failure
from tests.ort_runner.models import RELU, SOFTMAX, floats, relu_samples, save, softmax_samples

# A worker that serves `open` as ever and then does something else on `run`.
DOUBLE = """
import os, signal, sys, time
from fxport.ort_runner import session, worker
def run(self, inputs):
    {action}
session.LocalSession.run = run
sys.exit(worker.main())
"""


def double(action: str) -> tuple[str, ...]:
    """The command of a worker that does `action` when it should run."""
    return (sys.executable, "-P", "-c", DOUBLE.format(action=action))


def death(model: Path, action: str, *, time_limit: float = 60.0) -> str:
    """What the failure says after such a run."""
    with ChildSession(model, "cpu", time_limit=time_limit, command=double(action)) as session:
        session.open()
        with pytest.raises(Failure) as caught:
            session.run({"x": floats(2, 3)})
    assert caught.value.rule is rules.RUNTIME_FAILED
    assert caught.value.fatal
    return str(caught.value)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("os.abort()", "killed by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGFPE)", "killed by SIGFPE"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL (the system may have run out of memory)"),
        ("os._exit(3)", "exit code 3"),
        ("os.write(2, b'terminate: assertion failed\\n'); os.abort()", "its last words: terminate: assertion failed"),
        ("raise RuntimeError('a bug of the worker')", "RuntimeError: a bug of the worker"),
    ],
)
def test_a_crash_is_told(tmp_path: Path, action: str, words: str) -> None:
    assert words in death(save(tmp_path, RELU), action)


def test_a_hang_ends_at_the_time_limit(tmp_path: Path) -> None:
    assert "did not answer within 2 seconds" in death(save(tmp_path, RELU), "time.sleep(6000)", time_limit=2.0)


def test_a_lack_of_memory_is_told_and_survived(tmp_path: Path) -> None:
    with ChildSession(save(tmp_path, RELU), "cpu", command=double("raise MemoryError")) as session:
        session.open()
        with pytest.raises(Failure, match="out of memory") as caught:
            session.run({"x": floats(2, 3)})
    assert not caught.value.fatal


def test_a_child_that_does_not_start_is_told(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no such module')")
    with (
        ChildSession(save(tmp_path, RELU), "cpu", command=command) as session,
        pytest.raises(Failure, match="no such module"),
    ):
        session.open()


def test_what_libraries_print_does_not_disturb_the_answers(tmp_path: Path) -> None:
    action = "os.write(1, b'noise'); print('noise', flush=True); return {'y': inputs['x']}"
    with ChildSession(save(tmp_path, RELU), "cpu", command=double(action), time_limit=20.0) as session:
        session.open()
        np.testing.assert_array_equal(session.run({"x": floats(2, 3)})["y"], floats(2, 3))


def test_after_a_crash_the_session_opens_again(tmp_path: Path) -> None:
    action = "os.abort() if inputs['x'].shape[0] == 2 else None; return {'y': inputs['x']}"
    with ChildSession(save(tmp_path, RELU), "cpu", command=double(action)) as session:
        session.open()
        with pytest.raises(Failure):
            session.run({"x": floats(2, 3)})
        session.open()
        assert session.run({"x": floats(4, 3)})["y"].shape == (4, 3)


def test_a_crash_of_one_sample_spares_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    action = (
        "os.abort() if inputs['x'].shape[0] == 2 else None; import numpy; return {'y': numpy.maximum(inputs['x'], 0)}"
    )
    model, log = save(tmp_path, RELU), Log()
    settings = {**ChildSession.__init__.__kwdefaults__, "time_limit": 60.0, "command": double(action)}
    monkeypatch.setattr(ChildSession.__init__, "__kwdefaults__", settings)
    done = validate(model, [relu_samples("a", 3), relu_samples("b", 2), relu_samples("c", 4)], "cpu", log)
    assert [sample.passed for sample in done.samples] == [True, False, True]
    assert not done.passed
    (finding,) = log.findings
    assert finding.rule is rules.RUNTIME_FAILED
    assert "SIGABRT" in finding.message
    monkeypatch.undo()
    assert validate(model, [relu_samples()], "cpu").passed


def test_a_crash_of_the_runtime_itself_is_a_finding(tmp_path: Path) -> None:
    # ONNX Runtime 1.31 divides by the length of the scan axis. Where it no longer does, this is a run like any other.
    text = """g (float[N, M] x) => (float[N, M] y) { [scan] y =
        Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
              body = b (float[N] a) => (float[N] o) { o = Neg (a) }> (x) }"""
    x = np.zeros((2, 0), np.float32)
    log = Log()
    done = validate(save(tmp_path, text), [Samples("empty", {"x": x}, {"y": x})], "cpu", log)
    assert done.passed or [finding.rule for finding in log.findings] == [rules.RUNTIME_FAILED]


def test_values_of_all_kinds_cross_the_pipe(tmp_path: Path) -> None:
    text = "g (bfloat16[N, M] x, float s) => (bfloat16[N, M] y, float t) { y = Identity (x) t = Neg (s) }"
    with ChildSession(save(tmp_path, text), "auto") as session:
        opened = session.open()
        assert [(port.name, port.dtype, port.shape) for port in opened.inputs] == [
            ("x", "bfloat16", ("N", "M")),
            ("s", "float32", ()),
        ]
        for shape in ((2, 3), (0, 3), (500, 300)):
            x = np.ones(shape, BY_NAME["bfloat16"].dtype)
            outputs = session.run({"x": x.T, "s": np.array(2, np.float32)})
            assert outputs["y"].shape == shape[::-1]
            assert outputs["y"].dtype == x.dtype
            assert outputs["t"] == np.float32(-2)


def test_a_module_in_the_users_folder_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong numpy')")
    monkeypatch.chdir(tmp_path)
    assert "-P" in WORKER
    assert validate(save(tmp_path, SOFTMAX), [softmax_samples(floats(2, 5))], "cpu").passed


def test_a_relative_path_means_the_same_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, RELU)
    monkeypatch.chdir(tmp_path)
    assert validate("model.onnx", [relu_samples()], "cpu").passed


@pytest.mark.parametrize(
    ("code", "words"),
    [(-11, "SIGSEGV"), (-250, "signal 250"), (1, "exit code 1"), (0xC0000005, "exit code 0xc0000005")],
)
def test_ends_in_words(code: int, words: str) -> None:
    assert words in how_it_ended(code)
