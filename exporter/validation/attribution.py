"""Attribution of a difference to the stage of the export that introduced it, and to the operation at the user's line.

From eager PyTorch on, stage by stage: the captured graph, each FX pass, the ONNX model as it was lowered, each ONNX
pass, ONNX Runtime's graph optimizations. What was still right before a stage and is wrong after it names the stage; the
operation is then found by bisecting the first model that is wrong.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Place
from fxport.fx_passes.randomness import draws_numbers

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from fxport.exporter.onnx_program import OnnxProgram
    from fxport.exporter.pipeline.options import Options
    from fxport.exporter.sources.source import Source
    from fxport.fx_passes.program import Program
    from fxport.ort_runner import Samples
    from fxport.ort_runner.bisect import Divergence, Reference, Suspect
    from fxport.ort_runner.session import Opened, Runtime

OPTIMIZATION = "graph optimization of ONNX Runtime"
OTHER_WEIGHTS = "the file, whose weights are not the model's"
OTHER_FILE = "the file, which differs from an export of the model as it is now"


@dataclass(frozen=True, slots=True)
class Step:
    """One stage that was looked at, and whether its result is still PyTorch's."""

    stage: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Attribution:
    """The origin of a difference. `stage` is None, and `reason` says why, where it cannot be told.

    `divergence` is the bisection of the first model that is wrong; None if the graph is wrong before there is one.
    `optimize` says whether ONNX Runtime's graph optimizations were on; `samples` is what shows the difference, under
    the names of the file. `part` is that of a training step: forward, backward or optimizer.
    """

    stage: str | None
    place: Place | None = None
    related: tuple[Place, ...] = ()
    divergence: Divergence | None = None
    trail: tuple[Step, ...] = ()
    reason: str = ""
    optimize: bool = False
    samples: Samples | None = None
    part: str = ""

    @property
    def text(self) -> str:
        """The origin in some words, for a message."""
        if self.stage is None:
            return f"cannot be told, because {self.reason}"
        return f"{self.part}, {self._origin}" if self.part else self._origin

    @property
    def _origin(self) -> str:
        cause = self.divergence.cause if self.divergence else None
        if cause is None:
            return f"{self.stage}{f', but {self.reason}' if self.reason else ''}"
        module = f" in '{self.place.module}'" if self.place and self.place.module else ""
        return f"{self.stage}{module}{_values(cause)}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A file that is validated: what it was made from, and how it is run."""

    path: Path
    source: Source
    program: OnnxProgram
    options: Options
    provider: str
    isolate: bool = True


def attribute(subject: Subject, case: Samples, samples: Samples, *, exact: bool = False) -> Attribution:
    """Look at the stages in order, and bisect the first that is wrong.

    `case` is the sample that differs under the names of the program, `samples` the same under those of the file. With
    `exact`, models run without the errors of inexact kernels, which would be found in the place of the fault.
    """
    if draws_numbers(subject.program.program.graph_module):
        return Attribution(None, reason="the model draws random numbers", samples=samples)
    found = _Stages(subject, case, samples, exact=exact).run()
    return _in_a_step(replace(found, samples=samples), subject.program.program)


def _in_a_step(found: Attribution, program: Program) -> Attribution:
    """With the part of the training step, if it is one, and the line that the part has for the node."""
    from fxport.exporter.training.blame import blamed

    cause = found.divergence.cause if found.divergence else None
    name = cause.mark.fx_node if cause else found.place.node if found.place else None
    blame = blamed(program, name) if name else None
    if blame is None:
        return found
    return replace(found, part=blame.text, place=found.place or blame.place)


