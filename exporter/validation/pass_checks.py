"""Each pass of an export held against the model before it: the first that changes what is computed is named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from fxport.diagnostics import Log, Place, rules
from fxport.exporter.capture import capture
from fxport.exporter.capture.arguments.caches import register_caches
from fxport.exporter.capture.arguments.keywords import in_order, named_keywords
from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.patches.attention import masks_unread
from fxport.exporter.capture.self_check.inputs import drawn
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.lowering.ir_passes.insert_casts import InsertCasts
from fxport.exporter.lowering.ir_passes.pipeline import passes_of
from fxport.exporter.lowering.lower import lower
from fxport.exporter.lowering.lower.places import PlaceTable
from fxport.exporter.lowering.lower.registry import extend
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.onnx_program.save import save
from fxport.exporter.pipeline.options import Options
from fxport.exporter.validation.adversarial import FOR_FLOATS, adversarial
from fxport.exporter.validation.intermediates import Intermediates, NodeFailed
from fxport.exporter.validation.runs import fed
from fxport.exporter.validation.stages import Call, Named, changed_places, copied
from fxport.exporter.weights.arrays import Arrays, as_array
from fxport.fx_passes import Program, normalize
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.session import Runtime
from fxport.ort_runner.trials import Sessions, differs

EXAMPLE = "sample"
DRAWN = 2
"""Number of calls with values drawn at random."""

STRIDES = "size and stride"
"""Part of what PyTorch says of a view that does not fit the memory of its operand."""

Results = Mapping[str, Arrays | str]
"""By the label of the inputs: the outputs, or why there are none."""


def check_passes(call: Call, options: Options, log: Log) -> bool:
    """Report the first pass that changes values; return True if none does.

    The graph after each FX pass runs in PyTorch, the model after each ONNX pass in ONNX Runtime without optimization:
    on the example, on values drawn at random, and on zeros, NaN and large numbers. What a model with random operators
    gives is not the same twice: its passes are not checked, which is reported.
    """
    own = Log()
    register_caches()
    module = unwrapped(call.model)
    with named_keywords(module, call.kwargs), masks_unread():
        program = capture(module, call.args, call.kwargs, call.dynamic_shapes, options, own)
    inputs = dict(_inputs(module, call, program))
    checks = _FxChecks(program, inputs)
    program = normalize(program, extend(LOWERINGS, options.lowerings), own, observe=checks.observe)
    if any(finding.rule is rules.RANDOMNESS_CAPTURED for finding in own.findings):
        log.report(rules.VALIDATION_SKIPPED, reason="the passes of a model that draws random numbers are not checked")
        return True
    found = checks.found or next(_onnx_changes(program, options, inputs, own), None)
    if found is not None:
        name, label, output, place = found
        log.report(rules.PASS_CHANGES_VALUES, at=place, name=name, output=output, sample=label)
    return found is None


Change = tuple[str, str, str, Place | None]
"""A pass, the label of the inputs and the output that show it, and the place of what it wrote."""


def _inputs(module: Any, call: Call, program: Program) -> Iterator[tuple[str, Arrays]]:
    """Yield (label, values by the names of the program)."""
    given = as_padded((call.args, in_order(module, call.kwargs)))
    made = ((label, tries[0]) for label, tries in adversarial(module, given, program, FOR_FLOATS))
    calls = [(EXAMPLE, given), *islice(drawn([given]), DRAWN), *made]
    for label, each in calls:
        yield label, {name: as_array(tensor) for name, tensor in fed(module, each, program).items()}


class _FxChecks:
    """The graph as it was after the last pass, and what it gave."""

    def __init__(self, program: Program, inputs: Mapping[str, Arrays]) -> None:
        self._inputs, self._before = inputs, copied(program)
        self._results = self._ran(program)
        self.found: Change | None = None

    def _ran(self, program: Program) -> Results:
        found: dict[str, Arrays | str] = {}
        for label, inputs in self._inputs.items():
            try:
                found[label] = Intermediates(program, inputs).outputs()
            except NodeFailed as failed:
                found[label] = str(failed)
        return found

    def observe(self, name: str, now: Program) -> None:
        """Compare the graph after a pass with that before it, until one differs."""
        if self.found is not None:
            return
        results = self._ran(now)
        if any(isinstance(each, str) and STRIDES in each for each in results.values()):
            return  # without its copies a view may not fit the strides, which ONNX does not have
        changed = _changed(self._results, results)
        if changed is not None:
            label, output = changed
            places = changed_places(self._before, now, self._inputs[label], _are_different)
            self.found = (name, label, output, next(iter(places), None))
        self._results, self._before = results, copied(now)


def _are_different(want: Named, got: Named, exact: Named | None) -> bool:
    return any(differs(want[name], got[name], (exact or {}).get(name)) for name in want)


def _changed(before: Results, after: Results) -> tuple[str, str] | None:
    """The label of inputs, and an output that is another one; of outputs that both have."""
    for label, want in before.items():
        got = after[label]
        if isinstance(want, str):  # these inputs are none for this model
            continue
        if isinstance(got, str):
            return label, next(iter(want), "")
        for name in want:
            if name in got and differs(want[name], got[name], None):
                return label, name
    return None


def _onnx_changes(program: Program, options: Options, inputs: Mapping[str, Arrays], log: Log) -> Iterator[Change]:
    """Yield each ONNX pass that changes values."""
    model = lower(program, extend(LOWERINGS, options.lowerings), options, log)
    runtime = Runtime("cpu")
    with tempfile.TemporaryDirectory(prefix="fxport.") as folder:
        path = Path(folder) / "stage.onnx"
        with Sessions(path, runtime) as sessions:
            before = _ran_in_runtime(model, inputs, path, sessions)
            for each in passes_of(options):
                known = {node.name: _form(node) for node in ir.traversal.RecursiveGraphIterator(model.graph)}
                result = each(model)
                model = result.model
                if not result.modified:
                    continue
                after = _ran_in_runtime(model, inputs, path, sessions)
                changed = _changed(before, after)
                if changed is not None:
                    yield type(each).__name__, *changed, _place_of_change(model, known)
                before = after


def _ran_in_runtime(model: ir.Model, inputs: Mapping[str, Arrays], path: Path, sessions: Sessions) -> Results:
    """Run a copy of a model that ONNX Runtime has kernels for; return its results, or in words why it did not run."""
    ready = model.clone()
    for each in (RemoveUnusedNodesPass(), InsertCasts(Log())):
        ready = each(ready).model
    save(ready, path)
    found: dict[str, Arrays | str] = {}
    for label, given in inputs.items():
        try:
            found[label] = sessions.run(path, given, optimize=False)[1]
        except Failure as failure:
            found[label] = str(failure)
    return found


def _form(node: ir.Node) -> tuple[object, ...]:
    """Return what a pass may change of a node."""
    names = tuple(value.name if value is not None else None for value in node.inputs)
    return node.op_type, names, tuple((name, str(attribute)) for name, attribute in node.attributes.items())


def _place_of_change(model: ir.Model, known: Mapping[str | None, Sequence[object]]) -> Place | None:
    """Return the place of the first node that a pass made or changed."""
    table = PlaceTable(model)
    nodes = ir.traversal.RecursiveGraphIterator(model.graph)
    places = (table.of(node) for node in nodes if known.get(node.name) != _form(node))
    return next((place for place in places if place is not None), None)
