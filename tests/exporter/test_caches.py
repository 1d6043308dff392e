"""Decode steps with transformers' own caches as inputs and outputs, batch, past and sequence dynamic."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from fxport import export, ort_runner
from fxport.diagnostics import Level, Log
from fxport.exporter.capture.arguments.caches import register_caches
from fxport.exporter.capture.arguments.inputs import leaves_of
from fxport.exporter.validation import reference
from tests.cases.architectures import Architecture, model_of, tokens
from tests.cases.models import Example

BATCH, PAST, NEW, SOURCE = 2, 5, 2, 7
TEXT = {0: "batch", 1: "sequence"}


@dataclass(frozen=True)
class Decode:
    """A row: the architecture, with what cache it decodes, and a leaf that the cache has."""

    name: str
    head: str = "CausalLM"
    settings: Mapping[str, Any] = field(default_factory=dict)
    static: bool = False
    leaf: str = "past_key_values.1.value"


WIDE = {"sliding_window": 64}
"""A window that the past does not fill: a full one holds fewer tokens than it has seen."""

CROSS = "past_key_values.cross_attention_cache.1.key"
QUICK = (
    Decode("llama"),
    Decode("bart", "Seq2SeqLM", leaf=CROSS),
    Decode("gemma2", settings=WIDE),
    Decode("llama", static=True, leaf="past_key_values.0.cumulative_length"),
)
SLOW = (
    Decode("gpt2"),
    Decode("qwen3"),
    Decode("mistral", settings=WIDE),
    Decode("gemma3_text", settings=WIDE),
    Decode("cohere2", settings=WIDE),
    Decode("gpt_neox"),
    Decode("deepseek_v32", settings={"num_key_value_heads": 4}, leaf="past_key_values.0.indexer_keys"),
    Decode("t5", "Seq2SeqLM", leaf=CROSS),
    Decode("pegasus", "Seq2SeqLM", leaf=CROSS),
)


def decoder(row: Decode, model: Any) -> Example:
    """One step of a causal model after a prefill, the new tokens at their positions."""
    ids = tokens(BATCH, PAST + NEW)
    if row.static:
        cache: Any = hf.StaticCache(config=model.config, max_cache_len=16)
        cache.early_initialization(batch_size=BATCH, num_heads=2, head_dim=8, dtype=torch.float32, device="cpu")
    else:
        cache = hf.DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids[:, :PAST], past_key_values=cache, use_cache=True)
    kwargs = {
        "past_key_values": cache,
        "input_ids": ids[:, PAST:],
        "attention_mask": torch.ones(BATCH, PAST + NEW, dtype=torch.int64),
    }
    shapes = {"input_ids": TEXT, "attention_mask": {0: "batch", 1: "total"}}
    if "position_ids" in inspect.signature(model.forward).parameters:
        kwargs["position_ids"] = torch.arange(PAST, PAST + NEW).expand(BATCH, NEW)
        shapes["position_ids"] = TEXT
    return Example(model, (), kwargs, shapes)


def encoder_decoder(model: Any) -> Example:
    """One step of the decoder, with what the encoder gave and both caches."""
    ids, mask = tokens(BATCH, PAST + NEW), torch.ones(BATCH, SOURCE, dtype=torch.int64)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=tokens(BATCH, SOURCE), attention_mask=mask)
        cache = model(
            encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=ids[:, :PAST], use_cache=True
        ).past_key_values
    kwargs = {
        "attention_mask": mask,
        "decoder_input_ids": ids[:, PAST:],
        "encoder_outputs": (encoded[0],),
        "past_key_values": cache,
    }
    source = {0: "batch", 1: "source"}
    return Example(
        model, (), kwargs, {"attention_mask": source, "decoder_input_ids": TEXT, "encoder_outputs.0": source}
    )


def cache_shapes(cache: Any, static: bool) -> dict[str, Any]:
    """The dynamic axes of a cache, by the path of each of its tensors."""
    found = {}
    for leaf in leaves_of({"past_key_values": cache}):
        if isinstance(leaf.value, torch.Tensor) and leaf.value.dim():
            past = "source" if "cross_attention_cache" in leaf.path else "past"
            axis = 1 if leaf.path.endswith("indexer_keys") else 2
            found[leaf.path] = {0: "batch"} if static else {0: "batch", axis: past}
    return found


@pytest.mark.parametrize(
    "row",
    [
        *(pytest.param(row, id=f"{row.name}{'-static' * row.static}") for row in QUICK),
        *(pytest.param(row, id=row.name, marks=pytest.mark.slow) for row in SLOW),
    ],
)
def test_decode_step(row: Decode, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model: Any = model_of(Architecture(row.name, row.head, row.settings))
    model.config.use_cache = True
    case = encoder_decoder(model) if row.head == "Seq2SeqLM" else decoder(row, model)
    register_caches()
    shapes = {**case.dynamic_shapes, **cache_shapes(case.kwargs["past_key_values"], row.static)}
    log = Log()
    program = export(model, (), case.kwargs, dynamic_shapes=shapes, log=log)
    path = tmp_path / "model.onnx"
    program.save(path)
    recorded = list(reference.cases(model, (), case.kwargs, program, log))
    assert [each.label for each in recorded] == ["sample", "resized"]
    assert row.leaf in recorded[0].inputs
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    ort_runner.validate(path, samples, provider="cpu", log=log)
    errors = [f"{f.rule.id} {f.message}" for f in log.findings if f.level is Level.ERROR]
    assert not errors, "\n".join(errors)


def test_a_cache_that_counts_in_python_is_refused() -> None:
    """A static sliding layer's number of tokens would be a constant of the model."""
    register_caches()
    config = model_of(Architecture("mistral", "CausalLM")).config
    with pytest.raises(TypeError, match="counts its tokens in Python"):
        torch.utils._pytree.tree_flatten(hf.StaticCache(config=config, max_cache_len=16))
