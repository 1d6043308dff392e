"""A model that goes to a buffer, and never to disk; the weights stay in it."""

import io

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(4, 8, batch_first=True)

    def forward(self, x, state):
        return self.cell(x, state)


model = Recurrent().eval()
x, state = torch.randn(2, 5, 4), torch.zeros(1, 2, 8)

buffer = io.BytesIO()
onnx.export(model, (x, state), buffer, input_names=["x", "state"], output_names=["y", "next"])

written = buffer.getvalue()
feeds = {"x": x, "state": state}
expected = [*model(x, state)]
