"""Python's own functions of dynamic sizes: `int(n)`, `len(x)`, `list(x)` and the like keep them dynamic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fxport import ExportError, export
from fxport.diagnostics import Log, rules
from fxport.exporter.capture.control_flow.calls import NAMES
from fxport.exporter.capture.control_flow.kept_calls import KEPT, kept
from tests.running import assert_same, run_exported


class Call(nn.Module):
    """A module whose forward is one of the functions below."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def whole(x: Tensor) -> Tensor:
    return x.reshape(int(x.shape[0]) * int(x.shape[1] / 2), -1)


def fraction(x: Tensor) -> Tensor:
    return x / float(x.shape[1]) + int(x.shape[1] > 3)


def length(x: Tensor) -> Tensor:
    return torch.ones(len(x), 3) * len(x)


def rounded(x: Tensor) -> Tensor:
    return x[:, : round(float(x.shape[1]) * 0.6)] + round(x.shape[0])


def root(x: Tensor) -> Tensor:
    return x / math.sqrt(x.shape[1]) + np.sqrt(x.shape[0])


def logarithm(x: Tensor) -> Tensor:
    return x * math.log(x.shape[1]) + math.log2(x.shape[1]) + math.log(x.shape[0], 10) + np.log(x.shape[1])


def numpy_rounding(x: Tensor) -> Tensor:
    return x[:, : int(np.ceil(x.shape[1] / 4))] + int(np.floor(x.shape[1] / 4))


def quotients(x: Tensor) -> Tensor:
    whole, left = divmod(x.shape[1], 3)
    return x[:, : whole + 1] * left + divmod(100, x.shape[0])[1]


def product(x: Tensor) -> Tensor:
    return x.reshape((np.prod(x.shape),))  # type: ignore[arg-type]  # a whole number of NumPy's


def listed(x: Tensor) -> Tensor:
    return torch.cat(list(x)) + torch.stack(tuple(x), 1).sum()


def unbound(x: Tensor) -> Tensor:
    columns = x.unbind(1)
    return torch.stack(columns) + torch.stack(torch.unbind(x, dim=1))


def comprehension(x: Tensor) -> Tensor:
    return torch.stack([row * 2 + row.sum() for row in x])


def generator(x: Tensor) -> Tensor:
    return torch.stack(tuple(torch.cumsum(x[:, t], 0) for t in range(x.shape[1])), dim=1)


def typed(x: Tensor) -> Tensor:
    return torch.LongTensor([x.shape[0], 2]) + torch.IntTensor([x.shape[1], 3])


def tables(x: Tensor) -> Tensor:
    return torch.as_tensor([(x.shape[0], x.shape[1]), (3, 4)]) + x.new_tensor([x.shape[1], x.shape[0]])


def averaged(x: Tensor) -> Tensor:
    return F.interpolate(x[None], scale_factor=0.5, mode="area") + F.interpolate(x[None], scale_factor=0.5).mean()


def averaged_both_ways(x: Tensor) -> Tensor:
    return F.interpolate(x[None, None], scale_factor=(0.5, 1.5), mode="area")


def sizes_by_factor(x: Tensor) -> Tensor:
    return F.interpolate(x[None, None], scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)


def numbers(x: Tensor) -> Tensor:
    backwards = torch.tensor(list(range(x.shape[1]))[::-1])
    return x * backwards + torch.LongTensor(range(x.shape[1])) - torch.as_tensor(tuple(range(1, x.shape[1] * 2, 2)))


def numbers_joined(x: Tensor) -> Tensor:
    turned = list(range(x.shape[1]))
    turned = turned[2:] + turned[:2]
    return x * len(turned[1:5]) + x.new_tensor(list(reversed(turned))) * turned[-1]


def numbers_pooled(x: Tensor) -> Tensor:
    places = list(range(x.shape[1]))
    before = [-1]
    pooled = before + places[1:-1][::2]
    return torch.arange(pooled[0] + 2 * len(pooled), -places[-1], -2) + pooled[1] + x.sum()


def lengths(x: Tensor) -> Tensor:
    return x.sum() + torch.tensor([len(each) for each in (x * 2, x[1:], x.t())])


def lengths_one_by_one(x: Tensor) -> Tensor:
    found = []
    for each in (x * 2, x[1:]): found.append(len(each))  # noqa: E701  # fmt: skip
    return torch.tensor(found, dtype=torch.float32)


def numbers_stepped(x: Tensor) -> Tensor:
    before = [9, 8, 7]
    return torch.as_tensor((before + list(range(x.shape[1])))[1::3]) + x.sum()


def gathered(x: Tensor) -> Tensor:
    return torch.tensor([x.max(), x[0, 0]]) + torch.tensor((x.argmax(), x.argmin()), dtype=torch.float32)


def counted_by_sum(x: Tensor) -> Tensor:
    return x.sum() + sum(1 for _ in list(x))


FUNCTIONS = (
    counted_by_sum,
    whole, fraction, length, rounded, root, logarithm, numpy_rounding, quotients, product, listed, unbound,
    comprehension, generator, typed, tables, averaged, averaged_both_ways, sizes_by_factor, numbers, numbers_joined,
    numbers_pooled, numbers_stepped, gathered, lengths, lengths_one_by_one,
)  # fmt: skip
SHAPES = {"x": {0: "b", 1: "n"}}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_sizes_stay_dynamic(function: Callable[[Tensor], Tensor]) -> None:
    calls = [(torch.arange(16.0).reshape(2, 8).sin(),), (torch.arange(40.0).reshape(4, 10).cos(),)]
    for call, result in zip(calls, run_exported(Call(function), calls, dynamic_shapes=SHAPES), strict=True):
        assert_same(result, (function(*call),))


