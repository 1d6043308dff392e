"""Language models with their caches: the prompt, and steps with caches of any length, of every class of cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from fxport import Example, OnnxProgram, decode_step, encode, export, prefill
from fxport.diagnostics import Level, Log
from fxport.exporter.capture.fake import has_no_values, without_memory
from fxport.exporter.language_models.decode import NoCacheError
from fxport.exporter.validation import reference
from tests.running import session_of

transformers = pytest.importorskip("transformers")

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
GROUPED = {**SMALL, "num_key_value_heads": 2, "intermediate_size": 64}
SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 8}),
    "Gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": 32}),
    "Mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 64}),
    "Phi": ("PhiForCausalLM", {**GROUPED, "num_key_value_heads": 4}),
    "GPT-NeoX": ("GPTNeoXForCausalLM", {**SMALL, "intermediate_size": 64}),
    "GPT-2": ("GPT2LMHeadModel", {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 100, "n_positions": 64}),
    "OPT": (
        "OPTForCausalLM",
        {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    ),
    "LFM2": (
        "Lfm2ForCausalLM",
        {**GROUPED, "num_hidden_layers": 3, "layer_types": ["full_attention", "conv", "full_attention"]},
    ),
    "T5": (
        "T5ForConditionalGeneration",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100},
    ),
    "BART": ("BartForConditionalGeneration", SEQ2SEQ),
    "Pegasus": ("PegasusForConditionalGeneration", SEQ2SEQ),
    "mBART": ("MBartForConditionalGeneration", SEQ2SEQ),
}
"""Model class and config, by family. The first has a plain cache; T5's is a pair, Gemma's has sliding windows, LFM2's
holds states of convolutions."""

QUICK = ("Llama", "T5")


def named(name: str, **settings: Any) -> torch.nn.Module:
    """A model of the table, with other settings."""
    kind, usual = MODELS[name]
    cls = getattr(transformers, kind)
    torch.manual_seed(0)
    return cls(cls.config_class(**{**usual, **settings})).eval()


def assert_exported(example: Example, dims: dict[str, list[Any]]) -> OnnxProgram:
    """The model equals eager PyTorch at the example and at another size, and its inputs have these dims."""
    log = Log()
    program = export(*example[:3], dynamic_shapes=example.dynamic_shapes, log=log)
    assert not [each.message for each in log.findings if each.level is Level.ERROR]
    shapes = {str(value.name): value.shape for value in program.model.graph.inputs}
    for name, wanted in dims.items():
        shape = shapes[name]
        assert [getattr(dim, "value", dim) for dim in shape or ()] == wanted, name
    assert_equal(program, list(reference.cases(example.model, example.args, example.kwargs, program, log)))
    return program


def assert_equal(program: OnnxProgram, recorded: Sequence[reference.Case]) -> None:
    """ONNX Runtime gives what eager PyTorch gave, at both sizes."""
    session = session_of(program)
    assert [case.label for case in recorded][:2] == ["sample", "resized"]
    for case in recorded:
        results = session.run(list(case.outputs), case.inputs)
        for (name, want), got in zip(case.outputs.items(), results, strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]
)
def test_a_step_takes_a_cache_of_any_length(name: str) -> None:
    model = named(name)
    ids, cache = "input_ids", "past_key_values.0.key"
    if model.config.is_encoder_decoder:  # type: ignore[union-attr]  # a config of transformers
        ids, cache = "decoder_input_ids", "past_key_values.self_attention_cache.0.key"
    program = assert_exported(decode_step(model), {ids: ["batch", 1]})
    inputs = {str(value.name): value for value in program.model.graph.inputs}
    outputs = {str(value.name) for value in program.model.graph.outputs}
    shape = inputs[cache].shape
    assert shape is not None
    assert shape[2].value == "past"  # type: ignore[union-attr]  # a named dim
    assert any(output.startswith(cache) for output in outputs)


@pytest.mark.parametrize("make", [prefill, encode])
def test_an_encoder_decoder_begins_with_its_encoder(make: Callable[[Any], Example]) -> None:
    first = {prefill: "decoder_input_ids", encode: "input_ids"}[make]
    length = {prefill: "sequence", encode: "source"}[make]
    assert_exported(make(named("T5")), {first: ["batch", length], "attention_mask": ["batch", "source"]})


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_of_any_length(name: str) -> None:
    model = named(name)
    seq2seq = model.config.is_encoder_decoder  # type: ignore[union-attr]  # a config of transformers
    assert_exported(prefill(model), {"decoder_input_ids" if seq2seq else "input_ids": ["batch", "sequence"]})


def test_a_model_without_memory_has_a_step(tmp_path: Path) -> None:
    whole, path = named("Llama", num_hidden_layers=1), tmp_path / "model.pt"
    torch.save(whole.state_dict(), path)
    with without_memory():
        empty = named("Llama", num_hidden_layers=1)
    example = decode_step(empty)
    leaves = [each for each in pytree.tree_leaves(example.kwargs) if isinstance(each, torch.Tensor)]
    assert len(leaves) > 2
    assert not any(map(has_no_values, leaves))
    log = Log()
    program = export(*example[:3], dynamic_shapes=example.dynamic_shapes, weights=path, log=log)
    assert_equal(program, list(reference.cases(decode_step(whole).model, example.args, example.kwargs, program, log)))


def test_a_model_without_a_cache_is_refused() -> None:
    config = transformers.BertConfig(**SMALL, intermediate_size=64)
    with pytest.raises(NoCacheError, match="returns no 'past_key_values'"):
        decode_step(transformers.BertModel(config).eval())


class Keywords(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        return x * 2 + y.sum() - (0 if z is None else z.max())


def test_keyword_arguments_may_come_in_any_order() -> None:
    kwargs = {"z": torch.randn(4, 1), "y": torch.randn(3), "x": torch.randn(2, 5)}
    log = Log()
    program = export(Keywords(), (), kwargs, dynamic_shapes={"x": {0: "rows"}}, log=log)
    assert {str(value.name): len(value.shape or ()) for value in program.model.graph.inputs} == {"x": 2, "y": 1, "z": 2}
    assert_equal(program, list(reference.cases(Keywords(), (), kwargs, program, log)))
