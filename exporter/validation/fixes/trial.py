"""One trial of a patched source: the same export as the user's, on texts that are in no file yet.

In a process of its own it reads `trial.pickle` from the folder that its parent names, and leaves `outcome.pickle`.
"""

from __future__ import annotations

import copy
import dataclasses
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any
from unittest import mock

from fxport.diagnostics import Finding, Log, Stop
from fxport.diagnostics.fixes import suggested
from fxport.exporter.sources.definition import definition_of
from fxport.exporter.sources.source import Source
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.request import Request, export_source, options_of, source_of

SEED = 0
FACTORS = (1.0, -1.0, 0.0, 100.0)
"""The inputs are tried times these: a fix must give the same on every way through the model, not on one."""
Arrays = tuple[object, ...]  # numpy's, and numbers
TRIAL, OUTCOME = "trial.pickle", "outcome.pickle"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a trial. `values` are the results of eager PyTorch, see `values_of`."""

    findings: tuple[Finding, ...] = ()
    error: str | None = None
    values: tuple[Arrays | None, ...] = field(default=(), compare=False)


def attempt(request: Request, texts: Mapping[str, str], folder: Path) -> Outcome:
    """Loads the model from the patched texts, runs it in PyTorch and exports it into `folder`."""
    wanted = replace(request, output=folder / "model.onnx", dump=None, bisect=False, repro=None)
    definition = definition_of(request.source)

    def work(source: Source, log: Log) -> None:
        export_source(wanted, source, options_of(wanted), log)

    return outcome_of(lambda: source_of(wanted), work, texts, [definition.path] if definition else [])


def outcome_of(
    load: Callable[[], Source], work: Callable[[Source, Log], None], texts: Mapping[str, str], files: Sequence[str]
) -> Outcome:
    """Loads and exports while the texts stand for their files. `files` may be edited besides those of the findings."""
    import torch

    log, values = Log(), ()
    with patched(texts):
        torch.manual_seed(SEED)
        try:
            source = load()
            values = values_of(source)
            work(source, log)
        except Stop:
            pass  # its findings are in the log
        except UsageError as error:
            return Outcome(error=str(error))
        findings = [replace(finding, fixes=suggested(finding, files)) for finding in log.findings]
    return Outcome(tuple(findings), values=values)


@contextmanager
def patched(texts: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, Python imports and shows these texts in the place of the files of these paths."""
    compiled, by_file = SourceFileLoader.get_code, {os.path.realpath(path): text for path, text in texts.items()}

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        text = by_file.get(os.path.realpath(self.path))
        return compiled(self, fullname) if text is None else compile(text, self.path, "exec", dont_inherit=True)

    with mock.patch.object(SourceFileLoader, "get_code", get_code):
        for path, text in texts.items():  # without a time, an entry is never compared with the file
            linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        try:
            yield
        finally:
            for path in texts:
                linecache.cache.pop(path, None)


def values_of(source: Source) -> tuple[Arrays | None, ...]:
    """The outputs of seeded eager runs of copies of the model: at the example, and at inputs that take other ways.

    None where the model does not run.
    """
    import torch

    if not isinstance(source.model, torch.nn.Module):
        return ()
    return tuple(_run(source, factor) for factor in FACTORS)


def _run(source: Source, factor: float) -> Arrays | None:
    import torch
    from torch.utils import _pytree as pytree

    torch.manual_seed(SEED)
    try:
        model, args, kwargs = copy.deepcopy((source.model, source.args or (), dict(source.kwargs)))
        leaves = pytree.tree_leaves(_listed(model(*scaled(args, factor), **scaled(kwargs, factor))))
        return tuple(leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    except Exception:  # noqa: BLE001 - the model's own code, or a type that numpy lacks; the export tells what it is
        return None


def scaled(value: Any, factor: float) -> Any:
    """The value with its tensors of real numbers times a factor, whether or not PyTorch knows its containers.

    A tensor without dims stays: it stands for a setting, as a number does.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value * factor if value.is_floating_point() and value.ndim else value
    if isinstance(value, Mapping):
        return {key: scaled(each, factor) for key, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(scaled(each, factor) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {each.name: scaled(getattr(value, each.name), factor) for each in dataclasses.fields(value) if each.init}
        return dataclasses.replace(value, **held)
    return value


def _listed(value: object) -> object:
    """A generator, a set and a dataclass as lists: a fix may make another container of one."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name) for each in dataclasses.fields(value)]
    return list(value) if isinstance(value, (Iterator, set)) else value


def main() -> None:
    """The child's side: the folder is the first argument."""
    run(Path(sys.argv[1]))


def run(folder: Path) -> None:
    """Run the trial that a folder holds, and leave its outcome there."""
    with (folder / TRIAL).open("rb") as file:
        request, texts = pickle.load(file)
    outcome = attempt(request, texts, folder)
    with (folder / OUTCOME).open("wb") as file:
        pickle.dump(outcome, file)
