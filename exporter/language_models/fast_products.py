"""`--accuracy fast`: products that round their inputs to 8 bits, but for the fewest that have to be exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import onnx_ir as ir
import torch

from fxport.diagnostics import Log, Stop, rules
from fxport.exporter.language_models.few_bits_pass import LEVELS
from fxport.exporter.language_models.text_verdict import TextVerdict
from fxport.exporter.language_models.verdict import BUDGETS, Verdict
from fxport.exporter.weights.names import starred

PRODUCT, LEVEL = "MatMulNBits", "accuracy_level"
LARGEST = 127
"""The largest number of 8 bits to which the kernels round inputs."""


class Judged(Protocol):
    """Hold the package in the draft against eager PyTorch, and report differences."""

    def __call__(self, log: Log) -> Verdict | TextVerdict: ...


def fastest(
    folder: Path, model: torch.nn.Module, blocks: Mapping[str, int], judged: Judged, log: Log
) -> tuple[Verdict | TextVerdict, Sequence[str]]:
    """Make as many products of a package fast as its verdict allows, and report those that stay exact (FXP5017).

    Products are ranked by the error that rounding makes in their results on the first inputs of the verdict. Halving
    finds how many of the worst have to be exact: each number is tried by the verdict itself.

    Args:
        folder: The package, whose products are all fast.
        model: The model in eval mode, with the restored values of its weights in few bits.
        blocks: The weights in few bits by their names, and the numbers of each that share a scale.
        judged: The verdict on what is in the folder.
        log: Where the findings go.

    Returns:
        The verdict on what is in the folder now, and the names of the weights whose products are exact.

    Raises:
        Stop: The package differs with exact products too.
    """
    with _ranked(model, blocks) as errors:
        first = judged(Log())
    ranked = sorted(blocks, key=lambda name: errors.get(name, float("inf")), reverse=True)
    exact = ranked[: 0 if first.passed else _fewest(folder, ranked, judged)]
    if exact:
        _make_exact(folder, exact)
    found = judged(log)
    if not found.passed:
        raise Stop(log, "verdict")
    for name, layers in Counter(map(starred, exact)).items():
        reason = f"with all of them fast: {first}; allowed are {BUDGETS['fast']:g} and none that differs"
        log.report(rules.PRODUCTS_KEPT_EXACT, name=name, layers=layers, all=len(blocks), reason=reason)
    return found, exact


def _fewest(folder: Path, ranked: Sequence[str], judged: Judged) -> int:
    """Count the first that have to be exact: all, where nothing less is enough."""
    low, high = 1, len(ranked)
    while low < high:
        tried = (low + high) // 2
        _make_exact(folder, ranked[:tried])
        low, high = (low, tried) if judged(Log()).passed else (tried + 1, high)
    return high


@contextmanager
def _ranked(model: torch.nn.Module, blocks: Mapping[str, int]) -> Iterator[dict[str, float]]:
    """The error of each product whose inputs are rounded, in parts of its result, of the first that is computed."""
    errors: dict[str, float] = {}
    handles = []
    for path, module in model.named_modules():
        if (name := f"{path}.weight") in blocks:

            def seen(of: Any, args: Any, result: Any, name: str = name) -> None:
                if name not in errors and len(args) == 1 and isinstance(result, torch.Tensor):
                    errors[name] = _error(of, args[0], blocks[name])

            handles.append(module.register_forward_hook(seen))
    try:
        yield errors
    finally:
        for handle in handles:
            handle.remove()


def _error(module: Any, inputs: torch.Tensor, block: int) -> float:
    """The error of a product that rounds its inputs to 8 bits, with a scale for each block."""
    with torch.no_grad():
        rows = inputs.reshape(-1, inputs.shape[-1]).float()
        blocks = torch.nn.functional.pad(rows, (0, -rows.shape[1] % block)).reshape(len(rows), -1, block)
        scales = blocks.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
        rounded = ((blocks / scales).round() * scales).flatten(1)[:, : rows.shape[1]]
        of = module.weight.shape[-1]
        weight = module.weight if of == rows.shape[1] else module.weight.T
        lost, whole = (float((each @ weight.T).norm()) for each in (rounded - rows, rows))
    return lost / whole if whole else 0.0


def _make_exact(folder: Path, names: Collection[str]) -> None:
    """Give the products with these weights the exact level, and all others the fast one."""
    for path in sorted(folder.glob("*.onnx")):
        model = ir.load(path)
        for node in model.graph.all_nodes():
            if node.op_type == PRODUCT:
                weight, _, _ = str(node.inputs[1].name if node.inputs[1] is not None else "").rpartition(".q")
                level = LEVELS["exact" if weight in names else "fast"]
                node.attributes[LEVEL] = ir.AttrInt64(LEVEL, level)
        ir.save(model, path)
