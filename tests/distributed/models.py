"""Small models, the ways to spread them over ranks, and what one process would have instead."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

CPU = torch.device("cpu")


class Mlp(nn.Module):
    """The last layer has an odd size, so that one rank's part of it is longer than the other's."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 12), nn.Linear(12, 8), nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)
        self.register_buffer("scale", torch.arange(1.0, 6.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.down(torch.relu(self.up(x))) + x)) * self.scale


class Block(nn.Module):
    """Attention and a gated MLP, as Llama has them; heads are counted from the weights, as under parallelism."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.attention_norm(x)
        q, k, v = (part(h).unflatten(-1, (-1, 4)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = (each * cos + torch.cat((-each[..., 2:], each[..., :2]), -1) * sin for each in (q, k))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """Two blocks between one tied embedding."""

    def __init__(self, width: int = 16, words: int = 50) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("frequencies", torch.tensor([1.0, 0.01]).repeat(2), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * self.frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class Conv(nn.Module):
    """Convolutions with batch statistics, which are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.head = nn.Conv2d(6, 5, 3, stride=2), nn.Linear(5, 4)
        self.norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]  # it keeps statistics
        self.norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.norm(self.first(x)))
        return self.head(self.second(x).mean((2, 3)))


MODELS: Mapping[str, Callable[[], nn.Module]] = {"mlp": Mlp, "llama": Llama, "conv": Conv}

INPUTS: Mapping[str, Callable[[], torch.Tensor]] = {
    "mlp": lambda: torch.randn(3, 8),
    "llama": lambda: torch.randint(0, 50, (2, 7)),
    "conv": lambda: torch.randn(2, 3, 9, 9),
}

PLANS: Mapping[str, Mapping[str, Any]] = {
    "mlp": {"up": ColwiseParallel(), "down": RowwiseParallel()},
    "llama": {
        **{f"blocks.*.{name}": ColwiseParallel() for name in ("q", "k", "v", "gate", "up")},
        **{f"blocks.*.{name}": RowwiseParallel() for name in ("o", "down")},
    },
    "conv": {"head": ColwiseParallel(output_layouts=Replicate())},
}


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A model with its example input, the same in every process."""
    torch.manual_seed(7)
    model = MODELS[name]().eval()
    return model, INPUTS[name]()


def mesh_of(*sizes: int) -> DeviceMesh:
    return init_device_mesh("cpu", sizes, mesh_dim_names=("data", "tensor")[-len(sizes) :] if len(sizes) > 1 else None)


def parallel(model: nn.Module, name: str, mesh: DeviceMesh) -> nn.Module:
    """Tensor parallelism by the model's plan."""
    return parallelize_module(model, mesh, dict(PLANS[name]))


def ddp(model: nn.Module, name: str, low: bool) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model.bfloat16() if low else model)


FULL = MixedPrecisionPolicy()
LOW = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
OUTSIDE = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
NORMS = MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.bfloat16)


def fsdp2(model: nn.Module, name: str, low: bool) -> nn.Module:
    """Some modules by themselves; batch statistics stay in float32, as PyTorch wants them on the CPU."""
    for child in inner(model):
        fully_shard(child, mp_policy=(NORMS if isinstance(child, nn.BatchNorm2d) else LOW) if low else FULL)
    return fully_shard(model, mp_policy=OUTSIDE if low else FULL)


def fsdp1(model: nn.Module, name: str, low: bool, original: bool = False) -> nn.Module:
    """Wrapped by a policy, which leaves batch statistics in float32 by hooks."""
    return FullyShardedDataParallel(
        model,
        device_id=CPU,
        auto_wrap_policy=ModuleWrapPolicy({Block, nn.Conv2d}),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16) if low else None,
        use_orig_params=original,
    )


def fsdp1_original(model: nn.Module, name: str, low: bool) -> nn.Module:
    """With `use_orig_params=True`, and activation checkpoints inside."""
    if isinstance(model, Llama):
        model.blocks[0] = checkpoint_wrapper(model.blocks[0])
    return fsdp1(model, name, low, original=True)


def tensor_parallel(model: nn.Module, name: str, low: bool) -> nn.Module:
    return parallel(model.bfloat16() if low else model, name, mesh_of(dist.get_world_size()))


def two_dimensions(model: nn.Module, name: str, low: bool) -> nn.Module:
    """Tensor parallelism within FSDP2, on a mesh of 2 × 2 ranks."""
    mesh = mesh_of(2, 2)
    parallel(model, name, mesh["tensor"])
    if low and isinstance(model, Conv):
        fully_shard(model.norm, mesh=mesh["data"], mp_policy=NORMS)
    return fully_shard(model, mesh=mesh["data"], mp_policy=OUTSIDE if low else FULL)


def inner(model: nn.Module) -> list[nn.Module]:
    """Modules to shard on their own: blocks, or whatever has no tied weight."""
    if isinstance(model, Llama):
        return list(model.blocks)
    return [child for child in model.children() if isinstance(child, nn.Linear | nn.BatchNorm2d)]


@dataclass(frozen=True)
class Way:
    """One way to spread a model, over each of these numbers of ranks. `output` says what forward returns in with the
    bf16 policy: a dtype, or its own."""

    wrap: Callable[[nn.Module, str, bool], nn.Module]
    ranks: Collection[int] = (2, 4)
    policy: bool = True
    output: torch.dtype | None = None


WAYS: Mapping[str, Way] = {
    "ddp": Way(ddp, policy=False),
    "fsdp2": Way(fsdp2, output=torch.float32),
    "fsdp1": Way(fsdp1),
    "fsdp1-original": Way(fsdp1_original),
    "tensor": Way(tensor_parallel, policy=False),
    "fsdp2+tensor": Way(two_dimensions, ranks=(4,), output=torch.float32),
}


def whole(name: str, way: Way, low: bool) -> nn.Module:
    """What one process would have instead of the wrapped model, written out by hand."""
    model = copy.deepcopy(made(name)[0])
    if not low:
        return model
    if not way.policy:
        return model.bfloat16()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    kept = {id(parameter) for norm in norms for parameter in norm.parameters()}
    for parameter in model.parameters():
        parameter.data = parameter.data if id(parameter) in kept else parameter.data.bfloat16()
    for norm in norms:
        norm.register_forward_pre_hook(lambda _, args: (args[0].float(),))
        norm.register_forward_hook(lambda _, args, output: output.bfloat16())
    model.register_forward_pre_hook(lambda _, args: tuple(x.bfloat16() if x.is_floating_point() else x for x in args))
    if way.output is not None:
        model.register_forward_hook(lambda _, args, output: output.to(way.output))
    return model
