"""SARIF 2.1.0: Log → file and back. sarif_om takes 180 ms to import, so that happens in the functions, on use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from fxport.diagnostics.limits import SARIF, LimitError, json_of, read_bounded, require_items
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Finding, Place
from fxport.diagnostics.paths import write_whole
from fxport.diagnostics.strangers import without_strangers

WIDTH = 120


@dataclass(frozen=True, slots=True)
class About:
    """Facts of a run that its log does not have.

    `model` and `run` make the category under which GitHub keeps results apart. `failure` is set where fxport itself
    failed: findings are not failures. Times are given, never taken, so that the same run gives the same bytes.
    """

    model: str = ""
    run: str = ""
    command: Sequence[str] = ()
    failure: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    version: str = ""
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Options of SARIF for one consumer."""

    only_open: bool = False
    limit: int | None = None
    pages_in_help: bool = True
    pages_in_description: bool = True


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "full": Profile(),
        # VS Code shows fullDescription and never help.
        "ide": Profile(pages_in_help=False),
        # GitHub opens alerts for suppressed results, shows help, and takes 5,000 results of a run.
        "github": Profile(only_open=True, limit=5_000, pages_in_description=False),
        # GitLab skips suppressed results by itself; of a rank it would make the level, so there is none.
        "gitlab": Profile(pages_in_help=False),
    }
)


def to_sarif(
    log: Log, *, profile: str = "full", default_place: Place | None = None, about: About | None = None
) -> dict[str, object]:
    """The log as a SARIF document, ready for JSON.

    `default_place` stands in for findings without a place of their own: the line of the model, say.
    Raises KeyError for an unknown profile.
    """
    from fxport.diagnostics.sarif.build import document
    from fxport.diagnostics.sarif.objects import to_dict

    return to_dict(document(log, PROFILES[profile], default_place, about or About()))


def write_sarif(
    log: Log,
    path: str | os.PathLike[str],
    *,
    profile: str = "full",
    default_place: Place | None = None,
    about: About | None = None,
) -> Path:
    """Write the log as SARIF, whole or not at all. Raises OSError where the file cannot be written."""
    return write_whole(path, as_text(to_sarif(log, profile=profile, default_place=default_place, about=about)))


def as_text(document: Mapping[str, object]) -> str:
    """Strict JSON with a final line feed. What fits on a line stands on one: half the bytes of a value a line."""
    return _written(document, 0) + "\n"


def _written(value: object, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not value or not isinstance(value, (dict, list)) or len(flat) + depth <= WIDTH:
        return flat
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {_written(item, depth + 1)}" for key, item in value.items()]
    else:
        items = [_written(item, depth + 1) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(f"{' ' * (depth + 1)}{item}" for item in items)
    return f"{first}\n{inner}\n{' ' * depth}{last}"


def read_sarif(path: str | os.PathLike[str]) -> Sequence[Finding]:
    """The findings of a log that fxport wrote; of files that may not be read, the places have only the names.

    Raises SarifError (a ValueError) for anything else: not JSON, not SARIF, of another tool, too long; OSError if the
    file cannot be read.
    """
    from fxport.diagnostics.sarif.objects import SarifError
    from fxport.diagnostics.sarif.read import findings_of

    file = Path(path)
    try:
        data = json_of(read_bounded(file, SARIF).decode("utf-8"), SARIF, parse_constant=_refuse)
        require_items(_results_in(data), SARIF)
    except LimitError as error:
        raise SarifError(f"{file}: {error}") from error
    except UnicodeDecodeError as error:
        raise SarifError(f"{file}: not JSON, nor text in UTF-8") from error
    except ValueError as error:
        raise SarifError(f"{file}: not JSON: {error}") from error
    try:
        return tuple(map(without_strangers, findings_of(data)))
    except SarifError as error:
        raise SarifError(f"{file}: {error}") from error


def _results_in(data: object) -> int:
    """The number of results of what may be a log."""
    runs = data.get("runs") if isinstance(data, dict) else None
    results = [run.get("results") for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    return sum(len(each) for each in results if isinstance(each, list))


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
