"""Inputs and dims that a folder of transformers brings, which nobody has asked for: the user's take their place."""

from __future__ import annotations

import torch

from fxport.exporter.sources.dynamic import with_dynamic
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import Source


class Model(torch.nn.Module):
    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return input_ids + 1


def folder() -> Source:
    dims = {"input_ids": {0: "batch", 1: "sequence"}}
    return Source("folder", Model(), (), {"input_ids": torch.ones(2, 8, dtype=torch.int64)}, dims, guessed=True)


def test_a_size_of_one_is_not_asked_to_vary() -> None:
    given = with_inputs(folder(), ["input_ids=1x7:int64"], [])
    assert given.dynamic_shapes == {"input_ids": {1: "sequence"}}
    assert with_inputs(folder(), ["input_ids=3x7:int64"], []).dynamic_shapes == folder().dynamic_shapes


def test_dims_of_the_command_line_take_the_place_of_guessed_ones() -> None:
    assert with_dynamic(folder(), ["input_ids:1=seq"]).dynamic_shapes == {"input_ids": {1: "seq"}}
