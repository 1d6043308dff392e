"""Factors of a matrix that a gradient reads, where the operator that has them beside its result gives none in ONNX."""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, is_call, replace

aten = torch.ops.aten

FACTORS = {
    aten._linalg_det.default: 1,
    aten._linalg_slogdet.default: 2,
    aten._linalg_solve_ex.default: 1,
}
"""Operators that give LU and pivots beside their result, and the number of LU; the pivots follow it."""

ALIASES = (aten.detach.default, aten.alias.default)


@fx_pass
def factor_again(gm: GraphModule, log: Log) -> bool:
    """LU and pivots are those of the matrix, or of its transpose where it lies in memory by rows.

    PyTorch tells by `adjoint`, with which the gradient solves for the matrix's own transpose: it is true for the
    factors of the matrix itself.

    Given:   %d = _linalg_det(%a); %x = linalg_lu_solve(add(%d[1], …), %d[2], %b)
    Result:  %f = linalg_lu_factor_ex(transpose(%a, -2, -1)); %x = linalg_lu_solve(add(%f[0], …), %f[1], %b)
    """
    changed = False
    for node in [each for each in gm.graph.nodes if each.target in FACTORS]:
        factors, pivots = (_results(node, FACTORS[node.target] + at) for at in (0, 1))
        told = {bool(each.kwargs.get("adjoint", False)) for pivot in pivots for each in _solvers(pivot)}
        if len(told) != 1:
            continue
        matrix = node.args[0]
        with gm.graph.inserting_before(node):
            if not told.pop():
                matrix = call(node, aten.transpose.int, (matrix, -2, -1))
            found = call(node, aten.linalg_lu_factor_ex.default, (matrix,))
            for number, several in enumerate((factors, pivots)):
                result = call(node, operator.getitem, (found, number))
                for each in several:
                    replace(each, result)
        changed = True
    return changed


def _results(node: Node, number: int) -> list[Node]:
    """Return the nodes that take one result of an operator."""
    return [each for each in node.users if is_call(each, operator.getitem) and each.args[1] == number]


def _solvers(pivots: Node) -> list[Node]:
    """Return the solutions of systems that read these pivots."""
    found = []
    for user in pivots.users:
        if is_call(user, *ALIASES):
            found += _solvers(user)
        elif is_call(user, aten.linalg_lu_solve.default):
            found.append(user)
    return found
