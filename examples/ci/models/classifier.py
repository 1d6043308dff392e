"""A healthy image classifier with a dynamic batch."""

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    """(batch, 3, 32, 32) images → (batch, 10) scores."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.head = nn.Linear(16, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.features(image).mean((2, 3)))


def model():
    return Classifier().eval(), (torch.randn(2, 3, 32, 32),), {}, {"image": {0: "batch"}}
