"""Inputs and dims that a folder of transformers brings, which nobody has asked for: the user's take their place."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fxport.exporter.sources.dynamic import with_dynamic
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import Source
from fxport.exporter.sources.usage import UsageError


class Masked(torch.nn.Module):
    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None
    ) -> torch.Tensor:
        return input_ids * attention_mask + (0 if token_type_ids is None else token_type_ids)


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


def masked_folder() -> Source:
    ids = torch.ones(2, 8, dtype=torch.int64)
    inputs, dims = {"input_ids": ids, "attention_mask": ids}, {0: "batch", 1: "sequence"}
    shapes, masks = dict.fromkeys(inputs, dims), {"attention_mask": "input_ids"}
    return Source("folder", Masked(), (), inputs, shapes, guessed=True, masks=masks)


def test_a_guessed_mask_has_the_sizes_and_dims_of_its_input() -> None:
    given = with_inputs(masked_folder(), ["input_ids=1x7:int64"], [])
    assert [tuple(each.shape) for each in given.args or () if isinstance(each, torch.Tensor)] == [(1, 7), (1, 7)]
    assert given.dynamic_shapes == {"input_ids": {1: "sequence"}, "attention_mask": {1: "sequence"}}
    asked = with_dynamic(masked_folder(), ["input_ids:1=seq"]).dynamic_shapes
    assert asked == {"input_ids": {1: "seq"}, "attention_mask": {1: "seq"}}
    own = with_dynamic(masked_folder(), ["input_ids:1=seq", "attention_mask:1=mask"]).dynamic_shapes
    assert own == {"input_ids": {1: "seq"}, "attention_mask": {1: "mask"}}


def test_dims_of_an_argument_without_an_example() -> None:
    with pytest.raises(UsageError, match=r"'token_type_ids' has no example value.*--input token_type_ids=2x16:int64"):
        with_dynamic(masked_folder(), ["token_type_ids:0=batch"])


class Passing(torch.nn.Module):
    """As models of transformers are, it takes any name and passes it on."""

    def forward(self, input_ids: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
        return input_ids + 1


def test_a_misspelt_input_of_a_folder_is_refused() -> None:
    source = replace(folder(), model=Passing())
    with pytest.raises(UsageError, match=r"no argument 'input_id'\. Did you mean 'input_ids'\?"):
        with_inputs(source, ["input_id=1x7:int64"], [])
    assert set(with_inputs(source, ["position=1x7:int64"], []).kwargs) == {"position"}
