"""`parameter.requires_grad` in a capture, which freezes parameters: the model is told what eager PyTorch says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.function_mode import Part

REQUIRES_GRAD = Tensor.requires_grad.__get__  # type: ignore[attr-defined]  # a descriptor
MODE = "__torch_function__"
IS_PARAMETER = "_is_param"
"""The attribute by which PyTorch takes a tensor of another class for a parameter."""

_CAPTURE = str(Path(__file__).parents[1])


class TrainableTold(Part):
    """Answer the model's own question which of its parameters require a gradient as before the capture."""

    functions = frozenset({REQUIRES_GRAD})

    def __init__(self) -> None:
        self.trainable: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == REQUIRES_GRAD and id(args[0]) in self.trainable and is_asked_by_model():
            return True
        return func(*args, **(kwargs or {}))


def is_asked_by_model(between: Collection[str] = ()) -> bool:
    """Return whether the code that calls for an attribute is the model's, beneath the function modes.

    Args:
        between: Files of code that does so for its caller.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_name == MODE
        or frame.f_code.co_filename.startswith(_CAPTURE)
        or frame.f_code.co_filename in between
    ):
        frame = frame.f_back
    return frame is not None and kind_of(frame.f_code.co_filename) != HIDDEN


@contextmanager
def trainable_parameters_told(model: torch.nn.Module, part: TrainableTold) -> Iterator[None]:
    """Let the part know the parameters that require a gradient now."""
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        parameters = dict(model.named_parameters())
        part.trainable = {id(each): each for name, each in parameters.items() if name in names}
        for each in parameters.values():
            if not isinstance(each, torch.nn.Parameter):  # what stands for one in a trace below autograd
                setattr(each, IS_PARAMETER, True)
        return forward(*args, **kwargs)

    with forward_by(model, call):
        yield


@contextmanager
def frozen(module: torch.nn.Module) -> Iterator[None]:
    """Record no gradients and let no parameter ask for any; afterwards both are as they were.

    Several models can be exported only so: the gradient rules of control flow would be captured otherwise. Parameters
    that are no leaves, as those of a copy of a TorchScript module, stay as they are: PyTorch lets nobody change them.
    """
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad and parameter.is_leaf]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        with torch.no_grad():
            yield
    finally:
        for parameter in trainable:
            with torch.inference_mode(parameter.is_inference()):  # where it was made is where PyTorch lets it be set
                parameter.requires_grad_(True)
