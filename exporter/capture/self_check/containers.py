"""Calls that put other tensors into a container that they are given, as those of decoders do with a cache."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.eager import called, may_write_to, restored
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.patches.process import restore_process
from fxport.exporter.capture.self_check.checking import CannotCompareError, runnable
from fxport.exporter.capture.self_check.inputs import Call


def replaces_in_containers(module: torch.nn.Module, call: Call) -> bool:
    """Return whether a call leaves tensors of other axes or types in its containers, or more or fewer of them.

    A captured program writes to tensors and changes no container, so that its check finds it unlike the model. The
    model runs once where the call has containers; False where it cannot run, or writes to tensors alone.
    """
    arguments = arguments_of(module, *call)
    if all(leaf.path in arguments for leaf in leaves_of(arguments)):
        return False
    try:
        with warnings.catch_warnings(), restore_process(), runnable(module, call):
            warnings.simplefilter("ignore")  # the model has given them before
            with restored(module, may_write_to(module)):
                _, own = called(module, call)
            return _kinds(module, own) != _kinds(module, call)
    except CannotCompareError:
        return False
    except Exception as error:  # what the model raises is told by whoever asks whether it runs
        if is_our_fault(error):
            raise
        return False


def _kinds(module: torch.nn.Module, call: Call) -> dict[str, Any]:
    """Return the shape and the type of each tensor of a call, by its path; None for what is none."""
    leaves = [(each.path, each.value) for each in leaves_of(arguments_of(module, *call))]
    return {path: (value.shape, value.dtype) if isinstance(value, Tensor) else None for path, value in leaves}
