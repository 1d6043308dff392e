"""Nodes of an ONNX file, beside those that torch.onnx.export writes for the same row.

`torch_onnx_nodes.tsv` holds torch.onnx's counts; `benchmarks/node_counts.py --write` measures them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import onnx

from tests.cases import models, newer_models, pictures_and_sounds, pictures_in_texts, texts_with_more
from tests.cases.architectures import ROWS, example
from tests.cases.models import Example

COUNTS = Path(__file__).parent / "cases" / "torch_onnx_nodes.tsv"
"""torch.onnx's nodes by the name of a row."""


MORE: Mapping[str, str] = {
    "calls-encoder_in_bfloat16": "ONNX Runtime has no kernels of bfloat16 on the CPU: Casts stand around each node",
    "calls-renormalized_embedding": "the new norms are written into the table, which torch.onnx leaves out",
    "calls-ranks": "NaN is the result where an operand is NaN, as in PyTorch",
    "modules-counter": "torch.onnx leaves out the new value of the counter",
    "modules-batch_norm_in_training": "torch.onnx leaves out the normalization and the new statistics",
    "modules-double_precision": "ONNX Runtime has no kernels of float64 for these layers",
    "modules-named_tuples": "a size as an output is a scalar, as in PyTorch",
    "pictures-preprocessed": "the weights of an antialiased resize are computed, for sizes that vary",
    "research-beams": "floor division of int64 is right at its limits, and a minimum of NaN is NaN",
    "spectra-spectrogram": "an absolute value of a complex number that does not overflow; frames by Gather, not STFT",
    "FocalNetForImageClassification-sized": "a mean over sizes that may be 0 is NaN then, as in PyTorch",
    "HGNetV2ForImageClassification-sized": "a Constant keeps ONNX Runtime from a wrong fusion of a Pad",
    "TapasForQuestionAnswering": "NaN in a segment and divisions that round down are as in PyTorch",
    "TextNetModel-sized": "an adaptive pooling of sizes that vary; torch.onnx pools by windows of the example's sizes",
}
"""Rows with more nodes than torch.onnx's, and why."""


def counts() -> dict[str, int]:
    """Read torch.onnx's nodes by the name of a row."""
    lines = COUNTS.read_text(encoding="utf-8").splitlines() if COUNTS.exists() else ()
    return {name: int(count) for name, count in (line.split("\t") for line in lines)}


def operators(path: Path) -> Counter[str]:
    """Count the nodes of a file by operator, with those of function bodies and subgraphs."""
    model = onnx.load(path, load_external_data=False)
    found: Counter[str] = Counter()
    pending = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        for node in pending.pop():
            found[node.op_type] += 1
            for attribute in node.attribute:
                pending.extend(graph.node for graph in (attribute.g, *attribute.graphs))
    return found


def builders() -> Iterator[tuple[str, Callable[[], Example]]]:
    """Yield the name of each row and what builds its example."""
    for info in pkgutil.iter_modules(models.__path__):
        for case in importlib.import_module(f"{models.__name__}.{info.name}").CASES:
            yield f"{info.name}-{case.name}", case.build
    for group in (pictures_and_sounds, texts_with_more, pictures_in_texts, newer_models):
        yield from ((row.name, row.build) for row in group.CASES)
    for row in ROWS:
        yield f"{row.head}-{row.name}", partial(example, row)


def assert_not_more(name: str, path: Path) -> None:
    """Fail where the file of a row has more nodes than torch.onnx's, unless `MORE` says why; then, where it has not."""
    theirs = counts().get(name)
    if theirs is not None:
        found = operators(path)
        assert (found.total() > theirs) == (name in MORE), f"{found.total()} nodes, torch.onnx: {theirs}; {found}"
