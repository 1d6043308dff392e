"""Rules for failed captures: a table from PyTorch's exceptions to findings."""

from __future__ import annotations

import inspect
import re
import traceback
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

from fxport.diagnostics import Fix, Level, Log, Place, Rule, rules
from fxport.diagnostics.source import place_of_exception
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.answers import RefusalHidden
from fxport.exporter.capture.overcome import what_became
from fxport.exporter.capture.patches.symbolic_calls import GeneratorGiven
from fxport.exporter.capture.places import place_of_module, place_of_return

Facts = Mapping[str, Any]
Matches = Callable[[BaseException, torch.nn.Module], bool]


class NotRewritten(Exception):
    """A statement was not rewritten; the text says why, `__cause__` what ended the capture.

    Args:
        reason: Why.
        asking: What ended the capture.
        asks: Whether the line asks for what only a run knows; else it uses what another one has made of that.
    """

    def __init__(self, reason: str, asking: Exception, *, asks: bool = True) -> None:
        super().__init__(reason)
        self.asks = asks
        self.__cause__ = asking
        self.__traceback__ = asking.__traceback__


@dataclass(frozen=True, slots=True)
class Failure:
    """One row: the exceptions it is about, and the finding.

    Attributes:
        matches: Tells whether the row is about an exception of a model.
        rule: The rule of the finding.
        facts: Returns the facts of its message.
        place: Returns its place, if that is not the place of the stack.
        remedy: What to do, if the rule's own advice is another.
    """

    matches: Matches
    rule: Rule
    facts: Callable[[BaseException], Facts]
    place: Callable[[torch.nn.Module], Place | None] = lambda _: None
    remedy: str | None = None


def _is(*kinds: type[BaseException]) -> Matches:
    return lambda error, _: isinstance(error, kinds)


def _says(kind: type[BaseException], pattern: str) -> Matches:
    return lambda error, _: isinstance(error, kind) and re.search(pattern, str(error)) is not None


def _user_error(*types: UserErrorType) -> Matches:
    return lambda error, _: isinstance(error, UserError) and error.error_type in types


def _calls_scripted(error: BaseException, model: torch.nn.Module) -> bool:
    """Return whether the error is one of a ScriptModule.

    Tracing has handed it its own `self` as one argument too many, or the module is a copy, whose parameters are no
    instances of Parameter.
    """
    scripted = any(isinstance(module, torch.jit.ScriptModule) for module in model.modules())
    said = r"Script(Module|Method)|positional arguments? but|is not an instance of torch\.nn\.Parameter"
    return scripted and re.search(said, str(error)) is not None


def _quantized(error: BaseException, model: torch.nn.Module) -> bool:
    """Return whether the error is about packed weights, or tensors of a quantized dtype, which no trace can hold."""
    if re.search(r"__obj_flatten__|PackedParams|aten(::|\.)(quantize_per_|int_repr|q_)", str(error)):
        return True
    return any(type(module).__module__ == QUANTIZING for module in model.modules())


def _packed(error: BaseException, _: torch.nn.Module) -> bool:
    """Return whether a recurrent layer makes its first state for packed sequences, of as many rows as a tensor says."""
    frames = traceback.extract_tb(error.__traceback__)
    there = any(frame.filename == inspect.getfile(torch.nn.LSTM) for frame in frames)
    return there and re.search(r"tuple of ints, ?but got \w*Tensor", str(error)) is not None


def _unfit_call(error: BaseException, _: torch.nn.Module) -> bool:
    """Return whether the call failed before the first line of forward: inputs that do not fit its signature."""
    pattern = r"(missing|unexpected|takes|too many|multiple values).*argument"
    return isinstance(error, TypeError) and re.search(pattern, str(error)) is not None and not _in_users_code(error)


def _in_users_code(error: BaseException) -> bool:
    return place_of_exception(error) is not None


def _detail(error: BaseException) -> Facts:
    return {"detail": first_line(error), "error": first_line(error)}


def _told(detail: str) -> Callable[[BaseException], Facts]:
    """Return facts in our own words, where PyTorch's say nothing to who wrote the model."""
    return lambda error: {"detail": detail, "error": first_line(error)}


def _not_rewritten(error: BaseException) -> Facts:
    told = ASKED if getattr(error, "asks", True) else USED
    detail = f"{told}, and it cannot be rewritten: {error}"
    return {"detail": detail, "error": first_line(error.__cause__ or error), "reason": str(error)}