VALUES = {
    len: [2, 3], list: [3], tuple: [3], np.prod: [2, 3], torch.unbind: torch.arange(3.0), torch.LongTensor: [3],
    torch.IntTensor: [3], torch.FloatTensor: [3.0], torch.Tensor: [3.0], torch.split: torch.arange(3.0),
    enumerate: [3], zip: [3], reversed: [3], map: abs, reduce: max,
    sum: [2, 3], any: [0, 3], all: [2, 0], sorted: [3, 2], math.prod: [2, 3], math.asin: 0.5, math.acos: 0.5,
    math.atanh: 0.5, math.dist: [1.0, 2.0], math.fsum: [1.0, 2.0],
    max: [2, 3], min: [3, 2], torch.nn.utils.rnn.pad_sequence: [torch.arange(2.0), torch.arange(3.0)],
}  # fmt: skip
OF_TWO = (math.pow, math.copysign, math.fmod, math.atan2, math.comb, math.isclose, math.ldexp, math.nextafter)
FURTHER = {**dict.fromkeys((torch.split, *OF_TWO, math.remainder), (2,)), math.dist: ([0.0, 3.0],),
           map: ([-2, 3],), reduce: ([2, 5, 3],), torch._assert: ("not so",)}  # fmt: skip
"""Further arguments of functions that need some."""


@pytest.mark.parametrize("function", KEPT, ids=lambda each: each.__name__)
def test_plain_values_are_as_ever(function: Callable[..., object]) -> None:
    assert function.__name__ in NAMES
    arguments = (VALUES.get(function, 3), *FURTHER.get(function, ()))
    got, wanted = kept(function)(*arguments), function(*arguments)
    assert type(got) is type(wanted)
    once = isinstance(wanted, Iterator)
    assert str([*got] if once else got) == str([*wanted] if once else wanted)


def counted(x: Tensor) -> Tensor:
    total = torch.zeros(())
    for _ in list(x):
        total = total + 1
    return total


def digits(x: Tensor) -> Tensor:
    n = x.shape[0]
    return x[:1] + math.floor(math.log10(n)) + 100 * math.ceil(math.log2(n)) + 10000 * int(np.log10(n))


def test_logarithms_are_whole_at_powers_of_their_base() -> None:
    calls = [(torch.zeros(size),) for size in (5, 8, 9, 10, 999, 1000, 1001, 2**17, 10**5, 10**6)]
    for call, result in zip(calls, run_exported(Call(digits), calls, dynamic_shapes={"x": {0: "n"}}), strict=True):
        assert_same(result, (digits(*call),))


def test_a_list_of_sizes_is_a_result() -> None:
    def sizes(x: Tensor) -> tuple[list[int], Tensor]:
        return [len(each) for each in (x * 2, x[1:])], x

    calls = [(torch.ones(3, 4),), (torch.ones(5, 4),)]
    for call, result in zip(calls, run_exported(Call(sizes), calls, dynamic_shapes={"x": {0: "n"}}), strict=True):  # type: ignore[arg-type]
        (one, other), x = sizes(*call)
        assert_same(result, (one, other, x))


def test_elements_are_gone_through_one_by_one() -> None:
    calls = [(torch.ones(3, 4),), (torch.ones(5, 4),)]
    for call, result in zip(calls, run_exported(Call(counted), calls, dynamic_shapes={"x": {0: "b"}}), strict=True):
        assert_same(result, (counted(*call),))


def checked(x: Tensor) -> Tensor:
    torch._assert(x.sum() < 100, "too much")
    torch._assert(x.shape[0] < 100, "too many")
    return x * 2


def test_checks_are_left_out_where_data_decides_on_them() -> None:
    log, calls = Log(), [(torch.ones(3, 4),), (torch.ones(5, 4),)]
    found = run_exported(Call(checked), calls, dynamic_shapes={"x": {0: "n"}}, log=log)
    for call, result in zip(calls, found, strict=True):
        assert_same(result, (checked(*call),))
    told = {each.rule: each.message for each in log.findings}
    assert "this check is not in the ONNX model" in told[rules.DATA_DEPENDENT_CONTROL_FLOW]
    assert "at most 99" in told[rules.DIMENSION_RANGE_NARROWED]


def appended(x: Tensor) -> Tensor:
    total, rows = torch.zeros(()), list(x)
    rows.append(x[0])
    for row in rows:
        total = total + row.sum()
    return total


@pytest.mark.parametrize("function", [appended], ids=lambda each: each.__name__)
def test_elements_are_not_gone_through_in_silence(function: Callable[[Tensor], Tensor]) -> None:
    """A loop over the list of a dynamic number of rows, and of one more, is never taken for one over the rows."""
    with pytest.raises(ExportError) as caught:
        export(Call(function), (torch.ones(3, 4),), dynamic_shapes={"x": {0: "b"}})
    assert [finding.rule for finding in caught.value.log.findings] == [rules.DIMENSION_SPECIALIZED]
