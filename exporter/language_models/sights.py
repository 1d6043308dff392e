"""Ways to read images, by the arguments of `get_image_features`: what an image is, and what makes its features."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.export import ShapesCollection

from fxport.exporter.language_models.decode import Example
from fxport.exporter.language_models.generation import CACHE, IDS, MASK, NotGenerativeError, with_forward
from fxport.exporter.language_models.image_features import features_of
from fxport.exporter.language_models.vision_grids import TYPES, GridSight
from fxport.ort_runner.package_config import EMBEDS, FEATURES, GRID, PIXELS, POSITIONS, TOKEN_TYPES

TILES = "tiles"
SIZES = "image_sizes"
LAYER, STRATEGY = "vision_feature_layer", "vision_feature_select_strategy"

Image = Mapping[str, torch.Tensor]
"""Inputs of the encoder for one image."""


class Sight(Protocol):
    """One way to read images."""

    has_positions: bool
    takes: frozenset[str]

    def encoder(self, model: Any) -> Example:
        """The call that makes features [image tokens, numbers] of one image."""
        ...

    def images(self, model: Any) -> Sequence[Image]:
        """Images to compare with."""
        ...

    def joined(self, images: Sequence[Image]) -> dict[str, torch.Tensor]:
        """The inputs of the model for these images in this order."""
        ...

    def refuted(self, model: Any) -> tuple[tuple[str, str], ...]:
        """Limits of dimensions that `images` refute: dimension and accepted sizes."""
        ...


class TileSight:
    """Images as tiles of one size, mostly one, of which the encoder makes equally many features each.

    The encoder takes `pixel_values` float32 [tiles, channels, height, width], of models whose rows have images of their
    own [1, tiles, channels, height, width].

    Args:
        in_rows: Whether the model takes the images of each text as a row.
    """

    has_positions = False
    takes = frozenset({SIZES, "pixel_attention_mask"})
    """Further arguments of forward, which say how an image is filled up: alone, it is not."""

    def __init__(self, *, in_rows: bool = False) -> None:
        self._axis = int(in_rows)

    def encoder(self, model: Any) -> Example:
        """The call that makes features of the tiles of one image."""
        cls = type(model)

        def forward(self: Any, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
            return {FEATURES: features_of(cls.get_image_features(self, pixel_values=pixel_values, return_dict=True))}

        image = dict(self.images(model)[-1])
        with torch.no_grad():
            cls.get_image_features(model, **image)  # transformers installs what reads hidden states at the first call
        shapes = ShapesCollection()
        shapes[image[PIXELS]] = {self._axis: TILES}
        return Example(with_forward(model, forward), (), image, shapes)

    def images(self, model: Any) -> Sequence[Image]:
        """One image of one tile, and one of two."""
        vision = model.config.vision_config
        side, channels = getattr(vision, "image_size", None), getattr(vision, "num_channels", 3)
        if side is None:
            raise NotGenerativeError(
                f"'{type(model).__name__}' does not say in its configuration how large an image is; export its parts "
                "from Python: fxport export."
            )
        sides = side if isinstance(side, (list, tuple)) else (side,) * 2
        generator = torch.Generator().manual_seed(0)
        rows = (1,) * self._axis
        return [{PIXELS: torch.randn(*rows, tiles, channels, *sides, generator=generator)} for tiles in (1, 2)]

    def joined(self, images: Sequence[Image]) -> dict[str, torch.Tensor]:
        """The tiles of all images, which a model of rows takes as those of one."""
        return {PIXELS: torch.cat([each[PIXELS] for each in images], self._axis)}

    def refuted(self, model: Any) -> tuple[tuple[str, str], ...]:
        """One of the images has one tile."""
        return ((TILES, "at least 2"),)


class SizedSight:
    """Images of any height and width, whole patches of which become one token.

    The encoder takes `pixel_values` float32 [1, channels, height, width], of one image that is not filled up.
    """

    has_positions = False
    takes = frozenset({SIZES})

    def encoder(self, model: Any) -> Example:
        """The call that makes features of one image."""
        cls = type(model)

        def forward(self: Any, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
            sizes = [tuple(pixel_values.shape[2:])]
            found = cls.get_image_features(self, pixel_values=pixel_values, image_sizes=sizes, return_dict=True)
            return {FEATURES: features_of(found)}

        first, *_ = self.images(model)
        with torch.no_grad():
            cls.get_image_features(model, **self.joined([first]))
        side, shapes = self._side(model), ShapesCollection()
        shapes[first[PIXELS]] = {2: f"{side}*rows", 3: f"{side}*columns"}
        return Example(with_forward(model, forward), (), dict(first), shapes)

    def images(self, model: Any) -> Sequence[Image]:
        """Images of several sizes, also of one row or column of tokens."""
        side, channels = self._side(model), model.config.vision_config.num_channels
        generator = torch.Generator().manual_seed(0)
        sizes = ((3, 2), (1, 2), (2, 1))
        return [{PIXELS: torch.randn(1, channels, h * side, w * side, generator=generator)} for h, w in sizes]

    def joined(self, images: Sequence[Image]) -> dict[str, torch.Tensor]:
        """The images filled up to the largest, and their sizes."""
        sizes = torch.tensor([each[PIXELS].shape[2:] for each in images])
        height, width = sizes.amax(0).tolist()
        filled = [
            torch.nn.functional.pad(each[PIXELS], (0, width - each[PIXELS].shape[3], 0, height - each[PIXELS].shape[2]))
            for each in images
        ]
        return {PIXELS: torch.cat(filled), SIZES: sizes}

    def refuted(self, model: Any) -> tuple[tuple[str, str], ...]:
        """One of the images has one row of tokens, and one has one column."""
        side = self._side(model)
        return tuple((f"{side}*{name}", f"at least {2 * side}") for name in ("rows", "columns"))

    def _side(self, model: Any) -> int:
        """Rows of pixels of a token."""
        return int(model.config.vision_config.patch_size) * int(getattr(model.config, "spatial_merge_size", 1))


SIGHTS: Mapping[tuple[str, ...], Sight] = {
    (PIXELS,): TileSight(),
    (PIXELS, LAYER): TileSight(),
    (PIXELS, LAYER, STRATEGY): TileSight(),
    (PIXELS, "pixel_attention_mask"): TileSight(in_rows=True),
    (PIXELS, GRID): GridSight(),
    (PIXELS, SIZES): SizedSight(),
    (PIXELS, SIZES, LAYER): SizedSight(),
}
"""Ways to read images by the arguments of `get_image_features`, in their order."""

OF_ANY_SIZE = ("pixtral",)
"""Encoders of images of any size, which those in tiles do not serve."""

OF_TEXT = frozenset({IDS, MASK, POSITIONS, CACHE, EMBEDS, "labels", "use_cache", "logits_to_keep", "return_dict"})
OF_VIDEOS = frozenset({"pixel_values_videos", "video_grid_thw", "second_per_grid_ts"})
OF_IMAGES = frozenset({PIXELS, LAYER, STRATEGY, TOKEN_TYPES, TYPES, "mm_encoder_outputs", "rope_deltas"})
FURTHER = frozenset({"output_attentions", "output_hidden_states", "output_router_logits"})
KNOWN = OF_TEXT | OF_VIDEOS | OF_IMAGES | FURTHER | {"self", "kwargs"}
"""Arguments of forward that say nothing of an image which the parts do not have; videos are not read."""

KINDS_OF_TOKENS: Mapping[str, tuple[int, int, int]] = {"gemma3": (0, 1, 0), "paligemma": (0, 0, 1)}
"""`token_type_ids` of a prompt's words, of images, and of what is generated, as the processors of these types make."""


