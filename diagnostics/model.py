"""Rules, findings, places and fixes: frozen values that say what was found, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from fxport.diagnostics.errors import FxportError

if TYPE_CHECKING:
    from fxport.diagnostics.log import Log


class Level(StrEnum):
    """Severity of a finding, in the terms of SARIF 2.1.0 §3.27.10."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """2 for an error, 1 for a warning, 0 for a note: an order, which the strings do not have."""
        return _RANK[self]


_RANK: Mapping[Level, int] = MappingProxyType({Level.NOTE: 0, Level.WARNING: 1, Level.ERROR: 2})


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that can be said. `message` is a `str.format` template over the facts of a finding.

    The first sentence of a message is stable: short names in single quotes, no number that changes from run to run.
    """

    id: str
    name: str
    level: Level
    message: str


@dataclass(frozen=True, slots=True)
class Frame:
    """One call on the user's stack."""

    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the user's source.

    Columns are 1-based and count UTF-16 code units; `end_column` is exclusive. A place made from a stack trace has no
    columns until it is resolved (`source.resolve`): `call` keeps the name to search for. `stack` is innermost first.
    `captured` is the node of the captured graph from which passes made `node`.
    """

    path: str
    line: int
    column: int | None = None
    end_column: int | None = None
    snippet: str | None = None
    module: str | None = None
    node: str | None = None
    onnx_node: str | None = None
    stack: tuple[Frame, ...] = ()
    call: str | None = None
    captured: str | None = None


class Applicability(StrEnum):
    """Degree of trust in a fix: safe to apply by machine, or for a person to decide."""

    MACHINE = "machine-applicable"
    MAYBE = "maybe-incorrect"
    DECISION = "needs-decision"  # the model, or what was asked of it, is no longer the same: a person must want that
    PLACEHOLDERS = "has-placeholders"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace a region of a file by `text`. Lines and columns as in `Place`; an empty region is an insertion."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Remedy that the user can apply: a description, and edits or code to paste where there are any."""

    description: str
    edits: tuple[Edit, ...] = ()
    applicability: Applicability = Applicability.MAYBE
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way of a value: the user's line, the FX node in a dumped file, the ONNX node in another."""

    text: str
    place: Place
    nesting: int = 0


class SuppressedBy(StrEnum):
    """Location of a suppression, in the terms of SARIF 2.1.0 §3.35.2."""

    SOURCE = "inSource"
    BASELINE = "external"


@dataclass(frozen=True, slots=True)
class Suppression:
    """Somebody has decided to live with a finding."""

    kind: SuppressedBy
    reason: str = ""


class BaselineState(StrEnum):
    """State of a finding relative to the baseline, in the terms of SARIF 2.1.0 §3.27.24."""

    NEW = "new"
    UNCHANGED = "unchanged"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, found `count` times. `identity` names the cause across runs: it has no line number and no metric."""

    rule: Rule
    level: Level
    message: str
    place: Place | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    related: tuple[Place, ...] = ()
    fixes: tuple[Fix, ...] = ()
    count: int = 1
    identity: str = ""
    steps: tuple[Step, ...] = ()
    suppression: Suppression | None = None
    baseline: BaselineState | None = None

    @property
    def is_open(self) -> bool:
        """True if the finding is neither suppressed nor absent since the baseline."""
        return self.suppression is None and self.baseline is not BaselineState.ABSENT


@dataclass(frozen=True, slots=True)
class Part:
    """Size of one exported module: nodes of the graph, and bytes of weights."""

    name: str
    nodes: int
    bytes: int


class Stop(FxportError):
    """Ends a run after a stage in which errors were reported. The findings are in `log`."""

    def __init__(self, log: Log, stage: str, messages: Sequence[str] = ()) -> None:
        self.log = log
        self.stage = stage
        self.messages = tuple(messages)
        super().__init__(_headline(stage, self.messages))


def _headline(stage: str, messages: Sequence[str]) -> str:
    if not messages:
        return f"stopped in stage '{stage}'"
    errors = "1 error" if len(messages) == 1 else f"{len(messages)} errors"
    return f"{errors} in stage '{stage}': {' '.join(messages[0].split())}"
