"""Reports on results of forward that the ONNX model gives in another form or not at all: the file cannot say it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fxport.diagnostics import Fix, Log, rules
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.passes.complex_to_real import COMPLEX_RESULTS
from fxport.fx_passes.program import OutputKind, Program

RETURN = Fix("Return from forward the tensor that the model computes.")


def report_outputs(program: Program, results: Sequence[Any], log: Log) -> None:
    """Report complex results, which are pairs of real numbers, results that are no tensors, tensors that no lowering
    makes, and a model without any.
    """
    end = program.graph_module.graph.output_node()
    pairs = end.meta.get(COMPLEX_RESULTS, ())
    nodes = end.args[0]
    assert isinstance(nodes, (tuple, list))
    given = 0
    for number, (entry, result, node) in enumerate(zip(program.outputs, results, nodes, strict=True)):
        constant = entry.kind is OutputKind.LITERAL
        given += not constant and result is not None
        if result is None and isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor):
            detail = f"its lowering does not make the result '{entry.name}', which forward gives"
            log.report(rules.NO_MATCHING_OVERLOAD, at=place_of(node), op=_maker_of(node), detail=detail)
        if number in pairs:
            at = place_of(node) if isinstance(node, Node) else None
            detail = "It is complex: its last dim of size 2 holds real and imaginary parts"
            log.report(rules.OUTPUT_ALTERED, at=at, output=entry.name, detail=detail)
        elif constant and result is not None:
            detail = f"It is {result!r}, which is no tensor, so the model does not have it"
            log.report(rules.OUTPUT_ALTERED, output=entry.name, detail=detail)
    if not given:
        what = ", ".join(repr(result) for result in results) or "a container without a value"
        baked = any(each.rule is rules.SCALAR_INPUT_BAKED for each in log.findings)
        log.report(rules.NO_OUTPUT, fixes=() if baked else (RETURN,), detail=what)


def _maker_of(node: Node) -> str:
    """Name the operator of which a node is a result."""
    source = node.args[0] if node.target is operator.getitem else node
    return str(source.target if isinstance(source, Node) else node.target)
