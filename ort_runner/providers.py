"""ONNX Runtime's execution providers as rows, and the choice of one that really works on this machine."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from types import MappingProxyType

from fxport.diagnostics import Finding, Level, Log, rules

AUTO = "auto"

# y = Neg(x) for a float32 scalar, the smallest model that every provider has a kernel for. As bytes, so that choosing a
# provider needs no onnx.
PROBE = bytes.fromhex(
    "0808"  # IR version 8
    "3a2c"  # graph
    "0a0d" "0a0178" "120179" "22034e6567" "3a00"  # node: Neg, x → y
    "120167"  # its name: g
    "5a0b" "0a0178" "1206" "0a04" "0801" "1200"  # input x: float32, a scalar
    "620b" "0a0179" "1206" "0a04" "0801" "1200"  # output y: the same
    "4204" "0a00" "1011"  # opset 17
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Provider:
    """One execution provider. `below` are those that take the nodes it cannot run.

    `slack` widens the error budget by a factor, and `epsilon` replaces the rounding unit of a type: for hardware whose
    arithmetic is coarser than the type says and cannot be told otherwise.
    """

    name: str
    ort_name: str
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    below: tuple[str, ...] = ()
    slack: float = 1.0
    epsilon: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def device(self) -> str:
        """Device of its kernels, by the name that PyTorch and ONNX Runtime have for it."""
        return "cpu" if self.name == "cpu" else "cuda"

    def chain(self) -> list[tuple[str, dict[str, str]]]:
        """The argument `providers` of an InferenceSession."""
        lower = [PROVIDERS[name] for name in self.below]
        return [(provider.ort_name, dict(provider.options)) for provider in (self, *lower)]


NO_TF32 = MappingProxyType({"use_tf32": "0"})  # TF32 keeps 10 bits of the 23 of float32
TF32_EPSILON = 2.0**-10

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        provider.name: provider
        for provider in (
            Provider("cpu", "CPUExecutionProvider"),
            Provider("cuda", "CUDAExecutionProvider", NO_TF32, below=("cpu",), slack=2.0),
            # TensorRT has no option against TF32 in ONNX Runtime's interface.
            Provider(
                "tensorrt",
                "TensorrtExecutionProvider",
                below=("cuda", "cpu"),
                slack=2.0,
                epsilon=MappingProxyType({"float32": TF32_EPSILON}),
            ),
        )
    }
)
PREFERRED = ("cuda", "cpu")  # what "auto" tries, in this order


@dataclass(frozen=True, slots=True)
class Choice:
    """The provider that will run, the one that was asked for, and why it did not come up."""

    provider: Provider
    asked: str
    reason: str | None = None


def choose(asked: str) -> Choice:
    """The provider of that name if it works here, else the CPU with the reason. Raises ValueError for unknown names."""
    if asked == AUTO:
        working = (name for name in PREFERRED if name == "cpu" or why_not(PROVIDERS[name]) is None)
        return Choice(PROVIDERS[next(working)], asked)
    provider = provider_named(asked)
    reason = None if asked == "cpu" else why_not(provider)
    return Choice(provider if reason is None else PROVIDERS["cpu"], asked, reason)


def provider_named(name: str) -> Provider:
    """The row of that name. Raises ValueError with the known names."""
    if name not in PROVIDERS:
        raise ValueError(f"no execution provider '{name}': choose one of {', '.join((AUTO, *PROVIDERS))}")
    return PROVIDERS[name]


def resolve(name: str, log: Log) -> Provider:
    """`choose`, with a provider that was asked for and does not come up reported as an error."""
    choice = choose(name)
    report_fall_back(choice, log)
    return choice.provider


def report_fall_back(choice: Choice, log: Log) -> Finding | None:
    """Asking for a provider is a promise to the user: breaking it is an error, whatever ran in its place."""
    if choice.reason is None:
        return None
    detail = f"{choice.asked} does not work here: {choice.reason}"
    used = choice.provider.name
    return log.report(rules.PROVIDER_FELL_BACK, level=Level.ERROR, used=used, provider=choice.asked, detail=detail)


def why_not(provider: Provider) -> str | None:
    """None if a session on this provider comes up, else the reason.

    The GPU build lists its providers on machines without a GPU, and opens a session on the CPU in their place: only a
    session that names the provider proves it.
    """
    import onnxruntime

    if provider.ort_name not in onnxruntime.get_available_providers():
        return "this build of ONNX Runtime does not contain it"
    options = onnxruntime.SessionOptions()
    error = ""
    with captured_output() as said:
        preload = getattr(onnxruntime, "preload_dlls", None)  # since 1.21
        if preload is not None:
            preload()
        try:
            # Without the fall-back ONNX Runtime would print its apology to stdout.
            session = onnxruntime.InferenceSession(PROBE, options, providers=provider.chain(), enable_fallback=False)
            up = provider.ort_name in session.get_providers()
        except Exception as raised:  # noqa: BLE001 - ONNX Runtime's exceptions have no common base but this
            up, error = False, str(raised)
    return None if up else _reason("\n".join(said), error)


_REASONS = (
    re.compile(r"(lib[\w.+-]+: cannot open shared object file)"),
    re.compile(r"with error: (.+?)(?:\n|$)"),
    re.compile(r"(CUDA failure \d+: [^;]+)"),
    re.compile(r"(Please install TensorRT libraries)"),
)


def _reason(said: str, error: str) -> str:
    text = f"{said}\n{error}"
    found = next((match[1] for pattern in _REASONS if (match := pattern.search(text))), "")
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return found or last or "its session ran on the CPU"


@contextmanager
def captured_output() -> Iterator[list[str]]:
    """Catch what Python and C++ print to the standard streams of this process; yields a list that then holds the text.

    ONNX Runtime's default logger writes past sys.stderr, so the file descriptors themselves are turned aside; and a
    notebook's sys.stdout is on no descriptor, so that is turned aside too.
    """
    said: list[str] = []
    printed = io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with tempfile.TemporaryFile() as file:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in kept:
                os.dup2(file.fileno(), number)
            with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a provider that is not in the build
                yield said
        finally:
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
            file.seek(0)
            said += [printed.getvalue(), file.read().decode(errors="replace")]
