"""Start the Python processes of tests by a fork of a process that has imported what they need.

An import of PyTorch and of what an export needs takes six seconds of CPU, most of what a test of a command line costs.
`install` has `subprocess.Popen` ask a server for the commands of `PRELOADED`: the server, which has no threads of
Python and has done nothing but imports, forks, and the fork runs the command with the arguments, folder, environment,
streams and session that were asked for. The process is a child of the one that asked: its id, signals, exit code and
end are those of any other.

What differs: modules are imported already, and the flags of the interpreter are the server's. So the following start as
ever: commands that are not in the table (every `-c` of a test, which is what tests of imports use), those with a
`preexec_fn` or an environment that the interpreter or a library reads when it starts, those within a test that has the
fixture `real_processes`, and those that a fork of such a process starts. Linux only; elsewhere nothing is installed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = str(Path(__file__).resolve().parents[1])
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
GATEWAY = "import sys;exec(eval(sys.stdin.readline()))"
"""The command that pytest-xdist starts a worker with."""
WORKER, RUNTIME = "fxport.exporter.checks.worker", "fxport.ort_runner.worker"
TRIALS = "from fxport.exporter.validation.fixes.trials import serve; serve()"
FLAGS = {"-P", "-u"}
READ_AT_START = ("PYTHON", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "TORCH", "CUDA_", "LD_")
PATHS, NO_BYTECODE = "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"
SET_LATER = (PATHS, NO_BYTECODE, "TORCHINDUCTOR_CACHE_DIR")
"""Of those: two that a fork follows, and one that PyTorch itself sets."""


def for_exports() -> None:
    """Import what the worker of `fxport check` does, and what an export imports on use."""
    import _pytest.pytester  # noqa: F401
    import execnet.gateway_base  # noqa: F401

    from fxport.exporter.checks import in_test  # noqa: F401
    from fxport.exporter.cli import export  # noqa: F401
    from fxport.exporter.validation.fixes import trial  # noqa: F401

    importlib.import_module(WORKER).warm()
    del sys.modules[WORKER]  # it is run as a program


def for_runtimes() -> None:
    """Import what the worker of ONNX Runtime does; not PyTorch."""
    import onnxruntime  # noqa: F401

    importlib.import_module(RUNTIME)
    del sys.modules[RUNTIME]  # it is run as a program
    gc.freeze()


PRELOADED: dict[tuple[str, str], Callable[[], None]] = {
    ("-m", "fxport"): for_exports,
    ("-m", WORKER): for_exports,
    ("-m", RUNTIME): for_runtimes,
    ("-m", "pytest"): for_exports,
    ("-c", GATEWAY): for_exports,
    ("-c", TRIALS): for_exports,
    ("-m", "tests.cases.drawn_digits"): for_exports,
    ("-m", "tests.exporter.saves"): for_exports,
    ("-m", "tests.hostile.run"): for_exports,
}
"""Commands of Python that are served, and what their server imports."""
STARTERS = {"fxport", "pytest", GATEWAY}
"""Commands that may start such a process themselves: they have a server of their own."""


ORDINARY = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
}
"""Arguments of `Popen` that another process does not follow."""


@dataclass(frozen=True, slots=True)
class Command:
    """A call of Python: `kind` is "-m" or "-c", `what` a module or a text."""

    flags: Sequence[str]
    kind: str
    what: str
    arguments: Sequence[str]


def command_of(arguments: Sequence[str]) -> Command | None:
    """Read a call of this Python. None if the call is another one or is not in the table."""
    if not arguments or os.fspath(arguments[0]) != sys.executable:
        return None
    rest = [os.fspath(each) for each in arguments[1:]]
    flags = []
    while rest and rest[0] in FLAGS:
        flags.append(rest.pop(0))
    if rest and rest[0].startswith("-m") and len(rest[0]) > 2:
        rest[:1] = ["-m", rest[0][2:]]
    if tuple(rest[:2]) not in PRELOADED:
        return None
    return Command(flags, rest[0], rest[1], rest[2:])


class Server:
    """The other end of a server: of this process alone, not of its forks."""

    def __init__(self, end: socket.socket, environment: Mapping[str, str]) -> None:
        self._end, self._environment, self._owner = end, environment, os.getpid()
        self._is_gone, self._lock = False, threading.Lock()

    def can_serve(self, environment: Mapping[str, str]) -> bool:
        """Return False for an environment that would have made the server another one."""
        return self._owner == os.getpid() and _read_at_start(environment) == self._environment

    def start(self, request: dict[str, Any], streams: Sequence[int]) -> int | None:
        """Have a process started as a child of this one. Returns its id, None if the server is gone."""
        with self._lock, _reaping():
            if self._is_gone:
                return None
            self._is_gone, answer = True, b""  # whatever stops this leaves an answer that nobody reads
            try:
                message = json.dumps(request).encode() + b"\n"
                sent = socket.send_fds(self._end, [message], list(streams))
                self._end.sendall(message[sent:])
                while not answer.endswith(b"\n"):
                    if not (part := self._end.recv(64)):
                        return None
                    answer += part
            except OSError:
                return None
            self._is_gone = False
            return int(answer)


_servers: dict[Callable[[], None], Server] = {}
"""Of this process, by what they have imported."""
_switched_off = 0
_may_start = True
"""A process that was served has only the servers that it was given."""
_lock = threading.Lock()


@contextmanager
def switched_off() -> Iterator[None]:
    """Start every process as it is."""
    global _switched_off
    _switched_off += 1
    try:
        yield
    finally:
        _switched_off -= 1


def install() -> None:
    """Have `subprocess.Popen` of this process ask a server where one can help."""
    execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]  # the one place where Popen forks
    signature = inspect.signature(execute)
    if sys.platform != "linux" or "start_new_session" not in signature.parameters:
        return

    def execute_child(self: subprocess.Popen[Any], *args: Any) -> None:
        given = signature.bind(self, *args).arguments
        pid = None if _switched_off else _served(given)
        if pid is None:
            execute(self, *args)
            return
        self.pid = pid
        self._child_created = True  # type: ignore[attr-defined]
        names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in names))  # type: ignore[attr-defined]

    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]


def _served(given: dict[str, Any]) -> int | None:
    """Start a process by a server. None if it has to be started as ever."""
    arguments = given["args"]
    if isinstance(arguments, str | bytes | os.PathLike) or (command := command_of(arguments)) is None:
        return None
    if any(given[name] != value for name, value in ORDINARY.items()) or given["process_group"] > 0:
        return None
    environment = dict(os.environ if given["env"] is None else given["env"])
    folder = given["cwd"] or os.curdir
    if not all(isinstance(each, str) for pair in environment.items() for each in pair) or not os.path.isdir(folder):
        return None
    if command.what == GATEWAY and _may_start:
        return None  # a worker of this very run: pytest rewrites the asserts of what it imports itself
    server = _server_for(PRELOADED[command.kind, command.what])
    if server is None or not server.can_serve(environment):
        return None
    ends = enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"]))
    streams = [number if end == -1 else end for number, end in ends]
    request = {
        "flags": list(command.flags),
        "kind": command.kind,
        "what": command.what,
        "arguments": list(command.arguments),
        "folder": os.path.abspath(os.fspath(folder)),
        "environment": environment,
        "session": given["start_new_session"],
        "group": given["process_group"] == 0,
    }
    return server.start(request, streams)


def _server_for(imports: Callable[[], None]) -> Server | None:
    with _lock:
        if imports not in _servers and _may_start:
            _servers[imports] = _new_server(imports)
        return _servers.get(imports)


def _new_server(imports: Callable[[], None]) -> Server:
    ours, theirs = socket.socketpair()
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r}); import tests.process_server as server; sys.path.pop(0); "
        f"server.main({imports.__name__!r}, {theirs.fileno()})"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()
    atexit.register(_end, ours, process)
    return Server(ours, _read_at_start(os.environ))


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()  # which ends it
    process.wait()


def _read_at_start(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {name: v for name, v in environment.items() if name.startswith(READ_AT_START) and name not in SET_LATER}


@contextmanager
def _reaping() -> Iterator[None]:
    """Make this process the parent of a process whose own parent ends."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0)


