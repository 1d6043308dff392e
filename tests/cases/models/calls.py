"""Ways to call a model, masks of attention, precision: what has to do with the call and not with an architecture."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.models import Example, ModelCase

ROWS = {0: "batch"}
SERIES = {0: "batch", 1: "time"}
SQUARE = {0: "time", 1: "time"}


def encoder() -> nn.TransformerEncoder:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 2).eval()


def encoder_with_masks() -> Example:
    """A causal mask given by its values, which PyTorch looks at, and padding."""
    causal = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)
    padded = torch.arange(7)[None] > torch.tensor([[3], [5]])
    kwargs = {"mask": causal, "src_key_padding_mask": padded}
    shapes = {"src": SERIES, "mask": SQUARE, "src_key_padding_mask": SERIES}
    return Example(encoder(), (torch.randn(2, 7, 16),), kwargs, shapes)


def encoder_in_bfloat16() -> Example:
    return Example(encoder().bfloat16(), (torch.randn(2, 7, 16, dtype=torch.bfloat16),), {}, {"src": SERIES})


class Collects(nn.Module):
    """Inputs that only `**scales` names."""

    def forward(self, x: Tensor, **scales: Tensor) -> Tensor:
        return x * scales["left"] - scales["right"]


def collected_keywords() -> Example:
    kwargs = {"right": torch.randn(3, 4), "left": torch.randn(3, 4)}
    return Example(Collects(), (torch.randn(3, 4),), kwargs, dict.fromkeys(("x", *kwargs), ROWS))


class Three(nn.Module):
    """Inputs of different kinds, all of which may be given by name."""

    def forward(self, x: Tensor, rows: Tensor, parts: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        return x + 1, parts["z"] * rows.sum(), parts["y"] - 1


def keywords_in_another_order() -> Example:
    kwargs = {
        "parts": {"z": torch.randn(3, 4), "y": torch.randn(5, 4)},
        "rows": torch.randn(2, 2),
        "x": torch.randn(6),
    }
    return Example(Three(), (), kwargs, {"parts.z": {0: "n"}, "parts.y": {0: "m"}, "x": {0: "k"}})


class Halves(nn.Module):
    """Computes in half precision and returns float32, and a constant of its own precision."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(4).half())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x.half() * self.get_buffer("weight")).float(), torch.ones(x.shape[0])


def half_inside() -> Example:
    return Example(Halves(), (torch.randn(3, 4),), {}, (ROWS,))


def renormalized_embedding() -> Example:
    """Scales rows of its own parameter whenever they are used."""
    return Example(nn.Embedding(20, 4, max_norm=1.0).eval(), (torch.randint(0, 20, (3, 5)),), {}, (SERIES,))


class Ranks(nn.Module):
    """The order of numbers, which equal ones leave open."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.topk(3).indices, x.argsort(-1, descending=True)


def ranks() -> Example:
    return Example(Ranks(), (torch.randn(3, 8),), {}, (SERIES,))


class Twice(nn.Module):
    """Equal results, each of which is an output."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x % 3, torch.remainder(x, 3)


def equal_outputs() -> Example:
    return Example(Twice(), (torch.randint(-9, 9, (4,)),), {}, (ROWS,))


CASES = tuple(
    ModelCase(build.__name__, build)
    for build in (
        encoder_with_masks,
        encoder_in_bfloat16,
        collected_keywords,
        keywords_in_another_order,
        half_inside,
        renormalized_embedding,
        ranks,
        equal_outputs,
    )
)
