"""Further models of transformers, small and with random weights: newer ones, and such as few other rows are like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import torch

from tests.cases.architectures import tokens
from tests.cases.models import Example, pixels
from tests.cases.pictures_and_sounds import BATCH, NARROW, PATCHES, SAMPLES, SIZED, SPEECH, Row, image
from tests.cases.texts_with_more import EYES, IMAGE_ID, READER, TARGET, TEXT, WRITER, Inputs, described, row, text

LETTERS = {**READER, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PAIR = {
    "text_config": {**LETTERS, "projection_dim": 32},
    "vision_config": {**EYES, "projection_dim": 32},
    "projection_dim": 32,
}
LISTENER = {**NARROW, "num_key_value_heads": 4}
ONCE = {"depths": [1, 1, 1, 1]}
SPEAKER = {**WRITER, "head_dim": 8}
TURNED = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}


def captioned() -> dict[str, Any]:
    return {**text(), "pixel_values": (pixels(2, 32), BATCH)}


def heard() -> dict[str, Any]:
    return {"input_values": (torch.randn(2, 800), SAMPLES), "decoder_input_ids": (tokens(2, 5), TARGET)}


def played() -> dict[str, Any]:
    return {
        "inputs_embeds": (torch.randn(2, 9, 32), {0: "batch", 1: "frames"}),
        "decoder_input_ids": (tokens(2, 5), TARGET),
    }


def filmed() -> dict[str, Any]:
    return {"pixel_values_videos": (torch.randn(2, 4, 3, 36, 36), BATCH)}


def measured() -> dict[str, Any]:
    return {"pixel_values": (pixels(2, 56), BATCH), "prompt_depth": (torch.rand(2, 1, 14, 14), BATCH)}


def trimmed() -> dict[str, Any]:
    return {"pixel_values": (torch.randn(2, 4, 64, 64), BATCH)}


def frames() -> dict[str, Any]:
    shape = {0: "batch", 1: "frames"}
    return {
        "input_features": (torch.randn(2, 40, 128), shape),
        "attention_mask": (torch.ones(2, 40, dtype=torch.int64), shape),
    }


def mels(count: int, *, first: bool = False) -> Inputs:
    """Sounds as so many numbers a frame, which the first axis may be."""
    return {"input_features": (torch.randn(2, count, 64) if first else torch.randn(2, 64, count), BATCH)}


def transcribed() -> Inputs:
    return {**mels(128), "decoder_input_ids": (tokens(2, 5), TARGET)}


def asked() -> Inputs:
    seen = (torch.randn(2, 5, 32), {0: "batch", 1: "patches"})
    return {
        "input_ids": (tokens(2, 7), TEXT),
        "query_embeds": (torch.randn(2, 4, 32), BATCH),
        "encoder_hidden_states": seen,
    }


def clips() -> Inputs:
    return {"pixel_values_videos": (torch.randn(1, 2, 3, 32, 32), BATCH)}


def two_pictures() -> Inputs:
    return {"pixel_values": (torch.randn(1, 2, 1, 64, 64), BATCH)}


def line_of_text() -> Inputs:
    return {"pixel_values": (torch.randn(2, 3, 48, 96), {0: "batch", 3: "width"})}


def joined(
    model: str,
    config: str,
    make: str,
    parts: Mapping[str, Mapping[str, Any]],
    inputs: Callable[[], Mapping[str, tuple[Any, Any]]],
    **fields: Any,
) -> Row:
    """A model of two others, by their configs."""

    def build() -> Example:
        hf = import_module("transformers")
        whole = getattr(getattr(hf, config), make)(
            *(getattr(hf, name)(**part) for name, part in parts.items()), **fields
        )
        made = inputs()
        values = {name: value for name, (value, _) in made.items()}
        return Example(getattr(hf, model)(whole).eval(), (), values, {name: shape for name, (_, shape) in made.items()})

    return Row(model, "transformers", build)


def with_backbone(model: str, config: str, backbone: str, inner: Mapping[str, Any], inputs: Any, **fields: Any) -> Row:
    def build() -> Example:
        made = getattr(import_module("transformers"), backbone)(**inner)
        return row(model, config, inputs, backbone_config=made, **fields).build()

    return Row(model, "transformers", build)


CASES = (
    row("MetaClip2Model", "MetaClip2Config", captioned, **PAIR),
    row("Tipsv2Model", "Tipsv2Config", captioned, **PAIR),
    row("Aimv2Model", "Aimv2Config", captioned, **PAIR),
    image("Aimv2VisionConfig", "Aimv2VisionModel", SIZED, **PATCHES, is_native=True),
    image("MLCDVisionConfig", "MLCDVisionModel", **PATCHES),
    image("PixioConfig", "PixioModel", **PATCHES),
    image("RadioConfig", "RadioModel", **PATCHES),
    image("PPLCNetConfig", "PPLCNetForImageClassification", SIZED, scale=0.25),
    row("ImageGPTModel", "ImageGPTConfig", lambda: {"input_ids": (tokens(2, 7), TEXT)}, n_embd=32, n_layer=2, n_head=4,
        vocab_size=99, n_positions=64),
    joined("VisionTextDualEncoderModel", "VisionTextDualEncoderConfig", "from_vision_text_configs",
           {"ViTConfig": EYES, "BertConfig": READER}, captioned, projection_dim=32),
    joined("SpeechEncoderDecoderModel", "SpeechEncoderDecoderConfig", "from_encoder_decoder_configs",
           {"Wav2Vec2Config": SPEECH,
            "BartConfig": {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48,
                           "vocab_size": 99, "max_position_embeddings": 64, "is_decoder": True, "use_cache": False,
                           "add_cross_attention": True}},
           heard),
    row("Pop2PianoForConditionalGeneration", "Pop2PianoConfig", played, d_model=32, d_kv=8, d_ff=48, num_layers=2,
        num_heads=4, vocab_size=99, use_cache=False),
    row("LasrForCTC", "LasrCTCConfig", frames, vocab_size=99,
        encoder_config={**NARROW, "num_key_value_heads": 4, "subsampling_conv_channels": 16}),
    row("VideoPrismVisionModel", "VideoPrismVisionConfig", filmed, hidden_size=32, num_spatial_layers=2,
        num_temporal_layers=2, num_attention_heads=4, intermediate_size=48, image_size=36, num_frames=4,
        tubelet_size=[1, 18, 18]),
    with_backbone("PromptDepthAnythingForDepthEstimation", "PromptDepthAnythingConfig", "Dinov2Config",
                  {**NARROW, "image_size": 56, "patch_size": 14, "out_features": ["stage1", "stage2"],
                   "reshape_hidden_states": False, "apply_layernorm": True}, measured,
                  reassemble_hidden_size=32, reassemble_factors=[2, 1], neck_hidden_sizes=[8, 16],
                  fusion_hidden_size=8, head_in_channels=8, head_hidden_size=8, patch_size=14),
    with_backbone("VitMatteForImageMatting", "VitMatteConfig", "VitDetConfig",
                  {**PATCHES, "num_channels": 4, "pretrain_image_size": 64, "out_features": ["stage2"]}, trimmed,
                  hidden_size=32, fusion_hidden_sizes=[32, 16, 8, 4], convstream_hidden_sizes=[6, 8, 12]),
    described("ColPaliForRetrieval", "ColPaliConfig", 4,
              {"vlm_config": {"model_type": "paligemma", "text_config": {**SPEAKER, "model_type": "gemma"},
                              "vision_config": {**EYES, "model_type": "siglip_vision_model", "projection_dim": 32},
                              "image_token_id": IMAGE_ID, "projection_dim": 32},
               "embedding_dim": 16}),
    described("DeepseekVLForConditionalGeneration", "DeepseekVLConfig", 4,
              {"text_config": ("LlamaConfig", SPEAKER), "vision_config": ("SiglipVisionConfig", EYES),
               "image_token_id": IMAGE_ID}),
    described("JanusForConditionalGeneration", "JanusConfig", 4,
              {"text_config": ("LlamaConfig", SPEAKER),
               "vision_config": {**EYES, "projection_dim": 32, "num_image_tokens": 4, "depth": 2},
               "vq_config": {"embed_dim": 8, "num_embeddings": 32, "latent_channels": 8, "resolution": 32,
                             "base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1,
                             "image_token_embed_dim": 32, "projection_dim": 32},
               "image_token_id": IMAGE_ID}),
    described("Ovis2ForConditionalGeneration", "Ovis2Config", 1,
              {"text_config": ("Qwen2Config", SPEAKER), "hidden_size": 32, "vocab_size": 99,
               "vision_config": {**EYES, "vocab_size": 60, "num_visual_indicator_tokens": 5, "hidden_stride": 2},
               "image_token_id": IMAGE_ID, "visual_indicator_token_ids": [91, 92, 93, 94, 95]}),
    row("Glm4vTextModel", "Glm4vTextConfig", text, **SPEAKER, rope_parameters=TURNED),
    row("Qwen3VLMoeTextModel", "Qwen3VLMoeTextConfig", text, **SPEAKER, num_experts=4, moe_intermediate_size=24,
        num_experts_per_tok=2, rope_parameters={**TURNED, "mrope_interleaved": True}),
    image("EomtDinov3Config", "EomtDinov3ForUniversalSegmentation", **PATCHES, num_queries=5, num_blocks=1,
          num_upscale_blocks=1),
    image("DeiTConfig", "DeiTModel", **PATCHES),
    image("ViTMSNConfig", "ViTMSNModel", **PATCHES),
    image("FocalNetConfig", "FocalNetForImageClassification", SIZED, embed_dim=16, **ONCE),
    image("SwiftFormerConfig", "SwiftFormerModel", SIZED, embed_dims=[8, 16, 24, 32], **ONCE),
    image("TextNetConfig", "TextNetModel", SIZED, hidden_sizes=[8, 8, 16, 24, 32], stem_out_channels=8),
    image("HGNetV2Config", "HGNetV2ForImageClassification", SIZED, stem_channels=[3, 8, 8],
          stage_in_channels=[8, 16, 24, 32], stage_mid_channels=[8, 8, 8, 8], stage_out_channels=[16, 24, 32, 40],
          stage_num_blocks=[1, 1, 1, 1], stage_numb_of_layers=[2, 2, 2, 2], hidden_sizes=[16, 24, 32, 40], **ONCE),
    image("PPLCNetV3Config", "PPLCNetV3Backbone", SIZED),
    row("VideomtForUniversalSegmentation", "VideomtConfig", clips, **NARROW, image_size=32, patch_size=16,
        num_queries=5),
    row("EfficientLoFTRModel", "EfficientLoFTRConfig", two_pictures, stage_num_blocks=[1, 1, 1, 1],
        num_attention_layers=1),
    row("PPOCRV5ServerRecForTextRecognition", "PPOCRV5ServerRecConfig", line_of_text, hidden_size=32,
        head_out_channels=99, num_attention_heads=4),
    row("GlmAsrEncoder", "GlmAsrEncoderConfig", partial(mels, 128, first=True), **LISTENER),
    row("NemotronAsrStreamingEncoder", "NemotronAsrStreamingEncoderConfig", partial(mels, 80), **LISTENER),
    row("CanaryForConditionalGeneration", "CanaryConfig", transcribed, encoder_config={**LISTENER, "num_mel_bins": 128},
        decoder_config={**LISTENER, "vocab_size": 99}, vocab_size=99, use_cache=False),
    row("CohereAsrForConditionalGeneration", "CohereAsrConfig", transcribed, **LISTENER, encoder_config=LISTENER,
        head_dim=8, vocab_size=99, use_cache=False),
    row("EmbeddingGemma2TextModel", "EmbeddingGemma2TextConfig", text, **SPEAKER),
    row("Emu3ForCausalLM", "Emu3TextConfig", text, **SPEAKER),
    row("GlmImageTextModel", "GlmImageTextConfig", text, **SPEAKER, rope_parameters=TURNED),
    row("GlmOcrTextModel", "GlmOcrTextConfig", text, **SPEAKER, rope_parameters=TURNED),
    row("Step3p7TextModel", "Step3p7TextConfig", text, **SPEAKER, sliding_window=4),
    row("GraniteSpeech5Encoder", "GraniteSpeech5EncoderConfig", partial(mels, 320), **LISTENER),
    row("InstructBlipVideoQFormerModel", "InstructBlipVideoQFormerConfig", asked, **READER, encoder_hidden_size=32),
    row("Qwen2_5OmniThinkerTextModel", "Qwen2_5OmniTextConfig", text, **SPEAKER, rope_parameters=TURNED),
    image("PPLCNetV4Config", "PPLCNetV4Backbone", SIZED),
    row("PPOCRV6TinyRecForTextRecognition", "PPOCRV6TinyRecConfig", line_of_text),
)  # fmt: skip
