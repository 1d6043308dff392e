"""Text architectures of transformers from small random configs: one row each, and what a small config is."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.cases.models import Example

SMALL: Mapping[str, Any] = {
    **dict.fromkeys(
        ("vocab_size", "src_vocab_size", "tgt_vocab_size", "decoder_vocab_size", "unpadded_vocab_size"), 99
    ),
    **dict.fromkeys(("vocab_size_per_layer_input", "pronunciation_vocab_size", "shape_vocab_size"), 99),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_dim", "pooler_hidden_size"), 32),
    **dict.fromkeys(("lru_width", "attention_hidden_size"), 32),
    **dict.fromkeys(("embedding_size", "entity_emb_size", "projection_dim"), 16),
    **dict.fromkeys(("pronunciation_embed_dim", "shape_embed_dim", "laurel_rank"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "swa_num_attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "swa_num_key_value_heads"), 2),
    **dict.fromkeys(
        ("head_dim", "d_kv", "d_head", "dim_head", "attention_head_size", "kv_channels", "swa_head_dim"), 8
    ),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "swa_v_head_dim", "index_head_dim"), 8),
    **dict.fromkeys(("attention_head_dim", "hidden_size_per_layer_input", "query_pre_attn_scalar", "index_n_heads"), 8),
    **dict.fromkeys(
        ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "dff", "dim_ff"), 40
    ),
    **dict.fromkeys(("hidden_dim", "n_inner", "d_inner", "ffn_hidden_size", "intermediate_size_mlp"), 40),
    "dense_intermediate_size": 40,
    **dict.fromkeys(("moe_intermediate_size", "expert_ffn_hidden_size", "shared_expert_intermediate_size"), 24),
    **dict.fromkeys(("shared_intermediate_size", "shared_experts_intermediate_size", "expert_intermediate_size"), 24),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_2d_position_embeddings"), 64
    ),
    **dict.fromkeys(("max_encoder_position_embeddings", "max_decoder_position_embeddings"), 64),
    **dict.fromkeys(("max_source_positions", "max_target_positions", "mamba_d_ssm"), 64),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(
        ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "n_group", "zero_expert_num"), 2
    ),
    **dict.fromkeys(("topk_group", "num_expert_group", "first_k_dense_replace", "num_dense_layers"), 1),
    **dict.fromkeys(("moe_layer_start_index", "mamba_ngroups", "max_window_layers", "num_random_blocks"), 1),
    "moe_layer_end_index": -1,
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "o_lora_rank", "qk_head_dim", "rel_extent"), 16),
    **dict.fromkeys(
        ("sliding_window", "window_size", "attention_window", "local_attention", "attention_chunk_size"), 4
    ),
    **dict.fromkeys(("sliding_window_size", "keep_window_size", "attention_window_size", "index_topk"), 4),
    **dict.fromkeys(("mamba_d_state", "state_size", "ssm_state_size"), 8),
    **dict.fromkeys(
        ("mamba_n_heads", "mamba_num_heads", "mamba_dt_rank", "time_step_rank", "gated_norm_rank", "d_rel"), 4
    ),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim", "mamba_headdim"), 16),
    **dict.fromkeys(("mamba_chunk_size", "chunk_size", "global_block_size", "block_size", "prompt_length"), 4),
    **dict.fromkeys(("linear_num_value_heads", "linear_num_heads", "rotary_dim"), 4),
    **dict.fromkeys(("linear_num_key_heads", "n_mamba_heads", "type_vocab_size", "hc_sinkhorn_iters"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), 8),
    **dict.fromkeys(
        ("relative_attention_num_buckets", "position_buckets", "num_buckets", "num_conv_pos_embeddings"), 8
    ),
    "relative_attention_max_distance": 16,
    "local_radius": 3,
    "entity_vocab_size": 20,
    "n_langs": 1,
    "num_labels": 3,
    **dict.fromkeys(("num_nextn_predict_layers", "num_kv_shared_layers", "pad_token_id"), 0),
    **dict.fromkeys(("bos_token_id", "decoder_start_token_id", "cls_token_id"), 1),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    "unk_token_id": 3,
    "mask_token_id": 4,
    "forced_eos_token_id": None,
    "use_cache": False,
    **dict.fromkeys(("initializer_range", "init_std"), 0.2),
}
"""Small values for the settings that configs have, by name. A row says what is to be otherwise."""

OPTIONAL = ("n_inner", "q_lora_rank", "sliding_window")
"""Settings that stay None where the config's default is None: something else is built then."""

