"""Suites that others wrote: the names of their programs, and the samples of a name."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch._export.db.examples import all_examples
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db
from torch.testing._internal.opinfo.core import OpInfo

from tests.conformance import gradients, nnsmith
from tests.conformance.resized import with_dynamic_sizes
from tests.conformance.samples import SAMPLES, Sample, full_name, keys, operators, samples

ALL = {torch.float32: 1000}
"""Every sample, at float32."""


@dataclass(frozen=True)
class Suite:
    """Programs that others wrote.

    Attributes:
        names: Names of those that have samples in a dtype.
        samples: The first samples of a name in a dtype, the same in every run.
        counts: How many samples a whole run takes of each name, by dtype.
    """

    names: Callable[[torch.dtype], Sequence[str]]
    samples: Callable[[str, torch.dtype, int], Iterator[Sample]]
    counts: Mapping[torch.dtype, int]


def _database(database: Sequence[OpInfo]) -> Suite:
    """A database in the form of that of the operators, of which each row counts, whatever devices it is meant for."""
    rows = {full_name(row): row for row in database}
    return Suite(lambda dtype: list(rows), lambda name, dtype, count: samples(rows[name], dtype, count), ALL)


_MODULES: Mapping[str, tuple[ModuleInfo, bool]] = {
    f"{info.name}{'.train' if training else ''}": (info, training)
    for info in module_db
    for training in ((False, True) if info.train_and_eval_differ else (False,))
}


def _modules(name: str, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    info, training = _MODULES[name]
    torch.manual_seed(0)
    rows = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=training)
    for row in islice(rows, count):
        if row.forward_input is not None:
            built = row.constructor_input
            module = info.module_cls(*built.args, **built.kwargs).to(dtype).train(training)
            yield Sample(name, module, row.forward_input.args, row.forward_input.kwargs)


def _export_cases(name: str, _dtype: torch.dtype, _count: int) -> Iterator[Sample]:
    case = all_examples()[name]
    model: Any = copy.deepcopy(case.model)
    sizes = None if case.dynamic_shapes is None else tuple(case.dynamic_shapes.values())
    yield Sample(name, model, case.example_args, case.example_kwargs, sizes=sizes)


def _of_dynamic_sizes(name: str, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    return map(with_dynamic_sizes, samples(operators()[name], dtype, count))


SUITES: Mapping[str, Suite] = {
    "operators": Suite(keys, lambda name, dtype, count: samples(operators()[name], dtype, count), SAMPLES),
    "dynamic-sizes": Suite(keys, _of_dynamic_sizes, {torch.float32: 3}),
    "gradients": Suite(
        gradients.keys,
        lambda name, dtype, count: gradients.gradients(operators()[name], dtype, count),
        {torch.float32: 3},
    ),
    "modules": Suite(lambda dtype: list(_MODULES), _modules, ALL),
    "higher-order": _database(hop_db),
    "custom-operators": _database(custom_op_db),
    "autograd-functions": _database(autograd_function_db),
    "export-cases": Suite(lambda dtype: sorted(all_examples()), _export_cases, ALL),
    "nnsmith": Suite(lambda dtype: nnsmith.GENERATED, nnsmith.generated, ALL),
}
"""Suites by name; the last one needs a package that the tests do not bring along."""
