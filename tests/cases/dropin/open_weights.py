"""Weights that are inputs of the model as well, and are given other values when it runs."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.second = nn.Linear(7, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


model, other = Net().eval(), Net().eval()
x = torch.randn(3, 5)

onnx.export(
    model,
    (x,),
    "net.onnx",
    input_names=["x"],
    external_data=False,
    keep_initializers_as_inputs=True,
)

written = "net.onnx"
feeds = {"x": x, **{name: value.detach() for name, value in other.state_dict().items()}}
expected = [other(x)]
