"""Ops of PackedSequence with symbolic sizes: how many steps there are in all, and how many in the longest sequence."""

from __future__ import annotations

import torch
from torch import Tensor

aten = torch.ops.aten


@torch.library.custom_op("fxport::pack", mutates_args=(), tags=(torch.Tag.dynamic_output_shape,))
def pack(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """`aten::_pack_padded_sequence`: the steps [all, *] of x [time, batch, *], step by step, and how many each has."""
    return aten._pack_padded_sequence.default(x, lengths.cpu(), batch_first)


@pack.register_fake
def _packed(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    context = torch.library.get_ctx()
    steps, longest = context.new_dynamic_size(min=1), context.new_dynamic_size(min=1)
    return x.new_empty((steps, *x.shape[2:])), lengths.new_empty((longest,), device="cpu")


@torch.library.custom_op("fxport::unpack", mutates_args=())
def unpack(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, value: float, time: int, batch: int
) -> tuple[Tensor, Tensor]:
    """`aten::_pad_packed_sequence`: the padded steps [time, batch, *], and how long each sequence is."""
    padded, lengths = aten._pad_packed_sequence.default(data, batch_sizes, batch_first, value, time)
    return padded.clone(), lengths


@unpack.register_fake
def _unpacked(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, value: float, time: int, batch: int
) -> tuple[Tensor, Tensor]:
    sizes = (batch, time) if batch_first else (time, batch)
    return data.new_empty((*sizes, *data.shape[1:])), batch_sizes.new_empty((batch,))
