"""`--executor ray`: the same work items on the nodes of a Ray cluster.

A model that several ranks hold gets an actor for each, with one process group. The project's folder travels to the
nodes. There each item runs in a local pool of one worker, so that its time limit, its bound of memory and a crash are
what they are on one machine; the result and the files of the model come back, with the paths of this machine.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxport.diagnostics.messages import error_text
from fxport.diagnostics.paths import write_whole
from fxport.exporter.checks.group import free_port, members_of
from fxport.exporter.checks.items import Task
from fxport.exporter.checks.pool import Outcome, Pool, Stage
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    from types import ModuleType

LEFT_AT_HOME = (".fxport", ".git", ".venv", "__pycache__")
"""Folders of the project that do not travel: what is made anew, and what may be large."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Answer of a cluster node: a result or the reason for none, seconds, and the model's files by name."""

    result: str | None
    reason: str | None
    seconds: float
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster at `address`; None is the one of `RAY_ADDRESS`, or one of this machine's cores.

    `path_of` says where an item's model is written; `folder` is the project's, the current one of all items.
    """

    folder: Path
    path_of: Callable[[Task], Path]
    address: str | None = None

    def run(self, tasks: Sequence[Task], jobs: int | None) -> Generator[Outcome | Stage, None, None]:
        """The outcome of each task as it comes. `jobs` bounds how many are under way; None leaves it to Ray.

        Raises UsageError where there is no Ray, or no cluster at the address.
        """
        ray = imported()
        try:
            environment = {"working_dir": str(self.folder), "excludes": list(LEFT_AT_HOME)}
            ray.init(address=self.address, runtime_env=environment, log_to_driver=False, logging_level="error")
        except Exception as error:  # Ray raises its own kinds, and ConnectionError, RuntimeError, ValueError
            raise UsageError(f"--address '{self.address}': no Ray cluster can be used there: {error}.") from error
        try:
            yield from self._outcomes(ray, list(tasks), jobs or len(tasks))
        finally:
            ray.shutdown()

    def _outcomes(self, ray: ModuleType, waiting: list[Task], jobs: int) -> Iterator[Outcome | Stage]:
        remote = ray.remote(max_retries=0)(checked)
        running: dict[Any, tuple[Task, float, ExitStack]] = {}
        while waiting or running:
            while waiting and len(running) < jobs:
                task, held = waiting.pop(0), ExitStack()
                if task.item.ranks > 1:
                    sent = held.enter_context(in_a_group(ray, task))
                else:
                    sent = remote.options(name=task.item.id, memory=task.terms.memory).remote(task)
                running[sent] = (task, time.monotonic(), held)
                yield Stage(task, "cluster")
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            task, start, held = running.pop(done)
            with held:
                try:
                    outcome = self._home(task, ray.get(done))
                except ray.exceptions.RayError as error:
                    reason = f"its node or its process was lost: {error_text(error)}"
                    outcome = Outcome(task, None, reason, time.monotonic() - start)
            yield outcome

    def _home(self, task: Task, sent: Sent) -> Outcome:
        """The outcome with the model's files written here."""
        path = self.path_of(task)
        for name, content in sorted(sent.files.items(), key=lambda entry: entry[0] == path.name):  # the model last
            write_whole(path.with_name(name), content)
        result = None if sent.result is None else json.loads(sent.result.replace(HERE, str(self.folder)))
        return Outcome(task, result, sent.reason, sent.seconds)


@contextmanager
def in_a_group(ray: ModuleType, task: Task) -> Iterator[Any]:
    """An actor for each rank, all at once; gives the reference to what rank 0 sends. They end with the context."""
    placed = import_module("ray.util").placement_group([{"CPU": 1}] * task.item.ranks)
    strategy = import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy(placed)
    kind = ray.remote(max_restarts=0, num_cpus=1)(Rank)
    actors = [
        kind.options(scheduling_strategy=strategy, memory=task.terms.memory).remote() for _ in range(task.item.ranks)
    ]
    gathering = ray.remote(num_cpus=0, max_retries=0)(led)
    try:
        yield gathering.options(name=task.item.id).remote(task, actors)
    finally:
        for actor in actors:
            ray.kill(actor)
        import_module("ray.util").remove_placement_group(placed)


class Rank:
    """An actor: one rank of a model that several hold."""

    def meeting_point(self) -> tuple[str, int]:
        """Return the address and port at which the store of the process group can listen on this node."""
        return import_module("ray.util").get_node_ip_address(), free_port()

    def checked(self, task: Task) -> Sent:
        return checked(task)


def led(task: Task, actors: Sequence[Any]) -> Sent:
    """Brings the ranks together, and waits for what rank 0 has found."""
    ray = imported()
    address, port = ray.get(actors[0].meeting_point.remote())
    members = members_of(task, address, port, apart=True)
    sent = [actor.checked.remote(member) for actor, member in zip(actors, members, strict=True)]
    return ray.get(sent[0])


HERE = "\N{OBJECT REPLACEMENT CHARACTER}fxport-project"
"""Stands for the project's folder in what travels: it is another one on every machine."""


def checked(task: Task) -> Sent:
    """On a node: one item in a local pool of its own."""
    folder = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fxport.") as scratch:
        path = Path(scratch) / f"{task.item.id}.onnx"
        with closing(Pool(folder, lambda _: path).run([task], 1)) as events:
            outcome = next(event for event in events if isinstance(event, Outcome))
        files = {file.name: file.read_bytes() for file in Path(scratch).iterdir() if file.is_file()}
    result = None if outcome.result is None else json.dumps(outcome.result, ensure_ascii=False)
    for root in {str(folder), os.path.realpath(folder)}:
        result = None if result is None else result.replace(root, HERE)
    return Sent(result, outcome.reason, outcome.seconds, files)


def imported() -> ModuleType:
    try:
        return import_module("ray")
    except ImportError as error:
        raise UsageError("--executor ray needs Ray; install it with: python -m pip install 'fxport[ray]'.") from error
