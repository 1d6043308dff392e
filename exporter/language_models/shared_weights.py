"""The files of several graphs of one model: weights that two of them read are stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from fxport.diagnostics import Log
from fxport.exporter.lowering.lower.weights import RegionTensor
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.onnx_program.save import EXTERNAL_THRESHOLD, weight_bytes
from fxport.exporter.weights.stored import Region

SMALL = 1 << 20
"""Bytes of weights up to which each of several graphs is one file."""


def save_sharing(programs: Mapping[str, OnnxProgram], folder: Path) -> list[Path]:
    """Write graphs into a folder by the names of their files; the weights of an earlier graph serve the later ones."""
    files: list[Path] = []
    if len(programs) == 1 or sum(weight_bytes(each.model) for each in programs.values()) <= SMALL:
        for name, program in programs.items():
            files += _quiet(program).save(folder / name)
        return files
    stored: dict[tuple[ir.DataType, tuple[object, ...]], dict[bytes, Region]] = {}
    for name, program in programs.items():
        before = {value: value.const_value for value in program.model.graph.initializers.values()}
        for value, tensor in before.items():
            if tensor is not None and (known := stored.get((tensor.dtype, tuple(tensor.shape)))) is not None:
                region = known.get(_digest(tensor))
                if region is not None:
                    shape = ir.Shape(tensor.shape.numpy())
                    value.const_value = RegionTensor(str(value.name), tensor.dtype, shape, region)
        options = replace(program.export_options, weights_in_place=True) if program.export_options else None
        files += replace(_quiet(program), export_options=options).save(folder / name, external_data=True)
        for value, tensor in before.items():
            value.const_value = tensor
        for each in ir.load(folder / name).graph.initializers.values():
            tensor = each.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes > EXTERNAL_THRESHOLD:
                region = Region(Path(tensor.path), tensor.offset or 0, tensor.nbytes)
                stored.setdefault((tensor.dtype, tuple(tensor.shape)), {}).setdefault(_digest(tensor), region)
    return list(dict.fromkeys(files))


def _quiet(program: OnnxProgram) -> OnnxProgram:
    """The program with a log of its own: where the weights are is told by the summary."""
    return replace(program, log=Log())


def _digest(tensor: ir.TensorProtocol) -> bytes:
    return hashlib.sha256(tensor.tobytes()).digest()
