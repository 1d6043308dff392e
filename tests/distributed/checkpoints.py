"""A checkpoint as a training job writes it, with FSDP or tensor parallelism; functions here run on every rank."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

Arrays = dict[str, Any]


class Net(nn.Module):
    """Sizes that two ranks do not share evenly."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 6)
        self.norm, self.out = nn.LayerNorm(6), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(self.down(torch.relu(self.up(x)))))


def saved(folder: str, way: str) -> tuple[Arrays, Arrays]:
    """Takes a step and saves. Returns the whole weights and the whole state of the optimizer, as arrays by name."""
    torch.manual_seed(0)
    model = Net()
    if way == "fsdp":
        fully_shard(model.out)
        fully_shard(model)
    else:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.rand(4, 6)).square().sum().backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    state_dict_saver.save({"model": weights, "optim": state}, checkpoint_id=folder)
    return whole(weights), {
        f"{name}/{key}": value
        for name, entries in cast("dict[str, Arrays]", state["state"]).items()
        for key, value in whole(entries).items()
    }


def whole(tensors: dict[str, Any]) -> Arrays:
    """What the ranks hold together; every rank asks for the same in the same order."""
    return {
        name: (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().numpy()
        for name, tensor in tensors.items()
    }
