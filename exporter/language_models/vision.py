"""Vision-language models as three graphs: an encoder of images, the embedding that puts them in, and the decoder."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch.export import ShapesCollection

from fxport.exporter.capture.arguments.caches import MODULE, register_caches
from fxport.exporter.language_models.decode import BATCH, PAST, SEQUENCE, Example
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
from fxport.exporter.language_models.vision_grids import GRIDS, GridSight
from fxport.ort_runner.package_config import EMBEDS, FEATURES, GRID, PIXELS, POSITIONS

VISION, EMBEDDING, DECODER = "vision.onnx", "embedding.onnx", "decoder.onnx"
IMAGE_TOKENS = "image_tokens"
TYPES = "mm_token_type_ids"
"""1 for each token that is a part of an image, for models that count positions by that."""

GENAI_TYPES = {"qwen2_vl": "qwen2_5_vl", "qwen2_5_vl": "qwen2_5_vl"}
"""Types of models for which onnxruntime-genai has a place, and its name for them."""

MARKS = ("vision_start_token_id", "video_token_id")
"""Tokens that onnxruntime-genai asks for, where a model has them."""

PARTS = ("vision_config", "audio_config")
"""Parts of configurations that say what reads images and sounds."""

OWN_TYPE = "vision-language"

Image = Mapping[str, torch.Tensor]
"""Inputs of the encoder for one image."""


class FixedSight:
    """Images of one size, which the encoder takes one by one: `pixel_values` float32 [1, channels, height, width]."""

    has_positions = False
    towers = ("clip_vision_model", "siglip_vision_model")
    """Types of encoders that make as many features of each image."""

    def encoder(self, model: Any) -> Example:
        """The call that makes features [image tokens, hidden] of one image."""
        cls = type(model)

        def forward(self: Any, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
            found = cls.get_image_features(self, pixel_values=pixel_values, return_dict=True).pooler_output
            return {FEATURES: torch.cat(list(found)) if isinstance(found, (list, tuple)) else found.flatten(0, 1)}

        image = dict(self.images(model)[0])
        with torch.no_grad():
            cls.get_image_features(model, **image)  # transformers installs what reads hidden states at the first call
        return Example(with_forward(model, forward), (), image, ShapesCollection())

    def images(self, model: Any) -> Sequence[Image]:
        """Images to compare with."""
        vision = model.config.vision_config
        side = vision.image_size if isinstance(vision.image_size, (list, tuple)) else (vision.image_size,) * 2
        generator = torch.Generator().manual_seed(0)
        return [{PIXELS: torch.randn(1, vision.num_channels, *side, generator=generator)} for _ in range(2)]


Sight = FixedSight | GridSight

SIGHTS: Mapping[str, Sight] = {
    "llava": FixedSight(),
    "vipllava": FixedSight(),
    **GRIDS,
}
"""Ways to read images, by the type of a model's configuration."""


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


def sight_of(model: Any) -> Sight:
    """Return how a model reads images. Raises NotGenerativeError for one that no package is made of."""
    kind, name = model.config.model_type, type(model).__name__
    if kind not in SIGHTS:
        raise NotGenerativeError(
            f"'{name}' reads {' and '.join(type(model).input_modalities)}, and its type '{kind}' is none of "
            f"{', '.join(SIGHTS)}; export its parts from Python: fxport export."
        )
    sight, tower = SIGHTS[kind], getattr(getattr(model.config, "vision_config", None), "model_type", None)
    if sight.towers and tower not in sight.towers:
        raise NotGenerativeError(
            f"'{name}' reads images by '{tower}', which is none of {', '.join(sight.towers)}; export its parts from "
            "Python: fxport export."
        )
    return sight


def images_of(model: Any) -> Sequence[Image]:
    """Images with which a package is compared."""
    return sight_of(model).images(model)


def vision_parts(model: Any) -> dict[str, Example]:
    """The calls of a vision-language model by the files that they become.

    The encoder gives `image_features` [image tokens, hidden] of images; the embedding takes `input_ids` int64 [batch,
    sequence] and these, and gives `inputs_embeds` [batch, sequence, hidden], where each token of an image has the next
    of the features while there are any; prompt and steps take `inputs_embeds`, `attention_mask` [batch, past +
    sequence], the cache, and `position_ids` [3, batch, sequence] where positions follow from the sizes of images.

    Args:
        model: A vision-language model of transformers.

    Raises:
        NotGenerativeError: The model has other caches, or reads images in another way.
    """
    register_caches()
    sight = sight_of(model)
    return {VISION: sight.encoder(model), EMBEDDING: _embedding(model), DECODER: _decoder(model, sight.has_positions)}


