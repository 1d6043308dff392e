"""transformers architectures, small and with random weights, with every axis dynamic that the model leaves free."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from tests.cases.models import Example, ModelCase, ids, pixels

TINY = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
TEXT = {0: "batch", 1: "sequence"}
IMAGE = {0: "batch"}


def text_encoder(config: Any, model: Any) -> Example:
    tokens = ids(2, 7)
    mask = torch.ones_like(tokens)
    mask[1, 5:] = 0
    kwargs = {"input_ids": tokens, "attention_mask": mask}
    return Example(model(config).eval(), (), kwargs, dict.fromkeys(kwargs, TEXT))


def decoder(config: Any, model: Any) -> Example:
    config.use_cache = False
    return text_encoder(config, model)


def encoder_decoder(config: Any, model: Any) -> Example:
    config.use_cache = False
    tokens = ids(2, 7)
    kwargs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "decoder_input_ids": ids(2, 5)}
    shapes = {"input_ids": TEXT, "attention_mask": TEXT, "decoder_input_ids": {0: "batch", 1: "target"}}
    return Example(model(config).eval(), (), kwargs, shapes)


def image(config: Any, model: Any, size: int, shape: Any = IMAGE) -> Example:
    return Example(model(config).eval(), (), {"pixel_values": pixels(2, size)}, {"pixel_values": shape})


def resnet() -> Example:
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=5)
    return image(config, hf.ResNetForImageClassification, 32, {0: "batch", 2: "height", 3: "width"})


def convnextv2() -> Example:
    config = hf.ConvNextV2Config(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=5)
    return image(config, hf.ConvNextV2ForImageClassification, 64)


def vit() -> Example:
    config = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=32, patch_size=8
    )
    return image(config, hf.ViTForImageClassification, 32)


def swin() -> Example:
    config = hf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4, num_labels=5
    )
    return image(config, hf.SwinForImageClassification, 32)


def bert() -> Example:
    return text_encoder(hf.BertConfig(**TINY), hf.BertModel)


def roberta() -> Example:
    return text_encoder(hf.RobertaConfig(**TINY), hf.RobertaForSequenceClassification)


def distilbert() -> Example:
    config = hf.DistilBertConfig(
        vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=37, max_position_embeddings=64
    )
    return text_encoder(config, hf.DistilBertForMaskedLM)


def gpt2() -> Example:
    config = hf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    return decoder(config, hf.GPT2LMHeadModel)


def llama() -> Example:
    return decoder(hf.LlamaConfig(**TINY, num_key_value_heads=2), hf.LlamaForCausalLM)


def qwen3() -> Example:
    return decoder(hf.Qwen3Config(**TINY, num_key_value_heads=2, head_dim=8), hf.Qwen3ForCausalLM)


def gemma2() -> Example:
    config = hf.Gemma2Config(**TINY, num_key_value_heads=2, head_dim=8, sliding_window=4, query_pre_attn_scalar=8)
    return decoder(config, hf.Gemma2ForCausalLM)


def t5() -> Example:
    config = hf.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return encoder_decoder(config, hf.T5ForConditionalGeneration)


def bart() -> Example:
    config = hf.BartConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        max_position_embeddings=64,
    )
    return encoder_decoder(config, hf.BartForConditionalGeneration)


def whisper() -> Example:
    config = hf.WhisperConfig(
        vocab_size=99,
        num_mel_bins=8,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        max_source_positions=20,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    kwargs = {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": ids(2, 5)}
    shapes = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    return Example(hf.WhisperForConditionalGeneration(config).eval(), (), kwargs, shapes)


def clip() -> Example:
    tower = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
    config = hf.CLIPConfig(
        text_config={**tower, "vocab_size": 99, "max_position_embeddings": 32, "eos_token_id": 2},
        vision_config={**tower, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    kwargs = {
        "input_ids": ids(2, 7),
        "pixel_values": pixels(3, 32),
        "attention_mask": torch.ones(2, 7, dtype=torch.int64),
    }
    texts = {0: "texts", 1: "sequence"}
    shapes = {"input_ids": texts, "pixel_values": {0: "images"}, "attention_mask": texts}
    return Example(hf.CLIPModel(config).eval(), (), kwargs, shapes)


def wav2vec2() -> Example:
    config = hf.Wav2Vec2Config(
        vocab_size=32,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )
    shapes = {"input_values": {0: "batch", 1: "samples"}}
    return Example(hf.Wav2Vec2ForCTC(config).eval(), (), {"input_values": torch.randn(2, 400)}, shapes)


CASES = tuple(
    ModelCase(build.__name__, build)
    for build in (
        resnet,
        convnextv2,
        vit,
        swin,
        bert,
        roberta,
        distilbert,
        gpt2,
        llama,
        qwen3,
        gemma2,
        t5,
        bart,
        whisper,
        clip,
        wav2vec2,
    )
)
