"""Functional collectives of PyTorch as ONNX nodes of a domain, and the same collectives carried out on arrays.

Each node has the ranks that take part as its attribute `ranks`: numbers in the default process group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _resolve_process_group

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import Unsupported
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.weights.arrays import as_array, as_value

c10d = torch.ops._c10d_functional

TORCH, MICROSOFT = "torch.distributed", "com.microsoft"
"""Domains: ours, for any runner; and that of the kernels that some builds of ONNX Runtime have for NCCL."""


def ranks_of(group: str) -> list[int]:
    """The ranks of a group, by the name that it has in this process."""
    resolved = _resolve_process_group(group)  # type: ignore[arg-type]  # a name is text
    return dist.get_process_group_ranks(resolved)


def lowerings(domain: str) -> Mapping[Any, Callable[..., Any]]:
    """Lowerings for `export(lowerings=…)`. Raises ValueError for a domain that is neither of the two."""
    if domain not in (TORCH, MICROSOFT):
        raise ValueError(f"the domain is '{domain}'; it can be '{TORCH}' or '{MICROSOFT}'")

    def node(op: Op, kind: str, x: Value, group: str, **attributes: Any) -> Any:
        if domain == MICROSOFT:
            named = {name: value for name, value in attributes.items() if name == "group_size"}
            if attributes.get("reduce_op", "sum") != "sum" or kind not in ("AllReduce", "AllGather"):
                raise Unsupported(f"{MICROSOFT} has no {kind} by {attributes.get('reduce_op', 'copy')}")
            return op.custom(MICROSOFT, kind, x, **named)
        return op.custom(TORCH, kind, x, ranks=ranks_of(group), **attributes)

    def all_reduce(op: Op, x: Value, reduce_op: str, group: str) -> Any:
        return node(op, "AllReduce", x, group, reduce_op=reduce_op)

    def all_gather(op: Op, x: Value, size: int, group: str) -> Any:
        return node(op, "AllGather", x, group, group_size=size)

    def reduce_scatter(op: Op, x: Value, reduce_op: str, size: int, group: str) -> Any:
        return node(op, "ReduceScatter", x, group, reduce_op=reduce_op, group_size=size)

    def broadcast(op: Op, x: Value, source: int, group: str) -> Any:
        return node(op, "Broadcast", x, group, source=source)

    def all_to_all(op: Op, x: Value, received: Sequence[Size], sent: Sequence[Size], group: str) -> Any:
        if any(is_symbolic(rows) for rows in (*received, *sent)):
            raise Unsupported("an exchange whose rows are of dynamic number has no node; give it rows of fixed number")
        splits = {"output_splits": list(map(int, received)), "input_splits": list(map(int, sent))}
        return node(op, "AllToAll", x, group, **splits)

    return {
        c10d.all_to_all_single.default: all_to_all,
        c10d.all_reduce.default: all_reduce,
        c10d.all_gather_into_tensor.default: all_gather,
        c10d.reduce_scatter_tensor.default: reduce_scatter,
        c10d.broadcast.default: broadcast,
        c10d.wait_tensor.default: lambda op, x: x,  # a node's result is there when it is read
    }


REDUCTIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}


def communicate(kind: str, array: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """Carries one collective out by torch.distributed, on the device of its backend; called by all ranks in it.

    Along the first axis, as PyTorch's functional collectives. Raises KeyError for a kind that there is not.
    """
    ranks = list(attributes["ranks"])
    group = _groups(tuple(ranks))
    x = as_value(array, torch.empty(0, device=device_of(group))).contiguous()
    return as_array(_CARRIED[kind](x, attributes, group))


def device_of(group: Any) -> torch.device:
    """Return the device on which a process group takes tensors.

    It is the CPU if one of its backends takes them there, where arrays are; else, as with NCCL alone, this process's
    device.
    """
    kinds = [device.type for device in group._device_types]
    return torch.device("cpu") if "cpu" in kinds else torch.device(kinds[0], torch.accelerator.current_device_index())


def _all_reduce(x: torch.Tensor, attributes: Mapping[str, Any], group: Any) -> torch.Tensor:
    reduce_op = attributes["reduce_op"]
    dist.all_reduce(x, REDUCTIONS["sum" if reduce_op == "avg" else reduce_op], group)
    return x / len(attributes["ranks"]) if reduce_op == "avg" else x


def _all_gather(x: torch.Tensor, attributes: Mapping[str, Any], group: Any) -> torch.Tensor:
    parts = [torch.empty_like(x) for _ in attributes["ranks"]]
    dist.all_gather(parts, x, group)
    return torch.cat(parts)


def _reduce_scatter(x: torch.Tensor, attributes: Mapping[str, Any], group: Any) -> torch.Tensor:
    whole = _all_reduce(x, attributes, group)  # gloo has no reduce_scatter on the CPU
    return whole.chunk(len(attributes["ranks"]))[list(attributes["ranks"]).index(dist.get_rank())]


def _all_to_all(x: torch.Tensor, attributes: Mapping[str, Any], group: Any) -> torch.Tensor:
    received, sent = list(attributes["output_splits"]), list(attributes["input_splits"])
    y = x.new_empty([sum(received), *x.shape[1:]])
    dist.all_to_all_single(y, x, received, sent, group)
    return y


def _broadcast(x: torch.Tensor, attributes: Mapping[str, Any], group: Any) -> torch.Tensor:
    dist.broadcast(x, attributes["source"], group)
    return x


_CARRIED: Mapping[str, Callable[[torch.Tensor, Mapping[str, Any], Any], torch.Tensor]] = {
    "AllReduce": _all_reduce,
    "AllGather": _all_gather,
    "ReduceScatter": _reduce_scatter,
    "Broadcast": _broadcast,
    "AllToAll": _all_to_all,
}

_made: dict[tuple[Any, tuple[int, ...]], Any] = {}


def _groups(ranks: tuple[int, ...]) -> Any:
    """The process group of these ranks; made at its first use, by the ranks that are in it."""
    if ranks == tuple(range(dist.get_world_size())):
        return dist.group.WORLD
    key = (dist.group.WORLD, ranks)
    if key not in _made:
        _made[key] = dist.new_group(list(ranks), use_local_synchronization=True)
    return _made[key]
