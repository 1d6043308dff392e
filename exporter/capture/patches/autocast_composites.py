"""Composite ops in a region of autocast: PyTorch records them whole, and autocast acts on what they are made of.

torch.einsum("ij,jk->ik", x, y)          x.to(bfloat16), y.to(bfloat16), bmm
F.pad(x, (1, 1), mode="reflect")         x.to(float32), reflection_pad1d
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._C import DispatchKey
from torch.fx.experimental import proxy_tensor

from fxport.exporter.capture.faults import RefusedError

DEVICES = {"cpu": DispatchKey.AutocastCPU, "cuda": DispatchKey.AutocastCUDA}
"""Dispatch keys of autocast by types of devices."""


REASON = "autocast acts on a part of this operator, which the graph has as a whole"

CURE = "Call it in `with torch.autocast(device, enabled=False):`, or convert it and its input."

HALVES = (torch.bfloat16, torch.float16)

CAST_WITHIN: Mapping[str, Collection[torch.dtype]] = {
    "lstm": (torch.bfloat16,),
    **dict.fromkeys(("rnn_tanh", "rnn_relu", "linalg_pinv", "linalg_lstsq"), HALVES),
    **dict.fromkeys(("bilinear", "affine_grid_generator"), HALVES),
}
"""Operators that the graph has whole and to whose parts autocast gives another dtype, with those for which it does."""

OPENED = frozenset(
    (
        *("einsum", "inner", "tensordot", "chain_matmul", "cov", "corrcoef", "matrix_power"),
        *("linalg_matmul", "linalg_multi_dot", "linalg_matrix_power", "linalg_vecdot", "linalg_norm"),
        *("linalg_matrix_norm", "linalg_matrix_rank", "linalg_cond", "linalg_inv", "linalg_det"),
        *("linalg_slogdet", "linalg_solve", "linalg_cholesky", "linalg_svd", "linalg_svdvals", "linalg_eigh"),
        *("linalg_eigvalsh", "linalg_tensorinv", "linalg_tensorsolve", "inverse", "det", "logdet", "slogdet"),
        *("nll_loss_nd", "pad", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    )
)
"""Ops that are made of some for which autocast has a rule: products, losses, padding, linear algebra."""


@contextmanager
def composites_opened() -> Iterator[None]:
    """Record composite ops by what they are made of while autocast is on, unless it has a rule for them as a whole."""
    found = proxy_tensor.maybe_handle_decomp

    def handled(mode: Any, op: Any, args: Any, kwargs: Any) -> Any:
        if mode.pre_dispatch and _is_cast_within(op, args):
            raise RefusedError(REASON, cure=CURE)
        if mode.pre_dispatch and _is_open(op):
            with mode:
                return op._op_dk(DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        return found(mode, op, args, kwargs)

    with mock.patch.object(proxy_tensor, "maybe_handle_decomp", handled):
        yield


def _is_cast_within(op: Any, args: Any) -> bool:
    dtypes: Collection[torch.dtype] = CAST_WITHIN.get(op.overloadpacket.__name__, ())
    if op is torch.ops.aten.tensordot.default and len(args[2]) == args[0].dim() == args[1].dim():
        dtypes = HALVES  # over all axes it is a sum of products, which autocast leaves in their dtype
    if not dtypes or args[0].dtype is not torch.float32:
        return False
    device = args[0].device.type
    return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in dtypes


def _is_open(op: Any) -> bool:
    if op.namespace != "aten" or op.overloadpacket.__name__ not in OPENED:
        return False
    on = [key for device, key in DEVICES.items() if torch.is_autocast_enabled(device)]
    is_whole = any(op.has_kernel_for_dispatch_key(key) for key in on)
    return bool(on) and not is_whole and op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
