"""Every row of tests/cases/ops against eager PyTorch in ONNX Runtime: dtype × static/dynamic × opset."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from fxport import ExportError, Options
from fxport.exporter.pipeline.options import DEFAULT_OPSET
from tests.called import Called
from tests.cases import ops
from tests.cases.ops import Draw, OpCase
from tests.running import assert_same, run_exported

STATIC = "static"

SAMPLED = 3
"""CI runs every third combination, chosen by what it says and not by where it stands, so that a new row changes no
other's lot; `--slow` runs all."""


def rows() -> Iterator[tuple[str, OpCase]]:
    for info in pkgutil.iter_modules(ops.__path__):
        module = importlib.import_module(f"{ops.__name__}.{info.name}")
        for case in module.CASES:
            yield info.name, case


def parameters(known: Iterable[tuple[str, OpCase]]) -> Iterator[Any]:
    for number, (family, case) in enumerate(known):
        usual = max(DEFAULT_OPSET, case.since)
        for kwargs in case.variants():
            for dtype in case.dtypes:
                yield _parameter(family, number, case, kwargs, dtype, usual, None)
            if case.dynamic is not None:
                yield _parameter(family, number, case, kwargs, case.dtypes[0], usual, case.dynamic)
        for opset in sorted({*case.opsets} - {usual, *range(case.since)}):
            yield _parameter(family, number, case, next(case.variants()), case.dtypes[0], opset, None)


def _called(target: Any) -> str:
    """A name that is the same in every process, also for a function."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else target.__name__


def _content(case: OpCase, kwargs: dict[str, Any]) -> str:
    """The operator and its arguments, in words that are the same in every process."""
    words = pytree.tree_map(lambda leaf: _called(leaf) if callable(leaf) else repr(leaf), (case.args, kwargs))
    return f"{_called(case.target)}{words}"


def _parameter(
    family: str, number: int, case: OpCase, kwargs: dict[str, Any], dtype: torch.dtype, opset: int, dynamic: str | None
) -> Any:
    options = ",".join(f"{name}={value}" for name, value in kwargs.items())
    parts = [family, str(number), _called(case.target), options, str(dtype)[6:], f"opset{opset}", dynamic or STATIC]
    name = "-".join(parts)
    marks = [pytest.mark.xfail(reason=case.known_gap, strict=True)] if case.known_gap else []
    said = "-".join([_content(case, kwargs), *parts[4:]])
    if zlib.crc32(said.encode()) % SAMPLED:
        marks.append(pytest.mark.slow)
    return pytest.param(case, kwargs, dtype, opset, dynamic, id=name, marks=marks)


@pytest.mark.parametrize(("case", "kwargs", "dtype", "opset", "dynamic"), list(parameters(rows())))
def test_op(case: OpCase, kwargs: dict[str, Any], dtype: torch.dtype, opset: int, dynamic: str | None) -> None:
    model = Called(case.target, (case.args, kwargs), case.results)
    eager = Called(case.reference or case.target, (case.args, kwargs), case.results)
    draws = [leaf for leaf in model.leaves if isinstance(leaf, Draw)]
    generator = torch.Generator().manual_seed(zlib.crc32(_called(case.target).encode()))
    inputs = tuple(draw.make(dtype, generator) for draw in draws)
    axes = _axes(dynamic, draws)
    cases = [inputs]
    if dynamic is not None:
        names = {name for dims in axes for name in dims.values()}
        grown = [draw.resized(_grown(draw.shape, dims, names)) for draw, dims in zip(draws, axes, strict=True)]
        cases.append(tuple(draw.make(dtype, generator) for draw in grown))
    shapes = (tuple(axes),) if dynamic is not None else None
    try:
        results = run_exported(model, cases, dynamic_shapes=shapes, options=Options(opset=opset))
    except ExportError as error:
        raise AssertionError("; ".join(f"{f.rule.id} {f.message}" for f in error.log.findings)) from error
    for given, actual in zip(cases, results, strict=True):
        expected = [x for x in pytree.tree_leaves(eager(*(x.clone() for x in given))) if x is not None]
        assert_same(actual, expected, values=case.compare == "values", tol=case.tol.get(dtype))


def test_a_new_row_changes_no_others_lot() -> None:
    def lots(known: list[tuple[str, OpCase]]) -> list[bool]:
        return [not each.marks for each in parameters(known)]

    known = list(itertools.islice(rows(), 40))
    new, after = lots(known[:1]), lots(known)
    assert lots(known[:1] + known) == new + after
    assert any(after)
    assert not all(after)


def _axes(dynamic: str | None, draws: list[Draw]) -> list[dict[int, str]]:
    texts = [text.split() for text in dynamic.split(",")] if dynamic else []
    texts += [[]] * (len(draws) - len(texts))
    return [{axis: name for axis, name in enumerate(dims) if not name.isdigit()} for dims in texts]


def _grown(shape: tuple[int, ...], dims: dict[int, str], names: set[str]) -> tuple[int, ...]:
    """Another size for each named dim, the same for all dims of a name."""
    by = {name: 2 + number for number, name in enumerate(sorted(names))}
    return tuple(size + by[dims[axis]] if axis in dims else size for axis, size in enumerate(shape))
