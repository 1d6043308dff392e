"""Images of any size as patches of a grid: the encoders of the Qwen-VL family, as one graph for all grids."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ShapesCollection

from fxport.exporter.language_models.decode import Example
from fxport.exporter.language_models.generation import NotGenerativeError, with_forward
from fxport.exporter.language_models.image_features import features_of
from fxport.ort_runner.package_config import FEATURES, GRID, PIXELS

IMAGES, IMAGE_TOKENS = "images", "image_tokens"
TYPES = "mm_token_type_ids"
"""1 for each token that is a part of an image, for models that count positions by that."""

ROTATED, BILINEAR = "apply_rotary_pos_emb_vision", "bilinear"
LENGTHS = "lengths"
"""Argument of an embedding of positions for the patches of each image."""

FAR = 1 << 20
"""More windows than a row of any image has."""


class GridSight:
    """Images as patches, of which squares of `merge` by `merge` become one token.

    The encoder takes `pixel_values` float32 [patches, numbers] and `image_grid_thw` int64 [images, 3]: frames, and the
    rows and columns of patches. Each patch attends to those of its frame, or of its window.
    """

    has_positions = True
    takes = frozenset({GRID})

    def encoder(self, model: Any) -> Example:
        """The call that makes features [image tokens, hidden] of images."""
        require_blocks(model)
        visual = with_attention(model.model.visual)

        def forward(self: Any, pixel_values: torch.Tensor, image_grid_thw: torch.Tensor) -> dict[str, torch.Tensor]:
            places = places_of(image_grid_thw, pixel_values.shape[0], visual)
            return {FEATURES: features_of(visual(pixel_values, grid_thw=image_grid_thw, **places))}

        first, second = self.images(model)[:2]
        kwargs = {name: torch.cat([first[name], second[name]]) for name in first}
        shapes = ShapesCollection()
        shapes[kwargs[PIXELS]] = {0: f"{model.config.vision_config.spatial_merge_size**2}*{IMAGE_TOKENS}"}
        shapes[kwargs[GRID]] = {0: IMAGES}
        return Example(with_forward(model, forward), (), kwargs, shapes)

    def images(self, model: Any) -> Sequence[Mapping[str, torch.Tensor]]:
        """Images to compare with, of several sizes, also of one token."""
        vision = model.config.vision_config
        size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        merge, generator = vision.spatial_merge_size, torch.Generator().manual_seed(0)
        made = []
        for rows, columns in ((6, 5), (2, 3), (1, 1)):
            grid = torch.tensor([[1, rows * merge, columns * merge]])
            made.append({PIXELS: torch.randn(int(grid.prod()), size, generator=generator), GRID: grid})
        return made

    def joined(self, images: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """The patches and grids of all images."""
        return {name: torch.cat([each[name] for each in images]) for name in images[0]}

    def refuted(self, model: Any) -> tuple[tuple[str, str], ...]:
        """The name of the dimension says that it is a multiple, and one of the images has one token."""
        merged = model.config.vision_config.spatial_merge_size**2
        multiple = f"a multiple of {merged}"
        return tuple((f"{merged}*{IMAGE_TOKENS}", told) for told in (multiple, f"at least {2 * merged} and {multiple}"))


def require_blocks(model: Any) -> None:
    """Raise NotGenerativeError for an encoder of other blocks than those whose attention is known."""
    blocks = getattr(getattr(model.model, "visual", None), "blocks", ())
    attentions = [getattr(each, "attn", None) for each in blocks]
    named = [importlib.import_module(type(each).__module__) for each in attentions if hasattr(each, "qkv")]
    if not named or len(named) < len(attentions) or not all(hasattr(each, ROTATED) for each in named):
        raise NotGenerativeError(
            f"'{type(model).__name__}' reads grids of patches by other blocks than the Qwen-VL family; export its "
            "parts from Python: fxport export."
        )
    if getattr(model.model.visual, "interpolation_mode", BILINEAR) != BILINEAR:
        raise NotGenerativeError(
            f"'{type(model).__name__}' resamples its table of positions by "
            f"'{model.model.visual.interpolation_mode}', not '{BILINEAR}'; export its parts from Python: fxport export."
        )


def places_of(grid: torch.Tensor, patches: int, visual: Any) -> dict[str, Any]:
    """Return what encoders compute of the grid by loops of Python, by tensors alone.

    `cu_seqlens` and `cu_window_seqlens` are the frame and the window of each patch, which `with_attention` reads.
    """
    config = visual.config
    merge = config.spatial_merge_size
    frames, rows, columns = grid.unbind(1)
    ends = (frames * rows * columns).cumsum(0)
    patch = torch.arange(patches)
    image = (patch[:, None] >= ends[None]).sum(1)
    rows, columns = rows[image], columns[image]
    inside = patch - (ends - frames * grid[:, 1] * grid[:, 2])[image]
    frame = (frames.cumsum(0) - frames)[image] + inside // (rows * columns)
    square, within = inside % (rows * columns) // merge**2, inside % merge**2
    square_row, square_column = square // (columns // merge), square % (columns // merge)
    row, column = square_row * merge + within // merge, square_column * merge + within % merge
    found: dict[str, Any] = {"position_ids": torch.stack([row, column], 1), "cu_seqlens": frame}
    if hasattr(config, "window_size"):
        side = config.window_size // merge // config.patch_size
        found["cu_window_seqlens"] = (frame * FAR + square_row // side) * FAR + square_column // side
        found["window_index"] = torch.arange(patches // merge**2)  # the order says nothing where windows are masks
    if hasattr(visual, "num_grid_per_side"):
        side, on_corners = visual.num_grid_per_side, visual.interpolation_align_corners
        above, upper = _resampled(row, rows, side, on_corners)
        left, nearer = _resampled(column, columns, side, on_corners)
        found["interp_indices"] = (above[:, :, None] * side + left[:, None]).flatten(1)
        found["interp_weights"] = (upper[:, :, None] * nearer[:, None]).flatten(1)
    return found


def _resampled(
    index: torch.Tensor, size: torch.Tensor, side: int, on_corners: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The two places [patches, 2] of a table of `side` between which each patch of `size` lies, and their weights."""
    place, sizes = index.float(), size.float()
    at = place * (side - 1) / (sizes - 1).clamp(min=1) if on_corners else (place + 0.5) * side / sizes - 0.5
    both = at.floor().long()[:, None] + torch.arange(2)
    weights = (1 - (at[:, None] - both.float()).abs()).clamp(min=0)
    return both.clamp(0, side - 1), weights


