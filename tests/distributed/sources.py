"""SOURCEs for `torchrun -m fxport export tests/distributed/sources.py:NAME`."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.distributed.models import Llama, Mlp, parallel

Example = tuple[Any, ...]


def sharded() -> Example:
    """FSDP2, at two sizes of the batch."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    return fully_shard(Mlp().eval()), (torch.randn(3, 8),), None, ({0: "batch"},)


def tensor_parallel() -> Example:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return parallel(Llama().eval(), "llama", mesh), (torch.randint(0, 50, (2, 7)),)


def replicated() -> Example:
    """DistributedDataParallel: rank 0 holds all of it."""
    dist.init_process_group("gloo")
    return nn.parallel.DistributedDataParallel(Mlp().eval()), (torch.randn(3, 8),)


class Drifting(Mlp):
    """Gives other values in eager PyTorch than where it is captured, so that validation finds a difference."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + (1.0 if torch.compiler.is_compiling() else 0.0)


def drifting() -> Example:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    return fully_shard(Drifting().eval()), (torch.randn(3, 8),)


def disagreeing() -> Example:
    """Rank 1 has another size."""
    dist.init_process_group("gloo")
    return fully_shard(nn.Linear(8, 9 if dist.get_rank() == 1 else 8)), (torch.randn(3, 8),)


def raising() -> Example:
    """A mistake of the user's, on all ranks."""
    dist.init_process_group("gloo")
    raise ValueError("no such configuration")
