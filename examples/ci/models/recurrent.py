"""A recurrent tagger, checked at two opsets."""

import torch
from torch import Tensor, nn


class Tagger(nn.Module):
    """(batch, steps, 8) features → (batch, steps, 3) scores."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


def model():
    return Tagger().eval(), (torch.randn(2, 6, 8),), {}, {"x": {0: "batch"}}
