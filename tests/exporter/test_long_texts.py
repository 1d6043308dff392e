"""Packages of models whose positions are computed in another way for long texts, or that are called in another way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import export, generation_step, package
from fxport.exporter.language_models.read_anew import READ_ANEW, read_anew_after
from fxport.exporter.language_models.rotations import rotations_of_context
from fxport.exporter.language_models.seq2seq import seq2seq_parts
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import FILE, PackageError
from tests.cases.language_models import EXPERTS, FED, GROUPED, LATENT, TOKENS, model_of
from tests.generated import generated, written

transformers = pytest.importorskip("transformers")

SHORT = 16
"""Tokens up to which the rotations are those of short texts."""

NEW = 24
PROMPTS = ([3, 14, 15, 92, 65, 35], [27, 18, 28])
ROPE = {"rope_theta": 1e4}
DYNAMIC = {**ROPE, "rope_type": "dynamic", "factor": 2.0}
LONG_ROPE = {
    **ROPE,
    "rope_type": "longrope",
    "short_factor": [1.0] * 4,
    "long_factor": [20.0, 30.0, 40.0, 50.0],
    "original_max_position_embeddings": SHORT,
}
PHI = {**GROUPED, "sliding_window": None, "original_max_position_embeddings": SHORT, "rope_parameters": LONG_ROPE}
RARE = pytest.mark.slow


@pytest.mark.parametrize("cache", ["dynamic", pytest.param("shared", marks=RARE), pytest.param("gqa", marks=RARE)])
def test_a_text_that_outgrows_its_rotations_is_read_anew(cache: Any, tmp_path: Path) -> None:
    """Keys in the cache have the rotations of short texts; `generate` forgets them, and so does the verdict."""
    model = model_of("Phi3ForCausalLM", PHI)
    assert read_anew_after(model) == SHORT
    found = package(model, tmp_path / "package", cache=cache, steps=12)
    assert written(found.folder, PROMPTS, NEW) == generated(model, PROMPTS, NEW)
    long = [[each * 7 % 96 + 1 for each in range(2 * SHORT)]]
    assert written(found.folder, long, NEW) == generated(model, long, NEW)


def test_tokens_that_are_taken_at_once_are_read_anew_together(tmp_path: Path) -> None:
    model = model_of("Phi3ForCausalLM", PHI)
    runner = Generator(package(model, tmp_path / "package", steps=0).folder, "cpu")
    ids = np.arange(1, SHORT + 3)[None]
    runner.feed(ids[:, :-4])
    got = runner.feed(ids[:, -4:])
    with torch.no_grad():
        want = model(torch.from_numpy(ids)).logits[:, -4:].numpy()
    np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())


def test_tokens_that_are_refused_leave_those_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is read anew is not forgotten where that is refused or fails."""
    folder = package(model_of("Phi3ForCausalLM", PHI), tmp_path / "package", steps=0).folder
    runner, other = Generator(folder, "cpu"), Generator(folder, "cpu")
    ids = np.arange(1, SHORT + 1)[None]
    for each in (runner, other):
        each.feed(ids[:, :-1])
    with pytest.raises(PackageError, match="context"):
        runner.feed(np.ones((1, runner.config.context_length), np.int64))

    def fail(feeds: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_run", fail)
        with pytest.raises(KeyboardInterrupt):
            runner.feed(ids[:, :2])
    np.testing.assert_array_equal(runner.feed(ids[:, -1:]), other.feed(ids[:, -1:]))


def test_what_onnxruntime_genai_reads_anew_has_its_type(tmp_path: Path) -> None:
    """It does so after 4,096 tokens alone, and for some types alone; it refuses a type that it does not know."""
    with pytest.raises(PackageError, match="reads a text anew after 16 tokens"):
        package(model_of("Phi3ForCausalLM", PHI), tmp_path / "package", steps=0, runtime="genai")
    assert not (tmp_path / "package").exists()
    kinds = {}
    for tokens in (SHORT, 4096):
        rope = {**LONG_ROPE, "original_max_position_embeddings": tokens}
        settings = {**PHI, "max_position_embeddings": 8192, "original_max_position_embeddings": tokens}
        model = model_of("Phi3ForCausalLM", {**settings, "num_hidden_layers": 1, "rope_parameters": rope})
        folder = package(model, tmp_path / str(tokens), steps=0).folder
        kinds[tokens] = json.loads((folder / FILE).read_text())["model"]["type"]
    assert kinds == {SHORT: "decoder-that-reads-anew", 4096: "phi3"}
    assert read_anew_after(model_of("LlamaForCausalLM", GROUPED)) is None


def test_a_number_of_tokens_that_is_none_is_refused(tmp_path: Path) -> None:
    import onnx

    folder = package(model_of("LlamaForCausalLM", GROUPED), tmp_path / "package", steps=0).folder
    whole = onnx.load(folder / "model.onnx")
    onnx.helper.set_model_props(whole, {READ_ANEW: "many"})
    onnx.save(whole, folder / "model.onnx")
    with pytest.raises(PackageError, match="'many' in the place of a number"):
        Generator(folder, "cpu")


def test_rotations_that_change_beyond_the_context_are_fixed(tmp_path: Path) -> None:
    """A text of a package is no longer than the context; the model has its own rotations again afterwards."""
    model = model_of(
        "LlamaForCausalLM", {**GROUPED, "rope_parameters": {**ROPE, "rope_type": "dynamic", "factor": 2.0}}
    )
    found = package(model, tmp_path / "package")
    assert written(found.folder, PROMPTS, NEW) == generated(model, PROMPTS, NEW)
    assert model.model.rotary_emb.rope_type == "dynamic"


def test_rotations_that_have_changed_already_are_left_alone() -> None:
    model = model_of("LlamaForCausalLM", {**GROUPED, "max_position_embeddings": 32, "rope_parameters": DYNAMIC})
    with rotations_of_context(model):
        assert model.model.rotary_emb.rope_type == "fixed"
    with torch.no_grad():
        model(torch.arange(40)[None])
    with rotations_of_context(model):
        assert model.model.rotary_emb.rope_type == "dynamic"


def test_a_decoder_that_branches_on_data_leaves_the_cache_of_its_caller() -> None:
    class Branching(transformers.LlamaForCausalLM):
        def forward(self, input_ids: torch.Tensor, attention_mask: Any = None, **kwargs: Any) -> Any:
            result = super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            if input_ids.max() > 50:
                result.logits = result.logits * 2
            return result

    torch.manual_seed(0)
    model = Branching(transformers.LlamaConfig(**{**GROUPED, "num_hidden_layers": 1})).eval()
    example = generation_step(model)
    program = export(*example[:3], dynamic_shapes=example.dynamic_shapes)
    assert [node.op_type for node in program.model.graph].count("If") == 1
    assert example.kwargs["past_key_values"].layers[0].keys.shape[2] == 4


def test_an_encoder_is_called_as_generate_calls_it() -> None:
    """Without `use_cache`, which is for the decoder, and which some encoders refuse."""
    settings = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "num_experts": 4}
    sparse = {"num_decoder_layers": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}
    start = {**TOKENS, "decoder_start_token_id": 2}
    model = model_of("SwitchTransformersForConditionalGeneration", {**start, **settings, **sparse})
    assert {*seq2seq_parts(model)} == {"encoder.onnx", "decoder.onnx"}


