"""The judge: a program is right at each of its inputs, refused at a line of it, or it is a failure."""

from __future__ import annotations

import importlib.util
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from fxport import ExportError, OnnxProgram, Options, export
from fxport.diagnostics import Finding, Level, Log, rules
from fxport.exporter.capture.float64 import wide_types
from fxport.exporter.capture.self_check.running import Recorder
from fxport.fx_passes.program import InputKind, OutputKind
from tests.fuzz.programs.grammar import Program
from tests.running import run_session, session_of, within_conditions

SIZES = ((3, 5, 2, 7), (4, 2, 6, 9), (3, 1, 5, 8), (5, 3, 4, 2))
INPUTS, CANDIDATES = 4, 16
FIXED = 3

DEFAULT = Options()

LARGEST = 1e4
"""Programs with larger results say little, as rounding is in every digit."""

ROUNDING = 1e-4

MOST_LINES = 1_000
"""A program of which more lines run has a loop without an end."""

NO_REASON = frozenset({"FXP1023", "FXP1033", "FXP9001", "FXP9003"})
"""Rules that say that the model does not run in PyTorch, or that fxport itself failed: a capture that differs, too."""

FAILURES = ("wrong", "fails", "crash", "misplaced", "leak")


@dataclass
class Verdict:
    """What became of a program.

    `kind`: exported; limited (exported, and some inputs are of sizes, or of data, that the report leaves out); refused;
    thrown away (it does not run in eager PyTorch); or a failure: wrong (other values), fails (at run time), crash (of
    the export), misplaced (refused without a line of the program, or without a reason), leak (the model is not left as
    it was).
    """

    kind: str
    detail: str = ""
    rules: tuple[tuple[str, str], ...] = ()
    ways: int = 0
    """How many different ways its inputs take."""

    @property
    def failed(self) -> bool:
        return self.kind in FAILURES