def _branches(error: BaseException) -> Facts:
    found = re.search(r"When merging two branches[^\n]*?(expected[^\n\"]*)", str(error))
    return {"op": "cond", "detail": found[1].strip().rstrip('".') if found else first_line(error)}


_OPERATOR = re.compile(r"CustomOpDef\(([\w:.]+)\)|operator '?(\w+(?:::|\.)[\w:.]+)|kernel for (\w+\.[\w.]+)")


_RANGES = re.compile(
    r"min/max range of \[(\w+), (\w+)\], conflicting with the inferred min/max range of \[(\w+), (\w+)\], "
    r"for inputs\['(\w+)'\]\S*?\.shape\[(\d+)\]"
)
ASK_FOR_ITS_SIZES = "Ask for sizes that the model takes and the example has, or for none of this dimension."


def _ranges(error: BaseException) -> Facts:
    """Return the sizes that were asked for beside those that the model takes."""
    found = _RANGES.search(str(error))
    assert found is not None  # the row matches by it
    asked, taken = _sizes(found[1], found[2]), _sizes(found[3], found[4])
    told = f"dimension {found[6]} of '{found[5]}' was asked to be {asked}, and the model takes {taken}"
    return {"detail": told, "error": told}


def _sizes(low: str, high: str) -> str:
    """Return a range as PyTorch writes it in words."""
    return low if low == high else f"at least {low}" if high in ("None", "int_oo") else f"{low} to {high}"


def _operator(error: BaseException) -> Facts:
    found = _OPERATOR.search(str(error))
    named = getattr(error, "func", None) or (found and found[found.lastindex or 0])
    named = named or (error.args[0] if error.args else "?")
    return {"op": str(named), **_detail(error)}


def _is_of_torch(error: BaseException, _: torch.nn.Module) -> bool:
    """Return whether the error is about an operator of PyTorch's own, for which nobody can register a fake kernel."""
    missing = isinstance(error, UnsupportedOperatorException) or "could not find kernel for" in str(error)
    return missing and str(_operator(error)["op"]).startswith(("aten.", "prims."))


def _untraced(error: BaseException) -> Facts:
    return _told(UNTRACED.format(op=_operator(error)["op"]))(error)


def _unregistered(where: str) -> Callable[[BaseException], Facts]:
    def facts(error: BaseException) -> Facts:
        found = re.search(r"<class '([^']+)'>|type '?([\w.]+)", str(error))
        return {"name": where, "type": (found[1] or found[2]) if found else "?", **_detail(error)}

    return facts


HASHED = r"unhashable type: .*Sym|Expected an int as second argument to ldexp"
"""Errors where Python wants a plain number for a set or the key of a dict, or as an exponent."""
KEY = "it uses a size as the key of a dict or as a member of a set, for which Python needs a plain number"
KEPT_BY_SIZE = "it puts a value into a dict or a set under a size, of which the graph has no number"
KEPT_ALONE = (
    "Compute the value anew in each call; or keep one, beside its size: `if self.size != n: self.size, self.mask = n, "
    "mask(n)`."
)
LOADED = "it loads tensors while it runs"
LOAD_BEFORE = "Load them in __init__, or before the export."
ASKED = "Python asks here for a value that is known only when the model runs"
USED = "what stands here uses values that are known only when the model runs"
RANK = "the ONNX model keeps the axis that is squeezed here, also where data make its size 1"
PRESUMED = "the ONNX model has one side of this only: that of sizes of at least 1 and masks that select something"
PRESUMED_NONE = "the ONNX model has one side of this only: that of masks that select nothing, as in the example"
TRUTH = "truth"
"""Fact of a finding about a mask that is presumed to have an effect: what a test of it was answered."""
CHOICE = "choice"
"""Fact of such a finding, where Python has the answer as a number: another capture may have the other side."""
HIDDEN = f"{ASKED}, and an except clause hides it"
UNTRACED = "PyTorch cannot run '{op}' without values; sparse and nested tensors, for one, it cannot capture"
SCRIPTED = "it calls TorchScript, which has left Python"
GIVE_MODULE = "Give the nn.Module that was scripted or traced, and leave torch.jit out."
LAZY = "a lazy layer has no weights yet"
CALL_ONCE = "Call the model once on the example before the export."
PACKED = "it holds quantized tensors or packed quantized weights, which cannot be traced"
QUANTIZING = "torch.ao.nn.quantized.modules"
"""Module of `Quantize` and `DeQuantize`, which convert tensors to quantized ones and back."""
QUANTIZE_AFTER = "Export the float model, and quantize the ONNX file; or quantize with torchao."
DRAWN = "it draws from a generator of its own, which cannot be a part of the ONNX model"
SEEDED = "it says which random numbers PyTorch draws next, and the ONNX model draws others"
DRAW_BEFORE = "Leave the generator or the seed out; or draw the numbers once, in __init__, and keep them as a buffer."
LEAKED = "a tensor of the capture came from where it cannot be followed: another thread, or a value kept from before"

