"""fxport against torch.onnx.export: the same models, the defaults of both, alternating fresh processes.

    python benchmarks/export_speed.py --runs 5 --json export_speed.json

Each measurement is a process of its own, in the order A B A B …, so that neither profits from the other's caches and
both see the same machine. In the process the model is built first; then the clock runs from the module to the files on
disk. Imports of torch and transformers are outside it; what an exporter imports by itself (its own packages, onnx,
onnxscript) is inside it. Neither exporter validates: that is the default of both Python interfaces.

- seconds: wall time of the export and the save.
- peak: the process's highest resident memory during the export, in MB above what it held before it.
- nodes: in the file, with those of function bodies and subgraphs.
- disk: MB of all files written.
- latency: ONNX Runtime on the CPU, median of interleaved runs of both files in one process at the example's shape.

torch.onnx.export needs `onnxscript`, which fxport does not: `python -m pip install onnxscript`.
Sizes are left to each exporter (`Dim.DYNAMIC`): torch.onnx refuses named dims where a model bounds its positions.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fresh_process import in_a_fresh_process, peak, start_of_peak

MB = 1e6
WARM_UP = 5
PASSES = 30


@dataclass(frozen=True, slots=True)
class Subject:
    """A model in eval mode, one example call by name, and the indices of each input's dims that may vary."""

    model: Any
    inputs: Mapping[str, Any]
    dims: Mapping[str, Sequence[int]]


def resnet50() -> Subject:
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig()).eval()  # the defaults are those of ResNet-50
    return Subject(only(model, "logits"), {"pixel_values": torch.randn(2, 3, 224, 224)}, {"pixel_values": (0,)})


def bert_base() -> Subject:
    from transformers import BertConfig, BertModel

    return text_subject(only(BertModel(BertConfig()).eval(), "last_hidden_state"), 30000)


def gpt2() -> Subject:
    from transformers import GPT2Config, GPT2LMHeadModel

    return text_subject(only(GPT2LMHeadModel(GPT2Config(use_cache=False)).eval(), "logits"), 50000)


def llama() -> Subject:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=16,
        num_attention_heads=8,
        num_key_value_heads=8,
        use_cache=False,
    )
    return text_subject(only(LlamaForCausalLM(config).eval(), "logits"), 32000)


MODELS: Mapping[str, Callable[[], Subject]] = {
    "ResNet-50": resnet50,
    "BERT-base": bert_base,
    "GPT-2": gpt2,
    "Llama 16 × 512": llama,
}


def text_subject(model: Any, vocabulary: int) -> Subject:
    """Two sequences of 64 tokens without padding; batch and sequence may vary."""
    import torch

    tokens = torch.randint(vocabulary, (2, 64))
    inputs: dict[str, Any] = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    return Subject(model, inputs, dict.fromkeys(inputs, (0, 1)))


