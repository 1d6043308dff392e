"""The verdict on a package of an embedding or reranking model, beside eager PyTorch and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ShapesCollection

from fxport.diagnostics import Log, rules
from fxport.diagnostics.messages import error_line
from fxport.exporter.language_models.decode import BATCH, SEQUENCE, Example
from fxport.exporter.language_models.own_error import error_of
from fxport.exporter.language_models.text_models import TYPES, TextModel
from fxport.exporter.language_models.verdict import BUDGETS
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.text_model import TextModel as Package

LONGEST = 512
"""Tokens of the longest text that is compared, where the model takes as many."""

LENGTHS = ((9, 6, 1), (7,), (1,), (LONGEST,))
"""Tokens of the texts of each batch that is compared."""


@dataclass(frozen=True, slots=True)
class TextVerdict:
    """Result of comparing a package with eager PyTorch.

    Attributes:
        texts: Texts that were compared.
        error: The largest error of a result, in parts of the largest number of its output.
        passed: Whether the package is good.
    """

    texts: int
    error: float
    passed: bool

    def __str__(self) -> str:
        return f"{self.texts} texts compared with eager PyTorch; largest error {self.error:.2g} of the largest number"


def text_example(model: TextModel) -> Example:
    """A call of a batch of texts, of which both dimensions are dynamic."""
    kwargs = _inputs(model, (5, 4))
    shapes = ShapesCollection()
    for tensor in kwargs.values():
        shapes[tensor] = {0: BATCH, 1: SEQUENCE}
    return Example(model, (), kwargs, shapes)


def text_verdict(
    folder: Path,
    model: TextModel,
    log: Log,
    provider: str,
    *,
    steps: int,
    accuracy: str,
    weights: str,
    answers: list[np.ndarray] | None = None,
) -> TextVerdict:
    """Compare a package with the model that it is of, for batches of texts of several lengths, filled up or not.

    Args:
        folder: The package.
        model: The model in eval mode; of weights in few bits it has the restored values.
        log: Where a difference is reported, as an error.
        provider: A provider of ONNX Runtime.
        steps: Not used: all lengths are compared.
        accuracy: "exact" or "fast", which says how large errors may be.
        weights: Not used: the cause of a difference is not looked for.
        answers: Not used: eager PyTorch runs again in each comparison.

    Raises:
        PackageError: The model fails for texts that are as long as its folder says.
    """
    budget, worst, texts = BUDGETS[accuracy], 0.0, 0
    lengths = {tuple(min(each, model.text_config.max_length) for each in batch): None for batch in LENGTHS}
    try:
        package = Package(folder, provider)
        for batch in lengths:
            inputs = _inputs(model, batch)
            for name, want, got in _results(model, package, inputs):
                error = error_of(want, got)
                if not error <= budget and worst <= budget:  # told once
                    facts = {"output": name, "provider": package.provider, "ratio": error / budget, "worst": error}
                    sample = f"texts of {', '.join(map(str, batch))} tokens"
                    log.report(rules.OUTPUT_DRIFT, **facts, sample=sample, cause="not looked for")
                worst = max(worst, error)
            texts += len(batch)
    except Failure as failure:
        log.report(failure.rule, **failure.facts)
        return TextVerdict(texts, float("inf"), passed=False)
    return TextVerdict(texts, worst, worst <= budget)


def _inputs(model: TextModel, lengths: Sequence[int]) -> dict[str, torch.Tensor]:
    """Inputs of texts with these numbers of tokens."""
    config, longest = model.text_config, max(lengths)
    vocabulary = int(model.transformer.config.get_text_config().vocab_size)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, vocabulary, (len(lengths), longest), generator=generator)
    ids[ids == config.pad_token_id] = (config.pad_token_id + 1) % vocabulary
    places = torch.arange(longest).expand(len(lengths), -1)
    counts = torch.tensor(lengths)[:, None]
    mask = places >= longest - counts if config.padding_side == "left" else places < counts
    if isinstance(end := getattr(model.transformer.config.get_text_config(), "eos_token_id", None), int):
        ids[torch.arange(len(lengths)), (mask.cumsum(1) * mask).argmax(1)] = end  # of which some models make the vector
    found = {"input_ids": ids.masked_fill(~mask, config.pad_token_id), "attention_mask": mask.long()}
    kinds = max(1, min(2, int(getattr(model.transformer.config, "type_vocab_size", 2))))
    return found | {TYPES: (places % kinds * mask).long()} if TYPES in config.inputs else found


def _results(
    model: TextModel, package: Package, inputs: dict[str, torch.Tensor]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The outputs by name, of eager PyTorch and of the package."""
    try:
        with torch.no_grad():
            want: dict[str, Any] = model(**inputs)
    except (IndexError, RuntimeError) as error:
        length = inputs["input_ids"].shape[1]
        raise PackageError(
            f"the model fails for a text of {length} tokens, which its folder allows: {error_line(error)}; write "
            "'max_seq_length' into sentence_bert_config.json, or 'model_max_length' into tokenizer_config.json."
        ) from error
    got = package.run({name: tensor.numpy() for name, tensor in inputs.items()})
    for name, tensor in want.items():
        yield name, tensor.float().numpy(), got[name].astype(np.float32, copy=False)
