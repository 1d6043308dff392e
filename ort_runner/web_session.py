"""A session of onnxruntime-web, ONNX Runtime for browsers as WebAssembly, run by Node on one thread."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import onnx

from fxport.ort_runner.dtypes import element_of
from fxport.ort_runner.file_ports import opened_of
from fxport.ort_runner.frames import Message, receive, send
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.runtimes import RUNTIMES, witness_failure
from fxport.ort_runner.session import Opened
from fxport.ort_runner.state_inputs import states_as_inputs
from fxport.ort_runner.trials import locations

NAME = "web"
PROGRAM = files("fxport.ort_runner") / "web_session.cjs"


def why_not() -> str | None:
    """The reason why it cannot be used here, or None: Node finds the package as it does for scripts of this folder."""
    node = shutil.which("node")
    if node is None:
        return "it needs Node, 20 or later"
    with as_file(PROGRAM) as program:
        found = subprocess.run([node, str(program), "find"], capture_output=True, check=False)
    return "it needs the package onnxruntime-web: npm install onnxruntime-web" if found.returncode else None


class WebSession:
    """A model in onnxruntime-web, in a process of Node."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._state: dict[str, np.ndarray] = {}
        self._outputs: tuple[str, ...] = ()

    def open(self, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()) -> Opened:
        """Load the model. Raises Failure."""
        self._stack.close()
        proto = onnx.load(self._model, load_external_data=False)
        opened = opened_of(proto, RUNTIMES[NAME].choice)
        self._outputs = tuple(port.name for port in opened.outputs)
        try:
            program = self._stack.enter_context(as_file(PROGRAM))
            process = subprocess.Popen(["node", str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._process = self._stack.enter_context(process)
            with states_as_inputs(self._model, proto, opened) as (path, self._state):
                external = [[name, str(path.parent / name)] for name in sorted(locations(read_model_file(self._model)))]
                self._ask({"do": "open", "model": str(path.absolute()), "external": external, "optimize": optimize})
        except Exception as error:
            self._stack.close()
            raise witness_failure(NAME, error, self._model) from error
        return opened

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the model. Raises Failure."""
        if self._process is None:
            raise RuntimeError("the session is not open")
        try:
            fed = {**self._state, **inputs}
            if odd := [each.dtype.name for each in fed.values() if not element_of(each.dtype).native]:
                raise ValueError(f"onnxruntime-web has no tensors of {odd[0]}")
            values = self._ask({"do": "run"}, fed)
        except Exception as error:
            raise witness_failure(NAME, error, self._model) from error
        return {name: values[name] for name in self._outputs}

    def _ask(self, message: Message, arrays: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """The arrays of the reply. Raises RuntimeError with what onnxruntime-web says."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            send(self._process.stdin, message, arrays)
            reply, values = receive(self._process.stdout)
        except (OSError, EOFError) as error:
            raise RuntimeError(f"Node ended with exit code {self._process.wait()}") from error
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return values

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process = None
        self._stack.close()
