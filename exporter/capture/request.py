"""Request of a capture, and observations while it runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fxport.diagnostics import Place
from fxport.exporter.capture.arguments.inputs import arguments_of
from fxport.exporter.capture.faults import is_about_gradients
from fxport.exporter.capture.guards.answers import Inquiry
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.guards.errors import Caught
from fxport.exporter.capture.patches.generators import SHARED
from fxport.exporter.capture.patches.known_values import Asked
from fxport.exporter.capture.patches.outside import Effects
from fxport.exporter.capture.rewritten import Rewritten
from fxport.exporter.capture.sizes.shapes import Request, relaxed
from fxport.exporter.capture.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """A model with one example call, and the sizes that shall stay dynamic.

    Attributes:
        model: The module to capture.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call, in the order in which they were written.
        sizes: The axes that shall stay dynamic.
        dynamic_shapes: `sizes` without those of `fixed`, as torch.export takes them.
        values_of_inputs: Whether values of inputs may become constants where Python asks for them.
        reuse: Whether blocks that the model repeats may be captured once.
        rewrite: Whether statements that depend on data or on dynamic sizes may become operators.
        fixed: Sizes that are constants of the graph, each with the line that is to blame, if one is known.
        as_data: Sizes of tensors of which only a run tells, so that branches on them are operators.
        contrary: Lines that ask whether masks have an effect, and are presumed to be told that they have none.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sizes: Sequence[Request]
    dynamic_shapes: Any
    values_of_inputs: bool = False
    reuse: bool = False
    rewrite: bool = True
    fixed: Mapping[Request, Place | None] = field(default_factory=dict)
    as_data: Sequence[Request] = ()
    contrary: Sequence[Place] = ()

    def fixing(self, sizes: Mapping[Request, Place | None]) -> CaptureRequest:
        """Return the request with these sizes as constants too."""
        fixed = {**self.fixed, **sizes}
        kept = [each for each in self.sizes if each not in fixed]
        shapes = relaxed(arguments_of(self.model, self.args, self.kwargs), kept)
        return replace(self, fixed=fixed, dynamic_shapes=shapes)


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations from attempts to capture a model; each attempt adds to them.

    Attributes:
        effects: What `forward` changed of the state that is no tensor.
        inquiry: What was asked about sizes, and how that was answered.
        texts: Where `forward` wrote values as text.
        overcome: The errors that would have ended a capture, had branches and loops not become part of the graph.
        rewritten: The statements that became operators of the graph.
        asked: The lines that asked for values of the example, where these are known.
        unkept: The lines of statements that could not become operators, though sizes are constants so, with the reason.
        copied: Paths of blocks of the user's own code that are copies of others in the graph.
        lost: Paths of buffers registered as None that `forward` assigns tensors to.
        ungraded: Errors of attempts that were about gradients.
        given_up: The errors of attempts that failed before one went through.
        caught: The errors that the model caught in the last trace of it; none where no trace ran its code.
        below_autograd: The attempts that traced what autograd makes of the model, with views and copies as the example
            has them: that which succeeded, or none.
    """

    effects: Effects = field(default_factory=lambda: Effects(Snapshot(())))
    inquiry: Inquiry = field(default_factory=Inquiry)
    texts: list[Place] = field(default_factory=list)
    overcome: list[Exception] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    unkept: dict[Line, str] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    ungraded: list[Exception] = field(default_factory=list)
    given_up: list[Exception] = field(default_factory=list)
    caught: list[Caught] = field(default_factory=list)
    below_autograd: list[str] = field(default_factory=list)

    @property
    def asks_for_gradients(self) -> bool:
        """True if an attempt failed by an error about gradients, or the model has asked whether there are any."""
        return bool(self.ungraded) or any(map(is_about_gradients, self.effects.reads.names))

    def noted(self) -> Hashable:
        """Return what tells whether more has been observed since, beside questions about sizes and changes of state."""
        effects, inquiry = self.effects, self.inquiry
        noted = (self.texts, self.overcome, self.rewritten, self.asked, self.lost, self.unkept)
        read = (effects.marked, effects.seen, effects.reads.names)
        asked = (inquiry.presumed.answers, inquiry.refused, inquiry.always, inquiry.copying, inquiry.passed)
        return (*map(len, (*noted, *read, *asked)), *(each.state for each in SHARED.values()))
