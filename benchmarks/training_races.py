"""Training steps that benchmarks/training_speed.py times: twelve architectures, and a small net, also in a Loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, relu

LOOPED = 50


@dataclass(frozen=True)
class Race:
    """A model in training mode, its optimizer, its loss, one batch, and how many steps go into one run."""

    model: nn.Module
    optimizer: Callable[[Any], optim.Optimizer]
    loss: Callable[..., Tensor]
    batch: tuple[Tensor, ...]
    rounds: int
    steps: int = 1


def classify(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(x), y)


def classify_logits(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(x).logits, y)


def adamw(parameters: Any) -> optim.Optimizer:
    return optim.AdamW(parameters, lr=1e-3)


def momentum(parameters: Any) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.01, momentum=0.9)


def pictures(count: int, size: int, classes: int = 10) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, size, size), torch.randint(0, classes, (count,))


def mlp(steps: int = 1) -> Race:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    return Race(model, adamw, classify, (torch.randn(16, 8), torch.randint(0, 4, (16,))), 200 // steps, steps)


def mlp_in_a_loop() -> Race:
    return mlp(LOOPED)


def gpt2() -> Race:
    import transformers

    config = transformers.GPT2Config(n_layer=4, n_embd=128, n_head=4, vocab_size=1000, n_positions=64)

    def loss(model: nn.Module, ids: Tensor) -> Tensor:
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    return Race(transformers.GPT2LMHeadModel(config), adamw, loss, (torch.randint(0, 1000, (4, 64)),), 20)


def bert() -> Race:
    import transformers

    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    config.num_labels = 5

    def loss(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(input_ids=ids).logits, y)

    model = transformers.BertForSequenceClassification(config)
    return Race(model, adamw, loss, (torch.randint(0, 1000, (4, 64)), torch.randint(0, 5, (4,))), 20)


def t5() -> Race:
    import transformers

    config = transformers.T5Config(
        d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=1000, decoder_start_token_id=0
    )

    def loss(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=ids, labels=labels, use_cache=False).loss

    batch = (torch.randint(0, 1000, (4, 32)), torch.randint(0, 1000, (4, 24)))
    return Race(transformers.T5ForConditionalGeneration(config), adamw, loss, batch, 20)


def resnet18() -> Race:
    import transformers

    config = transformers.ResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")
    config.num_labels = 10
    return Race(transformers.ResNetForImageClassification(config), momentum, classify_logits, pictures(4, 64), 10)


def convnext() -> Race:
    import transformers

    config = transformers.ConvNextConfig(depths=[2, 2, 4, 2], hidden_sizes=[40, 80, 160, 320])
    config.num_labels = 10
    return Race(transformers.ConvNextForImageClassification(config), adamw, classify_logits, pictures(4, 64), 10)


class Squeeze(nn.Module):
    """Hu and others, 2018: https://arxiv.org/abs/1709.01507."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * nn.functional.hardsigmoid(self.up(relu(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    def __init__(self, given: int, inner: int, made: int, kernel: int, stride: int, squeeze: bool) -> None:
        super().__init__()
        act: Callable[[], nn.Module] = nn.Hardswish if inner > 100 else nn.ReLU
        self.body = nn.Sequential(
            *(nn.Conv2d(given, inner, 1, bias=False), nn.BatchNorm2d(inner), act()),
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
            *(nn.BatchNorm2d(inner), act(), Squeeze(inner) if squeeze else nn.Identity()),
            *(nn.Conv2d(inner, made, 1, bias=False), nn.BatchNorm2d(made)),
        )
        self.added = given == made and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.added else self.body(x)


SMALL_V3 = (
    *((16, 16, 3, 2, True), (72, 24, 3, 2, False), (88, 24, 3, 1, False), (96, 40, 5, 2, True), (240, 40, 5, 1, True)),
    *((240, 40, 5, 1, True), (120, 48, 5, 1, True), (144, 48, 5, 1, True), (288, 96, 5, 2, True)),
    *((576, 96, 5, 1, True), (576, 96, 5, 1, True)),
)
"""Table 2 of Howard and others, 2019: inner and outer channels, kernel, stride, squeeze-and-excite."""


def mobilenet() -> Race:
    """MobileNetV3-Small: https://arxiv.org/abs/1905.02244."""
    blocks, given = [], 16
    for inner, made, kernel, stride, squeeze in SMALL_V3:
        blocks.append(Inverted(given, inner, made, kernel, stride, squeeze))
        given = made
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), *blocks),
        *(nn.Conv2d(96, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2)),
        nn.Linear(1024, 10),
    )
    return Race(model, adamw, classify, pictures(8, 96), 10)