def image_token(model: Any) -> int:
    """The token that stands for a part of an image."""
    config = model.config
    return int(config.image_token_id if hasattr(config, "image_token_id") else config.image_token_index)


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
    decoder["inputs"] |= {EMBEDS: EMBEDS} | ({POSITIONS: POSITIONS} if sight.has_positions else {})
    names = [value.name for value in graphs[VISION].inputs]
    found |= {
        "type": GENAI_TYPES.get(model.config.model_type, OWN_TYPE),
        "image_token_id": image_token(model),
        **{name: token for name in MARKS if (token := getattr(model.config, name, None)) is not None},
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


class EagerVision:
    """The model in PyTorch, taking tokens as `Generator` does, of which the first have these images.

    Args:
        model: A vision-language model in eval mode.
        images: The images of all texts, in the order of their tokens.
    """

    def __init__(self, model: Any, images: Sequence[Image]) -> None:
        self._model, self._images = model, images
        self._cache = importlib.import_module(MODULE).DynamicCache(config=model.config)
        self._mask = torch.zeros(0, 0, dtype=torch.int64)
        self._shift: torch.Tensor | int = 0

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The logits [batch, sequence, vocabulary] of further tokens [batch, sequence]."""
        tokens = torch.from_numpy(ids)
        new = torch.from_numpy(np.ones_like(ids) if mask is None else mask)
        self._mask = torch.cat([self._mask, new], 1) if self._mask.numel() else new
        kwargs: dict[str, Any] = {MASK: self._mask, CACHE: self._cache, "use_cache": True}
        positions = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :] + self._shift
        if self._images:
            kwargs |= {name: torch.cat([each[name] for each in self._images]) for name in self._images[0]}
            if sight_of(self._model).has_positions:
                kwargs[TYPES] = (tokens == image_token(self._model)).int()
                given = {name: kwargs[name] for name in (TYPES, GRID, MASK)}
                positions, self._shift = self._model.model.get_rope_index(tokens, **given)
            self._images = ()
        elif sight_of(self._model).has_positions:
            positions = positions.expand(3, -1, -1)
        with torch.no_grad():
            return self._model(tokens, **kwargs, position_ids=positions).logits.float().numpy()


def prompts_with_images(model: Any, sizes: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Two prompts with the parts of images among their tokens: the first has the first image, the second the others."""
    token = image_token(model)
    places = [sizes[:1], sizes[1:]]
    made = []
    for prompt, own in zip(prompts, places, strict=True):
        words = [token - 1 if each == token else each for each in prompt]
        parts = [[token] * size for size in own] + [[]] * (len(words) - len(own))
        made.append([each for word, part in zip(words, parts, strict=True) for each in (word, *part)])
    return made


def _embedding(model: Any) -> Example:
    token = image_token(model)

    def forward(self: Any, input_ids: torch.Tensor, image_features: torch.Tensor) -> dict[str, torch.Tensor]:
        texts = self.get_input_embeddings()(input_ids)
        marked = input_ids == token
        index = marked.flatten().cumsum(0).reshape(input_ids.shape) - 1
        rows = image_features.shape[0]
        there = marked & (index < rows)  # a token that the model wrote by itself is a word like others
        filled = torch.cat([image_features, image_features.new_zeros(1, image_features.shape[1])])
        return {EMBEDS: torch.where(there[..., None], filled[torch.where(there, index, rows)], texts)}

    ids = token_ids(model, 2, 5)
    ids[0, 1:4] = token
    kwargs = {IDS: ids, FEATURES: torch.randn(3, hidden_size(model), generator=torch.Generator().manual_seed(0))}
    shapes = ShapesCollection()
    shapes[ids] = {0: BATCH, 1: SEQUENCE}
    shapes[kwargs[FEATURES]] = {0: IMAGE_TOKENS}
    return Example(with_forward(model, forward), (), kwargs, shapes)


def _decoder(model: Any, has_positions: bool) -> Example:
    cls = type(model)

    def forward(
        self: Any,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor,
        past_key_values: Any,
        position_ids: torch.Tensor | None = None,
    ) -> dict[str, Any]:
        past = past_key_values.layers[0].keys.shape[2]
        torch._check(attention_mask.shape[1] == past + inputs_embeds.shape[1])
        kwargs: dict[str, Any] = {EMBEDS: inputs_embeds, MASK: attention_mask, CACHE: past_key_values}
        if position_ids is None:
            position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)[:, past:]
        result = cls.forward(self, **kwargs, position_ids=position_ids, use_cache=True, return_dict=True)
        return {LOGITS: result.logits, PRESENT: getattr(result, CACHE)}

    batch, past, sequence = 2, 4, 3
    generator = torch.Generator().manual_seed(0)
    kwargs: dict[str, Any] = {
        EMBEDS: torch.randn(batch, sequence, hidden_size(model), generator=generator),
        MASK: torch.ones(batch, past + sequence, dtype=torch.int64),
        CACHE: full_cache(model, batch, past),
    }
    shapes = ShapesCollection()
    shapes[kwargs[EMBEDS]] = {0: BATCH, 1: SEQUENCE}
    shapes[kwargs[MASK]] = {0: BATCH, 1: f"{PAST} + {SEQUENCE}"}
    for layer in kwargs[CACHE].layers:
        for tensor in (layer.keys, layer.values):
            shapes[tensor] = {0: BATCH, 2: PAST}
    if has_positions:
        kwargs[POSITIONS] = torch.arange(past, past + sequence).expand(3, batch, sequence).clone()
        shapes[kwargs[POSITIONS]] = {1: BATCH, 2: SEQUENCE}
    return Example(with_forward(model, forward), (), kwargs, shapes)
