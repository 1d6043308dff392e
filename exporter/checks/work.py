"""One work item, in the process that a crash of it may cost: the model made, exported, compared, timed."""

from __future__ import annotations

import errno
import shlex
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from fxport.diagnostics import Log, Stop, rules, sarif
from fxport.diagnostics.exhaustion import exhausted
from fxport.diagnostics.messages import error_line
from fxport.diagnostics.source import USER, kind_of, place_of_exception
from fxport.exporter.checks.facts import Facts, facts_of
from fxport.exporter.checks.items import Item
from fxport.exporter.checks.reasons import fixes_for
from fxport.exporter.sources.definition import definition_of
from fxport.exporter.sources.dynamic import with_dynamic
from fxport.exporter.sources.inputs import with_inputs
from fxport.exporter.sources.source import (
    Source,
    import_file,
    load,
    load_without_memory,
    made_from,
    named,
)
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.sources.users_code import raised_at
from fxport.exporter.validation import ranks
from fxport.exporter.validation.against_eager import Tolerances
from fxport.exporter.validation.choices import require_runtimes
from fxport.exporter.validation.one import Checked, check_one
from fxport.exporter.validation.request import lowerings_of

WARM_RUNS = 3
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS)
NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "bad allocation", "std::bad_alloc")
"""Error texts of torch, the system and ONNX Runtime when there is no more memory."""


def result_of(
    item: Item, path: Path, modules: dict[Path, ModuleType], stage: Callable[[str], None]
) -> dict[str, Any]:  # Any: JSON
    """Everything that was found, as JSON: `sarif`, a log of one run; `facts` or None; `stages`, seconds by name;
    `mistake`, the key of the manifest that is wrong with the reason, or None; `raised`, the line of the user's code
    that the mistake comes from, or None.

    Raises nothing: whatever ends the work is a finding. `modules` are those of files that this process has imported,
    for the next item of the same file; `stage` is told of each stage as it begins.
    """

    def begun(name: str, done: int, total: int) -> None:
        if not (done or total):  # not of each node in it: that would be a message to the parent each time
            stage(name)

    log = Log(progress=begun)
    facts = failure = mistake = raised = None
    try:
        found = measured(item, path, modules, log)
        facts = None if found is None else asdict(found)
    except Stop:
        pass  # its findings are in the log
    except (MistakeError, UsageError) as error:
        if is_out_of_memory(error):
            failure = report(error, item, log)
        else:
            mistake, raised = (key_of(error, item), str(error)), raised_at(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also the user's code may end its process, and other models go on
        failure = report(error, item, log)
    place = definition_of(item.source)
    return {
        "sarif": sarif.to_sarif(log, default_place=place, about=about(item, failure)),
        "facts": facts,
        "stages": log.stages,
        "place": [place.path, place.line] if place else None,
        "mistake": mistake,
        "raised": [raised.path, raised.line] if raised else None,
    }


class MistakeError(Exception):
    """Value of a manifest's key that cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def key_of(error: Exception, item: Item) -> str:
    """The key of the manifest that is wrong."""
    if isinstance(error, MistakeError):
        return error.key
    return "weights" if item.weights and item.weights in str(error) else "source"  # it shows after all was read


@contextmanager
def said_by(key: str) -> Iterator[None]:
    """Names the key that a UsageError comes from."""
    try:
        yield
    except UsageError as error:
        raise MistakeError(key, str(error)) from error


def about(item: Item, failure: str | None = None) -> sarif.About:
    return sarif.About(model=item.id, run="check", failure=failure)


def measured(item: Item, path: Path, modules: dict[Path, ModuleType], log: Log) -> Facts | None:
    """The stages of a check, a line each; None on a rank that writes nothing. Raises Stop where there is no model."""
    from fxport.exporter.pipeline.options import Options

    with log.stage("load"):
        with said_by("plugin"):
            lowerings = lowerings_of(item.plugin)
        options = Options(
            opset=item.opset,
            lowerings=lowerings,
            allow_specialization=item.allow_specialization,
            weights=Path(item.weights) if item.weights else None,
            input_names=item.input_names,
            output_names=item.output_names,
        )
        with said_by("source"):
            source = loaded(item, modules)
        with said_by("inputs" if item.inputs else "samples"):
            source = with_inputs(source, item.inputs, [Path(name) for name in item.samples])
        with said_by("dynamic"):
            source = with_dynamic(source, item.dynamic)
    if ranks.is_left_to_rank_0(source):
        return None
    with said_by("runtime"):
        require_runtimes(item.runtimes)
    tolerances = Tolerances(item.atol, item.rtol)
    checked = check_one(
        source,
        options,
        path,
        item.provider,
        log,
        tolerances,
        isolate=False,  # this process is one of its own already
        hard=item.adversarial,
        validate=item.validate,
        runtimes=item.runtimes,
    )
    if not checked.files:
        return None
    latency = eager = None
    if item.runs and item.ranks == 1 and checked.validation and checked.validation.passed:
        with log.stage("time"):
            latency, eager = timed(source, checked, item.runs)
    return facts_of(checked, latency, eager)


def loaded(item: Item, modules: dict[Path, ModuleType]) -> Source:
    """The model that SOURCE names; a file that this process has imported is not run again."""
    text = item.source
    if item.fake:
        return load_without_memory(text)
    where, _, name = text.rpartition(":")
    if not where.endswith(".py") or not name:
        return load(text, trust=item.trust)
    path = Path(where).resolve()
    if path not in modules:
        modules[path] = import_file(Path(where))
    return made_from(named(modules[path], name, where), name, text)


def timed(source: Source, checked: Checked, runs: int) -> tuple[float, float]:
    """Median seconds of a run in ONNX Runtime and in eager PyTorch: the example, on one device, with equal threads."""
    import torch

    from fxport.exporter.validation.reference import cases
    from fxport.exporter.validation.timing import seconds_of
    from fxport.ort_runner import PROVIDERS, latency

    args, kwargs = source.args or (), source.kwargs
    example = next(iter(cases(source.model, args, kwargs, checked.program, Log())))
    provider = checked.validation.provider if checked.validation else None
    found = latency(checked.path, example.inputs, provider or "auto", runs=runs, threads=torch.get_num_threads())
    module = source.model.module() if isinstance(source.model, torch.export.ExportedProgram) else source.model
    device = PROVIDERS[found.provider].device
    return found.median, statistics.median(seconds_of(module, args, kwargs, runs=runs, warmup=WARM_RUNS, device=device))


def report(error: BaseException, item: Item, log: Log) -> str | None:
    """Report the exception that ended the work as a finding; return the error line for an internal error, else None."""
    reason = reason_of(error)
    if reason is not None:
        fixes = fixes_for(reason)
        log.report(rules.NOT_CHECKED, at=place_of_exception(error), fixes=fixes, name=item.id, reason=reason)
        return None
    command = shlex.join(["fxport", "check", item.model])
    log.report(rules.INTERNAL_ERROR, at=place_of_exception(error), error=error, command=command)
    return error_line(error)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in (*NO_MEMORY, "MemoryError"))


def reason_of(error: BaseException) -> str | None:
    """The user's side of an exception; None where it is a fault of ours."""
    if is_out_of_memory(error):
        return "it takes more memory than it may"
    at = place_of_exception(error)
    is_users = at is not None and kind_of(at.path) == USER
    if is_users and (found := exhausted(error)) is not None:
        return f"there is not enough {found[0]}: {found[1]}"
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        return f"the model cannot be written: {error.strerror}"
    return f"it ended its process: {error_line(error)}" if isinstance(error, SystemExit) else None
