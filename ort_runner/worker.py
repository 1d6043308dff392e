"""The child's side: `python -m fxport.ort_runner.worker` runs one session and answers on its standard output.

Requests: {"do": "open", "model": path, "provider": name, "lean": bool, "optimize": bool,
"disabled": names}; {"do": "run"} with arrays.
Answers: what `Opened` holds, or the outputs as arrays, or {"failure": …}. The process ends when its input does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

import numpy as np

from fxport.ort_runner.failures import Failure
from fxport.ort_runner.frames import Message, receive, send
from fxport.ort_runner.parent import end_with_parent
from fxport.ort_runner.session import LocalSession, Opened


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
    session: LocalSession | None = None
    while True:
        try:
            request, arrays = receive(requests)
        except EOFError:
            return
        try:
            if request["do"] == "open":
                session = LocalSession(Path(request["model"]), request["provider"])
                settings = {name: request[name] for name in ("lean", "optimize", "disabled")}
                reply, outputs = _described(session.open(**settings)), {}
            else:
                reply, outputs = _ran(session, arrays)
        except Failure as failure:
            reply, outputs = _failed(failure), {}
        except MemoryError:
            reply, outputs = {"out_of_memory": True}, {}
        send(answers, reply, outputs)


def _ran(session: LocalSession | None, inputs: dict[str, np.ndarray]) -> tuple[Message, dict[str, np.ndarray]]:
    if session is None:
        raise RuntimeError("a run was asked for before a session was opened")
    return {}, session.run(inputs)


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