# The server's side ---------------------------------------------------------------------------------------------------


def main(imports: str, descriptor: int) -> None:
    """Import, then serve until the other end is closed."""
    environment, preload = _read_at_start(os.environ), globals()[imports]
    preload()
    _serve(socket.socket(fileno=descriptor), preload, environment)


def _serve(end: socket.socket, imports: Callable[[], None], environment: Mapping[str, str]) -> NoReturn:
    while True:
        received, streams, _, _ = socket.recv_fds(end, 1 << 16, 3)
        while received and not received.endswith(b"\n"):
            received += end.recv(1 << 16)
        if not received:
            os._exit(0)
        (told, tell), (wait, go) = os.pipe(), os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                os.close(go)
                os.read(wait, 1)  # until this process is a child of the one that asked
                for each in (told, tell, wait):
                    os.close(each)
                end.close()
                _run(json.loads(received), streams, imports, environment)
            os.write(tell, str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)
        child = os.read(told, 64)
        for each in (told, tell, wait, go, *streams):
            os.close(each)
        end.sendall(child + b"\n")


def _run(
    request: dict[str, Any], streams: Sequence[int], imports: Callable[[], None], environment: Mapping[str, str]
) -> NoReturn:
    """Be the process that was asked for."""
    code = 1
    try:
        if request["session"]:
            os.setsid()
        if request["group"]:
            os.setpgid(0, 0)
        if request["what"] in STARTERS:
            _serve_this_process(streams, imports, environment)
        _prepare(request, streams)
        code = _code_of(request)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the end of the interpreter does
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _serve_this_process(streams: Sequence[int], imports: Callable[[], None], environment: Mapping[str, str]) -> None:
    """Give this process a server of its own, a fork that has done nothing since the imports."""
    global _may_start
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        for each in (ours.fileno(), *streams):
            os.close(each)
        _serve(theirs, imports, environment)
    theirs.close()
    _may_start = False
    _servers[imports] = Server(ours, environment)
    install()


def _prepare(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Set what an interpreter sets when it starts."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    environment, flags = request["environment"], request["flags"]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(request["folder"])
    unbuffered = "-u" in flags
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(write_through=unbuffered)
    sys.stderr = sys.__stderr__ = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.dont_write_bytecode = bool(environment.get(NO_BYTECODE))
    paths = [path for path in environment.get(PATHS, "").split(os.pathsep) if path and path not in sys.path]
    first = {"-m": request["folder"], "-c": ""}[request["kind"]]
    sys.path[:0] = paths if "-P" in flags else [first, *paths]
    sys.argv = ["-c", *request["arguments"]]


def _code_of(request: dict[str, Any]) -> int:
    """Run the command. Returns its exit code."""
    try:
        if request["kind"] == "-m":
            runpy.run_module(request["what"], run_name="__main__", alter_sys=True)
        else:
            module = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(request["what"], "<string>", "exec"), module.__dict__)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001  # the interpreter would print it, too
        traceback.print_exc()
        return 1
    return 0
