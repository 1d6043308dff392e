"""A vision-language model in eager PyTorch, held against `generate`: what a package is compared with."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fxport.diagnostics.messages import error_text
from fxport.exporter.capture.arguments.caches import MODULE
from fxport.exporter.language_models.generation import CACHE, MASK, UNFIT, NotGenerativeError
from fxport.exporter.language_models.image_features import features_of
from fxport.exporter.language_models.sights import Image, kinds_of_tokens, sight_of
from fxport.exporter.language_models.vision_grids import TYPES
from fxport.ort_runner.generation import padded
from fxport.ort_runner.package_config import GRID, POSITIONS, TOKEN_TYPES

PROMPTS = ([3, 1, 4, 1, 5, 9], [2, 6, 5])
"""Tokens of two texts, among which images are put."""

CLOSE = 1e-5
"""Logits that differ by more, in parts of the largest, are those of another computation."""


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
        self._shift: torch.Tensor | int = first_position(model)
        self._has_grids = sight_of(model).has_positions

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The logits [batch, sequence, vocabulary] of further tokens [batch, sequence]."""
        tokens = torch.from_numpy(ids)
        new = torch.from_numpy(np.ones_like(ids) if mask is None else mask)
        self._mask = torch.cat([self._mask, new], 1) if self._mask.numel() else new
        kwargs: dict[str, Any] = {MASK: self._mask, CACHE: self._cache, "use_cache": True}
        positions = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :] + self._shift
        if self._images:
            kwargs |= beside(self._model, tokens, self._images)
            if self._has_grids:
                given = {name: kwargs[name] for name in (TYPES, GRID, MASK)}
                positions, self._shift = self._model.model.get_rope_index(tokens, **given)
            self._images = ()
        elif self._has_grids:
            positions = positions.expand(3, -1, -1)
        with torch.no_grad():
            return self._model(tokens, **kwargs, position_ids=positions).logits.float().numpy()


def beside(model: Any, tokens: torch.Tensor, images: Sequence[Image]) -> dict[str, torch.Tensor]:
    """The arguments of a model beside the tokens of a prompt and their mask, as its processor gives them."""
    found, marked = sight_of(model).joined(images), tokens == image_token(model)
    if GRID in found:
        found[TYPES] = marked.int()
    if (kinds := kinds_of_tokens(model)) is not None:
        found[TOKEN_TYPES] = torch.where(marked, kinds[1], kinds[0])
    return found


def image_token(model: Any) -> int:
    """The token that stands for a part of an image."""
    config = model.config
    return int(config.image_token_id if hasattr(config, "image_token_id") else config.image_token_index)


def first_position(model: Any) -> int:
    """The position of the first token of a text, as `generate` gives it."""
    if sight_of(model).has_positions:
        return 0
    ids = torch.zeros(1, 1, dtype=torch.int64)
    found = model.prepare_inputs_for_generation(ids, attention_mask=ids + 1, position_ids=ids, is_first_iteration=True)
    return int(found.get(POSITIONS, ids))


def image_features(model: Any, image: Image) -> torch.Tensor:
    """The features [image tokens, numbers] of an image."""
    with torch.no_grad():
        found = type(model).get_image_features(model, **sight_of(model).joined([image]), return_dict=True)
    return features_of(found)


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


def require_generated(model: Any) -> None:
    """Raise NotGenerativeError where `generate` of transformers has other logits than `EagerVision`.

    A package is compared with the latter: what `generate` computes beside it would be in neither.
    """
    name, images = type(model).__name__, sight_of(model).images(model)
    try:
        sizes = [len(image_features(model, each)) for each in images]
        ids, mask = padded(prompts_with_images(model, sizes, PROMPTS), 0)
        tokens = torch.from_numpy(ids)
        found = model.generate(
            tokens,
            attention_mask=torch.from_numpy(mask),
            **beside(model, tokens, images),
            do_sample=False,
            num_beams=1,
            max_new_tokens=2,
            min_new_tokens=2,
            output_logits=True,
            return_dict_in_generate=True,
        )
        eager = EagerVision(model, images)
        got = [eager.feed(ids, mask), eager.feed(found.sequences[:, -2:-1].numpy())]
    except UNFIT as error:
        raise NotGenerativeError(
            f"'{name}' does not read images as models of its arguments do: {error_text(error)}; export its parts from "
            "Python: fxport export."
        ) from error
    for step, (want, mine) in enumerate(zip(found.logits, got, strict=True)):
        if not np.abs(want.numpy() - mine[:, -1]).max() <= CLOSE * want.abs().max():
            raise NotGenerativeError(
                f"generate of '{name}' has other logits for token {step} of a text with images than a call with its "
                "tokens, mask, positions and images; export its parts from Python: fxport export."
            )
