"""Request of each rank by its call of `export`, of which that of rank 0 counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, Place, rules
from fxport.exporter.distributed.agreement import by_rank
from fxport.exporter.pipeline.options import Options

OF_A_RANK = ("dump", "rank_timeout")
"""Options that may differ: they say nothing about the model."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

Asked = Mapping[str, str]
"""Name of an option, or of an input → what was given, in words."""


def asked_of(args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any, options: Options) -> Asked:
    """A call in words. Sizes and values of inputs are not in them: each rank may have a batch of its own."""
    chosen = {field.name: getattr(options, field.name) for field in fields(Options) if field.name not in OF_A_RANK}
    chosen["lowerings"] = sorted(map(str, options.lowerings))
    chosen["ir_passes"] = [type(each).__name__ for each in options.ir_passes]
    leaves, _ = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    inputs = {f"input{pytree.keystr(path[1:])}": _kind(value) for path, value in leaves}
    words = {
        name: "the default" if value is None else repr(value)
        for name, value in {**chosen, "dynamic_shapes": dynamic_shapes}.items()
    }
    return {name: _ADDRESS.sub("", text) for name, text in words.items()} | inputs


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of {value.dim()} dimensions"
    return type(value).__name__


def compare_asked(asked: Sequence[Asked], at: Place | None, log: Log) -> None:
    """Reports what the ranks ask for differently."""
    for name in dict.fromkeys(name for each in asked for name in each):
        words = [each.get(name, "nothing") for each in asked]
        if len(set(words)) > 1:
            log.report(rules.RANKS_ASK_DIFFERENTLY, at=at, name=name, detail=by_rank(words))
