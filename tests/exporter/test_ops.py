"""Every row of tests/cases/ops against eager PyTorch in ONNX Runtime: dtype × static/dynamic × opset.

The calls of a row (a variant of the arguments and a dtype each) are made by one model; other opsets are other lowerings
of one capture, and dynamic sizes a second model.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from fxport import ExportError, OnnxProgram, Options, export
from fxport.diagnostics import Log
from fxport.exporter.lowering.ir_passes import passes_of, run_ir_passes
from fxport.exporter.lowering.lower import lower
from fxport.exporter.lowering.lower.registry import extend
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.pipeline.options import DEFAULT_OPSET
from tests.called import Called
from tests.cases import ops
from tests.cases.ops import Draw, OpCase
from tests.running import assert_same, run_session, session_of
from tests.sampling import marks_of, sampled

TOLERANCES = dict.fromkeys((torch.float64, torch.complex128), (1e-9, 1e-11))
"""Where they are not PyTorch's own, which of doubles would not tell that a number was rounded to float32."""

ONE_IN, ONE_IN_OF_DYNAMIC_SIZES = 25, 12
"""Of the rows in the usual run, which has one of each lowering at least, and of each family at dynamic sizes."""


def rows() -> Iterator[tuple[str, OpCase]]:
    for info in pkgutil.iter_modules(ops.__path__):
        module = importlib.import_module(f"{ops.__name__}.{info.name}")
        for case in module.CASES:
            yield info.name, case


