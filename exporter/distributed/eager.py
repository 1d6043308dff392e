"""Eager PyTorch on a sharded model: rank 0 hands its inputs round, and all ranks run forward at once."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.eager import FailsOnRanks
from fxport.exporter.distributed.ranks import LEADER, Ranks


@dataclass(frozen=True, slots=True)
class Forward:
    """Rank 0 asks all ranks to run the model on its inputs."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Eager:
    """The model as it is spread over the ranks, and as one process would have it, which lends its signature."""

    ranks: Ranks
    model: torch.nn.Module
    plain: torch.nn.Module

    def everywhere(self) -> torch.nn.Module:
        """Rank 0: a module that runs the model on all ranks; its class and its state are those of the plain one."""
        cls = type(self.plain)
        calling: Any = functools.wraps(cls.forward)(lambda _, *args, **kwargs: self.run(args, kwargs))
        module = object.__new__(type(cls.__name__, (cls,), {"__call__": calling, "__module__": cls.__module__}))
        vars(module).update(vars(self.plain))
        return module

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Rank 0: what forward returns, with tensors whole. Raises FailsOnRanks, and RankLost."""
        given = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu(), (args, dict(kwargs)))
        for rank in self.ranks.others:
            self.ranks.tell(rank, Forward(*given))
        try:
            return self._whole(args, kwargs)
        except Exception as error:
            raise FailsOnRanks(error) from error
        finally:
            for rank in self.ranks.others:
                self.ranks.hear(rank)

    def take_part(self, asked: Forward) -> None:
        """The other ranks: runs forward with rank 0's inputs. What it raises, it raises on rank 0 as well."""
        device = next((tensor.device for tensor in self.model.parameters()), torch.device("cpu"))
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (asked.args, asked.kwargs))
        raised = None
        try:
            with torch.no_grad():
                self._whole(args, kwargs)
        except Exception as error:  # noqa: BLE001  # the user's code, which rank 0 runs as well, and reports
            raised = f"{type(error).__name__}: {error}"
        self.ranks.tell(LEADER, raised)

    def _whole(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        result = self.model(*args, **kwargs)
        return pytree.tree_map_only(DTensor, lambda tensor: tensor.full_tensor(), result)
