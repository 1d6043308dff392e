"""End a child process when its parent is gone, also one that was killed and could not say so.

The parent holds the other end of a pipe; the system closes it when the parent ends in any manner. (PR_SET_PDEATHSIG of
Linux would not do: it follows the thread that started the child, and a session may outlive that.)
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time

GRACE = 2.0
"""Seconds that a child gets to end by itself, once the pipe is closed, before it is killed."""


def end_with_parent(pipe: int) -> None:
    """Kill this process when the other end of `pipe` is closed and it goes on: busy in a kernel, for instance.

    Nothing is read from the pipe. Where the system cannot wait for that (Windows), a child goes on until it reads.
    """
    if hasattr(select, "poll"):
        threading.Thread(target=_watch, args=(pipe,), daemon=True).start()


def wait_for(pipe: int, *, while_open: int) -> bool:
    """Wait until there is something to read from `pipe`; False if the other end of `while_open` is closed before.

    Nothing is read from either.
    """
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.register(while_open, 0)  # the end of a pipe is told in any case
    ready = {descriptor for descriptor, _ in waiting.poll()}
    return pipe in ready


def _watch(pipe: int) -> None:
    waiting = select.poll()
    waiting.register(pipe, 0)
    waiting.poll()
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
