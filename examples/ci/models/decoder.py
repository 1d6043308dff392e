"""One step of a decoder that keeps its keys and values: caches come in, longer ones go out."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

HEADS, SIZE = 2, 16


class Decoder(nn.Module):
    """Token (batch, 1), caches (batch, heads, past, size) → scores (batch, 50), caches with one more position."""

    def __init__(self) -> None:
        super().__init__()
        width = HEADS * SIZE
        self.embed = nn.Embedding(50, width)
        self.project = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, 50)

    def forward(self, token: Tensor, past_key: Tensor, past_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.embed(token)
        query, key, value = (part.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        key, value = torch.cat((past_key, key), 2), torch.cat((past_value, value), 2)
        attended = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return self.head(attended[:, -1]), key, value


def step():
    cache = torch.randn(2, HEADS, 5, SIZE)
    dims = {0: "batch", 2: "past"}
    shapes = {"token": {0: "batch"}, "past_key": dims, "past_value": dims}
    return Decoder().eval(), (torch.randint(0, 50, (2, 1)), cache, cache.flip(2)), {}, shapes
