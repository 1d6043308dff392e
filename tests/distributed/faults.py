"""What goes wrong on one rank, run in processes of their own: each function gives what its rank was told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

from fxport import ExportError, Options, export
from fxport.diagnostics import Place
from fxport.exporter.distributed.ranks import Ranks
from fxport.exporter.validation.validated import export_and_validate
from tests.distributed.models import Mlp

Told = dict[str, tuple[str, list[str], float]]
"""Fault → headline, rules of the findings with their messages, seconds until it was told."""

X = torch.ones(2, 8)


class Undecided(nn.Module):
    """Cannot be captured: how many outputs it has depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        found = [self.inner(x)]
        if x.sum() > 0:
            found.append(x)
        return found


def another_shape(folder: str) -> None:
    model = nn.Sequential(nn.Linear(8, 9 if dist.get_rank() == 1 else 8), nn.Linear(8, 8))
    export(fully_shard(model), (X,))


def another_precision(folder: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    export(fully_shard(model.bfloat16() if dist.get_rank() == 1 else model), (X,))


def another_name(folder: str) -> None:
    model = Mlp()
    if dist.get_rank() == 1:
        model.head.extra = nn.Parameter(torch.ones(8))
    export(fully_shard(model), (X,))


def another_placement(folder: str) -> None:
    model, mesh = Mlp(), init_device_mesh("cpu", (dist.get_world_size(),))
    model.up.weight = nn.Parameter(distribute_tensor(model.up.weight, mesh, [Shard(dist.get_rank() % 2)]))
    export(model, (X,))


def another_call(folder: str) -> None:
    """Rank 1 asks for another opset, and gives more rows in another precision."""
    one = dist.get_rank() == 1
    x, options = (torch.ones(3, 8).double(), Options(opset=18)) if one else (X, Options())
    program = export(fully_shard(Mlp()), (x,), options=options)
    program.save(Path(folder, "call.onnx"))
    raise ExportError(program.log, "")  # its findings are told as those of errors are


def other_values(folder: str) -> None:
    """Buffers that each rank has by itself, and weights of which two ranks have copies."""
    torch.manual_seed(dist.get_rank())
    model, mesh = Mlp(), init_device_mesh("cpu", (dist.get_world_size(),))
    model.scale.add_(dist.get_rank())
    model.up.weight = nn.Parameter(DTensor.from_local(model.up.weight.detach(), mesh, [Replicate()]))
    model.down.weight = nn.Parameter(distribute_tensor(model.down.weight.detach(), mesh, [Shard(0)]))
    program = export(model, (X,))
    program.save(Path(folder, "values.onnx"))
    raise ExportError(program.log, "")


def not_there(folder: str) -> None:
    """Rank 1 raises an exception of its own in the place of the export."""
    model = fully_shard(nn.Linear(8, 8))
    if dist.get_rank() == 1:
        raise KeyError("no such layer")
    export(model, (X,), options=Options(rank_timeout=2))


def there_again(folder: str) -> None:
    """After an export that one rank has left out, all come to the same one."""
    export(fully_shard(nn.Linear(8, 8)), (X,)).save(Path(folder, "again.onnx"))


def no_such_folder(folder: str) -> None:
    export(fully_shard(nn.Linear(8, 8)), (X,)).save(Path(folder, "nowhere", "model.onnx"))


def attention_over_the_ranks(folder: str) -> None:
    mesh, x = init_device_mesh("cpu", (dist.get_world_size(),)), torch.ones(1, 12, 8)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        export(nn.TransformerEncoderLayer(8, 2, batch_first=True), (x,))


def failing_on_the_ranks(folder: str) -> None:
    """In eager PyTorch the two kinds of tensors do not meet, and in one process there is one kind."""
    torch.manual_seed(0)
    model, mesh = Mlp(), init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"head": RowwiseParallel(input_layouts=Replicate(), use_local_output=False)})
    checked = export_and_validate(model, (X,), path=Path(folder, "failing.onnx"))
    raise ExportError(checked.log, "")


def no_capture(folder: str) -> None:
    export(fully_shard(Undecided()), (X,))


def bad_names(folder: str) -> None:
    export(fully_shard(nn.Linear(8, 8)), (X,), input_names=("a", "b", "c"))


def terms_of_a_sum(folder: str) -> None:
    model = nn.Linear(8, 8)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model.weight = nn.Parameter(DTensor.from_local(model.weight.detach(), mesh, [Partial()]))
    export(model, (X,))


def a_little_slow(folder: str) -> None:
    model = fully_shard(nn.Linear(8, 8))
    time.sleep(2 if dist.get_rank() == 1 else 0)
    export(model, (X,), options=Options(rank_timeout=30)).save(Path(folder, "slow.onnx"))


def too_slow(folder: str) -> None:
    model = fully_shard(nn.Linear(8, 8))
    time.sleep(5 if dist.get_rank() == 1 else 0)
    export(model, (X,), options=Options(rank_timeout=2))


def raising_mid_stream(folder: str) -> None:
    """Rank 1 cannot read its part of the third weight."""
    program = export(fully_shard(Mlp()), (X,))
    with mock.patch.object(Ranks, "send", _third(Ranks.send, _raise) if dist.get_rank() == 1 else Ranks.send):
        program.save(Path(folder, "raising.onnx"))


def dying_mid_stream(folder: str) -> None:
    """The last rank ends without a word while it is asked for its third weight."""
    program = export(fully_shard(Mlp()), (X,))
    last = dist.get_rank() == dist.get_world_size() - 1
    with mock.patch.object(Ranks, "send", _third(Ranks.send, _die) if last else Ranks.send):
        program.save(Path(folder, "dying.onnx"))


def leader_dying(folder: str) -> None:
    """Rank 0 ends without a word while it receives its third weight."""
    program = export(fully_shard(Mlp()), (X,))
    with mock.patch.object(Ranks, "receive", _third(Ranks.receive, _die)):
        program.save(Path(folder, "dying.onnx"))


def _line(place: Place | None) -> str:
    """ " at" with the code that a finding points to."""
    return f" at {Path(place.path).read_text().splitlines()[place.line - 1].strip()}" if place else ""


def _third(method: Callable[..., None], instead: Callable[[], None]) -> Callable[..., None]:
    calls = iter((None, None, instead))

    def called(*args: object) -> None:
        (next(calls, None) or method)(*args)

    return called


def _raise(*_: object) -> None:
    raise MemoryError("no memory is left")


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def slow_by_20_seconds(folder: str) -> None:
    model = fully_shard(nn.Linear(8, 8))
    time.sleep(20 if dist.get_rank() == 1 else 0)
    program = export(model, (X,))
    time.sleep(20 if dist.get_rank() == 1 else 0)
    program.save(Path(folder, "slow.onnx"))


def told(folder: str, faults: list[str]) -> Told:
    """Runs the faults one after the other."""
    found: Told = {}
    for name in faults:
        dist.barrier() if name != faults[-1] else None
        start = time.monotonic()
        headline, findings = "", []
        try:
            globals()[name](folder)
        except ExportError as error:
            headline = str(error)
            findings = [f"{finding.rule.id} {finding.message}{_line(finding.place)}" for finding in error.log.findings]
        except Exception as error:  # noqa: BLE001  # told to the test
            headline = f"{type(error).__name__}: {error}"
        found[name] = (headline, findings, time.monotonic() - start)
    return found