NUMBERS_ONLY = "PyTorch calls this operator with plain numbers only, and a size that is given here is dynamic"
MADE_ANEW = "Make a tensor of these sizes, as by `x.new_empty(sizes)`, or take a part or a view of the tensor."
CTC = "the gradient of ctc_loss has no form in ONNX"
CTC_BY_PARTS = "Write the loss with tensor operations, as docs/training.md shows under 'CTC'."
WRITTEN = "it writes to a tensor that is neither an input nor the model's, so that its new value would be lost"
MAKE_BUFFER = (
    "Make the tensor a buffer of the model, or the module that it is in a submodule; a tensor in the groups of an "
    "optimizer, one of `optimizer.state[parameter]`."
)
PACKED_ROWS = "the gradient of packed sequences needs lengths that are known only when the model runs"
PAD = "Run the layer, of one direction, on padded sequences, and leave the padding out of the loss by a mask."

TABLE: tuple[Failure, ...] = (
    Failure(_is(GeneratorGiven), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(DRAWN), remedy=DRAW_BEFORE),
    Failure(_is(RefusalHidden), rules.DATA_DEPENDENT_CONTROL_FLOW, _told(HIDDEN)),
    Failure(_calls_scripted, rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(SCRIPTED), remedy=GIVE_MODULE),
    Failure(_quantized, rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(PACKED), remedy=QUANTIZE_AFTER),
    Failure(_says(Exception, r"merging two branches' output"), rules.BRANCHES_DISAGREE, _branches),
    Failure(_is(NotRewritten), rules.DATA_DEPENDENT_CONTROL_FLOW, _not_rewritten),
    Failure(_is(GuardOnDataDependentSymNode), rules.DATA_DEPENDENT_CONTROL_FLOW, _told(ASKED)),
    Failure(_says(TypeError, r"unhashable"), rules.DATA_DEPENDENT_CONTROL_FLOW, _told(KEY), remedy=KEPT_ALONE),
    Failure(_says(TypeError, HASHED), rules.DATA_DEPENDENT_CONTROL_FLOW, _told(ASKED)),
    Failure(_says(Exception, r"UntypedStorage"), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(LOADED), remedy=LOAD_BEFORE),
    Failure(
        _says(ValueError, r"uninitialized parameter"), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(LAZY), remedy=CALL_ONCE
    ),
    Failure(_is_of_torch, rules.UNSUPPORTED_PYTHON_CONSTRUCT, _untraced),
    Failure(_says(Exception, r"_ctc_loss"), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(CTC), remedy=CTC_BY_PARTS),
    Failure(
        _says(RuntimeError, r"mutating a non-functional tensor with a functional"),
        rules.UNSUPPORTED_PYTHON_CONSTRUCT,
        _told(WRITTEN),
        remedy=MAKE_BUFFER,
    ),
    Failure(
        _says(RuntimeError, r"isIntList\(\)"),
        rules.UNSUPPORTED_PYTHON_CONSTRUCT,
        _told(NUMBERS_ONLY),
        remedy=MADE_ANEW,
    ),
    Failure(_packed, rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(PACKED_ROWS), remedy=PAD),
    Failure(_is(DataDependentOutputException, DynamicOutputShapeException), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(
        _says(RuntimeError, r"(?i)data-dependent|Cannot call .*\.item|calling \.item\(\) on|Boolean value of Tensor"),
        rules.DATA_DEPENDENT_CONTROL_FLOW,
        _detail,
    ),
    Failure(_says(TypeError, r"tuple of ints, ?but got \w*Tensor"), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(_says(TypeError, r"format string passed to (\w*Tensor|Sym)"), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(_is(UnsupportedOperatorException), rules.MISSING_FAKE_KERNEL, _operator),
    Failure(_says(RuntimeError, r"no fake impl|register_fake|meta kernel"), rules.MISSING_FAKE_KERNEL, _operator),
    Failure(_is(ConstraintViolationError), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(_user_error(UserErrorType.CONSTRAINT_VIOLATION), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(_user_error(UserErrorType.DYNAMIC_CONTROL_FLOW), rules.DATA_DEPENDENT_CONTROL_FLOW, _detail),
    Failure(_says(UserError, r"(?i)dynamic_shapes"), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(_says(ValueError, _RANGES.pattern), rules.DYNAMIC_SHAPES_INVALID, _ranges, remedy=ASK_FOR_ITS_SIZES),
    Failure(_says(ValueError, r"user-specified ranges|0/1 specialized"), rules.DYNAMIC_SHAPES_INVALID, _detail),
    Failure(
        _says(Exception, r"in output, which is not a known type|one of the outputs"),
        rules.UNSUPPORTED_VALUE,
        _unregistered("outputs"),
        place_of_return,
    ),
    Failure(
        _says(Exception, r"Unsupported input type|(?i:pytree)|one of the inputs"),
        rules.UNSUPPORTED_VALUE,
        _unregistered("inputs"),
        place_of_module,
    ),
    Failure(
        _says(Exception, r"fake tensor in the exported program"), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _told(LEAKED)
    ),
    Failure(
        _says(RuntimeError, r"(?i)data pointer|data_ptr|does not require grad|element 0 of tensors|\.numpy\(\) is not"),
        rules.UNSUPPORTED_PYTHON_CONSTRUCT,
        _detail,
    ),
    Failure(_is(Unsupported), rules.UNSUPPORTED_PYTHON_CONSTRUCT, _detail),
    Failure(_unfit_call, rules.INPUT_MISMATCH, _detail),
)
"""Read from the top; the first row that matches speaks. What matches none is CaptureFailed."""


OTHER_SIZES = "a turn gives a tensor of other sizes than it gets"
REMEDIES: Mapping[str, str] = {
    OTHER_SIZES: "Sizes may not change in a loop: write into a buffer of the largest size, `rows[i] = row`, or append "
    "to a list in a `for` over a number of turns that leaves by `break`.",
    KEPT_BY_SIZE: KEPT_ALONE,
}
"""Advice by the reason for which a statement was not rewritten."""


def report_failure(error: Exception, model: torch.nn.Module, log: Log) -> None:
    """Report why a capture failed, at the user's line, or at the model's `forward` where no line is known."""
    place = place_of_exception(error) or place_of_module(model)
    for cause in causes(error):
        if isinstance(cause, RefusedError):
            fixes = () if cause.cure is None else (Fix(cause.cure),)
            log.report(cause.rule, at=cause.place or place, fixes=fixes, detail=str(cause), error=str(cause))
            return
        for row in TABLE:
            if row.matches(cause, model):
                facts = row.facts(cause)
                remedy = row.remedy or REMEDIES.get(str(facts.get("reason")))
                fixes = () if remedy is None else (Fix(remedy),)
                log.report(row.rule, at=row.place(model) or place, fixes=fixes, **facts)
                return
    log.report(rules.CAPTURE_FAILED, at=place, error=first_line(error))


def reason_of(error: BaseException, model: torch.nn.Module) -> str:
    """Return why a capture failed, in the words of its finding."""
    for cause in causes(error):
        row = next((each for each in TABLE if each.matches(cause, model)), None)
        if isinstance(cause, RefusedError):
            return str(cause)
        if row is not None:
            facts = row.facts(cause)
            return str(facts.get("reason", facts["detail"]))
    return first_line(error).rstrip(".")


def report_overcome(error: Exception, model: torch.nn.Module, log: Log) -> None:
    """Note the branch, or the number, that would have ended the capture by this error, had it not been kept."""
    found = place_of_exception(error)
    place, detail = found or place_of_module(model), what_became(found)
    log.report(rules.DATA_DEPENDENT_CONTROL_FLOW, at=place, level=Level.NOTE, detail=detail, error=first_line(error))


def asks_for_values(error: Exception) -> bool:
    """Return whether a capture failed because Python asked for a value that only a run knows."""
    asking = (GuardOnDataDependentSymNode, DataDependentOutputException)
    return any(isinstance(cause, asking) or getattr(cause, "by_values", False) for cause in causes(error))


def causes(error: BaseException | None) -> list[BaseException]:
    """Return the exception and what it was raised from, outermost first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


_NOISE = re.compile(
    r" *\(unhinted: .*|  +\(Size-like symbols: .*| If you're using torch\.compile.*| For the potential source.*"
)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text that says something: without hints to developers of PyTorch.

    A headline that ends in a colon takes the line after it along; Dynamo's explanation stands for its headline.
    """
    lines = [line.strip().removeprefix("- ") for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    explained = next((line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")), None)
    told = explained or (" ".join(lines[:2]) if lines[0].endswith(":") else lines[0])
    return _NOISE.sub("", told).rstrip(" .")
