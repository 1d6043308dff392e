"""Models of many kinds for planted faults: small, with one operation a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.models import Example


class Perceptron(nn.Module):
    """Linear layers with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = F.gelu(y)
        y = y * 0.7
        y = self.second(y)
        y = torch.sin(y)
        y = y + x
        y = y - 0.3
        y = torch.tanh(y)
        return self.last(y)


class Picture(nn.Module):
    """Convolutions over pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8, 5)
        nn.init.uniform_(self.norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(self.norm.running_var, 0.2, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        y = self.norm(y)
        y = F.hardswish(y)
        y = F.pad(y, (1, 1, 1, 1), mode="reflect")
        y = F.max_pool2d(y, 2, stride=1)
        y = self.deep(y)
        y = F.leaky_relu(y, 0.1)
        y = F.avg_pool2d(y, 3, stride=2, padding=1)
        y = y.mean(dim=(2, 3))
        return F.log_softmax(self.head(y), dim=-1)


class Attention(nn.Module):
    """Attention by hand, square where a wrong axis or a lost transposition would show in no shape."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q = self.query(y).view(2, 4, 4, 4)
        q = q.transpose(1, 2)
        k = self.key(y).view(2, 4, 4, 4)
        k = k.transpose(1, 2)
        v = self.value(y).view(2, 4, 4, 4)
        v = v.transpose(1, 2)
        k = k.transpose(2, 3)
        scores = torch.matmul(q, k)
        scores = scores / 2.0
        mask = torch.ones(4, 4).tril()
        scores = scores.masked_fill(mask == 0, -1e4)
        weights = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(weights, v)
        mixed = mixed.transpose(1, 2)
        y = self.out(mixed.reshape(2, 4, 16))
        return x + y


class Recurrent(nn.Module):
    """An LSTM over embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 6, batch_first=True)
        self.gate = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(x)
        y, (h, _) = self.lstm(x)
        gate = torch.sigmoid(self.gate(y))
        y = y * gate
        y = torch.flip(y, dims=(1,))
        return y, torch.exp(h)


class Fourier(nn.Module):
    """A filter of complex weights in the frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(5, dtype=torch.complex64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.tanh(x)
        z = torch.fft.rfft(x, dim=-1)
        z = z * self.filter
        size = torch.abs(z)
        size = torch.log1p(size)
        y = torch.fft.irfft(z, n=8, dim=-1)
        y = y * 0.5
        y = torch.sin(y)
        return y, size


class Words(nn.Module):
    """Embeddings, positions and a mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8, padding_idx=0)
        self.places = nn.Embedding(8, 8)
        self.head = nn.Linear(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        mask = ids != 0
        order = torch.arange(8)
        x = self.words(ids)
        p = self.places(order)
        x = x + p
        x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        x = torch.cumsum(x, dim=1)
        count = mask.sum(dim=1, keepdim=True)
        count = count.clamp(min=6)
        x = x.amax(dim=1) / count
        return F.softplus(self.head(x))


class Groups(nn.Module):
    """Convolutions in groups, and their way back up."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.mix = nn.Conv2d(8, 8, 1, groups=2)
        self.norm = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(x)
        y = self.mix(y)
        y = F.channel_shuffle(y, 2)
        y = self.norm(y)
        y = F.elu(y)
        y = self.up(y)
        y = F.pixel_unshuffle(y, 2)
        return y[:, 1:-1]


class Loops(nn.Module):
    """A loop whose steps are written out, one over the rows, and one that ends when the data say so."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.zeros(6)
        for row in x:
            mixed = self.cell(state)
            mixed = mixed + row
            state = torch.tanh(mixed)
        total = state.sum()
        while total < 20.0:
            half = total * 0.5
            total = total + torch.exp(-half) + 1.0
        return torch.cos(state), torch.sqrt(total.abs())


class Half(nn.Module):
    """A block in one of the small types."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up = nn.Linear(32, 64)
        self.gate = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)
        self.to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        gate = torch.sigmoid(self.gate(y))
        up = self.up(y)
        y = F.silu(up)
        y = y * gate
        y = self.down(y)
        y = x + y
        return torch.softmax(y * 0.5, dim=-1)


