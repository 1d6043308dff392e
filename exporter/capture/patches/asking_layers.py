"""Layers of PyTorch whose `forward` asks for values of tensors, rewritten in calls that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import adaptive, batchnorm

from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.places import of_user


@contextmanager
def layers_unasking(model: torch.nn.Module) -> Iterator[None]:
    """Replace the `forward` of the layers of REWRITES, where it is PyTorch's own."""
    with ExitStack() as stack:
        for module in of_user(model).modules():
            for kind, call in REWRITES.items():
                if isinstance(module, kind) and type(module).forward.__module__ == kind.__module__:
                    stack.enter_context(forward_by(module, partial(call, module)))
        yield


def _averaged(layer: Any, forward: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Divide by the number of batches in the graph, for an average of all of them."""
    if layer.momentum is not None or not layer.training or layer.running_mean is None:
        return forward(x)
    vars(layer)["momentum"] = 0.0
    try:
        result = forward(x)
    finally:
        vars(layer)["momentum"] = None
    dims = [axis for axis in range(x.dim()) if axis != 1]
    with torch.no_grad():
        factor = 1 / layer.num_batches_tracked.to(layer.running_mean.dtype)
        for kept, new in ((layer.running_mean, x.mean(dims)), (layer.running_var, x.var(dims))):
            kept.copy_(kept * (1 - factor) + new * factor)
    return result


def _adaptive_loss(layer: Any, _: Callable[..., Any], x: Tensor, target: Tensor) -> Any:
    """Choose of all logarithms those of the targets; PyTorch computes only the clusters that have a target."""
    rows, targets = (x, target) if target.dim() else (x[None], target[None])
    if rows.shape[0] != targets.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    chosen = layer.log_prob(rows).gather(1, targets[:, None])[:, 0]
    return adaptive._ASMoutput(chosen if target.dim() else chosen[0], (-chosen).mean())


REWRITES: Mapping[type, Callable[..., Any]] = {
    adaptive.AdaptiveLogSoftmaxWithLoss: _adaptive_loss,
    batchnorm._BatchNorm: _averaged,
}
"""Each is called with the layer, its own `forward` and the arguments."""
