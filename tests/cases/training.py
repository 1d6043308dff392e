"""Architectures that are trained in ONNX Runtime step by step beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Task:
    """A model in training mode, its loss, batches of different sizes, and which sizes are dynamic."""

    model: nn.Module
    loss: Callable[..., Tensor]
    batches: Sequence[Batch]
    dynamic_shapes: Any


def classify(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(x), y)


def pictures(*counts: int, size: int, classes: int, channels: int = 3) -> list[Batch]:
    return [(torch.randn(n, channels, size, size), torch.randint(0, classes, (n,))) for n in counts]


ROWS = {0: "batch"}
TOKENS = {0: "batch", 1: "sequence"}


def mlp() -> Task:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
    data = [(torch.randn(n, 8), torch.randint(0, 4, (n,))) for n in (16, 5, 9, 32)]
    return Task(model, classify, data, (ROWS, ROWS))


def matrices() -> Task:
    """What Muon takes: no biases."""
    model = nn.Sequential(nn.Linear(8, 32, bias=False), nn.Tanh(), nn.Linear(32, 4, bias=False))
    return Task(model, classify, mlp().batches, (ROWS, ROWS))


def cnn() -> Task:
    """Both norms, dropout, grouped, dilated and transposed convolutions, every pool, a resize and a reflecting pad."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Dropout(0.1),
        nn.ConvTranspose2d(8, 8, 2, stride=2),
        nn.AvgPool2d(2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ReflectionPad2d(1),
        nn.Conv2d(8, 4, 3, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    )
    return Task(model, classify, pictures(4, 7, 2, size=16, classes=5), (ROWS, ROWS))


def resnet18() -> Task:
    config = transformers.ResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")
    config.num_labels = 10
    model = transformers.ResNetForImageClassification(config)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x).logits, y)

    return Task(model, loss, pictures(4, 3, size=64, classes=10), (ROWS, ROWS))


def gpt2() -> Task:
    """Tied embeddings and dropout."""
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=100, n_positions=64)
    model = transformers.GPT2LMHeadModel(config)

    def loss(model: nn.Module, ids: Tensor) -> Tensor:
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    data = [(torch.randint(0, 100, size),) for size in ((2, 12), (3, 7), (4, 20))]
    return Task(model, loss, data, (TOKENS,))


def bert() -> Task:
    """A padded batch, dropout, a head that classifies."""
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    config.num_labels = 3
    model = transformers.BertForSequenceClassification(config)

    def loss(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(model(input_ids=ids, attention_mask=mask).logits, labels)

    data = [padded(n, length) for n, length in ((3, 9), (2, 14), (4, 6))]
    return Task(model, loss, data, (TOKENS, TOKENS, ROWS))


def padded(count: int, length: int) -> Batch:
    lengths = torch.randint(2, length + 1, (count, 1))
    lengths[0] = length
    mask = (torch.arange(length) < lengths).long()
    return torch.randint(3, 100, (count, length)) * mask, mask, torch.randint(0, 3, (count,))


def vit() -> Task:
    config = transformers.ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.1,
    )
    config.num_labels = 5
    model = transformers.ViTForImageClassification(config)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x).logits, y)

    return Task(model, loss, pictures(4, 2, 6, size=32, classes=5), (ROWS, ROWS))


class Recurrent(nn.Module):
    """Two layers of an LSTM in both directions, with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 8, num_layers=2, dropout=0.1, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


def lstm() -> Task:
    data = [(torch.randn(n, 5, 6), torch.randint(0, 4, (n,))) for n in (4, 7, 2)]
    return Task(Recurrent(), classify, data, (ROWS, ROWS))


class Double(nn.Sequential):
    def __init__(self, given: int, made: int) -> None:
        super().__init__(
            nn.Conv2d(given, made, 3, padding=1, bias=False),
            nn.BatchNorm2d(made),
            nn.ReLU(),
            nn.Conv2d(made, made, 3, padding=1, bias=False),
            nn.BatchNorm2d(made),
            nn.ReLU(),
        )


class Unet(nn.Module):
    """Ronneberger and others, 2015, with two scales: https://arxiv.org/abs/1505.04597."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.low = Double(3, 8), Double(8, 16), Double(16, 32)
        self.up_low, self.up = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.join_low, self.join = Double(32, 16), Double(24, 8)
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.down(x)
        middle = self.middle(self.pool(high))
        low = self.low(self.pool(middle))
        middle = self.join_low(torch.cat([middle, self.up_low(low)], 1))
        return self.head(self.join(torch.cat([high, self.up(middle)], 1)))


def unet() -> Task:
    data = [(torch.randn(n, 3, 16, 16), torch.randint(0, 3, (n, 16, 16))) for n in (2, 3)]
    return Task(Unet(), classify, data, (ROWS, ROWS))


class GraphConvolution(nn.Module):
    """Kipf and Welling, 2017, with self-loops and symmetric weights: https://arxiv.org/abs/1609.02907."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.linear = nn.Linear(given, made, bias=False)
        self.bias = nn.Parameter(torch.zeros(made))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        degrees = torch.ones(x.shape[0]).index_add(0, target, torch.ones(target.shape[0])).rsqrt()
        x = self.linear(x) * degrees[:, None]
        return x.index_add(0, target, x[source]) * degrees[:, None] + self.bias


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(6, 16), GraphConvolution(16, 4)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.second(self.drop(relu(self.first(x, edges))), edges)


def of_graphs(model: nn.Module) -> Task:
    """Classes of nodes. Nodes and edges are dynamic."""

    def loss(model: nn.Module, x: Tensor, edges: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x, edges), y)

    data = [
        (torch.randn(n, 6), torch.randint(0, n, (2, e)), torch.randint(0, 4, (n,)))
        for n, e in ((20, 60), (7, 12), (30, 31))
    ]
    return Task(model, loss, data, ({0: "nodes"}, {1: "edges"}, {0: "nodes"}))


def gcn() -> Task:
    return of_graphs(GraphNet())


def geometric_gcn() -> Task:
    """That of torch_geometric."""
    from torch_geometric.nn import GCN  # pyright: ignore[reportMissingImports]  # where it is installed

    return of_graphs(GCN(6, 16, 2, 4, dropout=0.1))


def geometric_sage() -> Task:
    from torch_geometric.nn import GraphSAGE  # pyright: ignore[reportMissingImports]

    return of_graphs(GraphSAGE(6, 16, 2, 4, dropout=0.1))


GEOMETRIC = (geometric_gcn, geometric_sage) if find_spec("torch_geometric") else ()
CASES: Sequence[Callable[[], Task]] = (mlp, cnn, resnet18, gpt2, bert, vit, lstm, unet, gcn, *GEOMETRIC)
