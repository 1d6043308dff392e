"""Children end with their parent, however it ends, and models that do not end are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper

from fxport.diagnostics import Log, rules
from fxport.ort_runner import Samples, validate
from fxport.ort_runner.child import LEAST_TIME_LIMIT, time_limit_of
from fxport.ort_runner.parent import wait_for
from tests.ort_runner.models import RELU, floats, runtimes, save

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
ENDLESS = """g (float[2, 3] x) => (float[2, 3] y) {
    n = Constant <value = int64 {9223372036854775807}> ()
    c = Constant <value = bool {1}> ()
    y = Loop (n, c, x) <body = b (int64 i, bool ci, float[2, 3] v) => (bool co, float[2, 3] w) {
        co = Identity (ci)  w = Relu (v)
    }>
}"""
RUN = """
import sys
from pathlib import Path
import numpy as np
from fxport.ort_runner.child import ChildSession
from fxport.ort_runner.web_session import WebSession
session = {"child": lambda path: ChildSession(path, "cpu"), "web": WebSession}[sys.argv[2]](Path(sys.argv[1]))
session.open()
print(session._process.pid, flush=True)
session.run({"x": np.zeros((2, 3), np.float32)})
"""


def calls_of_calls(folder: Path, depth: int = 27) -> Path:
    """A model of a few functions, each of which calls the one before it twice."""
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "f0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], domains)]
    for number in range(1, depth + 1):
        called = f"f{number - 1}"
        nodes = [helper.make_node(called, ["x"], ["t"], domain="f"), helper.make_node(called, ["t"], ["y"], domain="f")]
        functions.append(helper.make_function("f", f"f{number}", ["x"], ["y"], nodes, domains))
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(f"f{depth}", ["x"], ["y"], domain="f")], "g", ends[:1], ends[1:])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=domains, ir_version=10), path)
    return path


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends_within(pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_running(pid):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("kind", ["child", *runtimes("web")])
def test_a_busy_child_ends_with_its_killed_parent(tmp_path: Path, kind: str) -> None:
    model = save(tmp_path, ENDLESS)
    with subprocess.Popen([sys.executable, "-c", RUN, str(model), kind], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.5)
        assert parent.poll() is None
        parent.kill()
    assert ends_within(child, 120)


def endless_loop(folder: Path) -> Path:
    return save(folder, ENDLESS)


@pytest.mark.parametrize("make", [endless_loop, calls_of_calls])
def test_a_model_that_does_not_end_is_told_once(make: Callable[[Path], Path], tmp_path: Path) -> None:
    log = Log()
    sample = Samples("s", {"x": floats(2, 3)}, {"y": floats(2, 3)})
    result = validate(make(tmp_path), [sample, sample, sample], "cpu", log, time_limit=2)
    assert not result.passed
    (finding,) = log.findings
    assert finding.rule is rules.RUNTIME_FAILED
    assert "did not answer within 2 seconds" in finding.message


def test_large_models_have_more_time(tmp_path: Path) -> None:
    model = save(tmp_path, RELU)
    assert LEAST_TIME_LIMIT <= time_limit_of(model) < LEAST_TIME_LIMIT + 1
    assert time_limit_of(tmp_path / "none.onnx") == LEAST_TIME_LIMIT
    weights = save(tmp_path, RELU).with_name("large.onnx")
    weights.write_bytes(model.read_bytes())
    with weights.open("ab") as file:  # one more field of the message: bytes of a doc string
        length = 1 << 30
        file.write(b"\x32" + bytes([0x80, 0x80, 0x80, 0x80, 0x04]))
        file.truncate(file.tell() + length)
    assert time_limit_of(weights) > LEAST_TIME_LIMIT + 50


def test_a_wait_ends_with_either_pipe() -> None:
    (read, write), (others, mine) = os.pipe(), os.pipe()
    os.write(mine, b"not read")
    os.write(write, b".")
    assert wait_for(read, while_open=others)
    assert os.read(read, 1) == b"."
    os.close(mine)
    assert not wait_for(read, while_open=others)
    for each in (read, write, others):
        os.close(each)