def with_attention(visual: Any) -> Any:
    """The encoder, of the same tensors, whose attention is one product with a mask for all frames and windows."""
    changed = copy.deepcopy(visual, {id(each): each for each in (*visual.parameters(), *visual.buffers())})
    for block in changed.blocks:
        block.attn = _masked(block.attn)
    if LENGTHS in _parameters(embeddings := getattr(changed, "embeddings", None)):
        changed.embeddings = _counting(embeddings)
    return changed


def _parameters(module: Any) -> Mapping[str, inspect.Parameter]:
    """The arguments of the forward of a module; none of what is no module."""
    return inspect.signature(type(module).forward).parameters if isinstance(module, torch.nn.Module) else {}


def _counting(embeddings: Any) -> Any:
    """The embedding of positions (GLM-4V), which counts the patches of each image by its grid, not by `cu_seqlens`."""
    cls = type(embeddings)

    def forward(self: Any, patches: torch.Tensor, lengths: Any, image_shapes: torch.Tensor, *places: Any) -> Any:
        return cls.forward(self, patches, image_shapes.prod(1), image_shapes, *places)

    return with_forward(embeddings, forward)


def _masked(attention: Any) -> Any:
    """The attention of a block, which takes the frame or window of each patch as `cu_seqlens`."""
    rotated = getattr(importlib.import_module(type(attention).__module__), ROTATED)

    def forward(
        self: Any, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor, position_embeddings: Any, **others: Any
    ) -> torch.Tensor:
        patches = hidden_states.shape[0]
        parts = self.qkv(hidden_states).reshape(patches, 3, self.num_heads, -1).permute(1, 0, 2, 3).unbind(0)
        turned = (*rotated(*parts[:2], *position_embeddings), parts[2])
        query, key, value = (each.transpose(0, 1)[None] for each in turned)
        mask = cu_seqlens[:, None] == cu_seqlens[None]
        result = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=self.scaling)
        return self.proj(result[0].transpose(0, 1).reshape(patches, -1))

    return with_forward(attention, forward)
