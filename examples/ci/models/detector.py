"""A model with a line that has no ONNX operator: known, and expected in the manifest."""

import torch
from torch import Tensor, nn


class Detector(nn.Module):
    """(batch, points, 4) point sets → (batch, points, 4) features, summed over points that are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 4)

    def forward(self, points: Tensor) -> Tensor:
        features = torch.tanh(self.embed(points))
        graph = torch.relu(features @ features.transpose(1, 2)).to_sparse()
        return torch.bmm(graph, features)


def model():
    return Detector().eval(), (torch.randn(2, 8, 4),)
