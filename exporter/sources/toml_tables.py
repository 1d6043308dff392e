"""TOML files of the user's, held against pydantic classes: each mistake with its line and the nearest right key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fxport.diagnostics.limits import TOML, LimitError, read_bounded, require_depth
from fxport.exporter.sources.toml_lines import Path as KeyPath
from fxport.exporter.sources.toml_lines import line_of
from fxport.exporter.sources.usage import UsageError, did_you_mean

NAME, PYPROJECT = "fxport.toml", "pyproject.toml"
ENCODING = "utf-8-sig"  # some editors put a mark of it first
_MANY_PARTS = re.compile(rb"""(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){%d}""" % (TOML.depth or 0))
_NULL = re.compile(rb"\\u0000|\\U00000000")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")
_SUBJECT = re.compile(r"\w+ should ")  # how pydantic begins: "Input should be greater than 0"
TABLE = ("tool", "fxport")
"""Path of fxport's keys in pyproject.toml."""


class Keys(BaseModel):
    """A table: no key but these."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


K = TypeVar("K", bound=Keys)
Known = Callable[[KeyPath], Sequence[str]]
"""The keys of the table at a path."""


def read(path: Path) -> Mapping[str, Any]:  # Any: whatever TOML holds
    """fxport's part of a file: all of fxport.toml, [tool.fxport] of pyproject.toml. Raises UsageError."""
    data: Any = parsed(path)
    for key in TABLE if path.name == PYPROJECT else ():
        data = data.get(key, {})
        if not isinstance(data, Mapping):
            raise UsageError(f"{path.name}:{line_in(path, ())}: '{key}' is no table.")
    return data


def parsed(path: Path) -> Mapping[str, Any]:
    """The whole of a file. Raises UsageError."""
    try:
        content = read_bounded(path, TOML)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror or error}; name another manifest.") from error
    except LimitError as error:
        raise UsageError(f"'{path}' cannot be read: {error}; correct it.") from error
    try:
        _require_plain(content)
        return require_depth(tomllib.loads(content.decode(ENCODING)), TOML)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise UsageError(f"{path.name}:{line}: {byte}; save the file as UTF-8.") from error
    except (ValueError, RecursionError) as error:  # an integer of too many digits, brackets of too great a depth
        at = _AT_LINE.search(str(error))
        line = f":{at[1] or len(content.splitlines())}" if at else ""
        raise UsageError(f"{path.name}{line}: no TOML: {_AT_LINE.sub('', str(error))}; correct it.") from error


def _require_plain(content: bytes) -> None:
    """Refuse keys of many parts, for which tomllib takes time and memory without measure, and null characters.

    Raises ValueError.
    """
    if _MANY_PARTS.search(content):
        raise LimitError(f"a key has more than {TOML.depth} parts")
    if _NULL.search(content):
        raise ValueError("it has a null character, which no name of a file has")


def validated(kind: type[K], data: Mapping[str, Any], path: Path, known: Known) -> K:
    """The table as an object. Raises UsageError with a line for each mistake: file, line, what, what is right."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        lines = sorted((line_in(path, where), what) for where, what in mistakes(error, data, known))
        raise UsageError("\n".join(f"{path.name}:{line}: {what}" for line, what in lines)) from error


def line_in(path: Path, where: KeyPath) -> int:
    """The line of a key of fxport's in the file."""
    base = TABLE if path.name == PYPROJECT else ()
    return line_of(path.read_text(encoding=ENCODING), base + where)


def mistakes(error: ValidationError, data: Any, known: Known) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key path and a sentence for each of pydantic's complaints; one for all alternatives of a type."""
    unfit: dict[KeyPath, list[str]] = {}
    for entry in error.errors():
        where, key = in_table(entry["loc"], data), str(entry["loc"][-1])
        if entry["type"] == "extra_forbidden":
            yield where, f"unknown key '{key}'. {did_you_mean(key, known(where[:-1]))}".rstrip()
        elif entry["type"] == "missing":
            yield where[:-1], f"'{key}' is missing."
        else:
            said = unfit.setdefault(where, [f"'{'.'.join(map(str, where))}' is {entry['input']!r}"])
            said.append(entry["msg"].rstrip("."))
    for where, (what, *complaints) in unfit.items():
        if any(other != where and other[: len(where)] == where for other in unfit):
            continue  # the part of it that does not fit is told
        wanted = [_SUBJECT.sub("", each) for each in complaints if _SUBJECT.match(each)]
        yield where, f"{what}; it should {', or '.join(wanted)}." if wanted else f"{what}: {', '.join(complaints)}."


def in_table(loc: Sequence[int | str], data: Any) -> KeyPath:  # Any: whatever TOML holds
    """The part of pydantic's location that is keys of the file; the rest names alternatives of a type."""
    found: list[int | str] = []
    for number, part in enumerate(loc):
        if part in keys_of(data):
            data = data[part]
        elif isinstance(data, Mapping) and number == len(loc) - 1:
            data = None  # the key that is missing
        else:
            continue
        found.append(part)
    return tuple(found)


def keys_of(data: Any) -> Container[Any]:
    """Return the keys or indices of a table or an array of the file."""
    if isinstance(data, Mapping):
        return data
    return range(len(data)) if isinstance(data, list) else ()