def kinds_of_tokens(model: Any) -> tuple[int, int, int] | None:
    """Return the kinds of words, of images, and of what is generated; None for a model that asks for none."""
    if TOKEN_TYPES not in inspect.signature(type(model).forward).parameters:
        return None
    if (found := KINDS_OF_TOKENS.get(model.config.model_type)) is None:
        raise NotGenerativeError(
            f"'{type(model).__name__}' asks for {TOKEN_TYPES}, and its type '{model.config.model_type}' is none of "
            f"{', '.join(KINDS_OF_TOKENS)}, whose kinds of tokens are known; export its parts from Python: fxport "
            "export."
        )
    return found


def sight_of(model: Any) -> Sight:
    """Return how a model reads images. Raises NotGenerativeError for one that no package is made of."""
    cls, name = type(model), type(model).__name__
    asked = _arguments(getattr(cls, "get_image_features", None))
    if asked not in SIGHTS:
        told = f"takes an image as {', '.join(asked)}" if asked else f"reads {' and '.join(cls.input_modalities)}"
        raise NotGenerativeError(
            f"'{name}' {told}, which no package has a part for; export its parts from Python: fxport export."
        )
    sight, tower = SIGHTS[asked], getattr(getattr(model.config, "vision_config", None), "model_type", None)
    if isinstance(sight, TileSight) and tower in OF_ANY_SIZE:
        raise NotGenerativeError(
            f"'{name}' reads images in tiles of one size, and its encoder '{tower}' those of any size; export its "
            "parts from Python: fxport export."
        )
    if other := inspect.signature(cls.forward).parameters.keys() - KNOWN - sight.takes - {*asked}:
        raise NotGenerativeError(
            f"'{name}' asks for {', '.join(sorted(other))}, which no package gives; export its parts from Python: "
            "fxport export."
        )
    return sight


def _arguments(call: Any) -> tuple[str, ...]:
    """The names of what a method takes, without settings that have no name."""
    if call is None:
        return ()
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(call).parameters
    return tuple(name for name, each in found.items() if name != "self" and each.kind not in several)
