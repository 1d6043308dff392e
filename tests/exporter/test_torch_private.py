"""Private parts of PyTorch: each row of the tables holds, and what is gone is told.

A row that no longer holds names the version, and what has to be looked at again.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx.experimental.sym_node import SymNode

from fxport.exporter.capture.private import CAPTURE, REMEMBERED_SIZES
from fxport.exporter.capture.sizes import remembered
from fxport.exporter.pipeline.private import DISTRIBUTED, TRAINING, WEIGHTS, WRAPPERS
from fxport.exporter.training.optimizers import OptimizerError, initial_state
from fxport.fx_passes.private import (
    FX_PASSES,
    SHARED,
    Kind,
    OtherTorch,
    Private,
    Rows,
    call,
    codes,
    fields,
    found_by,
    frames,
    gaps,
    names,
    text,
    verify,
)

ROOT = Path(__file__).parents[2]

TABLES: Mapping[str, Rows] = {
    "": SHARED,
    "fx_passes/": FX_PASSES,
    "exporter/capture/": CAPTURE,
    "exporter/distributed/": (*WRAPPERS, *DISTRIBUTED),
    "exporter/training/": TRAINING,
    "exporter/weights/": WEIGHTS,
}
"""The folder in which private parts may be used, with their rows."""

ROWS = [(row, name) for rows in TABLES.values() for row in rows for name in row.names]


@cache
def members_of(kind: type) -> set[str]:
    """The attributes of a class and of its instances, which its source assigns."""
    found = set(dir(kind))
    for each in kind.__mro__:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError):  # built in
            continue
        found |= set(getattr(each, "__annotations__", {}))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                found.add(node.attr)
    return found


@pytest.mark.parametrize(("row", "name"), ROWS, ids=[f"{row.owner}.{name}" for row, name in ROWS])
def test_torch_has_it(row: Private, name: str) -> None:
    missing = list(gaps(replace(row, names=(name,))))
    if missing and row.fallback:
        pytest.skip(f"{missing[0]}; {row.fallback}")
    assert not missing


FIELDS = [(row, name) for row, name in ROWS if row.kind is Kind.FIELD and not row.fallback]


@pytest.mark.parametrize(("row", "name"), FIELDS, ids=[f"{row.owner}.{name}" for row, name in FIELDS])
def test_torch_assigns_it(row: Private, name: str) -> None:
    """More than the check at run time, which is content with a method that names the field."""
    assert name in members_of(found_by(row.owner))


def test_every_row_tells_its_use() -> None:
    assert all(row.use and row.names for row, _ in ROWS)


GONE = {
    "attribute": (names("torch._refs", "tensors", "x"), "has no attribute 'tensors'"),
    "module": (names("torch._gone", "f", "x"), "No module named 'torch._gone'"),
    "owner": (names("torch._refs:gone", "f", "x"), "has no attribute 'gone'"),
    "field": (fields("torch.fx.proxy:TracerBase", "gone", "x"), "no such attribute"),
    "function": (call("torch._refs", "tensors", "data", "x"), "has no attribute 'tensors'"),
    "parameter": (call("torch._refs", "tensor", "data extra", "x"), "used with ('data', 'extra')"),
    "order": (call("torch._refs", "tensor", "dtype data", "x"), "used with ('dtype', 'data')"),
    "frame": (frames("torch._meta_registrations", "meta_gone_", "x"), "has no attribute 'meta_gone_'"),
    "frame inside of another": (frames("torch._prims_common", "is_contiguous.gone", "x"), "has no attribute 'gone'"),
    "frame under another name": (frames("tests.exporter.test_torch_private", "other_name", "x"), "named 'gaps'"),
    "text": (text("torch._dynamo.output_graph", "Output-to-nowhere", "x"), "no such text"),
}
"""Rows that do not hold, with what is told of them."""

other_name = gaps


@pytest.mark.parametrize("kind", GONE)
def test_what_is_gone_is_refused(kind: str) -> None:
    row, told = GONE[kind]
    with pytest.raises(OtherTorch, match=f"torch {torch.__version__}".replace("+", "[+]")) as caught:
        verify([*SHARED, row])
    assert told in str(caught.value)
    assert row.owner in str(caught.value)


def test_code_of_inner_functions_is_found() -> None:
    (code,) = codes([frames("torch._prims_common", "is_contiguous.eval_eager", "x")])
    assert code.co_qualname == "is_contiguous.<locals>.eval_eager"


def test_all_that_is_gone_is_told_at_once() -> None:
    with pytest.raises(OtherTorch) as caught:
        verify([row for row, _ in GONE.values()])
    assert all(told in str(caught.value) for _, told in GONE.values())


LACKING = """
import sys
import {module}
del {module}.{name}
try:
    import {package}
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("package", "module", "name"),
    [
        ("fxport.exporter.capture", "torch._functorch.eager_transforms", "_jvp_with_argnums"),
        ("fxport.exporter.capture", "torch._prims_common", "_is_non_overlapping_and_dense_or_false"),
        ("fx_passes", "torch._library.utils", "lookup_op"),
    ],
)
def test_a_package_is_not_imported_without_its_parts(package: str, module: str, name: str) -> None:
    code = LACKING.format(package=package, module=module, name=name)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("OtherTorch "), done.stderr
    assert f"'{name}'" in done.stdout


def test_an_optimizer_without_init_group_is_refused() -> None:
    class Own(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter]["seen"] = torch.ones(1)

    weight = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(OptimizerError, match="makes its state in its first step"):
        initial_state(Own([weight], {}), {id(weight): "weight"})


@pytest.mark.parametrize(("state", "groups"), [("a", ["a"]), (None, [])])
def test_the_one_group_of_a_state_without_groups_is_taken(state: str | None, groups: list[str]) -> None:
    from fxport.exporter.distributed.skeleton import groups_of

    assert groups_of(SimpleNamespace(_fsdp_param_group=state)) == groups


def test_a_torch_without_effects_has_no_check_that_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._higher_order_ops import effects

    from fxport.exporter.capture.patches.linalg_checks import checks_without_effect

    monkeypatch.delattr(effects, "_register_effectful_op")
    monkeypatch.delattr(effects, "_get_effect")
    with checks_without_effect():
        pass


def test_sizes_are_worked_out_each_time_where_pytorch_does_not_tell_what_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (row,) = (row for row in REMEMBERED_SIZES if "_expr_ver" in row.names)
    monkeypatch.setattr(remembered, "REMEMBERED_SIZES", (replace(row, names=("_gone",)),))
    before = {name: vars(SymNode)[name] for name in (*remembered.METHODS, *remembered.READS)}
    with remembered.arithmetic_remembered():
        assert all(vars(SymNode)[name] is found for name, found in before.items())


EACH_TIME = test_sizes_are_worked_out_each_time_where_pytorch_does_not_tell_what_it_knows
FALLBACKS = {
    **dict.fromkeys(("_expr_ver", "_expr_cache", "_replacements_version_counter"), EACH_TIME),
    **dict.fromkeys(("_register_effectful_op", "_get_effect"), test_a_torch_without_effects_has_no_check_that_is_one),
    "_init_group": test_an_optimizer_without_init_group_is_refused,
    "_fsdp_param_groups": test_the_one_group_of_a_state_without_groups_is_taken,
}


def test_every_fallback_has_a_test() -> None:
    assert {name for row, name in ROWS if row.fallback} == FALLBACKS.keys()
