"""Texts that the models of a prompt and of a step write in ONNX Runtime, as `generate` does in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from fxport import Example, decode_step, encode, export, prefill
from tests.cases.language_models import model_of
from tests.running import session_of

transformers = pytest.importorskip("transformers")

PROMPT, NEW = 6, 10
TOKENS = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 99}
SMALL = {**TOKENS, "hidden_size": 32, "num_hidden_layers": 2}
GROUPED = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
WINDOWS = {**GROUPED, "head_dim": 8, "sliding_window": 4}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "learned positions": ("GPT2LMHeadModel", {**TOKENS, "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 64}),
    "full windows": ("MistralForCausalLM", {**WINDOWS, "num_hidden_layers": 1}),
    "windows and full": ("Gemma3ForCausalLM", WINDOWS),
    "states": ("FalconMambaForCausalLM", {**SMALL, "state_size": 4}),
    "states and keys": (
        "BambaForCausalLM",
        {
            **GROUPED,
            "attn_layer_indices": [1],
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_d_state": 4,
            "mamba_n_groups": 2,
            "mamba_chunk_size": 4,
        },
    ),
    "an encoder": (
        "T5ForConditionalGeneration",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0, **TOKENS},
    ),
}
QUICK = ("learned positions", "full windows")


def exported(example: Example) -> onnxruntime.InferenceSession:
    return session_of(export(*example[:3], dynamic_shapes=example.dynamic_shapes))


Arrays = dict[str, np.ndarray]


def run(session: onnxruntime.InferenceSession, feeds: Mapping[str, np.ndarray]) -> Arrays:
    """One run, of those feeds that the model has; a cache goes by the names of what it is fed to next."""
    names = [each.name for each in session.get_outputs()]
    results = session.run(names, {each.name: feeds[each.name] for each in session.get_inputs()})
    return {name.removesuffix(".out"): np.asarray(result) for name, result in zip(names, results, strict=True)}


def written(model: Any, sessions: Mapping[str, Any], ids: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
    """The tokens [batch, NEW] that are likeliest one after the other."""
    feeds: Arrays = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    if model.config.is_encoder_decoder:
        (encoded,) = run(sessions["encode"], feeds).values()
        feeds["encoder_outputs.last_hidden_state"] = encoded
        feeds["decoder_input_ids"] = np.zeros((len(ids), 1), np.int64)
    results, tokens = run(sessions["prefill"], feeds), []
    while True:
        tokens.append(results["logits"][:, -1].argmax(-1)[:, None])
        if len(tokens) == NEW:
            return np.concatenate(tokens, 1)
        if model.config.is_encoder_decoder:
            feeds["decoder_input_ids"] = tokens[-1]
        else:
            feeds["input_ids"] = tokens[-1]
            feeds["attention_mask"] = np.pad(feeds["attention_mask"], ((0, 0), (0, 1)), constant_values=1)
        results = run(sessions["decode_step"], {**feeds, **results})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]
)
@pytest.mark.filterwarnings("ignore")  # of transformers, about what it falls back to and about lengths
def test_texts_are_those_of_generate(name: str) -> None:
    model = model_of(*MODELS[name])
    sessions = {"prefill": exported(prefill(model)), "decode_step": exported(decode_step(model, past=PROMPT))}
    if model.config.is_encoder_decoder:
        sessions["encode"] = exported(encode(model))
    for batch, padding in ((1, 0), (3, 0), (3, 2)):
        ids = torch.randint(2, 98, (batch, PROMPT), generator=torch.Generator().manual_seed(1))
        mask = torch.ones_like(ids)
        ids[0, :padding] = mask[0, :padding] = 0
        expected = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW)
        np.testing.assert_array_equal(written(model, sessions, ids, mask), expected[:, -NEW:].numpy())
