"""Assignment of tasks to workers: those of one file go to one worker, which then imports it once, for one fork."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Sequence

from fxport.exporter.checks.items import Task


class Turns:
    """Tasks that wait, by the file that their models come from, for workers in threads of their own."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Task]] = {}
        self._held: dict[Hashable, str] = {}
        for task in tasks:
            self._waiting.setdefault(task.item.file, deque()).append(task)

    def take(self, worker: Hashable) -> Task | None:
        """The next task for a worker, None when there are no more.

        It is one of the file that it has, else of the next file that nobody has, else of the file of another worker
        with the most left to do.
        """
        with self._lock:
            if not self._waiting:
                return None
            file = self._held.get(worker)
            if file not in self._waiting:
                free = (each for each in self._waiting if each not in self._held.values())
                file = next(free, None) or max(self._waiting, key=lambda each: len(self._waiting[each]))
                self._held[worker] = file
            tasks = self._waiting[file]
            task = tasks.popleft()
            if not tasks:
                del self._waiting[file]
            return task
