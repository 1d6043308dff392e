"""Findings for error messages of ONNX Runtime: tables of patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fxport.diagnostics import Rule, rules
from fxport.diagnostics.errors import FxportError

OPEN, RUN = "open", "run"
LONGEST_MESSAGE = 400


class Failure(FxportError):
    """The runtime did not do what it was asked. `node` is the ONNX node it named, `facts` those of the rule.

    `fatal` says that the session cannot be used any more, `late` that it took too long.
    """

    def __init__(
        self,
        rule: Rule,
        facts: Mapping[str, object],
        *,
        node: str | None = None,
        fatal: bool = False,
        late: bool = False,
    ) -> None:
        super().__init__(facts.get("error") or facts.get("reason") or rule.name)
        self.rule, self.node, self.fatal, self.late = rule, node, fatal, late
        self.facts: Mapping[str, Any] = dict(facts)  # Any: keywords of Log.report, which has typed ones too


@dataclass(frozen=True, slots=True)
class Row:
    """An error whose message matches `pattern`, in one of `phases`, is `rule`."""

    pattern: re.Pattern[str]
    rule: Rule
    phases: tuple[str, ...] = (OPEN, RUN)


# The first row that matches. While a session opens, whatever is not about memory, files or kernels is about the model:
# ONNX Runtime says Fail or InvalidArgument there for cycles, wrong types and unknown operators alike.
ROWS = (
    Row(
        re.compile(r"bad_alloc|(?:[Ff]ailed to|[Cc]annot) allocate|CUDA out of memory|CUBLAS_STATUS_ALLOC"),
        rules.RUNTIME_FAILED,
    ),
    Row(re.compile(r"[Ee]xternal (?:[Dd]ata|initializer)"), rules.EXTERNAL_DATA_MISSING, (OPEN,)),
    Row(
        re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|is not a registered function/op"),
        rules.KERNEL_MISSING,
    ),
    Row(re.compile(r"NO_SUCHFILE|: (?:FAIL|INVALID\w+|NO_MODEL) :"), rules.MODEL_REJECTED, (OPEN,)),
    Row(re.compile(""), rules.RUNTIME_FAILED),
)

# Where a message names the node; seen in ONNX Runtime 1.31. Of several matches the last is the innermost node: an error
# in a branch names the If first.
NODE_NAMES = (
    re.compile(r"node name: (?P<node>[^)]*)\)"),
    re.compile(r"node with name '(?P<node>[^']*)'"),
    re.compile(r"Name:'(?P<node>[^']*)' Status"),
    re.compile(r"in node \((?P<node>.*?)\)\.?(?:\s|$)"),
    re.compile(r'In Node, \("(?P<node>[^"]*)"'),
    re.compile(r"Node[ :]\((?P<node>[^)]*)\) Op"),
)
OP_NAMES = (
    re.compile(r"implementation for (?P<op>[\w.:]+)\(-?\d+\)"),
    re.compile(r"error: (?P<op>[\w.:]+)\(-?\d+\) is not a registered"),
    re.compile(r"while running (?P<op>\w+) node"),
)
EXTERNAL_FILE = re.compile(r'(?:External data path: |does not exist: |path: )"(?P<name>[^"]+)"')

# Noise at the front of a message: its code, and the C++ line it came from.
_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_CPP = re.compile(r"/onnxruntime_src/\S+:\d+ .*?\)(?: const)? (?=[A-Z(]|\S+ (?:==|!=|<|>|\|\|) )")


def failure_of(error: Exception, phase: str, provider: str) -> Failure:
    """The failure that an exception of ONNX Runtime's stands for. `phase` is OPEN or RUN."""
    text = " ".join(str(error).split())
    rule = next(row.rule for row in ROWS if phase in row.phases and row.pattern.search(text))
    node = _innermost(NODE_NAMES, text, "node")
    return Failure(rule, FACTS.get(rule.id, _error_only)(text, provider), node=node or None)


def tidy(text: str) -> str:
    """The message in one line, without codes and C++ places, cut to a readable length."""
    line = _CPP.sub("", _CODE.sub("", " ".join(text.split())))
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"


def _error_only(text: str, provider: str) -> dict[str, object]:
    return {"error": tidy(text), "provider": provider}


def _kernel(text: str, provider: str) -> dict[str, object]:
    return {"op": _innermost(OP_NAMES, text, "op") or "an operator", "provider": provider, "error": tidy(text)}


def _external(text: str, _provider: str) -> dict[str, object]:
    return {"name": _innermost((EXTERNAL_FILE,), text, "name") or "external data", "reason": tidy(text)}


FACTS = MappingProxyType({rules.KERNEL_MISSING.id: _kernel, rules.EXTERNAL_DATA_MISSING.id: _external})


def _innermost(patterns: tuple[re.Pattern[str], ...], text: str, group: str) -> str:
    found = ([match[group] for match in pattern.finditer(text)] for pattern in patterns)
    return next((names[-1] for names in found if names), "")
