"""Small ONNX models as text, and what they should compute."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from fxport.ort_runner import Samples
from fxport.ort_runner.runtimes import RUNTIMES

HEADER = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]>'

RELU = "g (float[N, 3] x) => (float[N, 3] y) { [relu] y = Relu (x) }"
SOFTMAX = "g (float[N, C] x) => (float[N, C] y) { [softmax] y = Softmax (x) }"


def save(
    folder: Path, text: str, name: str = "model.onnx", places: Mapping[str, Sequence[object]] | None = None
) -> Path:
    """Write a model; `places` maps names of nodes, also of functions, to rows of the provenance table."""
    model = parser.parse_model(f"{HEADER} {text}")
    if places is not None:
        keys = list(places)
        model.metadata_props.add(key="fxport.places", value=json.dumps([list(places[key]) for key in keys]))
        nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        for node in nodes:
            if node.name in places:
                node.metadata_props.add(key="fxport.place", value=str(keys.index(node.name)))
    path = folder / name
    onnx.save(model, path)
    return path


def external(folder: Path, location: str, *, offset: int = 0, length: int = 16) -> Path:
    """y = x + w, with w: float32[4] in the file `location`."""
    model = parser.parse_model(f"{HEADER} g (float[4] x) => (float[4] y) {{ y = Add (x, w) }}")
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": str(offset), "length": str(length)}.items():
        weight.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """float32 values of a normal distribution."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def relu_samples(label: str = "sample", rows: int = 2) -> Samples:
    """What RELU computes."""
    x = floats(rows, 3)
    return Samples(label, {"x": x}, {"y": np.maximum(x, 0)}, {"y": np.maximum(x, 0).astype(np.float64)})


def softmax_samples(x: np.ndarray) -> Samples:
    """What SOFTMAX computes, in float32 and in float64."""
    return Samples("sample", {"x": x}, {"y": softmax(x)}, {"y": softmax(x.astype(np.float64))})


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis, in the type of x."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def runtimes(*names: str) -> list[object]:
    """Parameters, of which those that are not installed are skipped with the reason."""
    rows = [(name, why_not(name)) for name in names]
    return [pytest.param(name, marks=pytest.mark.skipif(bool(why), reason=why or "")) for name, why in rows]


@cache
def why_not(name: str) -> str | None:
    """The reason why a runtime cannot be used here, asked once: some start a process for it."""
    return RUNTIMES[name].why_not
