"""The loss of connectionist temporal classification: how likely are the targets, by whatever alignment."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.indices import INT64

aten = torch.ops.aten

NONE, MEAN, SUM = 0, 1, 2
INF = float("inf")


@lowering(aten.ctc_loss.IntList)
def ctc_loss_of_lists(
    op: Op,
    log_probs: Value,
    targets: Value,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Value:
    """ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor"""  # noqa: E501  # the schema is one line
    times, lengths = op.shape(input_lengths), op.shape(target_lengths)
    return ctc_loss(op, log_probs, targets, times, lengths, blank, reduction, zero_infinity)


@lowering(aten.ctc_loss.Tensor)
def ctc_loss(
    op: Op,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Value:
    """ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor

    Graves et al. (2006): the logarithm of the forward variables, one turn of a Scan for each time. `log_probs` are
    [times, batch, classes], or [times, classes]; the targets are [batch, places], or one after another in a vector.
    """  # noqa: E501  # the schema is one line
    alone = op.rank(log_probs) == 2
    if alone:
        log_probs = op.Unsqueeze(log_probs, [1])
    times = op.Reshape(op.cast(input_lengths, INT64), [-1])
    lengths = op.Reshape(op.cast(target_lengths, INT64), [-1])
    if alone and op.rank(targets) == 1:
        targets = op.typed(op.Unsqueeze(targets, [0]), (1, *op.sizes(targets)))
    labels = _labels(op, op.cast(targets, INT64), op.rank(targets), lengths, blank)
    loss = op.Neg(_ends(op, _forward(op, log_probs, labels, times), lengths))
    if zero_infinity:
        loss = op.Where(op.Equal(loss, INF), 0.0, loss)
    if reduction == MEAN:
        return op.ReduceMean(op.Div(loss, op.const(op.Max(lengths, 1), like=loss)), keepdims=0)
    if reduction == SUM:
        return op.ReduceSum(loss, keepdims=0)
    return op.Squeeze(loss, [0]) if alone else loss


def _labels(op: Op, targets: Value, rank: int, lengths: Value, blank: int) -> Value:
    """The targets of each sequence with blanks before, between and after them: [batch, 2 · places + 1].

    Places after the end of a sequence hold blanks.
    """
    each = op.Unsqueeze(lengths, [1])
    if rank == 1:
        places = op.Range(0, op.ReduceMax(op.Concat(lengths, [0], axis=0), keepdims=0), 1)
        starts = op.Sub(op.Unsqueeze(op.CumSum(lengths, 0), [1]), each)
        within = op.Less(places, each)
        targets = op.Gather(op.Concat(targets, [blank], axis=0), op.Where(within, op.Add(starts, places), 0))
    else:
        within = op.Less(op.Range(0, op.Squeeze(op.Shape(targets, start=1, end=2), [0]), 1), each)
    targets = op.Where(within, targets, blank)
    blanks = op.Expand(op.const(blank), op.Shape(targets))
    pairs = op.Concat(op.Unsqueeze(blanks, [2]), op.Unsqueeze(targets, [2]), axis=2)
    return op.Pad(op.Flatten(pairs, axis=1), [0, 0, 0, 1], blank)


def _forward(op: Op, log_probs: Value, labels: Value, times: Value) -> Value:
    """The forward variables at the end of each sequence, [batch, 2 · places + 1], as logarithms.

    Before the first time the whole weight is on the first blank, as if it had been there already.
    """
    zero = op.const(0.0, like=log_probs)
    first = op.Equal(op.Range(0, op.Squeeze(op.Shape(labels, start=1, end=2), [0]), 1), 0)
    start = op.Expand(op.Where(first, zero, op.const(-INF, like=log_probs)), op.Shape(labels))
    before = op.Slice(op.Pad(labels, [0, 2, 0, 0], -1), [0], [-2], [1])
    blank = op.Slice(labels, [0], [1], [1])
    skips = op.And(op.Not(op.Equal(labels, before)), op.Not(op.Equal(labels, blank)))
    counted = op.Range(0, op.Squeeze(op.Shape(log_probs, start=0, end=1), [0]), 1)
    alpha, now = op.formal(log_probs.dtype, None), op.formal(INT64, [])
    step = op.formal(log_probs.dtype, None)

    def turn() -> list[Value]:
        low = op.const(-INF, like=log_probs)
        one = op.Slice(op.Pad(alpha, [0, 1, 0, 0], low), [0], [-1], [1])
        two = op.Slice(op.Pad(alpha, [0, 2, 0, 0], low), [0], [-2], [1])
        reached = _log_of_sum(op, [alpha, one, op.Where(skips, two, low)])
        after = op.Add(reached, op.GatherElements(step, labels, axis=1))
        return [op.Where(op.Unsqueeze(op.Less(now, times), [1]), after, alpha)]

    return op.Scan(start, log_probs, counted, body=op.graph([alpha, step, now], turn), num_scan_inputs=2)


def _ends(op: Op, alpha: Value, lengths: Value) -> Value:
    """The weight of alignments that end in the last target or in the blank after it: [batch], as logarithms."""
    last = op.Unsqueeze(op.Mul(lengths, 2), [1])
    blank = op.GatherElements(alpha, last, axis=1)
    target = op.GatherElements(alpha, op.Max(op.Sub(last, 1), 0), axis=1)
    target = op.Where(op.Greater(last, 0), target, op.const(-INF, like=alpha))
    return op.Squeeze(_log_of_sum(op, [blank, target]), [1])


def _log_of_sum(op: Op, values: Sequence[Value]) -> Value:
    """log(Σ exp(x)), -inf where all are."""
    largest = op.Max(*values)
    shift = op.Where(op.Equal(largest, -INF), 0.0, largest)
    total = op.Exp(op.Sub(values[0], shift))
    for value in values[1:]:
        total = op.Add(total, op.Exp(op.Sub(value, shift)))
    return op.Add(op.Log(total), shift)
