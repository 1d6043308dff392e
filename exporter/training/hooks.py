"""Hooks of the parameters themselves, in a step whose parameters are inputs."""

from __future__ import annotations

import torch

from fxport.diagnostics.errors import FxportError


class HookError(FxportError, ValueError):
    """A hook that cannot be a part of the graph. The text says why, and what to do."""


def stand_in(parameter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Make a tensor without a gradient a leaf that asks for one if the parameter does, and has its hooks."""
    leaf = value.requires_grad_(parameter.requires_grad)
    for hook in (parameter._backward_hooks or {}).values():
        leaf.register_hook(hook)
    return leaf


def accumulated(parameter: torch.Tensor, leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient after the parameter's post-accumulate hooks, which find it in `.grad` and may change it there."""
    hooks = parameter._post_accumulate_grad_hooks or {}
    if not hooks:
        return gradient
    leaf.grad = gradient
    with torch.no_grad():
        for hook in hooks.values():
            hook(leaf)
    changed, leaf.grad = leaf.grad, None
    if changed is None:
        raise HookError(
            "a post-accumulate hook takes a parameter's gradient away, as an optimizer inside of backward does; remove "
            "the hook, and pass the optimizers to the step"
        )
    return changed
