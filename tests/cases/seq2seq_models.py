"""Small encoder-decoders of transformers with random weights, by family, and settings that make their texts varied."""

from __future__ import annotations

from typing import Any

from tests.cases.language_models import WINDOWED, model_of

TOKENS = {"vocab_size": 100, "pad_token_id": 0, "eos_token_id": 99, "decoder_start_token_id": 2}
T5 = {**TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
BART = {
    **TOKENS,
    "bos_token_id": 1,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "forced_eos_token_id": None,
}
WHISPER = {
    **{name: value for name, value in BART.items() if name != "max_position_embeddings"},
    "num_mel_bins": 8,
    "max_source_positions": 20,
    "max_target_positions": 64,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "T5": ("T5ForConditionalGeneration", {**T5, "num_layers": 2}),
    "mT5": ("MT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
    "Switch": (
        "SwitchTransformersForConditionalGeneration",
        {**T5, "num_layers": 2, "num_decoder_layers": 2, "num_experts": 4, "expert_capacity": 8},
    ),
    "UMT5": ("UMT5ForConditionalGeneration", T5),
    "BART": ("BartForConditionalGeneration", BART),
    "mBART": ("MBartForConditionalGeneration", {**BART, "encoder_layers": 2, "decoder_layers": 2}),
    "Marian": ("MarianMTModel", {**BART, "static_position_embeddings": True}),
    "Pegasus": ("PegasusForConditionalGeneration", BART),
    "M2M100": ("M2M100ForConditionalGeneration", BART),
    "Blenderbot": ("BlenderbotForConditionalGeneration", BART),
    "T5Gemma": ("T5GemmaForConditionalGeneration", {**TOKENS, "encoder": WINDOWED, "decoder": WINDOWED}),
    "Whisper": ("WhisperForConditionalGeneration", WHISPER),
}
"""Model class and config, by family."""

QUICK = ("BART",)
"""Families that every run of the tests takes."""

SETTINGS: dict[str, Any] = {
    "no_repeat_ngram_size": 2,
    "encoder_no_repeat_ngram_size": 2,
    "repetition_penalty": 1.3,
    "suppress_tokens": [5, 6, 7],
    "begin_suppress_tokens": [8],
    "bad_words_ids": [[9], [10, 11]],
    "min_length": 4,
    "forced_bos_token_id": 12,
    "forced_eos_token_id": 99,
}
"""Settings for generation that forbid and force tokens, and so make texts of many tokens."""

SPOKEN: dict[str, Any] = {
    "encoder_no_repeat_ngram_size": 0,
    "is_multilingual": True,
    "language": "en",
    "task": "transcribe",
    "lang_to_id": {"<|en|>": 20, "<|de|>": 21},
    "task_to_id": {"transcribe": 22, "translate": 23},
    "no_timestamps_token_id": 24,
}
"""Settings of Whisper, which say what its texts begin with."""


def made(name: str, **settings: Any) -> Any:
    """The model of a row, with these settings for generation."""
    model = model_of(*MODELS[name])
    spoken = SPOKEN if name == "Whisper" else {}
    model.generation_config.update(**{**SETTINGS, **settings}, eos_token_id=99)
    for key, value in spoken.items():
        setattr(model.generation_config, key, value)
    return model
