"""Small language models of transformers with random weights, by family: what packages are made of in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

TOKENIZER = '{"model": {"type": "WordLevel", "vocab": {"w": 0}, "unk_token": "w"}}'
"""Content of the file of a tokenizer that knows one word."""

TOKENS = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 99}
SMALL = {**TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
FED = {**SMALL, "intermediate_size": 64, "max_position_embeddings": 128}
GROUPED = {**FED, "num_key_value_heads": 2}
WINDOW = 4
"""Tokens that a sliding window shows: fewer than any prompt of the tests has."""

HEADED = {**GROUPED, "head_dim": 8}
WINDOWED = {**HEADED, "sliding_window": WINDOW}

EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {
    **FED,
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "v_head_dim": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
"""Keys of 16 numbers a head and values of 8, and experts behind the first layer."""

GPT2 = {**TOKENS, "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 128}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Llama, tied": ("LlamaForCausalLM", {**GROUPED, "tie_word_embeddings": True}),
    "Mistral, windows": ("MistralForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "Qwen2": ("Qwen2ForCausalLM", GROUPED),
    "Qwen2, windows": (
        "Qwen2ForCausalLM",
        {**GROUPED, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "Qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 8}),
    "Gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 8}),
    "Gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": WINDOW}),
    "Gemma3": ("Gemma3ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": WINDOW}),
    "Phi": ("PhiForCausalLM", FED),
    "Phi3": ("Phi3ForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "GPT-2": ("GPT2LMHeadModel", GPT2),
    "GPT-NeoX": ("GPTNeoXForCausalLM", FED),
    "GPT-Neo": (
        "GPTNeoForCausalLM",
        {
            **TOKENS,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": WINDOW,
            "max_position_embeddings": 128,
        },
    ),
    "GPT-J": ("GPTJForCausalLM", {**GPT2, "rotary_dim": 4}),
    "OPT": ("OPTForCausalLM", {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 128}),
    "BLOOM": ("BloomForCausalLM", {**TOKENS, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "Falcon": ("FalconForCausalLM", FED),
    "OLMo": ("OlmoForCausalLM", GROUPED),
    "OLMo2": ("Olmo2ForCausalLM", GROUPED),
    "Granite": ("GraniteForCausalLM", GROUPED),
    "SmolLM3": ("SmolLM3ForCausalLM", GROUPED),
    "StableLM": ("StableLmForCausalLM", GROUPED),
    "StarCoder2": ("Starcoder2ForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "Cohere": ("CohereForCausalLM", GROUPED),
    "GLM": ("GlmForCausalLM", {**GROUPED, "head_dim": 8}),
    "Nemotron": ("NemotronForCausalLM", GROUPED),
    "EXAONE4": ("Exaone4ForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "ERNIE4.5": ("Ernie4_5ForCausalLM", {**GROUPED, "head_dim": 8}),
    "Helium": ("HeliumForCausalLM", {**GROUPED, "head_dim": 8}),
    "Seed-OSS": ("SeedOssForCausalLM", {**GROUPED, "head_dim": 8}),
    "Hunyuan": ("HunYuanDenseV1ForCausalLM", {**GROUPED, "head_dim": 8}),
    "Apertus": ("ApertusForCausalLM", GROUPED),
    "Arcee": ("ArceeForCausalLM", GROUPED),
    "Mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "Qwen3-MoE": (
        "Qwen3MoeForCausalLM",
        {**GROUPED, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    ),
    "DeepSeek-V3": ("DeepseekV3ForCausalLM", LATENT),
    "GPT-OSS": (
        "GptOssForCausalLM",
        {**GROUPED, "head_dim": 8, "sliding_window": WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "OLMo3": ("Olmo3ForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "Cohere2": ("Cohere2ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": WINDOW}),
    "GLM4": ("Glm4ForCausalLM", {**GROUPED, "head_dim": 8}),
    "OLMoE": ("OlmoeForCausalLM", {**GROUPED, **EXPERTS}),
    "Qwen2-MoE": ("Qwen2MoeForCausalLM", {**GROUPED, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "AFMoE": ("AfmoeForCausalLM", {**WINDOWED, **EXPERTS, "num_dense_layers": 1, "num_shared_experts": 1}),
    "A.X K1": ("AXK1ForCausalLM", LATENT),
    "Aria": ("AriaTextForCausalLM", {**HEADED, "moe_num_experts": 4, "moe_topk": 2}),
    "BitNet": ("BitNetForCausalLM", GROUPED),
    "Cohere2-MoE": ("Cohere2MoeForCausalLM", {**WINDOWED, **EXPERTS, "num_shared_experts": 1}),
    "CWM": ("CwmForCausalLM", WINDOWED),
    "EXAONE-MoE": (
        "ExaoneMoeForCausalLM",
        {**WINDOWED, **EXPERTS, "n_group": 1, "topk_group": 1, "num_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "Flint": ("FlintForCausalLM", {**WINDOWED, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "GLM4-MoE-Lite": ("Glm4MoeLiteForCausalLM", LATENT),
    "Granite, windows": ("GraniteSWAForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "Granite-MoE, windows": (
        "GraniteMoeSWAForCausalLM",
        {
            **GROUPED,
            "sliding_window": WINDOW,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 32,
        },
    ),
    "HRM": ("HrmTextForCausalLM", {**FED, "head_dim": 8}),
    "Hunyuan V3": ("HYV3ForCausalLM", {**HEADED, **EXPERTS, "num_shared_experts": 1}),
    "HyperCLOVA X": ("HyperCLOVAXForCausalLM", HEADED),
    "Jais2": ("Jais2ForCausalLM", HEADED),
    "Kolibri": (
        "Kolibri1ForCausalLM",
        {**WINDOWED, **EXPERTS, "num_local_experts": 4, "shared_expert_intermediate_size": 32},
    ),
    "Laguna": ("LagunaForCausalLM", {**WINDOWED, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "Mellum": ("MellumForCausalLM", {**WINDOWED, **EXPERTS, "num_local_experts": 4}),
    "MiMo-V2-Flash": (
        "MiMoV2FlashForCausalLM",
        {
            **WINDOWED,
            "v_head_dim": 8,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "n_group": 1,
            "topk_group": 1,
        },
    ),
    "MiniMax-M2": ("MiniMaxM2ForCausalLM", {**HEADED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "VaultGemma": ("VaultGemmaForCausalLM", WINDOWED),
}
"""Model class and config, by family."""

UNEQUAL = ("DeepSeek-V3", "A.X K1", "GLM4-MoE-Lite", "MiMo-V2-Flash")
"""Families whose keys and values have different sizes, which onnxruntime-genai does not take."""

MAMBA = {**TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "conv_kernel": 4}
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
MIXED = ["linear_attention", "full_attention"]
STATES: dict[str, tuple[str, dict[str, Any]]] = {
    "Mamba": ("MambaForCausalLM", {**MAMBA, "time_step_rank": 4}),
    "Mamba2, blocks": ("Mamba2ForCausalLM", {**MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8}),
    "FalconMamba": ("FalconMambaForCausalLM", {**MAMBA, "time_step_rank": 4}),
    "LFM2": ("Lfm2ForCausalLM", {**GROUPED, "layer_types": ["conv", "full_attention"]}),
    "LFM2-MoE": (
        "Lfm2MoeForCausalLM",
        {**GROUPED, **EXPERTS, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    ),
    "Jamba": (
        "JambaForCausalLM",
        {
            **GROUPED,
            "num_experts": 4,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
        },
    ),
    "Bamba": (
        "BambaForCausalLM",
        {
            **GROUPED,
            "attn_layer_indices": [1],
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_d_state": 8,
            "mamba_chunk_size": 8,
        },
    ),
    "Qwen3-Next": (
        "Qwen3NextForCausalLM",
        {**HEADED, **EXPERTS, **LINEAR, "layer_types": MIXED, "shared_expert_intermediate_size": 32},
    ),
    "Qwen3.5": ("Qwen3_5ForCausalLM", {**HEADED, **LINEAR, "layer_types": MIXED}),
}
"""Model class and config of families whose cache has states, by family."""

QUICK = ("Llama, tied", "Mistral, windows")
"""Families that every run of the tests takes."""


def made(name: str) -> Any:
    """The model of a row."""
    return model_of(*MODELS[name])


def model_of(kind: str, settings: Mapping[str, Any]) -> Any:
    """A model with weights that are large enough for texts of more than one token; no token ends a text.

    Weights that begin at zero, such as those that choose among experts, are drawn too: else all experts would be tied.
    """
    import transformers

    cls = getattr(transformers, kind)
    torch.manual_seed(0)
    model = cls(cls.config_class(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and not parameter.any():
                parameter.normal_(std=0.02)
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    model.generation_config.eos_token_id = None
    return model
