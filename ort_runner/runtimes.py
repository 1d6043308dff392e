"""Implementations of ONNX as rows: ONNX Runtime, and others that run the same file as witnesses of what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from fxport.diagnostics import rules
from fxport.ort_runner.failures import Failure, tidy
from fxport.ort_runner.providers import PROVIDERS, Choice, Provider
from fxport.ort_runner.session import LocalSession, Runner

ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of ONNX. `lacking` gives the reason why it cannot be used here, or None.

    `session` opens a model file in this process; ONNX Runtime's is opened on a provider, the others on the CPU.
    `missing_op` finds the operator in an error that says that there is none; group "op".
    """

    name: str
    lacking: Callable[[], str | None]
    session: Callable[[Path], Runner] | None = None
    missing_op: re.Pattern[str] = field(default=re.compile(r"(?!)"))

    @property
    def why_not(self) -> str | None:
        """The reason why it cannot be used here, or None."""
        return self.lacking()

    @property
    def choice(self) -> Choice:
        """Itself in the place of a provider, by which errors are judged."""
        return Choice(Provider(self.name, ""), self.name)


def _package(name: str) -> Callable[[], str | None]:
    """Lacking is a package of Python that has the name of its module."""
    return lambda: None if find_spec(name) else f"it needs the package {name}: pip install {name}"


def _node() -> str | None:
    from fxport.ort_runner.web_session import why_not  # loads onnx

    return why_not()


def _reference(path: Path) -> Runner:
    from fxport.ort_runner.reference_session import ReferenceSession  # loads onnx

    return ReferenceSession(path)


def _openvino(path: Path) -> Runner:
    from fxport.ort_runner.openvino_session import OpenVinoSession  # loads onnx and openvino

    return OpenVinoSession(path)


def _web(path: Path) -> Runner:
    from fxport.ort_runner.web_session import WebSession  # loads onnx

    return WebSession(path)


RUNTIMES: Mapping[str, Implementation] = MappingProxyType(
    {
        row.name: row
        for row in (
            Implementation(ONNXRUNTIME, _package("onnxruntime")),
            Implementation(
                "reference",
                _package("onnx"),
                _reference,
                re.compile(r"(?:Node type|for operator) '(?P<op>\w+)'"),
            ),
            Implementation(
                "openvino",
                _package("openvino"),
                _openvino,
                re.compile(r"rule found for operations: (?:[\w.]+\.)?(?P<op>\w+)"),
            ),
            Implementation(
                "web",
                _node,
                _web,
                re.compile(r"(?:implementation for |[\w.]:)(?P<op>\w+)\("),
            ),
        )
    }
)
WITNESSES = tuple(name for name in RUNTIMES if name != ONNXRUNTIME)


_NOISE = re.compile(
    r"Exception from \S+:\d+: |Check '.*?' failed at \S+:\d+: |FrontEnd API failed with \w+: |Summary: -- "
)
"""Places in OpenVINO's own code, and words of it, in front of what it has to say."""


def session_of(runtime: str, model: Path, provider: str) -> Runner:
    """A session in this process. Raises KeyError for an unknown runtime."""
    make = RUNTIMES[runtime].session
    return LocalSession(model, provider) if make is None else make(model)


def provider_of(name: str) -> Provider:
    """The provider of ONNX Runtime of that name, or the row that stands for another runtime."""
    return PROVIDERS[name] if name in PROVIDERS else RUNTIMES[name].choice.provider


def witness_failure(runtime: str, error: Exception, model: Path) -> Failure:
    """The failure of a runtime that is not ONNX Runtime, at the first node of an operator that it says it lacks."""
    from fxport.ort_runner.model_file import read_model_file

    text = _NOISE.sub("", " ".join(str(error).split())) or type(error).__name__
    lacks = RUNTIMES[runtime].missing_op.search(text)
    nodes = read_model_file(model).nodes if lacks else ()
    node = next((each.name for each in nodes if lacks and each.op == lacks["op"]), None)
    return Failure(rules.WITNESS_FAILED, {"runtime": runtime, "error": tidy(text)}, node=node)