class Double(nn.Sequential):
    def __init__(self, given: int, made: int) -> None:
        layers = ((nn.Conv2d(n, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU()) for n in (given, made))
        super().__init__(*(each for layer in layers for each in layer))


class Unet(nn.Module):
    """Ronneberger and others, 2015, with three scales: https://arxiv.org/abs/1505.04597."""

    def __init__(self, given: int = 3, made: int = 3, width: int = 16) -> None:
        super().__init__()
        self.high, self.middle, self.low = Double(given, width), Double(width, 2 * width), Double(2 * width, 4 * width)
        self.up_low, self.up = (nn.ConvTranspose2d(2 * n * width, n * width, 2, stride=2) for n in (2, 1))
        self.join_low, self.join = Double(4 * width, 2 * width), Double(2 * width, width)
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, made, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.high(x)
        middle = self.middle(self.pool(high))
        low = self.join_low(torch.cat([middle, self.up_low(self.low(self.pool(middle)))], 1))
        return self.head(self.join(torch.cat([high, self.up(low)], 1)))


def unet() -> Race:
    batch = (torch.randn(2, 3, 64, 64), torch.randint(0, 3, (2, 64, 64)))
    return Race(Unet(), adamw, classify, batch, 10)


def diffusion() -> Race:
    """A net learns the noise of a step of diffusion, which is drawn in the step: https://arxiv.org/abs/2006.11239."""
    kept = torch.linspace(0.999, 0.01, 100)

    def loss(model: nn.Module, x: Tensor, times: Tensor) -> Tensor:
        noise, share = torch.randn_like(x), kept[times][:, None, None, None]
        mixed = share.sqrt() * x + (1 - share).sqrt() * noise
        return mse_loss(model(torch.cat([mixed, share.expand(-1, 1, *x.shape[2:])], 1)), noise)

    return Race(Unet(4, 3), adamw, loss, (torch.randn(4, 3, 32, 32), torch.randint(0, 100, (4,))), 10)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(1000, 64), nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.rnn(self.embedding(ids))[0][:, -1])


def lstm() -> Race:
    return Race(Tagger(), adamw, classify, (torch.randint(0, 1000, (16, 32)), torch.randint(0, 10, (16,))), 20)


class GraphNet(nn.Module):
    """Kipf and Welling, 2017: https://arxiv.org/abs/1609.02907."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        degrees = torch.ones(x.shape[0]).index_add(0, target, torch.ones(target.shape[0])).rsqrt()
        for layer in (self.first, self.second):
            x = layer(relu(x)) * degrees[:, None]
            x = x.index_add(0, target, x[source]) * degrees[:, None]
        return x


def gcn() -> Race:
    def loss(model: nn.Module, x: Tensor, edges: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x, edges), y)

    batch = (torch.randn(2000, 64), torch.randint(0, 2000, (2, 8000)), torch.randint(0, 7, (2000,)))
    return Race(GraphNet(), adamw, loss, batch, 20)


class Recommender(nn.Module):
    """Naumov and others, 2019: https://arxiv.org/abs/1906.00091."""

    def __init__(self, tables: int = 8, rows: int = 1000, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: Tensor, chosen: Tensor) -> Tensor:
        low = self.bottom(dense)
        each = torch.stack([low, *(table(chosen[:, i]) for i, table in enumerate(self.tables))], 1)
        row, column = torch.tril_indices(each.shape[1], each.shape[1], -1)
        return self.top(torch.cat([low, (each @ each.mT)[:, row, column]], 1)).squeeze(1)


def dlrm() -> Race:
    def loss(model: nn.Module, dense: Tensor, chosen: Tensor, clicked: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(model(dense, chosen), clicked)

    batch = (torch.randn(128, 13), torch.randint(0, 1000, (128, 8, 4)), torch.randint(0, 2, (128,)).float())
    return Race(Recommender(), momentum, loss, batch, 20)


class Autoencoder(nn.Module):
    """Kingma and Welling, 2014: https://arxiv.org/abs/1312.6114."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
        self.decoder = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


def vae() -> Race:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        made, mean, spread = model(x)
        divergence = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()
        return binary_cross_entropy_with_logits(made, x, reduction="sum") / len(x) + divergence

    return Race(Autoencoder(), adamw, loss, (torch.rand(64, 784),), 20)


RACES: Mapping[str, tuple[Callable[[], Race], float]] = {
    "mlp": (mlp, 0.7),
    f"mlp, {LOOPED} a run": (mlp_in_a_loop, 0.5),
    **{
        make.__name__: (make, 1.05)
        for make in (mobilenet, convnext, resnet18, unet, gpt2, bert, t5, lstm, gcn, dlrm, vae, diffusion)
    },
}
"""By name: the race, and the ratio to eager PyTorch that ONNX Runtime is to stay below."""
