"""Part of each weight that this process holds: a box of the whole tensor, read from memory without communication."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a tensor: where it begins on each axis, and how long it is there."""

    start: Sizes
    sizes: Sizes

    @property
    def count(self) -> int:
        """Elements in it."""
        return torch.Size(self.sizes).numel()

    def of(self, whole: torch.Tensor) -> torch.Tensor:
        """The part of `whole` that this box is, as a view."""
        return whole[tuple(slice(start, start + size) for start, size in zip(self.start, self.sizes, strict=True))]

    def meets(self, other: Box) -> bool:
        """Return True if the two boxes share an element."""
        pairs = zip(self.start, self.sizes, other.start, other.sizes, strict=True)
        return all(a < b + n and b < a + m for a, m, b, n in pairs)


@dataclass(frozen=True)
class Holding:
    """One weight: what it is as a whole, and the part of it that is here.

    `shape` and `dtype` are those that forward sees, `held` the dtype in which it is kept. `layout` says in words how
    it is spread. The box is cut from a tensor of the sizes `view`, which has as many elements: FSDP1 cuts flattened
    parameters. `read` gives the local part.
    """

    shape: Sizes
    dtype: torch.dtype
    held: torch.dtype
    layout: str
    view: Sizes
    box: Box | None
    read: Callable[[], torch.Tensor]


def of_dtensor(tensor: DTensor, dtype: torch.dtype | None = None) -> Holding:
    """Return this process's part of a DTensor. `dtype` is the precision in which forward sees it, if not its own."""
    shape = tuple(int(size) for size in tensor.shape)
    mesh = tensor.device_mesh
    sizes, start = compute_local_shape_and_global_offset(tensor.shape, mesh, tensor.placements)
    here = mesh.get_coordinate() is not None and all(sizes) and tuple(tensor._local_tensor.shape) == tuple(sizes)
    here = here and not any(placement.is_partial() for placement in tensor.placements)  # terms of a sum are no part
    return Holding(
        shape,
        dtype or tensor.dtype,
        tensor.dtype,
        f"{', '.join(map(str, tensor.placements))} on a mesh {tuple(mesh.shape)}",
        shape,
        Box(tuple(start), tuple(sizes)) if here else None,
        lambda: tensor._local_tensor.detach(),
    )


def of_flat(wrapper: FullyShardedDataParallel, dtype: torch.dtype | None) -> Mapping[tuple[int, str], Holding]:
    """Return this process's parts of the parameters that FSDP1 has flattened, by (id of their module, their name)."""
    handle: Any = wrapper._handle
    if handle is None:
        return {}
    flat = handle.flat_param
    found: dict[tuple[int, str], Holding] = {}
    parts = flat._shard_param_infos if handle.uses_sharded_strategy else _whole_parts(flat)
    for info, shape, part in zip(flat._param_infos, flat._shapes, parts, strict=True):
        found[id(info.module), info.param_name] = _of_flat_part(flat, tuple(shape), part, dtype, handle.world_size)
    for shared in flat._shared_param_infos:
        found[id(shared.module), shared.param_name] = found[id(shared.prim_module), shared.prim_param_name]
    return found


def _of_flat_part(flat: Any, shape: Sizes, part: Any, dtype: torch.dtype | None, world: int) -> Holding:
    count = torch.Size(shape).numel()
    box = None
    if part.in_shard:
        box = Box((part.intra_param_start_idx,), (part.numel_in_shard,))

    def read() -> torch.Tensor:
        local = getattr(flat, "_local_shard", flat)
        return local.detach()[part.offset_in_shard : part.offset_in_shard + part.numel_in_shard]

    return Holding(shape, dtype or flat.dtype, flat.dtype, f"flattened over {world} ranks", (count,), box, read)


def _whole_parts(flat: Any) -> list[Any]:
    """With NO_SHARD each process holds all of the flattened parameter."""
    from torch.distributed.fsdp._flat_param import _ShardParamInfo

    parts, offset = [], 0
    numels = iter(flat._numels_with_padding)
    for padding in flat._is_padding_mask:
        count = next(numels)
        if not padding:
            parts.append(_ShardParamInfo(True, offset, count, 0, count - 1))
        offset += count
    return parts
