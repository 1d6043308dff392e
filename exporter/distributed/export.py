"""An export of several ranks: rank 0 captures and writes, the others send it the parts of weights that they hold."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, cast

import torch

from fxport.diagnostics import Finding, Log, Stop, rules
from fxport.exporter.capture.places import place_of_call
from fxport.exporter.distributed import agreement
from fxport.exporter.distributed.asked import Asked, compare_asked
from fxport.exporter.distributed.eager import Eager
from fxport.exporter.distributed.ranks import LEADER, RankLost, Ranks, join
from fxport.exporter.distributed.skeleton import Skeleton, skeleton_of
from fxport.exporter.distributed.streaming import End, Stream
from fxport.exporter.onnx_program import ExternalData, OnnxProgram
from fxport.exporter.pipeline.errors import ExportError
from fxport.fx_passes.program import WeightSource

Flow = Callable[[torch.nn.Module, Mapping[str, WeightSource]], OnnxProgram]
"""The stages of an export of a plain module, with the sources of weights that are only shapes in it."""


@dataclass(eq=False, repr=False)
class ShardedProgram(OnnxProgram):
    """An exported model whose weights the ranks hold together. On rank 0 it is as any other.

    `save` must be called on all ranks; `Follower` is what the others have.
    """

    stream: Stream

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        external_data: ExternalData = "auto",
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
    ) -> list[Path]:
        """Writes the model while the other ranks are in their `save`; see `OnnxProgram.save`."""
        with leading(self.stream, self.log):
            return OnnxProgram.save(
                self,
                destination,
                external_data,
                include_initializers=include_initializers,
                keep_initializers_as_inputs=keep_initializers_as_inputs,
            )

    def __getstate__(self) -> NoReturn:
        """Refuses to be pickled or copied: the weights are on all ranks."""
        raise TypeError("a sharded model is neither pickled nor copied, since its ranks hold the weights; save it")

    @contextmanager
    def running(self) -> Iterator[torch.nn.Module]:
        """A module that runs the sharded model in eager PyTorch, on all ranks; the others `follow` meanwhile."""
        with leading(self.stream, self.log):
            yield self.stream.eager.everywhere()

    def whole(self) -> torch.nn.Module:
        """Rank 0: the model as one process has it, for `fill` of the program's sources; until then it is without them.

        It shares with the ranks' model what rank 0 holds whole, such as buffers.
        """
        return skeleton_of(self.stream.eager.model).module


@dataclass(frozen=True)
class Follower:
    """Result of `export` on the ranks that write nothing: the log, with rank 0's findings, and their part in `save`.

    The graph and the program are on rank 0 alone.
    """

    log: Log
    stream: Stream

    def save(self, path: str | os.PathLike[str], external_data: Literal["auto"] | bool = "auto") -> list[Path]:
        """Sends rank 0 what it asks for until its file is written. Returns no files: this rank writes none."""
        self.follow()
        return []

    def follow(self) -> None:
        """Does what rank 0 asks for until it has done: for its part of `ShardedProgram.running`."""
        follow(self.stream, self.log)


def export_sharded(model: torch.nn.Module, flow: Flow, asked: Asked, timeout: float, log: Log) -> OnnxProgram:
    """Exports a sharded model; called on all ranks of the default process group.

    `asked` is what this rank asks for. Whatever ends the export on rank 0 is raised on all ranks, and every rank raises
    ExportError when one is lost.
    """
    skeleton = skeleton_of(model)
    try:
        with log.stage("agree"):
            ranks = join(timedelta(seconds=timeout))
            stream = _agreed(Eager(ranks, model, skeleton.module), skeleton, asked, log)
    except RankLost as lost:
        raise _told(lost, log) from lost
    except Stop as stop:
        raise ExportError(log, str(stop)) from stop
    if not stream.ranks.leads:
        follow(stream, log)
        return cast(OnnxProgram, Follower(log, stream))
    with leading(stream, log):
        program = flow(skeleton.module, stream.sources())
    return ShardedProgram(**vars(program), stream=stream)


def _agreed(eager: Eager, skeleton: Skeleton, asked: Asked, log: Log) -> Stream:
    """The stream of weights that all ranks have the same notion of; otherwise findings, on all of them."""
    ranks = eager.ranks
    said = agreement.gathered(ranks, (agreement.manifest_of(skeleton), asked))
    if not ranks.leads:
        _repeat(ranks.hear(LEADER).findings, log)
        return Stream(ranks, skeleton.holdings, {}, eager)
    manifests, at, known = [manifest for manifest, _ in said], place_of_call(), len(log.findings)
    compare_asked([each for _, each in said], at, log)
    agreement.compare(manifests, skeleton, at, log)
    findings = log.findings[known:]
    for rank in ranks.others:
        ranks.tell(rank, End(findings))
    apart = any(finding.rule in (rules.RANKS_DISAGREE, rules.PLACEMENT_UNSUPPORTED) for finding in findings)
    return Stream(ranks, skeleton.holdings, {} if apart else agreement.covers_of(manifests, skeleton), eager)


@contextmanager
def leading(stream: Stream, log: Log) -> Iterator[None]:
    """Rank 0's work while the others serve; at its end they learn of its findings, or of what it raised."""
    known = len(log.findings)
    try:
        yield
    except BaseException as error:
        if stream.ranks.lost is not None:
            raise _told(stream.ranks.lost, log) from error
        stopped = str(error) if isinstance(error, (ExportError, Stop)) else None
        _end(stream.ranks, End(log.findings[known:], stopped, None if stopped else _portable(error)), log)
        raise
    _end(stream.ranks, End(log.findings[known:]), log)


def follow(stream: Stream, log: Log) -> None:
    """The other ranks' part; raises what rank 0 raised."""
    try:
        end = stream.serve()
    except RankLost as lost:
        raise _told(lost, log) from lost
    except Exception as error:
        stream.ranks.give_up(stream.ranks.rank, f"raised {type(error).__name__}: {error}")
        raise
    _repeat(end.findings, log)
    if end.stopped is not None:
        raise ExportError(log, end.stopped)
    if end.failure is not None:
        raise end.failure


def _end(ranks: Ranks, end: End, log: Log) -> None:
    try:
        for rank in ranks.others:
            ranks.tell(rank, end)
    except RankLost as lost:
        raise _told(lost, log) from lost


def _told(lost: RankLost, log: Log) -> ExportError:
    """A lost rank as a finding, and as the error that ends the export."""
    finding = log.report(rules.RANK_LOST, at=place_of_call(), name=f"rank {lost.rank}", detail=lost.detail)
    return ExportError(log, finding.message)


def _repeat(findings: Sequence[Finding], log: Log) -> None:
    """Rank 0's findings in the log of this one."""
    for finding in findings:
        facts: Any = finding.facts
        log.report(finding.rule, at=finding.place, level=finding.level, **facts)


def _portable(error: BaseException) -> BaseException:
    """Return rank 0's exception in a form that another process can raise."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # an exception of the user's may hold anything
        return RuntimeError(f"{type(error).__name__}: {error}")