class Graph(nn.Module):
    """Messages along the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.send = nn.Linear(8, 8)
        self.own = nn.Linear(8, 8)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        sent = self.send(x)
        message = sent.index_select(0, source)
        message = F.relu(message)
        ones = torch.ones(12)
        degree = torch.zeros(6).index_add(0, target, ones)
        degree = degree.clamp(min=1.0)
        total = torch.zeros(6, 8).index_add(0, target, message)
        total = total / degree.unsqueeze(-1)
        place = target.unsqueeze(-1).expand(12, 8)
        most = torch.zeros(6, 8).scatter_reduce(0, place, message, "amax")
        y = self.own(x) + total
        y = y - most
        return torch.sigmoid(y)


class Sorted(nn.Module):
    """Order statistics."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.sin(x)
        best, places = torch.topk(y, 3, dim=-1)
        best = best * 2
        rows, order = torch.sort(y, dim=-1, descending=True)
        steps = rows.cumsum(dim=-1)
        again = torch.gather(y, 1, order.flip(1))
        low = torch.argmin(again, dim=-1)
        median = torch.round(steps * 4)
        bucket = torch.remainder(places, 4)
        return best, steps, again, low, median, bucket


class Norms(nn.Module):
    """Normalizations of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.instance = nn.InstanceNorm1d(8, affine=True)
        self.layer = nn.LayerNorm(8)
        self.rms = nn.RMSNorm(8, eps=1e-5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.instance(x)
        y = y * 4
        y = F.relu6(y)
        y = self.layer(y)
        y = y * 3
        y = self.rms(y)
        spread = torch.std(y, dim=-1)
        length = torch.linalg.vector_norm(y, dim=1)
        y = F.normalize(y, dim=-1)
        return torch.logsumexp(y, dim=1), spread + length


class State(nn.Module):
    """Buffers that a call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((6,), 0.3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        now = x.mean(dim=0)
        old = self.mean * 0.9
        now = now * 0.1
        self.mean.copy_(old + now)
        self.calls.add_(1)
        y = x - self.mean
        y = torch.atan(y)
        return y / self.calls


class Branches(nn.Module):
    """Choices by element, and one for the whole model."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(6, 6)
        self.right = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        high = x > 0.2
        y = torch.where(high, x * 2, x - 1)
        if y.sum() > 1000:
            y = self.left(y)
        else:
            y = self.right(y)
            y = torch.sin(y)
        y = torch.maximum(y, x * 0.5)
        either = torch.logical_or(high, y < 0.5)
        return y.masked_fill(either, 0.25) + y


def graph() -> Example:
    return Example(Graph(), (torch.randn(6, 8), torch.randint(0, 6, (2, 12))))


def words() -> Example:
    ids = torch.randint(1, 30, (3, 8))
    ids[1, 5:] = 0
    return Example(Words(), (ids,))


MODELS: Mapping[str, Callable[[], Example]] = {
    "perceptron": lambda: Example(Perceptron(), (torch.randn(5, 8),)),
    "picture": lambda: Example(Picture(), (torch.randn(2, 3, 8, 8),)),
    "attention": lambda: Example(Attention(), (torch.randn(2, 4, 16),)),
    "recurrent": lambda: Example(Recurrent(), (torch.randn(3, 5, 6),)),
    "fourier": lambda: Example(Fourier(), (torch.randn(4, 8),)),
    "words": words,
    "groups": lambda: Example(Groups(), (torch.randn(2, 8, 6, 6),)),
    "loops": lambda: Example(Loops(), (torch.randn(3, 6),)),
    "bf16": lambda: Example(Half(torch.bfloat16), (torch.randn(64, 32).bfloat16(),)),
    "fp16": lambda: Example(Half(torch.float16), (torch.randn(64, 32).half(),)),
    "graph": graph,
    "sorted": lambda: Example(Sorted(), (torch.randn(4, 6) * 2,)),
    "norms": lambda: Example(Norms(), (torch.randn(3, 8, 8) * 4,)),
    "state": lambda: Example(State(), (torch.randn(5, 6),)),
    "branches": lambda: Example(Branches(), (torch.randn(4, 6),)),
}
