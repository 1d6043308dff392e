"""Facts and templates → one message. Nothing here may raise: an ugly message is better than none."""

from __future__ import annotations

import re
from collections.abc import Mapping

LONGEST_FACT = 200
_SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z'\[{])")
_TWO_ENDS = re.compile(r"([!?])\.(?= |$)")  # of a fact that ends in a mark of its own
_FIELD = re.compile(r"\{(\w+)[^{}]*\}")
_SCALARS = (str, int, float, bool, type(None))


def plain(value: object) -> object:
    """A scalar, or a tuple or dict of scalars: what a log may keep without keeping tensors, nodes or tracebacks alive.

    numpy and torch scalars become Python's; an exception becomes "Type: text"; anything else becomes its string.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (tuple, list)):
        return tuple(plain(item) for item in value)
    if isinstance(value, Mapping):
        return {_text(key): plain(item) for key, item in value.items()}
    return _scalar(value)


def written(template: str, facts: Mapping[str, object]) -> str:
    """The template with its facts, the strings among them cut to one line.

    A template that does not fit the facts loses the sentences that lack a fact; facts it does not name are appended.
    """
    short = one_line_facts(facts)
    try:
        return _TWO_ENDS.sub(r"\1", template.format_map(short))
    except (LookupError, ValueError, TypeError, AttributeError):
        return _salvaged(template, short)


def one_line_facts(facts: Mapping[str, object]) -> dict[str, object]:
    """The facts as a message shows them: strings cut to their first line, tuples joined."""
    return {name: _one_line(value) for name, value in facts.items()}


def error_line(error: BaseException) -> str:
    """`ValueError: first line of the text`; the type alone where there is no text."""
    text, name = error_text(error), type(error).__name__
    return name if text == name else f"{name}: {text}"


def error_text(error: BaseException) -> str:
    """The first line of an exception's text, without the final period; its type where there is no text."""
    lines = (line.strip().rstrip(".") for line in _said(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def _salvaged(template: str, facts: Mapping[str, object]) -> str:
    first, *rest = _SENTENCE_END.split(template)
    kept = [_FIELD.sub(lambda field: str(facts.get(field[1], "?")), first)]
    for sentence in rest:
        names = _FIELD.findall(sentence)
        if all(name in facts for name in names):
            kept.append(_FIELD.sub(lambda field: str(facts[field[1]]), sentence))
    said = [facts.get(name) for name in _FIELD.findall(template)]
    unsaid = {name: value for name, value in facts.items() if value not in said}
    if unsaid:
        kept.append("(" + ", ".join(f"{name}: '{value}'" for name, value in unsaid.items()) + ")")
    return " ".join(kept)


def _one_line(value: object) -> object:
    if isinstance(value, tuple):
        return ", ".join(str(_one_line(item)) for item in value)
    if not isinstance(value, str):
        return value
    line = next((line.strip() for line in value.splitlines() if line.strip()), "")
    return line if len(line) <= LONGEST_FACT else line[: LONGEST_FACT - 1] + "…"


def _scalar(value: object) -> object:
    item = getattr(value, "item", None)
    if callable(item):
        try:
            number = item()
        except Exception:  # noqa: BLE001 - a tensor without data, or of many elements, raises what it likes
            return _text(value)
        return number if type(number) in _SCALARS else _text(number)
    return _text(value)


def _text(value: object) -> str:
    return f"{type(value).__name__}: {_said(value)}" if isinstance(value, BaseException) else _said(value)


def _said(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - __str__ belongs to the user and may raise anything
        return f"<{type(value).__name__}>"