TABLES = {
    "CausalLM": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "Seq2SeqLM": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "MaskedLM": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "SequenceClassification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "QuestionAnswering": modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    "TokenClassification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
}


@dataclass(frozen=True)
class Architecture:
    """A row: the model type, the task, settings beyond SMALL, and why it cannot be exported as asked, if so."""

    name: str
    head: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    length: int = 7
    known_gap: str | None = None


def rows(head: str, names: str) -> tuple[Architecture, ...]:
    return tuple(Architecture(name, head) for name in names.split())


def config_of(row: Architecture) -> Any:
    """The config with every setting small that it has; layers of each kind that its default has."""
    kind = CONFIG_MAPPING[row.name]
    default = kind().to_dict()
    known = set(default) | {name for each in kind.__mro__ for name in getattr(each, "__annotations__", {})}
    renamed = getattr(kind, "attribute_map", {})
    chosen = {
        name: value for name, value in SMALL.items() if name in known and name not in renamed and _fits(default, name)
    }
    types = list(dict.fromkeys(default.get("layer_types") or ()))
    if types and ("num_hidden_layers" in known or "num_hidden_layers" in renamed):
        types = types * 2 if len(types) == 1 else types
        chosen |= {"layer_types": types, "num_hidden_layers": len(types)}
    blocks = list(dict.fromkeys(default.get("mlp_layer_types") or ()))
    if blocks:
        count = len(types) or 2
        chosen["mlp_layer_types"] = (blocks * count)[:count]
    config = kind(**{**chosen, **row.settings})
    config.use_cache = False
    return config


def _fits(default: Mapping[str, Any], name: str) -> bool:
    value = default.get(name)
    if value is None:
        return name not in OPTIONAL or name not in default
    return not isinstance(value, (list, tuple)) and isinstance(value, bool) == isinstance(SMALL[name], bool)


def model_of(row: Architecture) -> torch.nn.Module:
    """The model with random weights, also where they begin as zeros or ones: these would hide much."""
    name = TABLES[row.head][row.name]
    model = getattr(hf, name if isinstance(name, str) else name[0])(config_of(row)).eval()
    with torch.no_grad():
        for weight in (*model.parameters(), *model.buffers()):
            if weight.is_floating_point() and weight.numel() > 1 and bool((weight == weight.flatten()[0]).all()):
                weight.add_((torch.rand(weight.shape) - 0.25).to(weight.dtype) * 0.4)
    return model


def tokens(batch: int, length: int) -> torch.Tensor:
    """Ids that are none of the special ones, and none twice in a row: a model that picks the best few has no ties."""
    return torch.stack([torch.randperm(94)[:length] + 5 for _ in range(batch)])


def example(row: Architecture) -> Example:
    """Two texts, the second shorter and padded, with batch and sequence dynamic."""
    model = model_of(row)
    wanted = inspect.signature(model.forward).parameters
    text = {0: "batch", 1: "sequence"}
    kwargs = {"input_ids": tokens(2, row.length)}
    if "attention_mask" in wanted:
        kwargs["attention_mask"] = torch.ones_like(kwargs["input_ids"])
        kwargs["attention_mask"][1, row.length - 2 :] = 0
    shapes: dict[str, Any] = dict.fromkeys(kwargs, text)
    if row.head == "Seq2SeqLM":
        kwargs["decoder_input_ids"] = tokens(2, 5)
        shapes["decoder_input_ids"] = {0: "batch", 1: "target"}
    return Example(model, (), kwargs, shapes)


FOUR_HEADS = {"num_key_value_heads": 4}

