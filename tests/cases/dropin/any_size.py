"""Dynamic shapes by Dim: one that PyTorch decides on, one with bounds."""

import torch
from torch import nn, onnx
from torch.export import Dim

torch.manual_seed(0)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(6, 6)

    def forward(self, x, y):
        return torch.cat([self.weight(x), y], dim=1).mean(1)


model = Mixer().eval()
x, y = torch.randn(3, 4, 6), torch.randn(3, 2, 6)

program = onnx.export(
    model,
    (x, y),
    dynamic_shapes=({0: Dim.AUTO, 1: Dim("left", min=2, max=64)}, {0: Dim.AUTO, 1: Dim.AUTO}),
)
program.save("mixer.onnx", external_data=False)

x, y = torch.randn(5, 9, 6), torch.randn(5, 3, 6)
written = "mixer.onnx"
feeds = {"x": x, "y": y}
expected = [model(x, y)]