FURTHER: dict[str, tuple[str, dict[str, Any]]] = {
    "LongCat": (
        "LongcatFlashForCausalLM",
        {
            **{name: LATENT[name] for name in LATENT if "head_dim" in name or "lora" in name},
            **TOKENS,
            "hidden_size": 32,
            "num_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "ffn_hidden_size": 64,
            "expert_ffn_hidden_size": 32,
            "head_dim": 8,
            "n_routed_experts": 4,
            "moe_topk": 2,
            "zero_expert_num": 2,
            "max_position_embeddings": 128,
        },
    ),
    "PhiMoE, LongRoPE": (
        "PhimoeForCausalLM",
        {
            **FED,
            "num_key_value_heads": 2,
            "num_local_experts": EXPERTS["num_experts"],
            "num_experts_per_tok": 2,
            "original_max_position_embeddings": SHORT,
            "rope_parameters": {**LONG_ROPE, "short_mscale": 1.2, "long_mscale": 1.3},
        },
    ),
}
"""Families that branch on data, by name."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FURTHER)
def test_families_that_branch_on_data_write_the_tokens_of_generate(name: str, tmp_path: Path) -> None:
    model = model_of(*FURTHER[name])
    assert written(package(model, tmp_path / "package").folder, PROMPTS, NEW) == generated(model, PROMPTS, NEW)
