"""Checks of the trace that no longer have anything to check."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass

aten = torch.ops.aten

ASSERTS = frozenset(
    {
        aten._assert_tensor_metadata.default,
        aten._assert_scalar.default,
        aten._assert_async.default,
        aten._assert_async.msg,
        aten._functional_assert_async.msg,
        aten._functional_assert_scalar.default,
        aten._linalg_check_errors.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
        torch._check,
        torch.ops.higher_order.print,
    }
)
"""Ops without a value that anyone uses: ONNX has neither assertions nor printing. The ranges that asserts state are in
`Program.ranges`."""


@fx_pass
def drop_asserts(gm: GraphModule, log: Log) -> bool:
    """ONNX has no assertions; what they bound is kept as ranges of the program.

    Given:   %_ = _assert_scalar(%u0 >= 0, "…")
    Result:  nothing
    """
    asserts = [node for node in gm.graph.nodes if node.target in ASSERTS and not node.users]
    for node in asserts:
        gm.graph.erase_node(node)
    return bool(asserts)
