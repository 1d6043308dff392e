"""What a failed capture means: a table from PyTorch's exceptions to rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import Unsupported, UserError, UserErrorType
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

from diagnostics import Log, Rule, rules
from diagnostics.source import place_of_exception
from exporter.capture.places import place_of_module


@dataclass(frozen=True, slots=True)
class Failure:
    """One row: which exceptions it is about, the rule, and the facts of the rule's message."""

    matches: Callable[[BaseException], bool]
    rule: Rule
    facts: Callable[[BaseException], Mapping[str, Any]]


def _is(*kinds: type[BaseException]) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, kinds)


def _says(kind: type[BaseException], pattern: str) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, kind) and re.search(pattern, str(error)) is not None


def _user_error(*types: UserErrorType) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, UserError) and error.error_type in types


def _detail(error: BaseException) -> Mapping[str, Any]:
    return {"detail": first_line(error), "error": first_line(error)}


def _operator(error: BaseException) -> Mapping[str, Any]:
    return {"op": str(getattr(error, "func", None) or (error.args[0] if error.args else "?")), **_detail(error)}


def _unregistered_type(error: BaseException) -> Mapping[str, Any]:
    found = re.search(r"<class '([\w.<>]+)'>|type '?([\w.]+)", str(error))
    return {"name": "the call", "type": found[1] or found[2] if found else "?", **_detail(error)}


TABLE: tuple[Failure, ...] = (
    Failure(_is(GuardOnDataDependentSymNode), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(_is(DataDependentOutputException, DynamicOutputShapeException), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(
        _says(RuntimeError, r"(?i)data-dependent|Cannot call .*\.item|Boolean value of Tensor"),
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        _detail,
    ),
    Failure(_is(UnsupportedOperatorException), rules.MISSING_FAKE_KERNEL, _operator),
    Failure(_says(RuntimeError, r"no fake impl|register_fake|meta kernel"), rules.MISSING_FAKE_KERNEL, _operator),
    Failure(_is(ConstraintViolationError), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(_user_error(UserErrorType.CONSTRAINT_VIOLATION), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(_user_error(UserErrorType.DYNAMIC_CONTROL_FLOW), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(_says(UserError, r"(?i)dynamic_shapes"), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(_says(ValueError, r"user-specified ranges|0/1 specialized"), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(
        _says(Exception, r"(?i)pytree|It looks like one of the (in|out)puts"),
        rules.UNSUPPORTED_VALUE,
        _unregistered_type,
    ),
    Failure(_is(Unsupported), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _detail),
    Failure(_says(TypeError, r"(missing|unexpected|takes).*argument"), rules.INPUT_MISMATCH, _detail),
)
"""Read from the top; the first row that matches speaks. What matches none is CaptureFailed."""


def report_failure(error: Exception, model: torch.nn.Module, log: Log) -> None:
    """Reports why a capture failed, at the user's line, or at the model's `forward` where no line is known."""
    place = place_of_exception(error) or place_of_module(model)
    for cause in _causes(error):
        for row in TABLE:
            if row.matches(cause):
                log.report(row.rule, at=place, **row.facts(cause))
                return
    log.report(rules.CAPTURE_FAILED, at=place, error=first_line(error))


def _causes(error: BaseException | None) -> list[BaseException]:
    """The exception and what it was raised from, outermost first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def first_line(error: BaseException) -> str:
    """The first line of an exception's text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
