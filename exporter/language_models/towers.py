"""Models of two towers such as CLIP: texts and images become vectors of one space, a graph each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ShapesCollection
from torch.nn.functional import normalize

from fxport.diagnostics import Log, rules
from fxport.exporter.language_models.decode import BATCH, Example
from fxport.exporter.language_models.generation import with_forward
from fxport.exporter.language_models.own_error import error_of
from fxport.exporter.language_models.same_tokens import require_same_tokens
from fxport.exporter.language_models.text_models import TextModel, described_text
from fxport.exporter.language_models.text_verdict import TextVerdict, text_verdict
from fxport.exporter.language_models.verdict import BUDGETS
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.package_config import PIXELS
from fxport.ort_runner.text_config import EMBEDDING, IMAGE_EMBEDDING
from fxport.ort_runner.text_model import TextModel as Package

TYPES = ("clip",)
"""Types of models that have two towers."""


class TowerModel(TextModel):
    """From `input_ids` and `attention_mask` [batch, sequence] to vectors of length 1, by the tower of texts.

    Args:
        model: A model of transformers that has `get_text_features` and `get_image_features`.
        folder: The folder of its tokenizer.
    """

    def __init__(self, model: Any, folder: Path) -> None:
        config = described_text(model, folder, is_classifier=False)
        super().__init__(model, None, torch.nn.Sequential(), config)
        require_same_tokens(folder, config)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        found = self.transformer.get_text_features(input_ids=input_ids, attention_mask=attention_mask)
        return {EMBEDDING: normalize(found.pooler_output, dim=-1)}

    def of_images(self, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
        """Vectors of length 1 of images [batch, channels, height, width]."""
        found = self.transformer.get_image_features(pixel_values=pixel_values)
        return {IMAGE_EMBEDDING: normalize(found.pooler_output, dim=-1)}


def has_towers(model: Any) -> bool:
    """Return True for a model of transformers that has two towers."""
    is_of_a_type = getattr(getattr(model, "config", None), "model_type", None) in TYPES
    return is_of_a_type and hasattr(model, "get_text_features") and hasattr(model, "get_image_features")


def image_example(model: TowerModel) -> Example:
    """A call of a batch of images of one size."""
    shapes, pixels = ShapesCollection(), images(model, 2)
    shapes[pixels] = {0: BATCH}
    return Example(with_forward(model, TowerModel.of_images), (), {PIXELS: pixels}, shapes)


def images(model: TowerModel, batch: int) -> torch.Tensor:
    """Images that say nothing."""
    vision = model.transformer.config.vision_config
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, vision.num_channels, vision.image_size, vision.image_size, generator=generator)


def tower_verdict(
    folder: Path,
    model: TowerModel,
    log: Log,
    provider: str,
    *,
    steps: int,
    accuracy: str,
    weights: str,
    answers: list[np.ndarray] | None = None,
) -> TextVerdict:
    """Compare texts as `text_verdict` does, and batches of one and of three images."""
    texts = text_verdict(folder, model, log, provider, steps=steps, accuracy=accuracy, weights=weights)
    budget, worst = BUDGETS[accuracy], texts.error
    try:
        package = Package(folder, provider)
        for batch in (1, 3):
            pixels = images(model, batch)
            with torch.no_grad():
                want: Mapping[str, torch.Tensor] = model.of_images(pixels)
            error = error_of(want[IMAGE_EMBEDDING].numpy(), package.embed_images([{PIXELS: pixels.numpy()}]))
            if not error <= budget and worst <= budget:  # told once
                facts = {"output": IMAGE_EMBEDDING, "provider": package.provider, "ratio": error / budget}
                log.report(rules.OUTPUT_DRIFT, **facts, worst=error, sample=f"{batch} images", cause="not looked for")
            worst = max(worst, error)
    except Failure as failure:
        log.report(failure.rule, **failure.facts)
        return TextVerdict(texts.texts, float("inf"), passed=False)
    return TextVerdict(texts.texts, worst, texts.passed and worst <= budget)
