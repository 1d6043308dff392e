"""Vision-language models as three graphs: an encoder of images, the embedding that puts them in, and the decoder."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ShapesCollection

from fxport.exporter.capture.arguments.caches import register_caches
from fxport.exporter.language_models.decode import BATCH, PAST, SEQUENCE, Example
from fxport.exporter.language_models.eager_vision import (
    first_position,
    image_features,
    image_token,
    require_generated,
)
from fxport.exporter.language_models.generation import (
    CACHE,
    IDS,
    LOGITS,
    MASK,
    PRESENT,
    NotGenerativeError,
    full_cache,
    token_ids,
    with_forward,
)
from fxport.exporter.language_models.package_files import config_of
from fxport.exporter.language_models.sights import kinds_of_tokens, sight_of
from fxport.ort_runner.package_config import EMBEDS, FEATURES, KINDS, POSITIONS, TOKEN_TYPES

VISION, EMBEDDING, DECODER = "vision.onnx", "embedding.onnx", "decoder.onnx"
IMAGE_TOKENS = "image_tokens"
GENAI_TYPES = {"qwen2_vl": "qwen2_5_vl", "qwen2_5_vl": "qwen2_5_vl"}
"""Types of models for which onnxruntime-genai has a place, and its name for them."""

MARKS = ("vision_start_token_id", "video_token_id")
"""Tokens that onnxruntime-genai asks for, where a model has them."""

PARTS = ("vision_config", "audio_config")
"""Parts of configurations that say what reads images and sounds."""

OWN_TYPE = "vision-language"

STACKED, ADDING = "stacked_features", "_deepstack_process"
"""Argument for features of further layers, and the method of transformers that adds them to tokens of images."""


def reads_images(model: Any) -> bool:
    """Return True for a model of transformers that reads images or sounds beside text.

    The class of a decoder alone may say the same, as that of Gemma3 does; its configuration has no part for them.
    """
    modalities, config = getattr(type(model), "input_modalities", ()), model.config
    is_whole = config.get_text_config() is not config or any(hasattr(config, name) for name in PARTS)
    return isinstance(modalities, (list, tuple)) and "text" in modalities and len(modalities) > 1 and is_whole


def has_place(model: Any) -> bool:
    """Return True for a vision-language model that onnxruntime-genai runs."""
    return model.config.model_type in GENAI_TYPES


def vision_parts(model: Any) -> dict[str, Example]:
    """The calls of a vision-language model by the files that they become.

    The encoder gives `image_features` [image tokens, hidden] of images; the embedding takes `input_ids` int64 [batch,
    sequence] and these, and gives `inputs_embeds` [batch, sequence, hidden], where each token of an image has the next
    of the features while there are any; prompt and steps take `inputs_embeds`, `attention_mask` [batch, past +
    sequence], the cache, `position_ids` [3, batch, sequence] where positions follow from the sizes of images, and
    `token_type_ids` [batch, past + sequence] where attention follows from the kinds of tokens. Where images have
    features for further layers too, all three have them behind the others.

    Args:
        model: A vision-language model of transformers.

    Raises:
        NotGenerativeError: The model has other caches, or reads images in another way.
    """
    register_caches()
    require_generated(model)
    sight = sight_of(model)
    width = image_features(model, sight.images(model)[0]).shape[1]
    return {VISION: sight.encoder(model), EMBEDDING: _embedding(model, width), DECODER: _decoder(model, width)}


def hidden_size(model: Any) -> int:
    """Numbers of an embedding."""
    return int(model.config.get_text_config().hidden_size)


def vision_config(model: Any, graphs: Mapping[str, ir.Graph]) -> dict[str, Any]:
    """The configuration of a package, in the terms of onnxruntime-genai."""
    described = config_of(model, graphs[DECODER], uniform=False)
    found = described["model"]
    decoder, sight = found["decoder"], sight_of(model)
    decoder["filename"] = DECODER
    del decoder["inputs"][IDS]
    kinds = kinds_of_tokens(model)
    further = ([POSITIONS] if sight.has_positions else []) + ([TOKEN_TYPES] if kinds is not None else [])
    decoder["inputs"] |= {name: name for name in (EMBEDS, *further)}
    names = [value.name for value in graphs[VISION].inputs]
    found |= {
        "type": GENAI_TYPES.get(model.config.model_type, OWN_TYPE),
        "image_token_id": image_token(model),
        **{name: token for name in MARKS if (token := getattr(model.config, name, None)) is not None},
        **({KINDS: list(kinds)} if kinds is not None else {}),
        "vision": {
            "filename": VISION,
            "inputs": {name: name for name in names},
            "outputs": {FEATURES: FEATURES},
            "spatial_merge_size": getattr(model.config.vision_config, "spatial_merge_size", 1),
        },
        "embedding": {
            "filename": EMBEDDING,
            "inputs": {IDS: IDS, FEATURES: FEATURES},
            "outputs": {EMBEDS: EMBEDS},
        },
    }
    return described


def _embedding(model: Any, width: int) -> Example:
    token, further = image_token(model), width - hidden_size(model)

    def forward(self: Any, input_ids: torch.Tensor, image_features: torch.Tensor) -> dict[str, torch.Tensor]:
        table = self.get_input_embeddings()
        marked = input_ids == token
        words = input_ids if token < table.num_embeddings else torch.where(marked, 0, input_ids)
        texts = torch.nn.functional.pad(table(words), (0, further))
        index = marked.flatten().cumsum(0).reshape(input_ids.shape) - 1
        rows = image_features.shape[0]
        there = marked & (index < rows)  # a token that the model wrote by itself is a word like others
        filled = torch.cat([image_features, image_features.new_zeros(1, width)])
        return {EMBEDS: torch.where(there[..., None], filled[torch.where(there, index, rows)], texts)}

    ids = token_ids(model, 2, 5)
    ids[0, 1:4] = token
    kwargs = {IDS: ids, FEATURES: torch.randn(3, width, generator=torch.Generator().manual_seed(0))}
    shapes = ShapesCollection()
    shapes[ids] = {0: BATCH, 1: SEQUENCE}
    shapes[kwargs[FEATURES]] = {0: IMAGE_TOKENS}
    return Example(with_forward(model, forward), (), kwargs, shapes)


def _decoder(model: Any, width: int) -> Example:
    cls, hidden, first = type(model), hidden_size(model), first_position(model)
    has_kinds = kinds_of_tokens(model) is not None

    def forward(
        self: Any,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor,
        past_key_values: Any,
        position_ids: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> dict[str, Any]:
        past = past_key_values.layers[0].keys.shape[2]
        torch._check(attention_mask.shape[1] == past + inputs_embeds.shape[1])
        kwargs: dict[str, Any] = {MASK: attention_mask, CACHE: past_key_values}
        kwargs[EMBEDS] = inputs_embeds
        if width > hidden:
            kwargs[EMBEDS], *kwargs[STACKED] = inputs_embeds.split(hidden, -1)
        if position_ids is None:
            position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)[:, past:] + first
        if token_type_ids is not None:
            torch._check(token_type_ids.shape[1] == past + inputs_embeds.shape[1])
            kwargs |= {TOKEN_TYPES: token_type_ids, CACHE: _as_at_first(past_key_values)}
        result = cls.forward(self, **kwargs, position_ids=position_ids, use_cache=True, return_dict=True)
        return {LOGITS: result.logits, PRESENT: past_key_values}

    batch, past, sequence = 2, 4, 3
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(batch, past + sequence, dtype=torch.int64)
    kwargs: dict[str, Any] = {
        EMBEDS: torch.randn(batch, sequence, width, generator=generator),
        MASK: mask,
        CACHE: full_cache(model, batch, past),
        **({TOKEN_TYPES: torch.zeros_like(mask)} if has_kinds else {}),
    }
    shapes = ShapesCollection()
    shapes[kwargs[EMBEDS]] = {0: BATCH, 1: SEQUENCE}
    for name in (MASK, TOKEN_TYPES) if has_kinds else (MASK,):
        shapes[kwargs[name]] = {0: BATCH, 1: f"{PAST} + {SEQUENCE}"}
    for layer in kwargs[CACHE].layers:
        for tensor in (layer.keys, layer.values):
            shapes[tensor] = {0: BATCH, 2: PAST}
    if sight_of(model).has_positions:
        kwargs[POSITIONS] = torch.arange(past, past + sequence).expand(3, batch, sequence).clone()
        shapes[kwargs[POSITIONS]] = {1: BATCH, 2: SEQUENCE}
    return Example(with_forward(_stacking(model) if width > hidden else model, forward), (), kwargs, shapes)


def _as_at_first(cache: Any) -> Any:
    """The cache, of the same layers, that says that it is empty: then models look at the kinds of tokens.

    These are given from the first token on, so that the mask is right behind any past.
    """
    begun = copy.copy(cache)
    begun.__class__ = type("Begun", (type(cache),), {"is_initialized": False})
    return begun


def _stacking(model: Any) -> Any:
    """The model, of the same tensors, whose decoder adds features of further layers as `STACKED` to all tokens."""
    text = next((each for each in model.modules() if hasattr(each, ADDING)), None)
    if text is None:
        raise NotGenerativeError(
            f"'{type(model).__name__}' has features of images for further layers, and none that adds them; export its "
            "parts from Python: fxport export."
        )
    cls = type(text)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["deepstack_visual_embeds"] = kwargs.pop(STACKED)
        return cls.forward(self, *args, **kwargs)

    changed = with_forward(text, forward)
    setattr(type(changed), ADDING, lambda self, hidden, marked, features: hidden + features)
    kept = {id(each): each for each in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, {**kept, id(text): changed})
