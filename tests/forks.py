"""Processes of `multiprocessing`, forked from one that has imported what they need, as far as there are forks."""

from __future__ import annotations

import multiprocessing
from functools import cache
from multiprocessing.context import ForkServerContext, SpawnContext


@cache
def forks() -> ForkServerContext | SpawnContext:
    """Return the context of one process to fork from, for all tests of this process."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    return context