@dataclass(frozen=True)
class Call:
    """A call of a row: what it is named by, the model that makes it, what is expected of it, and what it draws."""

    name: str
    model: Called
    eager: Called
    draws: tuple[Draw, ...]
    dtype: torch.dtype

    def inputs(self, draws: Sequence[Draw], seed: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        return tuple(draw.make(self.dtype, generator) for draw in draws)


class Calls(torch.nn.Module):
    """A model of several calls, each with tensors of its own."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.models = torch.nn.ModuleList(call.model for call in calls)
        self.counts = [len(call.draws) for call in calls]

    def forward(self, *tensors: torch.Tensor) -> Any:
        results, first = [], 0
        for model, count in zip(self.models, self.counts, strict=True):
            results.append(model(*tensors[first : first + count]))
            first += count
        return results


def calls_of(case: OpCase, dtypes: Sequence[torch.dtype]) -> list[Call]:
    return [call_of(case, kwargs, dtype) for kwargs in case.variants() for dtype in dtypes]


def call_of(case: OpCase, kwargs: dict[str, Any], dtype: torch.dtype) -> Call:
    options = ",".join(f"{name}={value}" for name, value in kwargs.items())
    model = Called(case.target, (case.args, kwargs), case.results)
    eager = Called(case.reference or case.target, (case.args, kwargs), case.results)
    draws = tuple(leaf for leaf in model.leaves if isinstance(leaf, Draw))
    return Call(f"{options} {str(dtype)[6:]}", model, eager, draws, dtype)


def parameters(known: Iterable[tuple[str, OpCase]], **wanted: bool) -> Iterator[Any]:
    """The rows as parameters of a test; with `dynamic=True` those that have dynamic sizes."""
    named = [(f"{family}-{i}-{_called(case.target)}", family, case) for i, (family, case) in enumerate(known)]
    one_in, kinds = ONE_IN, lambda row: (row[1], _writer(row[2]))
    if wanted.get("dynamic"):
        named = [each for each in named if each[2].dynamic is not None]
        one_in, kinds = ONE_IN_OF_DYNAMIC_SIZES, lambda row: row[1:2]
    taken = sampled(named, lambda row: _content(row[2]), kinds, one_in=one_in)
    for (name, _, case), is_taken in zip(named, taken, strict=True):
        yield pytest.param(case, id=name, marks=marks_of(is_taken, case.known_gap))


def _writer(case: OpCase) -> str:
    """The function that writes the operator; the operator itself where passes take it apart."""
    known = LOWERINGS.get(case.target)
    return _called(case.target) if known is None else f"{known.function.__module__}.{known.function.__qualname__}"


def _called(target: Any) -> str:
    """A name that is the same in every process, also for a function."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else target.__name__


def _content(case: OpCase) -> str:
    """The operator and its arguments, in words that are the same in every process."""
    told = (case.args, case.kwargs, case.vary, case.dtypes)
    words = pytree.tree_map(lambda leaf: _called(leaf) if callable(leaf) else repr(leaf), told)
    return f"{_called(case.target)}{words}"


@pytest.mark.parametrize("case", list(parameters(rows())))
def test_op(case: OpCase) -> None:
    check(case, case.opsets)


def check(case: OpCase, opsets: Iterable[int]) -> None:
    """Compare all calls at the usual opset, and the first one at the others."""
    usual = max(DEFAULT_OPSET, case.since)
    calls, seed = calls_of(case, case.dtypes), _seed(case)
    inputs = [call.inputs(call.draws, seed) for call in calls]
    program = exported(calls, inputs, None, usual)
    compare(case, calls, program, inputs)
    others = sorted({*opsets} - {usual, *range(case.since)})
    if len(calls) > 1 and others:
        program = exported(calls[:1], inputs[:1], None, others[0])
    for opset in others:
        compare(case, calls[:1], lowered(program, opset), inputs[:1])


@pytest.mark.parametrize("case", list(parameters(rows(), dynamic=True)))
def test_op_of_dynamic_sizes(case: OpCase) -> None:
    """At the example's sizes and at others; the calls share their dynamic dimensions."""
    calls, seed = calls_of(case, case.dtypes[:1]), _seed(case)
    axes = [_axes(case.dynamic, call.draws) for call in calls]
    names = {name for each in axes for dims in each for name in dims.values()}
    inputs = [call.inputs(call.draws, seed) for call in calls]
    program = exported(calls, inputs, tuple(itertools.chain(*axes)), max(DEFAULT_OPSET, case.since))
    compare(case, calls, program, inputs)
    grown = [
        [draw.resized(_grown(draw.shape, dims, names)) for draw, dims in zip(call.draws, each, strict=True)]
        for call, each in zip(calls, axes, strict=True)
    ]
    compare(case, calls, program, [call.inputs(draws, seed + 1) for call, draws in zip(calls, grown, strict=True)])


def exported(calls: Sequence[Call], inputs: Sequence[tuple[torch.Tensor, ...]], shapes: Any, opset: int) -> OnnxProgram:
    example = tuple(tensor.clone() for tensor in itertools.chain(*inputs))
    dynamic = None if shapes is None else (shapes,)
    try:
        return export(Calls(calls), example, dynamic_shapes=dynamic, options=Options(opset=opset))
    except ExportError as error:
        raise AssertionError("; ".join(f"{f.rule.id} {f.message}" for f in error.log.findings)) from error


def lowered(program: OnnxProgram, opset: int) -> OnnxProgram:
    """The same capture for another opset."""
    options, log = Options(opset=opset), Log()
    onnx = run_ir_passes(lower(program.program, extend(LOWERINGS, {}), options, log), passes_of(options), log)
    return OnnxProgram(onnx, program.program, log, export_options=options)


def compare(
    case: OpCase, calls: Sequence[Call], program: OnnxProgram, inputs: Sequence[tuple[torch.Tensor, ...]]
) -> None:
    results = iter(run_session(session_of(program), program, tuple(itertools.chain(*inputs))))
    for call, given in zip(calls, inputs, strict=True):
        expected = [x for x in pytree.tree_leaves(call.eager(*(x.clone() for x in given))) if x is not None]
        actual = list(itertools.islice(results, len(expected)))
        try:
            tol = case.tol.get(call.dtype, TOLERANCES.get(call.dtype))
            assert_same(actual, expected, values=case.compare == "values", tol=tol)
        except AssertionError as error:
            error.add_note(f"{call.name} opset {program.model.opset_imports['']}")
            raise
    assert not [*results]


def _seed(case: OpCase) -> int:
    return zlib.crc32(_called(case.target).encode())


def test_the_usual_run_has_a_row_of_each_lowering_and_family() -> None:
    known, given = [*rows()], [*parameters(rows())]
    taken = [row for row, each in zip(known, given, strict=True) if not any(mark.name == "slow" for mark in each.marks)]
    assert {_writer(case) for _, case in taken} == {_writer(case) for _, case in known}
    assert {family for family, _ in taken} == {family for family, _ in known}
    assert len(taken) < len(known) / 3


def _axes(dynamic: str | None, draws: Sequence[Draw]) -> list[dict[int, str]]:
    texts = [text.split() for text in dynamic.split(",")] if dynamic else []
    texts += [[]] * (len(draws) - len(texts))
    return [{axis: name for axis, name in enumerate(dims) if not name.isdigit()} for dims in texts]


def _grown(shape: tuple[int, ...], dims: dict[int, str], names: set[str]) -> tuple[int, ...]:
    """Another size for each named dim, the same for all dims of a name."""
    by = {name: 2 + number for number, name in enumerate(sorted(names))}
    return tuple(size + by[dims[axis]] if axis in dims else size for axis, size in enumerate(shape))
