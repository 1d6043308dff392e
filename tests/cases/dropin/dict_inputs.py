"""A model that takes a dict of features; the empty dict at the end says that there are no keyword arguments."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(6, 4)
        self.ids = nn.Embedding(20, 4)

    def forward(self, features):
        return torch.sigmoid((self.dense(features["dense"]) * self.ids(features["ids"])).sum(-1))


model = Ranker().eval()
features = {"dense": torch.randn(3, 6), "ids": torch.tensor([1, 5, 7])}

onnx.export(model, (features, {}), "ranker.onnx", input_names=["dense", "ids"], output_names=["score"])

written = "ranker.onnx"
feeds = features
expected = [model(features)]
