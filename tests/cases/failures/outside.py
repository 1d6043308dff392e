"""Programs that rely on more than tensors: Python's state, random numbers and exceptions, other kinds of tensors."""

from __future__ import annotations

import datetime
import io
import os
import random
import time
import uuid
from datetime import date
from time import perf_counter

import numpy as np
import torch
from torch import nn

from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)
CALLS = 0
SAVED = io.BytesIO()
torch.save(nn.Linear(6, 6).state_dict(), SAVED)


class HiddenBranch(nn.Module):
    """The `except` hides PyTorch's refusal: the graph would have one way only, and be wrong in silence."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            if x.median() > 0:
                return x * 2
        except Exception:  # noqa: BLE001  # as users write it
            return x
        return x


class PythonRandom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if random.random() < 2:
            x = x + 1
        return x


class NumpyRandom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_numpy(np.random.randn(4, 6).astype(np.float32))  # as users write it


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.count


class CountingGlobally(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:  # a global count
        global CALLS  # as users write it
        CALLS += 1
        return x * CALLS


class MakesLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head: nn.Module | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.head is None:
            self.head = nn.Linear(x.shape[-1], 3)
        return self.head(x)


class LoadsWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SAVED.seek(0)
        state = torch.load(SAVED)
        self.linear.load_state_dict(state)
        return self.linear(x)


class NamesByValue(nn.Module):
    scales = {0: 1.0, 1: 2.0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scales.get(x.argmax().item(), 0.5)


class RecurrentUntilQuiet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, states = torch.zeros(x.shape[0], 6), []
        for _ in range(10):
            state = self.cell(x, state)
            states.append(state)
            if state.abs().amax() < 0.1:
                break
        return torch.stack(states)


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("adjacency", torch.eye(4).to_sparse())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(self.adjacency, x)


class QuantizedEagerly(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        return y.int_repr() * 2


class QuantizedByChannel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales = torch.tensor([0.1, 0.2])
        return torch.quantize_per_channel(x, scales, torch.zeros(2), 0, torch.qint8).dequantize()


class Nested(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = torch.nested.nested_tensor([x[0, :3], x[1, :2]])
        return torch.nested.to_padded_tensor(parts, 0.0)


class KeptByHook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.seen = nn.Linear(6, 6), {}
        self.inner.register_forward_hook(self.keep)

    def keep(self, module: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        self.seen["inner"] = out.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # a hook keeps a tensor
        return self.inner(x).relu()


class Clock(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        started = time.time()
        return x * (started % 60)


class Measured(nn.Module):
    """By a name that was imported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (perf_counter() % 60)


class Today(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        now = datetime.datetime.now()  # as users write it
        return x * now.hour


class Dated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (date.today() - date(2020, 1, 1)).days  # as users write it


class OwnRandom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.draws = random.Random(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.draws.uniform(1, 2)


class OwnNumpyRandom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.noise = np.random.default_rng(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.noise.random()


class Variable(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = float(os.environ.get("FXPORT_TEST_SCALE_OF_NO_USE", "2"))
        return x * scale


class Unique(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + uuid.uuid4().int % 7


class Compiled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_compiling() else x


class OfDynamo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch._dynamo.is_compiling() else x


class OfUtils(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch._utils.is_compiling() else x


CASES = (
    FailureCase("a branch in try", "except", "FXP1002", "if «x.median() > 0»:", HiddenBranch, (X,)),
    FailureCase("random of Python", "random of Python", "FXP1019", "if «random.random()» < 2:", PythonRandom, (X,)),
    FailureCase("random of numpy", "random of Python", "FXP1019", "«np.random.randn(4, 6)».astype", NumpyRandom, (X,)),
    FailureCase("a clock", "environment", "FXP1029", "started = «time.time()»", Clock, (X,)),
    FailureCase("an imported clock", "environment", "FXP1029", "x * («perf_counter()» % 60)", Measured, (X,)),
    FailureCase("now", "environment", "FXP1029", "now = «datetime.datetime.now()»", Today, (X,)),
    FailureCase("a date", "environment", "FXP1029", "x * («date.today()» - date(2020", Dated, (X,)),
    FailureCase("own random", "random of Python", "FXP1019", "x * «self.draws.uniform(1, 2)»", OwnRandom, (X,)),
    FailureCase("own random of numpy", "random of Python", "FXP1019", "«self.noise.random()»", OwnNumpyRandom, (X,)),
    FailureCase("a variable", "environment", "FXP1029", "scale = «float(os.environ»", Variable, (X,), exact=False),
    FailureCase("a drawn name", "environment", "FXP1029", "x + «uuid.uuid4()».int", Unique, (X,)),
    FailureCase(
        "is_compiling", "environment", "FXP1029", "x * 2 if «torch.compiler.is_compiling()» else x", Compiled, (X,)
    ),
    FailureCase("is_compiling of Dynamo", "environment", "FXP1029", "«torch._dynamo.is_compiling()»", OfDynamo, (X,)),
    FailureCase("is_compiling of utils", "environment", "FXP1029", "«torch._utils.is_compiling()»", OfUtils, (X,)),
    FailureCase("a counter", "counter", "FXP1018", "«self.count += 1»", Counting, (X,)),
    FailureCase(
        "a global counter",
        "counter",
        "FXP1018",
        "«CALLS += 1»",
        CountingGlobally,
        (X,),
    ),
    FailureCase(
        "a layer made in forward", "lazy", "FXP1017", "«self.head = nn.Linear(x.shape[-1], 3)»", MakesLayer, (X,)
    ),
    FailureCase("weights loaded in forward", "loading", "FXP1003", "state = «torch.load(SAVED)»", LoadsWeights, (X,)),
    FailureCase(
        "a key by value", "item", "FXP1002", "x * «self.scales.get(x.argmax().item(), 0.5)»", NamesByValue, (X,)
    ),
    FailureCase("a recurrence until", "loop", "FXP1002", "if «state.abs().amax() < 0.1»:", RecurrentUntilQuiet, (X,)),
    FailureCase("a sparse matrix", "sparse", "FXP3001", "«torch.sparse.mm(self.adjacency, x)»", Graph, (X,)),
    FailureCase(
        "eager quantization by channel",
        "quantized",
        "FXP1003",
        "return «torch.quantize_per_channel(x, scales, torch.zeros(2), 0, torch.qint8)».dequantize()",
        QuantizedByChannel,
        (X[:2],),
    ),
    FailureCase("eager quantization", "quantized", "FXP1003", "return «y.int_repr()» * 2", QuantizedEagerly, (X,)),
    FailureCase(
        "a nested tensor",
        "nested",
        "FXP1003",
        "parts = «torch.nested.nested_tensor([x[0, :3], x[1, :2]])»",
        Nested,
        (X,),
    ),
    FailureCase(
        "a tensor kept by a hook",
        "hook",
        "FXP1016",
        "«def forward(self, x: torch.Tensor) -> torch.Tensor:  # a hook keeps a tensor»",
        KeptByHook,
        (X,),
    ),
)