ROWS: tuple[Architecture, ...] = (
    *rows(
        "CausalLM",
        """
        afmoe apertus arcee aria_text bamba beam bert-generation biogpt bitnet bloom codegen cohere cohere2
        cohere2_moe ctrl cwm deepseek_v4 diffllama doge ernie4_5 ernie4_5_moe exaone4 exaone_moe
        falcon_h1 falcon_mamba flex_olmo flint gemma gemma2 gemma3_text gemma4_text gemma4_unified_text glm glm4
        glm4_moe gpt-sw3 gpt2 gpt_bigcode gpt_neox gpt_neox_japanese gpt_oss gptj granite granite_swa granitemoe
        granitemoe_swa granitemoehybrid granitemoeshared helium hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3
        hy_v4 hyperclovax inkling_text internlm3 iquestcoder jais2 jetmoe kolibri1 laguna lfm2 lfm3 llama
        llama4_text mamba mellum mimo_v2_flash minimax_m2 minimax_m3_vl_text ministral ministral3 mistral
        mixtral modernbert-decoder nanochat nemotron olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt opt persimmon phi
        phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_5_moe_text qwen3_moe seed_oss smollm3 solar_open stablelm starcoder2
        trocr vaultgemma xglm xlnet
        """,
    ),
    *rows(
        "Seq2SeqLM",
        """
        bart blenderbot blenderbot-small longt5 m2m_100 marian mbart mt5 mvp pegasus pegasus_x plbart prophetnet t5 umt5
        """,
    ),
    *rows(
        "MaskedLM",
        """
        albert bert camembert data2vec-text deberta deberta-v2 distilbert electra ernie esm eurobert flaubert fnet gte
        jina_embeddings_v3 megatron-bert modernbert nomic_bert rembert roberta roberta-prelayernorm roc_bert roformer
        ultrabert xlm xlm-roberta xlm-roberta-xl
        """,
    ),
    *rows(
        "SequenceClassification",
        """

        """,
    ),
    *rows(
        "QuestionAnswering",
        """
        splinter
        """,
    ),
    *(
        Architecture(name, "CausalLM", FOUR_HEADS)
        for name in (
            "axk1",
            "axk2",
            "bailing_hybrid",
            "deepseek_v2",
            "deepseek_v3",
            "deepseek_v32",
            "dots3_note_text",
            "glm4_moe_lite",
            "glm_moe_dsa",
        )
    ),
    Architecture(
        "cohere_compass_text",
        "CausalLM",
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
            }
        },
    ),
    Architecture("dots1", "CausalLM", {"n_shared_experts": 1}),
    Architecture("falcon", "CausalLM", {"new_decoder_architecture": True}),
    Architecture(
        "gemma3n_text",
        "CausalLM",
        {
            "activation_sparsity_pattern": [0.95, 0.0],
            "layer_types": ["sliding_attention", "full_attention"],
            "num_hidden_layers": 2,
            "altup_num_inputs": 2,
        },
    ),
    Architecture("gpt_neo", "CausalLM", {"attention_types": [[["global", "local"], 1]]}),
    Architecture(
        "jamba",
        "CausalLM",
        {
            "num_hidden_layers": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
        },
    ),
    Architecture("lfm2_moe", "CausalLM", {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1}),
    Architecture("mamba2", "CausalLM", {"num_heads": 8, "head_dim": 8, "n_groups": 2, "expand": 2}),
    Architecture("nemotron_h", "CausalLM", {"n_groups": 1, "mamba_num_heads": 4, "mamba_head_dim": 16}),
    Architecture("mpt", "CausalLM", {"expansion_ratio": 2}),
    Architecture("recurrent_gemma", "CausalLM", {"num_hidden_layers": 3}),
    Architecture("rwkv", "CausalLM", {"context_length": 64}),
    Architecture("convbert", "MaskedLM", {"embedding_size": 32, "conv_kernel_size": 5}),
    Architecture("mobilebert", "MaskedLM", {"True_hidden_size": 16, "intra_bottleneck_size": 16, "embedding_size": 32}),
    Architecture("mpnet", "MaskedLM", {"relative_attention_num_buckets": 32}),
    Architecture("squeezebert", "MaskedLM", {"embedding_size": 32}),
    Architecture("yoso", "MaskedLM", {"num_hash": 2, "hash_code_len": 3, "use_expectation": True}),
    Architecture("markuplm", "SequenceClassification", {"xpath_unit_hidden_size": 8, "max_depth": 4}),
    Architecture("cpmant", "CausalLM"),
    Architecture("qwen3_next", "CausalLM"),
    Architecture("funnel", "MaskedLM", {"block_sizes": [1, 1], "block_repeats": [1, 1], "num_decoder_layers": 1}),
    Architecture("minimax", "CausalLM", known_gap="FXP2001: a loop over blocks of tokens, the last of them shorter"),
    Architecture("fsmt", "Seq2SeqLM", {"langs": ["en", "de"]}),
    Architecture("switch_transformers", "Seq2SeqLM"),
    Architecture("nllb-moe", "Seq2SeqLM", {"encoder_sparse_step": 2, "decoder_sparse_step": 2}),
)
