"""The result of `get_image_features` of transformers as one table of numbers."""

from __future__ import annotations

from typing import Any

import torch


def features_of(found: Any) -> torch.Tensor:
    """The features [image tokens, numbers] of a result, beside those for further layers where there are any."""
    stacked = [_flat(each) for each in getattr(found, "deepstack_features", None) or ()]
    flat = _flat(found.pooler_output)
    return torch.cat([flat, *stacked], 1) if stacked else flat


def _flat(features: Any) -> torch.Tensor:
    if isinstance(features, (list, tuple)):
        return torch.cat([_flat(each) for each in features])
    return features.flatten(0, -2) if features.dim() > 2 else features
