"""Packed sequences while a model is captured: their lengths are data, and no code asks for their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.modules import rnn as modules
from torch.nn.utils import rnn

import fxport.fx_passes.packed_sequences  # registers the ops
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.knowledge import known, note

fxport = torch.ops.fxport

BATCH = "batch"
"""The fact of `PackedSequence.batch_sizes` that its first entry, the number of sequences, is this size."""

CHECKED = (modules.RNNBase, modules.LSTM)
"""Classes that compare the sizes of a state with the first entry of `batch_sizes`."""


@contextmanager
def packed_sequences_kept() -> Iterator[None]:
    """Make pack_padded_sequence and pad_packed_sequence one op each, for lengths that are data.

    The op of PyTorch that packs reads the lengths, and a recurrent module reads `batch_sizes`, which ends a capture.
    """
    pad = rnn.pad_packed_sequence
    before, pad.__code__ = pad.__code__, _pad_packed_sequence.__code__
    try:
        with mock.patch.object(rnn, "_VF", _Ops), _checks_as_padded():
            yield
    finally:
        pad.__code__ = before


class _Ops:
    """Replacements of what torch.nn.utils.rnn calls, under PyTorch's names and with its arguments."""

    @staticmethod
    def _pack_padded_sequence(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
        data, batch_sizes = fxport.pack(x, lengths, batch_first)
        batch, time = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
        torch._check(batch_sizes.shape[0] <= time)
        note(batch_sizes, BATCH, batch)
        return data, batch_sizes

    @staticmethod
    def pad(packed: Any, batch_first: bool, value: float, total_length: int | None) -> tuple[Tensor, Tensor]:
        data, batch_sizes, _, order = packed
        time = batch_sizes.shape[0]
        if total_length is not None:
            torch._check(time <= total_length)
            time = total_length
        batch = known(batch_sizes, BATCH)
        batch = batch_sizes[0].item() if batch is None else batch
        padded, lengths = fxport.unpack(data, batch_sizes, batch_first, float(value), time, batch)
        if order is None:
            return padded, lengths
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


_VF = _Ops


def _pad_packed_sequence(sequence: Any, batch_first: Any, padding_value: Any, total_length: Any) -> Any:
    """Give `pad_packed_sequence` this code, also where a model has imported it; `_VF` is of PyTorch's module."""
    return _VF.pad(sequence, batch_first, padding_value, total_length)


class FirstBatchKnown(Part):
    """Make `batch_sizes[0]` the number of sequences, not what an op reads from a tensor."""

    functions = frozenset({Tensor.__getitem__})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ and (batch := known(args[0], BATCH)) is not None and args[1] == 0:
            return batch
        return func(*args, **(kwargs or {}))


@contextmanager
def _checks_as_padded() -> Iterator[None]:
    """Check no states of a module against `batch_sizes`, which would make a number of a symbolic size."""
    before = {kind: kind.check_forward_args for kind in CHECKED}

    def unless_packed(check: Callable[..., None]) -> Callable[..., None]:
        def checked(module: Any, x: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
            if batch_sizes is None:
                check(module, x, hidden, batch_sizes)

        return checked

    for kind, check in before.items():
        kind.check_forward_args = unless_packed(check)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, check in before.items():
            kind.check_forward_args = check  # type: ignore[method-assign]