class _Stages:
    """One attribution while it runs: the stages that were looked at so far."""

    def __init__(self, subject: Subject, case: Samples, samples: Samples, *, exact: bool) -> None:
        from fxport.exporter.validation.equals import FIRST, OWN
        from fxport.exporter.validation.intermediates import Intermediates
        from fxport.ort_runner.session import Runtime

        self.subject, self.case, self.samples = subject, case, samples
        self.trail: list[Step] = []
        equals = FIRST if case.is_made else OWN
        self.values = Intermediates(subject.program.program, case.inputs, equals=equals)
        self.runtime = Runtime(subject.provider, optimize=False, isolate=subject.isolate)
        self.exact = exact

    def run(self) -> Attribution:
        if self._note("captured graph and FX passes", self._graph_is_right()):
            return replace(self._of_onnx(), trail=tuple(self.trail))
        return replace(self._of_graph(), trail=tuple(self.trail))

    def _graph_is_right(self) -> bool:
        from fxport.exporter.validation.intermediates import NodeFailed

        try:
            return not self._differs(self.case.outputs, self.values.outputs())
        except NodeFailed:
            return False

    # Before ONNX ----------------------------------------------------------------------------------------------------

    def _of_graph(self) -> Attribution:
        from torch.export import ExportedProgram

        from fxport.exporter.validation.stages import Call, guilty_fx_stage

        source = self.subject.source
        if isinstance(source.model, ExportedProgram):
            return Attribution("FX passes", reason="the captured graph is not there any more")
        call = Call(source.model, source.args or (), source.kwargs, source.dynamic_shapes)
        found = guilty_fx_stage(call, self.subject.options, self.case.inputs, dict(self.case.outputs), self._differs)
        if found is None:
            return Attribution(None, reason="the captured graph is right when it is captured again")
        place, *related = found.places or (None,)
        return Attribution(found.name, place, tuple(each for each in related if each is not None))

    # ONNX -------------------------------------------------------------------------------------------------------------

    def _of_onnx(self) -> Attribution:
        from fxport.exporter.validation.stages import ir_passes_of

        passes = ir_passes_of(self.subject.options)
        if not self._note("lowerings", self._is_right(0)):
            return self._of_lowering()
        if not self._note("ONNX passes", self._is_right(len(passes))):
            guilty = self._first_wrong(len(passes))
            name = _snake(type(passes[guilty - 1]).__name__)
            return self._bisected(f"ONNX pass {name}", self._model(guilty), self._model(guilty - 1))
        if not self._note("the file, without graph optimization", self._file_is_right(optimize=False)):
            stage = OTHER_WEIGHTS if self._has_other_weights() else OTHER_FILE
            return self._bisected_file(stage, optimize=False)
        if not self._note("the file, with graph optimization", self._file_is_right(optimize=True)):
            return self._of_optimization()
        return Attribution(None, reason="the difference does not come again")

    def _of_optimization(self) -> Attribution:
        """The optimizer that changes the results, and the nodes that it breaks."""
        from fxport.ort_runner.model_file import read_model_file
        from fxport.ort_runner.optimizers import optimizer_fault

        fault = optimizer_fault(self.subject.path, self.samples.inputs, self.runtime, self._is_judged_right)
        if fault is None or not fault.nodes:
            return self._bisected_file(OPTIMIZATION, optimize=True)
        place, related = fault.places(read_model_file(self.subject.path))
        stage = f"optimizer {fault.name} of ONNX Runtime, which breaks {fault.broken}"
        in_source = place.path != str(self.subject.path)
        return Attribution(stage, place if in_source else None, related, optimize=True)

    def _is_judged_right(self, opened: Opened, outputs: Mapping[str, np.ndarray]) -> bool:
        from fxport.ort_runner.trials import judged, sums_of

        return not judged(self.samples, outputs, opened, sums_of(self.subject.path, opened, self.samples.inputs))

    def _of_lowering(self) -> Attribution:
        """A lowering, or the runtime's kernel: the standard's own evaluator decides, where it can."""
        from fxport.ort_runner.parts import kernel_is_wrong

        found = self._bisected("lowering", self._model(0))
        divergence = found.divergence
        if divergence is None or divergence.cause is None or divergence.part is None:
            return found
        kernels = f"ONNX Runtime's kernel of {' or '.join(divergence.cause.onnx_types)}"
        stage = kernels if kernel_is_wrong(divergence.part) else f"lowering of {divergence.cause.operator}"
        return replace(found, stage=stage)

    def _has_other_weights(self) -> bool:
        """Return True if a weight of the file has other values than the one of its name that is exported now."""
        from fxport.exporter.validation.differences import difference
        from fxport.exporter.validation.model_file import model_of

        now, held = (each.graph.initializers for each in (self.subject.program.model, model_of(self.subject.path)))
        return any(difference(held[name], now[name]) for name in now if name in held)

    def _first_wrong(self, wrong: int) -> int:
        """The smallest number of ONNX passes after which the model is wrong; it is right after none."""
        right = 0
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._is_right(middle):
                right = middle
            else:
                wrong = middle
        return wrong

    def _model(self, passes: int) -> ir.Model:
        from fxport.exporter.validation.stages import lowered

        return lowered(self.subject.program.program, self.subject.options, passes)

    def _is_right(self, passes: int) -> bool:
        from fxport.exporter.onnx_program.save import save

        with tempfile.TemporaryDirectory(prefix="fxport.") as folder:
            path = Path(folder) / "stage.onnx"
            save(self._model(passes), path)
            return self._runs_right(path, self.case, self.runtime)

    def _file_is_right(self, *, optimize: bool) -> bool:
        return self._runs_right(self.subject.path, self.samples, replace(self.runtime, optimize=optimize))

    def _runs_right(self, path: Path, samples: Samples, runtime: Runtime) -> bool:
        from fxport.ort_runner.failures import Failure
        from fxport.ort_runner.inexact_kernels import file_to_run
        from fxport.ort_runner.trials import judged, run_file, sums_of

        try:
            with file_to_run(path, exact=self.exact) as file:
                opened, outputs = run_file(file, samples.inputs, runtime)
        except Failure:
            return False
        return not judged(samples, outputs, opened, sums_of(path, opened, samples.inputs))

    # The operation --------------------------------------------------------------------------------------------------

    def _bisected(self, stage: str, model: ir.Model, before: ir.Model | None = None) -> Attribution:
        """Bisect a model; `before` is the right one that it was made of."""
        from fxport.exporter.onnx_program.save import save

        with tempfile.TemporaryDirectory(prefix="fxport.") as folder:
            path = Path(folder) / "stage.onnx"
            save(model, path)
            return self._located(stage, path, self.case, self.runtime, _kept(before, model))

    def _bisected_file(self, stage: str, *, optimize: bool) -> Attribution:
        runtime = replace(self.runtime, optimize=optimize)
        return replace(self._located(stage, self.subject.path, self.samples, runtime, frozenset()), optimize=optimize)

    def _located(
        self, stage: str, path: Path, samples: Samples, runtime: Runtime, kept: Collection[str]
    ) -> Attribution:
        from fxport.ort_runner.bisect import bisect
        from fxport.ort_runner.inexact_kernels import file_to_run

        with file_to_run(path, exact=self.exact) as file:
            divergence = bisect(file, samples, self._reference(kept), runtime)
        cause = divergence.cause
        shown: Suspect | None = cause or divergence.first
        others = [place for each in divergence.causes[1:] for place in (each.place,)]
        nearby = list(cause.nearby) if cause else []
        related = tuple(dict.fromkeys(place for place in (*nearby, *others) if cause and place != cause.place))
        in_source = shown is not None and shown.place.path not in (str(path), str(file))  # that of a stage is not shown
        place = shown.place if shown and in_source else None
        return Attribution(stage, place, related, divergence, reason=divergence.reason)

    def _reference(self, kept: Collection[str]) -> Reference:
        """PyTorch's values. Where one of the `kept` differs, an operation that the model lost is looked for."""
        from fxport.exporter.validation.lost import lost_node
        from fxport.ort_runner import Samples
        from fxport.ort_runner.bisect import Reference
        from fxport.ort_runner.trials import differs

        def values(keys: Collection[str], known: Collection[str] | None) -> Samples:
            found = self.values.values(keys, known)
            return Samples(self.case.label, {}, found.plain, found.exact)

        def lost(key: str, known: Collection[str], read: Collection[str], got: np.ndarray | None) -> str | None:
            if key not in kept:
                return None
            return lost_node(self.values, key, known, read, got, lambda want, made: not differs(want, made, None))

        held = self.values
        return Reference(values, held.sizes(), held.operators(), held.results(), lost)

    # Both -------------------------------------------------------------------------------------------------------------

    def _note(self, stage: str, equal: bool) -> bool:
        self.trail.append(Step(stage, equal))
        return equal

    def _differs(
        self,
        want: Mapping[str, np.ndarray],
        got: Mapping[str, np.ndarray],
        exact: Mapping[str, np.ndarray] | None = None,
    ) -> bool:
        """Return True if two of PyTorch's own results are further apart than rounding explains."""
        from fxport.ort_runner.trials import differs

        truths = exact if exact is not None else self.case.exact or {}
        return any(differs(want[name], got[name], truths.get(name)) for name in want if name in got)


def _kept(before: ir.Model | None, now: ir.Model) -> frozenset[str]:
    """The FX values that an operator of the same name makes in both: if one differs, it is for what it reads."""
    if before is None:
        return frozenset()
    from fxport.exporter.lowering.lower.places import keys_of

    old, new = (
        {(key, node.op_type) for node in model.graph for value in node.outputs for key in keys_of(value)}
        for model in (before, now)
    )
    return frozenset(key for key, _ in old & new)


def _snake(name: str) -> str:
    """FoldConstants → fold_constants, without the ending that the stock passes have."""
    plain = name.removesuffix("Pass")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in plain).removeprefix("_")


def _values(cause: Suspect) -> str:
    facts = cause.verdict.facts
    if cause.is_lost:
        return f", which loses {cause.operator}"
    if "error" in facts:
        return f": {facts['error']}"
    if "got" not in facts:
        return ""
    return f": {facts['got']:.6g} in the place of {facts['want']:.6g}"
