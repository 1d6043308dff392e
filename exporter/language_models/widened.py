"""A package in bfloat16 on a provider without kernels for it: a copy of it whose operators compute in float32."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from fxport.diagnostics import Log
from fxport.exporter.language_models.inserting import insert
from fxport.exporter.lowering.ir_passes.insert_casts import InsertCasts
from fxport.exporter.lowering.ir_passes.patterns import describe, put_in_place
from fxport.exporter.onnx_program import OnnxProgram

NARROW, WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT
KERNELS = ("cuda", "cpu")
"""Providers for which a graph in bfloat16 is written: a node is cast where neither has a kernel."""


class Twin:
    """A folder for the graphs of a package as the CPU provider runs them: each result is rounded to bfloat16 as before.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, program: OnnxProgram, name: str) -> None:
        """Write a graph, which is changed for it."""
        _widen(program.model.graph)
        InsertCasts(Log())(program.model)
        replace(program, log=Log()).save(self.folder / name)

    def complete(self, package: Path) -> None:
        """Copy the files beside the graphs."""
        for path in package.iterdir():
            if path.is_file() and not any(path.name.startswith(each.name) for each in self.folder.glob("*.onnx")):
                shutil.copyfile(path, self.folder / path.name)


@contextmanager
def twin_of(target: Path, dtype: str, provider: str) -> Iterator[Twin | None]:
    """A place for the twin of a package at `target`; None where the package itself runs."""
    if dtype != "bfloat16" or provider != "cpu":
        yield None
        return
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        yield Twin(Path(scratch))


def _widen(graph: ir.Graph) -> None:
    """Let operators outside of ONNX, of which no table of kernels tells, compute in float32."""
    for node in [node for node in graph if node.domain]:
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype == NARROW:
                cast = insert(node, "Cast", [value], {"to": WIDE.value}).outputs[0]
                cast.type, cast.shape = ir.TensorType(WIDE), value.shape
                node.replace_input_with(index, cast)
        for value in [value for value in node.outputs if value.dtype == NARROW]:
            made = ir.node("Cast", [None], {"to": NARROW.value}, name=f"{value.name}/Cast")
            graph.insert_after(node, made)
            result = made.outputs[0]
            result.name = f"{value.name}/Cast"
            describe(result, value)
            put_in_place(value, result)
            value.name = value.name or f"{result.name}/wide"
            value.type = ir.TensorType(WIDE)
            made.replace_input_with(0, value)
