"""`torch._check` of sizes of which branches ask: it sets a limit, which only a capture with known sizes tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.askers import is_pythons
from fxport.exporter.capture.patches.environment import replaced_everywhere
from fxport.exporter.capture.patches.users_modules import users_modules
from fxport.exporter.capture.sizes.as_data import is_about_inputs, sizes_as_data
from fxport.exporter.capture.sizes.shapes import Request

CHECKED = "it checks the sizes of inputs, whose limits are told"

_check = torch._check


@contextmanager
def asked_as_data(model: torch.nn.Module, requests: Sequence[Request]) -> Iterator[None]:
    """Let only a run tell these sizes of inputs; refuse limits of them, also by a name that a file has imported."""
    if not requests:
        yield
        return
    modules = (torch, *users_modules().values())
    with sizes_as_data(model, requests), replaced_everywhere(modules, {_check: _checked}):
        yield


def _checked(condition: Any, *message: Any) -> None:
    """Do what `torch._check` does. Raises RefusedError for a limit of sizes that are taken as data."""
    if is_about_inputs(condition) and is_pythons() and not statically_known_true(condition):
        raise RefusedError(CHECKED)
    _check(condition, *message)
