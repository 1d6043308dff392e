"""The child's side: `python -m fxport.ort_runner.worker` runs one session and answers on its standard output.

Requests: {"do": "open", "model": path, "provider": name, "lean": bool, "optimize": bool,
"disabled": names, "runtime": name}; {"do": "run"} with arrays;
{"do": "place", "model": path, "provider": name}; {"do": "time", …, "runs": n, "warmup": n, "threads": n} with arrays.
Each has "memory", the bytes that the process may take.
Answers: what `Opened` holds, the outputs as arrays, {"nodes": rows}, what `Latency` holds, {"failure": …}, {"refused":
why}; before those of "time", {"goes_on": true} about once a second. The process ends when its input does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import IO

import numpy as np

from fxport.ort_runner.bench import latency
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.frames import Message, receive, send
from fxport.ort_runner.memory import bound, most_memory
from fxport.ort_runner.parent import end_with_parent
from fxport.ort_runner.placement import placement
from fxport.ort_runner.providers import choose
from fxport.ort_runner.runtimes import session_of
from fxport.ort_runner.session import Opened, Runner

Arrays = dict[str, np.ndarray]
Reply = tuple[Message, Arrays]

CPU = "cpu"
BEAT = 1.0  # seconds between two signs of life


def main() -> int:
    """Serve requests until the parent closes the pipe."""
    # Libraries print to stdout (preload_dlls does): the pipe gets a descriptor of its own, and prints go to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    end_with_parent(sys.stdin.fileno())
    serve(sys.stdin.buffer, answers)
    return 0


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each request in turn."""
    worker = Worker(answers)
    while True:
        try:
            request, arrays = receive(requests)
        except EOFError:
            return
        try:
            worker.bind(request)
            reply, outputs = TASKS[request["do"]](worker, request, arrays)
        except Failure as failure:
            reply, outputs = _failed(failure), {}
        except MemoryError:
            reply, outputs = {"out_of_memory": True}, {}
        except ValueError as error:
            if request["do"] == "run":  # no provider is chosen there: a fault, whose stack the parent shows
                raise
            reply, outputs = {"refused": str(error)}, {}
        send(answers, reply, outputs)


class Worker:
    """The session of this process, and the pipe to its parent."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._is_on_cpu = False
        self._answers = answers
        self._session: Runner | None = None
        self._told = time.monotonic()

    def bind(self, request: Message) -> None:
        """Bound the memory of this process; not where a GPU is used, whose driver takes host memory as it likes."""
        if "provider" in request:
            with suppress(ImportError):  # ONNX Runtime is not there, which opening a session tells
                self._is_on_cpu = choose(request["provider"]).provider.name == CPU
        if self._is_on_cpu:
            bound(request["memory"])

    def open(self, request: Message, _arrays: Arrays) -> Reply:
        """Open the session that later runs use."""
        self._session = session_of(request["runtime"], Path(request["model"]), request["provider"])
        settings = {name: request[name] for name in ("lean", "optimize", "disabled")}
        return _described(self._session.open(**settings)), {}

    def run(self, _request: Message, arrays: Arrays) -> Reply:
        """Run the open session."""
        if self._session is None:
            raise RuntimeError("a run was asked for before a session was opened")
        return {}, self._session.run(arrays)

    def place(self, request: Message, _arrays: Arrays) -> Reply:
        """Tell the provider of each node."""
        return {"nodes": [astuple(node) for node in placement(request["model"], request["provider"])]}, {}

    def time(self, request: Message, arrays: Arrays) -> Reply:
        """Time runs, and tell what they took of the memory of this process."""
        before = most_memory()
        numbers = {name: request[name] for name in ("runs", "warmup", "threads")}
        found = latency(request["model"], arrays, request["provider"], **numbers, begun=self._goes_on)
        after = most_memory()
        memory = None if before is None or after is None else max(after - before, 0)
        return asdict(replace(found, memory=memory)), {}

    def _goes_on(self) -> None:
        if time.monotonic() - self._told > BEAT:
            self._told = time.monotonic()
            send(self._answers, {"goes_on": True})


TASKS: Mapping[str, Callable[[Worker, Message, Arrays], Reply]] = {
    "open": Worker.open,
    "run": Worker.run,
    "place": Worker.place,
    "time": Worker.time,
}


def _described(opened: Opened) -> Message:
    choice = opened.choice
    return {
        "inputs": [[port.name, port.dtype, port.shape] for port in opened.inputs],
        "outputs": [[port.name, port.dtype, port.shape] for port in opened.outputs],
        "state": [[port.name, port.dtype, port.shape] for port in opened.state],
        "provider": choice.provider.name,
        "asked": choice.asked,
        "reason": choice.reason,
    }


def _failed(failure: Failure) -> Message:
    facts = {name: str(value) for name, value in failure.facts.items()}
    return {"failure": {"rule": failure.rule.id, "facts": facts, "node": failure.node, "fatal": failure.fatal}}


if __name__ == "__main__":
    sys.exit(main())