def only(model: Any, output: str) -> Any:
    """The model with one tensor as its result, so that both exporters write the same outputs."""
    from torch import Tensor, nn

    class Image(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def forward(self, pixel_values: Tensor) -> Tensor:
            return self.network(pixel_values=pixel_values)[output]

    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.network(input_ids=input_ids, attention_mask=attention_mask)[output]

    return (Image if model.main_input_name == "pixel_values" else Text)()


def by_fxport(subject: Subject, shapes: Any, path: Path) -> None:
    import fxport

    fxport.export(subject.model, (), dict(subject.inputs), dynamic_shapes=shapes).save(path)


def by_torch(subject: Subject, shapes: Any, path: Path) -> None:
    import torch

    torch.onnx.export(subject.model, (), path, kwargs=dict(subject.inputs), dynamic_shapes=shapes, dynamo=True)


EXPORTERS: Mapping[str, Callable[[Subject, Any, Path], None]] = {"fxport": by_fxport, "torch.onnx": by_torch}


def measure_export(model: str, exporter: str, path: Path) -> dict[str, float]:
    """One export in this process."""
    import torch
    import transformers  # noqa: F401 - imported before the clock runs

    torch.manual_seed(0)
    subject = MODELS[model]()
    shapes = {name: dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for name, dims in subject.dims.items()}
    before = start_of_peak()
    start = time.perf_counter()
    EXPORTERS[exporter](subject, shapes, path)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mb": (peak() - before) / MB, **size_of(path)}


def size_of(path: Path) -> dict[str, float]:
    """Nodes in the file and bytes on disk, the weights beside it included."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    nodes = count(model.graph.node) + sum(count(function.node) for function in model.functions)
    files = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    return {"nodes": nodes, "disk_mb": sum(file.stat().st_size for file in files) / MB}


def count(nodes: Any) -> int:
    """Nodes of a protobuf graph with those of the subgraphs in their attributes."""
    bodies = [graph for node in nodes for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
    return len(nodes) + sum(count(graph.node) for graph in bodies)


def measure_latency(model: str, paths: Mapping[str, Path], threads: int) -> dict[str, Any]:
    """Median milliseconds of each exporter's file, run in turn, and the greatest difference of their outputs."""
    import numpy
    import onnxruntime
    import torch

    torch.manual_seed(0)
    arrays = {name: value.numpy() for name, value in MODELS[model]().inputs.items()}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions = {
        name: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for name, path in paths.items()
    }
    times: dict[str, list[float]] = {name: [] for name in sessions}
    results: dict[str, Any] = {}
    for turn in range(WARM_UP + PASSES):
        for name, session in sessions.items():
            feed = {value.name: arrays[value.name] for value in session.get_inputs()}
            start = time.perf_counter()
            results[name] = session.run(None, feed)[0]
            if turn >= WARM_UP:
                times[name].append((time.perf_counter() - start) * 1e3)
    first, *others = results.values()
    return {
        "latency_ms": {name: statistics.median(values) for name, values in times.items()},
        "difference": max((float(numpy.abs(first - other).max()) for other in others), default=0.0),
    }


def measure(model: str, runs: int, threads: int) -> dict[str, Any]:
    """All measurements of one model: `{exporter: {measure: median}}` under "medians", the single ones under "runs"."""
    singles: dict[str, list[dict[str, float]]] = {name: [] for name in EXPORTERS}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, name, "model.onnx") for name in EXPORTERS}
        for path in paths.values():
            path.parent.mkdir()
        for run in range(runs):
            for name, path in paths.items():
                singles[name].append(in_a_fresh_process(__file__, "--child", "export", model, name, str(path)))
                print(f"{model}: run {run + 1}, {name}, {singles[name][-1]['seconds']:.2f} s", file=sys.stderr)
        latency = in_a_fresh_process(
            __file__, "--child", "latency", model, *map(str, paths.values()), "--threads", str(threads)
        )
    medians = {
        name: {key: statistics.median(run[key] for run in measured) for key in measured[0]}
        | {"latency_ms": latency["latency_ms"][name]}
        for name, measured in singles.items()
    }
    return {"medians": medians, "runs": singles, "difference": latency["difference"]}


COLUMNS: Mapping[str, tuple[str, str]] = {
    "seconds": ("seconds", "{:.2f}"),
    "peak_mb": ("peak MB", "{:.0f}"),
    "nodes": ("nodes", "{:.0f}"),
    "disk_mb": ("disk MB", "{:.1f}"),
    "latency_ms": ("latency ms", "{:.1f}"),
}


def markdown(results: Mapping[str, Any]) -> str:
    """Fxport / torch.onnx / their ratio, a model a row; the last row is the median of the ratios."""
    head = ["model", *(f"{title}: fxport / torch.onnx (ratio)" for title, _ in COLUMNS.values())]
    rows = [head, ["---"] * len(head)]
    ratios: dict[str, list[float]] = {key: [] for key in COLUMNS}
    for model, result in results.items():
        ours, theirs = (result["medians"][name] for name in EXPORTERS)
        cells = [model]
        for key, (_, form) in COLUMNS.items():
            ratios[key].append(ours[key] / theirs[key] if theirs[key] else float("nan"))
            cells.append(f"{form.format(ours[key])} / {form.format(theirs[key])} ({ratios[key][-1]:.2f})")
        rows.append(cells)
    rows.append(["median ratio", *(f"{statistics.median(values):.2f}" for values in ratios.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on."""
    from importlib.metadata import version

    names = ("fxport", "torch", "onnxscript", "onnx", "transformers")
    versions = {name: version(name) for name in names}
    return {"cores": os.cpu_count(), "platform": platform.platform(), "threads": threads, "versions": versions}


def child(arguments: Sequence[str], threads: int) -> None:
    """One measurement in this process; what the exporters print is dropped, the last line is the result."""
    job, model, *rest = arguments
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if job == "export":
            result: Any = measure_export(model, rest[0], Path(rest[1]))
        else:
            result = measure_latency(model, dict(zip(EXPORTERS, map(Path, rest), strict=True)), threads)
    print(json.dumps(result))


def main() -> None:
    """Measure, print the table, and write the single runs where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="exports of each model by each exporter")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="ONNX Runtime's intra-op threads")
    parser.add_argument("--json", type=Path, help="write all runs and the machine here")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.threads)
        return
    if importlib.util.find_spec("onnxscript") is None:
        raise SystemExit("torch.onnx.export needs onnxscript: python -m pip install onnxscript")
    results = {model: measure(model, options.runs, options.threads) for model in options.models}
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(options.threads), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
