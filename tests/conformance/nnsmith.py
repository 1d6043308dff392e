"""Models that NNSmith generates, a package that the tests do not bring along."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch

from tests.conformance.samples import Sample

GENERATED = [f"seed {seed}" for seed in range(2000)]
"""NNSmith's models by their seeds."""


class Generated(torch.nn.Module):
    """The instructions of a model of NNSmith, without its own checks of the values, which need numbers."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.parts = net.mlist
        self.inputs = list(net.ir.input_var())
        self.outputs = list(net.output_like)
        self.instructions = [(call, arguments, results) for call, arguments, results, _ in net.instructions]

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        held: Mapping[str, torch.Tensor] = dict(zip(self.inputs, tensors, strict=True))
        for call, arguments, results in self.instructions:
            given = call(*(held[name] for name in arguments))
            held |= dict(zip(results, given if isinstance(given, list) else [given], strict=True))
        return [held[name] for name in self.outputs]


@cache
def _operators_of_nnsmith() -> tuple[type[Any], list[Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nnsmith.materialize import Model
        from nnsmith.narrow_spec import auto_opset

        kind = Model.init("torch", backend_target="cpu")
        kind.add_seed_setter()
        return kind, auto_opset(kind, None, vulops=True)


def generated(name: str, _dtype: torch.dtype, _count: int) -> Iterator[Sample]:
    """One model of up to ten operators from the seed in its name."""
    kind, operators = _operators_of_nnsmith()
    from nnsmith.graph_gen import model_gen

    seed = int(name.removeprefix("seed "))
    drawn = model_gen(operators, method="symbolic-cinit", seed=seed, max_nodes=10, max_elem_per_tensor=4096)
    net = kind.from_gir(drawn.make_concrete()).native_model.eval()
    yield Sample(name, Generated(net), tuple(net.get_random_inps().values()))
