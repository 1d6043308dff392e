"""Programs that export, but not as the user meant: state, training, randomness, constants; and wrong calls."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)
BIAS = torch.ones(6)


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Written(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


class WrittenPart(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x[:, 0] = 0.0
        return x * 2


class WrittenInner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x) + 1


class GlobalWritten(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        BIAS.mul_(2)
        return x + BIAS


class RunningMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # normed
        return self.norm(x) * 2


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # dropped
        return self.dropout(x) + 1


class DroppedByFunction(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5) * 3


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.randn_like(x)
        return x + noise


class Sampled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(x.softmax(-1), 1)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * scale


class Moded(nn.Module):
    def forward(self, x: torch.Tensor, mode: str = "sum") -> torch.Tensor:
        return x.sum() if mode == "sum" else x.mean()


class OneInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:  # one
        return x.cos()


class Assigning(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.last.sum()
        self.last = y
        return y


CASES = (
    FailureCase("assigned attribute", "mutation", "FXP1016", "«self.last = y»", Assigning, (X,)),
    FailureCase("mutated buffer", "mutation", "FXP1005", "«self.count += 1»", Counted, (X,)),
    FailureCase("mutated input", "input mutation", "FXP1005", "«x.add_(1)»", Written, (X.clone(),)),
    FailureCase("mutated part of an input", "input mutation", "FXP1005", "«x[:, 0] = 0.0»", WrittenPart, (X.clone(),)),
    FailureCase("mutated by a layer", "input mutation", "FXP1005", "«self.relu(x)» + 1", WrittenInner, (X.clone(),)),
    FailureCase("mutated global", "mutation", "FXP1005", "«BIAS.mul_(2)»", GlobalWritten, (X,)),
    FailureCase(
        "running statistics",
        "training",
        "FXP1007",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # normed»",
        RunningMean,
        (X,),
    ),
    FailureCase(
        "dropout in training",
        "training",
        "FXP1007",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # dropped»",
        Dropped,
        (X,),
    ),
    FailureCase(
        "dropout that is always on", "random", "FXP1008", "return «F.dropout(x, 0.5)» * 3", DroppedByFunction, (X,)
    ),
    FailureCase("random numbers", "random", "FXP1008", "noise = «torch.randn_like(x)»", Noisy, (X,)),
    FailureCase("a random choice", "random", "FXP1008", "return «torch.multinomial(x.softmax(-1), 1)»", Sampled, (X,)),
    FailureCase(
        "number among the inputs",
        "constant input",
        "FXP1006",
        "«def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:»",
        Scaled,
        (X, 3.0),
    ),
    FailureCase(
        "word among the inputs",
        "constant input",
        "FXP1006",
        '«def forward(self, x: torch.Tensor, mode: str = "sum") -> torch.Tensor:»',
        Moded,
        (X, "mean"),
    ),
    FailureCase(
        "too many inputs",
        "wrong call",
        "FXP1010",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # one»",
        OneInput,
        (X, X),
    ),
    FailureCase(
        "too few inputs",
        "wrong call",
        "FXP1010",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # one»",
        OneInput,
        (),
    ),
    FailureCase(
        "an input of another name",
        "wrong call",
        "FXP1010",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # one»",
        OneInput,
        (),
        {"y": X},
    ),
)
