"""A model of one's own with a line that cannot be exported; the finding points at that line.

`fxport export examples/own_model.py:Detector --input points=8x4x4` ends with exit code 1; `fxport explain FXP3001`
tells what to do.
"""

import torch
from torch import Tensor, nn


class Detector(nn.Module):
    """(batch, points, 4) point sets → (batch, 2) scores, from a graph that joins the points that are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 4)
        self.score = nn.Linear(4, 2)

    def forward(self, points: Tensor) -> Tensor:
        features = torch.tanh(self.embed(points))
        likeness = torch.relu(features @ features.transpose(1, 2))
        graph = likeness.to_sparse()  # ONNX Runtime computes no sparse tensors
        return self.score(torch.bmm(graph, features).mean(1))
