"""Small embedding and reranking models of transformers with random weights, as folders of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *(f"w{index}" for index in range(96))]
SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 8}

MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "BERT": ("BertModel", SIZES, "right"),
    "Qwen3": ("Qwen3Model", GROUPED, "left"),
    "RoBERTa": ("RobertaModel", SIZES, "right"),
    "XLM-RoBERTa": ("XLMRobertaModel", SIZES, "right"),
    "MPNet": ("MPNetModel", SIZES, "right"),
    "DistilBERT": (
        "DistilBertModel",
        {**SIZES, "dim": 32, "hidden_dim": 64, "n_heads": 4, "n_layers": 2},
        "right",
    ),
    "ALBERT": ("AlbertModel", {**SIZES, "embedding_size": 16}, "right"),
    "ELECTRA": ("ElectraModel", {**SIZES, "embedding_size": 16}, "right"),
    "DeBERTa-v2": (
        "DebertaV2Model",
        {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
        "right",
    ),
    "ModernBERT": ("ModernBertModel", {**SIZES, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2}, "right"),
    "T5": (
        "T5EncoderModel",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100},
        "right",
    ),
    "Mistral": ("MistralModel", GROUPED, "left"),
    "Gemma3": ("Gemma3TextModel", {**GROUPED, "sliding_window": 4}, "left"),
}
"""Class, config and side of padding, by family."""

QUICK = ("Qwen3",)
"""Families that every run of the tests takes."""

OURS = "sentence_transformers."
POOLED = [
    ("0", "", f"{OURS}models.Transformer", {}),
    ("1", "1_Pooling", f"{OURS}models.Pooling", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}),
]


def tokenizer(side: str = "right", *, types: bool = True) -> Any:
    """A tokenizer of a hundred words, in lower case, with a word at both ends of a text."""
    import tokenizers
    import transformers

    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        padding_side=side,
        model_max_length=24,
        model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if types else [])],
    )


def saved(folder: Path, kind: str, settings: Mapping[str, Any], side: str = "right") -> Any:
    """Save a model and the tokenizer into a folder; return the model."""
    import transformers

    cls = getattr(transformers, kind)
    torch.manual_seed(0)
    model = cls(cls.config_class(**settings)).eval()
    model.save_pretrained(folder)
    tokenizer(side, types="token_type_ids" in cls.forward.__code__.co_varnames).save_pretrained(folder)
    return model


def listed(folder: Path, modules: Sequence[tuple[str, str, str, Mapping[str, Any]]]) -> None:
    """Write the list of modules as sentence-transformers does, and the settings of each."""
    entries = [
        {"idx": index, "name": name, "path": path, "type": kind} for index, (name, path, kind, _) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    for _, path, kind, settings in modules:
        (folder / path).mkdir(exist_ok=True)
        name = "sentence_bert_config.json" if kind.endswith("Transformer") else "config.json"
        (folder / path / name).write_text(json.dumps(settings))