def imported(path: Path) -> types.ModuleType:
    """The file as a module of its own, anew each time: its globals are as they were written."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def fresh(path: Path) -> nn.Module:
    return imported(path).Generated().eval()


def copied(case: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(each.clone() for each in case)


@dataclass
class Run:
    """One call of eager PyTorch: outputs, and what buffers and inputs are afterwards."""

    outputs: list[Tensor]
    left: dict[str, Tensor]
    lines: frozenset[tuple[int, int]] = frozenset()


def eager(path: Path, case: Sequence[Tensor], model: nn.Module | None = None, *, trace: bool = False) -> Run:
    """A call of a fresh model; with `trace` also the lines of the file that ran, which are to come to an end."""
    model = model or fresh(path)
    lines: set[tuple[int, int]] = set()
    ran = [0]
    args = copied(case)

    def tracer(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != str(path):
            return None
        last = [frame.f_lineno]

        def local(frame: types.FrameType, event: str, _: Any) -> Any:
            if event == "line":
                ran[0] += 1
                if ran[0] > MOST_LINES:
                    raise TimeoutError("it does not end")
                lines.add((last[0], frame.f_lineno))
                last[0] = frame.f_lineno
            return local

        return local

    before = sys.gettrace()
    if trace:
        sys.settrace(tracer)
    try:
        with torch.no_grad():
            result = model(*args)
    finally:
        sys.settrace(before)
    outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    left = dict(model.named_buffers()) | {"x": args[0]}
    return Run([each.clone() for each in outputs], left, frozenset(lines))


def candidates(program: Program) -> list[tuple[Tensor, ...]]:
    """Inputs of several sizes, means and spreads."""
    generator = torch.Generator().manual_seed(program.seed)
    sizes = SIZES[program.seed % len(SIZES)] if program.dynamic else (FIXED,)
    found = []
    for number in range(CANDIDATES):
        n = sizes[number % len(sizes)]
        shift, spread = ((0.4, 1.0), (-0.4, 1.0), (0.0, 2.0), (0.0, 0.5), (0.9, 0.5), (-0.9, 0.5))[number * 5 % 6]
        x = torch.randn(4, n, generator=generator) if program.columns else torch.randn(n, 4, generator=generator)
        found.append((x * spread + shift,))
    return found


def chosen_inputs(program: Program, path: Path) -> tuple[list[tuple[Tensor, ...]], int]:
    """Four inputs that take as many ways as can be, at different sizes, and the number of ways; raises what eager
    PyTorch does if fewer than four inputs run."""
    runs: list[tuple[tuple[Tensor, ...], Run]] = []
    failure: Exception | None = None
    for case in candidates(program):
        try:
            run = eager(path, case, trace=True)
        except Exception as error:  # noqa: BLE001  # any that the program raises
            failure = error
            continue
        if all(torch.isfinite(each).all() and (each.abs() < LARGEST).all() for each in run.outputs):
            runs.append((case, run))
    if len(runs) < INPUTS:
        raise failure or ValueError("its results are no numbers, or too large")
    chosen, seen = [runs.pop(0)], set[tuple[int, int]]()
    while len(chosen) < INPUTS:
        seen |= chosen[-1][1].lines
        sizes = {each[0].shape for each, _ in chosen}
        gains = [(len(run.lines - seen), case[0].shape not in sizes) for case, run in runs]
        chosen.append(runs.pop(gains.index(max(gains))))
    return [case for case, _ in chosen], len({run.lines for _, run in chosen})


def captured(program: OnnxProgram, case: Sequence[Tensor]) -> dict[str, Tensor]:
    """Outputs by name of the captured graph, run by PyTorch."""
    user = iter(copied(case))
    values = [
        next(user) if entry.kind is InputKind.USER else program.program.tensors[entry.target or ""].clone()
        for entry in program.program.inputs
    ]
    with torch.no_grad():  # PyTorch itself runs no scan of no rows
        results = Recorder(program.program.graph_module, set()).run(*values)
    return {
        entry.name: torch.as_tensor(result)
        for entry, result in zip(program.program.outputs, results, strict=True)
        if entry.kind is not OutputKind.LITERAL
    }


def runtime_of(program: OnnxProgram) -> Callable[[Sequence[Tensor]], dict[str, Tensor]]:
    """The same of the ONNX model, run by ONNX Runtime."""
    session, names = session_of(program), [str(value.name) for value in program.model.graph.outputs]
    return lambda case: dict(zip(names, run_session(session, program, copied(case)), strict=True))


def difference(program: OnnxProgram, path: Path, case: Sequence[Tensor], actual: dict[str, Tensor]) -> str | None:
    """What the results differ in from eager PyTorch, if they do."""
    updates = {entry.name: entry.updates for entry in program.program.outputs if entry.updates is not None}
    outputs = [value for name, value in actual.items() if name not in updates]
    state = {str(updates[name]).removesuffix(".updated"): value for name, value in actual.items() if name in updates}
    want = eager(path, case)
    if len(outputs) != len(want.outputs):
        return f"{len(outputs)} outputs instead of {len(want.outputs)}"
    before = dict(fresh(path).named_buffers()) | {"x": case[0]}
    pairs = [*zip((f"output {i}" for i in range(9)), outputs, want.outputs, strict=False)]
    pairs += [(name, state.get(name, before[name]), value) for name, value in want.left.items()]
    exact: list[Tensor] | None = None
    for number, (name, got, expected) in enumerate(pairs):
        if got.dtype != expected.dtype or got.shape != expected.shape:
            return f"{name}: {got.dtype} {tuple(got.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
        if torch.allclose(got, expected, rtol=1.3e-6, atol=1e-5, equal_nan=True):
            continue
        exact = exact or in_float64(path, case)
        if exact is None or not _rounding(got, expected, exact[number]):
            return f"{name}: {_shown(got)} instead of {_shown(expected)}"
    return None


def in_float64(path: Path, case: Sequence[Tensor]) -> list[Tensor] | None:
    """Outputs and state of eager PyTorch in float64 throughout, in the same order."""
    with wide_types():
        run = eager(path, [each.double() for each in case], fresh(path).double())
    return [*run.outputs, *run.left.values()]


def _rounding(got: Tensor, want: Tensor, exact: Tensor) -> bool:
    """Off from float64 by at most twice what eager PyTorch is off. Where that is much, another way was taken."""
    if exact.shape != got.shape:
        return False
    own, error = ((each.double() - exact.double()).abs().max().item() for each in (want, got))
    return own < ROUNDING and error <= 2 * own


def _shown(tensor: Tensor) -> str:
    return " ".join(f"{each:.4g}" for each in tensor.flatten().tolist()[:6])


def judge(program: Program, folder: Path, *, runtime: bool = False, options: Options = DEFAULT) -> Verdict:
    """Writes the program to a file, and says what becomes of it; with `runtime` it is run in ONNX Runtime as well."""
    path = folder / f"program_{program.seed}.py"
    path.write_text(program.source, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cases, ways = chosen_inputs(program, path)
        except Exception as error:  # noqa: BLE001  # any that the program raises
            return Verdict("thrown away", f"{type(error).__name__}: {error}")
        verdict = _exported(program, path, cases, runtime, options)
    verdict.ways = ways
    return verdict


def _exported(
    program: Program, path: Path, cases: Sequence[tuple[Tensor, ...]], runtime: bool, options: Options
) -> Verdict:
    log, model = Log(), fresh(path)
    shapes = ({program.size_axis: "n"},) if program.dynamic else None
    try:
        result = export(model, copied(cases[0]), dynamic_shapes=shapes, options=options, log=log)
    except ExportError:
        verdict = _refused(path, log)
    except Exception:  # noqa: BLE001  # any is a failure of ours
        return Verdict("crash", traceback.format_exc(limit=-4))
    else:
        verdict = _compared(result, path, cases, runtime=runtime)
        if verdict.kind == "wrong" and any(map(_is_presumption, log.findings)):
            verdict = Verdict("limited", verdict.detail)
    return verdict if verdict.failed else _left(path, model, cases[0]) or verdict


def _is_presumption(finding: Finding) -> bool:
    """The warning says that the model has only one way through a branch, whatever the data are."""
    return finding.rule is rules.DATA_DEPENDENT_CONTROL_FLOW and finding.level is Level.WARNING


def _refused(path: Path, log: Log) -> Verdict:
    errors = [finding for finding in log.findings if finding.level is Level.ERROR]
    told = tuple((finding.rule.id, finding.message) for finding in errors)
    text = "\n".join(f"{f.rule.id} at {f.place and (f.place.path, f.place.line)}: {f.message}" for f in errors)
    lines = ["", *path.read_text(encoding="utf-8").splitlines()]
    at = [lines[f.place.line].strip() for f in errors if f.place is not None and f.place.path == str(path)]
    nowhere = not at or any(line.startswith(("def forward", "class Generated")) for line in at)
    if nowhere or any(rule in NO_REASON for rule, _ in told):
        return Verdict("misplaced", text, told)
    return Verdict("refused", text, told)


def _compared(result: OnnxProgram, path: Path, cases: Sequence[tuple[Tensor, ...]], *, runtime: bool) -> Verdict:
    kind = "exported"
    runs: dict[str, Callable[[Sequence[Tensor]], dict[str, Tensor]]] = {"captured": partial(captured, result)}
    if runtime:
        try:
            runs["runtime"] = runtime_of(result)
        except Exception as error:  # noqa: BLE001  # any that the checker or the runtime raises
            return Verdict("fails", f"no session: {type(error).__name__}: {error}")
    for number, case in enumerate(cases):
        if not within_conditions(result, case):
            kind = "limited"
            continue
        for name, run in runs.items():
            at = f"{name} at input {number} of sizes {tuple(case[0].shape)}"
            try:
                different = difference(result, path, case, run(case))
            except Exception as error:  # noqa: BLE001  # any that PyTorch or the runtime raises
                return Verdict("fails", f"{at}: {type(error).__name__}: {error}")
            if different:
                return Verdict("wrong", f"{at}: {different}")
    return Verdict(kind)


def _left(path: Path, model: nn.Module, case: Sequence[Tensor]) -> Verdict | None:
    """A leak if the model that was exported is not as it was before."""
    try:
        got, want = eager(path, case, model), eager(path, case)
    except Exception as error:  # noqa: BLE001  # any that PyTorch raises
        return Verdict("leak", f"the model does not run after the export: {type(error).__name__}: {error}")
    if any(type(each) is not Tensor for each in got.outputs):
        return Verdict("leak", "the model returns tensors of the capture after the export")
    for a, b in zip([*got.outputs, *got.left.values()], [*want.outputs, *want.left.values()], strict=True):
        if a.shape != b.shape or not torch.equal(a, b):
            return Verdict("leak", f"the model gives {_shown(a)} after the export instead of {_shown(b)}")
    return None
