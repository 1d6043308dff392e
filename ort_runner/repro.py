"""A failure as a folder: a small model, PyTorch's values at its ends, and a script that needs neither torch nor us."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

import numpy as np
import onnx
from onnx import helper

from fxport.diagnostics import Rule
from fxport.diagnostics.drafts import draft_folder
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.parts import Part
from fxport.ort_runner.providers import choose
from fxport.ort_runner.session import Runtime
from fxport.ort_runner.trials import Verdict, judged, run_file, sums_of

MODEL, VALUES, SCRIPT = "model.onnx", "values.npz", "run.py"
LARGEST = (1 << 31) - (1 << 20)
"""Bytes that one protobuf message holds, with some to spare."""

TEXT = Template('''\
"""$what

Runs model.onnx on PyTorch's operands and compares with PyTorch's results; exits with 1 if they differ.
Needs numpy and onnxruntime: python run.py
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(__file__).resolve().parent
ALLOWED = $allowed  # by output: the largest error that rounding explains

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.$level
session = onnxruntime.InferenceSession(str(FOLDER / "model.onnx"), options, providers=$providers)
values = np.load(FOLDER / "values.npz")
inputs = {port.name: values[f"input{i}"] for i, port in enumerate(session.get_inputs())}
failed = False
for i, got in enumerate(session.run(None, inputs)):
    want = values[f"output{i}"]
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        print(f"output {i}: {got.dtype}{got.shape}, in PyTorch {want.dtype}{want.shape}")
        failed = True
        continue
    wide = [array.astype(np.float64) for array in (got, want)]
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    error = np.where(same, 0.0, np.nan_to_num(np.abs(wide[0] - wide[1]), nan=np.inf))
    print(f"output {i}: worst error {error.max(initial=0.0):.3g}, allowed {ALLOWED[i]:.3g}")
    failed |= bool((error > ALLOWED[i]).any())
sys.exit(int(failed))
''')


@dataclass(frozen=True, slots=True)
class Repro:
    """Written reproduction: the folder, the number of nodes, and the rule that it was seen to break."""

    folder: Path
    nodes: int
    rule: Rule


def write_repro(folder: Path, part: Part, runtime: Runtime, what: str) -> Repro | None:
    """Write the folder, if the part fails when it is run from there; None, and nothing is written, if it does not.

    `what` is a sentence for the head of the script. The folder is made or, where these files are in it, renewed.
    Raises OSError where it cannot be written, ValueError for a model that is too large for one file, Failure for one
    that does not run.
    """
    unknown = [value.name for value in part.model.graph.output if value.name not in part.samples.outputs]
    if unknown:
        raise ValueError(f"PyTorch has no output '{unknown[0]}'")
    plain = with_plain_ends(part)
    if plain.model.ByteSize() > LARGEST:
        raise ValueError("the part is larger than 2 GB, which one file cannot hold")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.parent) as draft:
        (draft / MODEL).write_bytes(plain.model.SerializeToString())
        np.savez(draft / VALUES, **_stored(plain))  # pyright: ignore[reportArgumentType]  # names that are ours
        verdicts = _verdicts(draft / MODEL, plain, runtime)
        if not verdicts:
            return None
        (draft / SCRIPT).write_text(_script(plain, verdicts, runtime, what), encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for file in (MODEL, VALUES, SCRIPT):
            os.replace(draft / file, folder / file)
    return Repro(folder, len(plain.model.graph.node), next(iter(verdicts.values())).rule)


def with_plain_ends(part: Part) -> Part:
    """The part with float32 in the place of types that numpy lacks, cast at both ends: no value changes."""
    odd = {name for name, array in _all(part).items() if not element_of(array.dtype).native}
    if not odd:
        return part
    model = onnx.ModelProto()
    model.CopyFrom(part.model)
    graph = model.graph
    before, after = [], []
    for value in (v for v in graph.input if v.name in odd):
        outer = f"{value.name}.plain"
        before.append(helper.make_node("Cast", [outer], [value.name], to=value.type.tensor_type.elem_type))
        value.name, value.type.tensor_type.elem_type = outer, onnx.TensorProto.FLOAT
    for value in (v for v in graph.output if v.name in odd):
        outer = f"{value.name}.plain"
        after.append(helper.make_node("Cast", [value.name], [outer], to=onnx.TensorProto.FLOAT))
        value.name, value.type.tensor_type.elem_type = outer, onnx.TensorProto.FLOAT
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    renamed = {name: f"{name}.plain" if name in odd else name for name in _all(part)}
    held = part.samples
    arrays = [{renamed[n]: _plain(a) for n, a in group.items()} for group in (held.inputs, held.outputs)]
    exact = {renamed[name]: array for name, array in (held.exact or {}).items()}
    return Part(model, replace(held, inputs=arrays[0], outputs=arrays[1], exact=exact))


def _all(part: Part) -> dict[str, np.ndarray]:
    return {**part.samples.inputs, **part.samples.outputs}


def _plain(array: np.ndarray) -> np.ndarray:
    return array if element_of(array.dtype).native else array.astype(np.float32)


def _stored(part: Part) -> dict[str, np.ndarray]:
    """The arrays under numbered names, in the model's order."""
    inputs = {f"input{i}": part.samples.inputs[value.name] for i, value in enumerate(part.model.graph.input)}
    return inputs | {f"output{i}": part.samples.outputs[v.name] for i, v in enumerate(part.model.graph.output)}


def _verdicts(path: Path, part: Part, runtime: Runtime) -> Mapping[str, Verdict]:
    opened, outputs = run_file(path, part.samples.inputs, runtime)
    return judged(part.samples, outputs, opened, sums_of(path, opened, part.samples.inputs))


def _script(part: Part, verdicts: Mapping[str, Verdict], runtime: Runtime, what: str) -> str:
    return TEXT.substitute(
        what=" ".join(what.replace("\\", "/").replace('"""', "'''").split()).rstrip('"'),
        allowed=[_allowed(part, value.name, verdicts.get(value.name)) for value in part.model.graph.output],
        level="ORT_ENABLE_ALL" if runtime.optimize else "ORT_DISABLE_ALL",
        providers=[name for name, _ in choose(runtime.provider).provider.chain()],
    )


def _allowed(part: Part, name: str, verdict: Verdict | None) -> float:
    """The error that would be on the edge of the budget; for an output that is right, what its type loses anyway."""
    if verdict is not None and np.isfinite(verdict.ratio) and "worst" in verdict.facts:
        return float(verdict.facts["worst"]) / verdict.ratio
    array = part.samples.outputs[name]
    if element_of(array.dtype).kind != FLOAT:
        return 0.0
    finite = np.abs(array[np.isfinite(array)], dtype=np.float64)
    return 1024.0 * float(np.finfo(array.dtype).eps) * float(finite.max(initial=0.0))
