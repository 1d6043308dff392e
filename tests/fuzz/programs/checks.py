"""The checks of the analysis, each of which can be switched off: a program of the generator is then wrong, or fails.

`python -m tests.fuzz.programs.checks --seeds 0:500` looks for the first such program for each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from fxport.exporter.capture import holders
from fxport.exporter.capture.control_flow import (
    effects,
    kept_calls,
    lifting,
    merged,
    operators,
)
from fxport.exporter.capture.guards import caught
from fxport.exporter.capture.snapshot import Snapshot
from fxport.exporter.pipeline.options import Options
from tests.fuzz.programs.grammar import Program, program_of
from tests.fuzz.programs.running import Verdict, judge

UNCHECKED = Options(self_check="never")
"""The analysis alone: the check beside the model would find what it lets through."""

Patches = Callable[[], Iterator[Any]]


@dataclass(frozen=True)
class Check:
    """A check, what switches it off, pieces of programs that come to it, and the seed of a program that needs it."""

    name: str
    patches: Patches
    pieces: tuple[str, ...]
    seed: int

    @contextmanager
    def off(self) -> Iterator[None]:
        """Switch it off meanwhile."""
        with ExitStack() as entered:
            for patch in self.patches():
                entered.enter_context(patch)
            yield


def _instead(owner: Any, name: str, value: Any) -> Patches:
    """Replace one attribute."""
    return lambda: iter([mock.patch.object(owner, name, value)])


def _nothing(*_: Any, **__: Any) -> Any:
    return None


def _none(*_: Any, **__: Any) -> Any:
    return iter(())


def _unseen(*kinds: holders.Kind) -> Patches:
    """Take no notice of changes in some kinds of holders, which are put back as ever."""
    seen = Snapshot.changes

    def changes(self: Snapshot) -> Iterator[Any]:
        return (each for each in seen(self) if each.holder.kind not in kinds)

    return _instead(Snapshot, "changes", changes)


CHECKS = (
    Check(
        "containers of several names", _instead(effects.Effects, "require_new", _nothing), ("one of two lists",), 616
    ),
    Check("added on one way", _instead(effects.Effects, "require_added_by_all", _nothing), ("setdefault",), 2),
    Check("the order of a dict", _instead(Snapshot, "reordered", _none), ("the order of a dict",), 13),
    Check(
        "writes to merged names",
        _instead(merged.Pair, "follow", _nothing),
        ("one of two tensors", "the tensor or a copy"),
        15,
    ),
    Check(
        "writes in bodies",
        _instead(lifting.Outside, "split_mutated", _nothing),
        ("a buffer in a callee", "another name"),
        288,
    ),
    Check(
        "other views of what is written",
        _instead(lifting.Outside, "_join", _nothing),
        ("a view of a row", "a view in a loop"),
        32,
    ),
    Check("variables", _unseen(holders.CELL), ("if and else", "nonlocal"), 45),
    Check("attributes", _unseen(holders.ATTRIBUTES), ("an object of the call", "a dataclass"), 42),
    Check("members of modules", _unseen(holders.MEMBERS), ("an attribute", "a tensor attribute"), 193),
    Check("items of dicts", _unseen(holders.DICT), ("a dict in a branch", "a dict in a loop"), 6),
    Check("items of lists", _unseen(holders.LIST), ("items set and removed", "a list in a branch"), 72),
    Check("items of deques", _unseen(holders.DEQUE), ("a deque", "a deque in a loop"), 212),
    Check("globals", _unseen(holders.GLOBALS), ("a global number",), 29),
    Check("classes", _unseen(holders.CLASS), ("state of a class",), 97),
    Check(
        "errors that are caught",
        _instead(caught, "is_caught", lambda *_: False),
        ("an error that values decide on",),
        27,
    ),
    Check(
        "effects in any and all", _instead(kept_calls.Effectless, "changed", _none), ("any and all with an effect",), 73
    ),
    Check(
        "effects behind and, or",
        _instead(operators, "_must_wait", lambda _: False),
        ("and, or in a test", "and, or as a statement"),
        135,
    ),
)


def judged(check: Check | None, program: Program, folder: Path) -> Verdict:
    """Return what becomes of a program without the check beside the model, and without one of the analysis."""
    with nullcontext() if check is None else check.off():
        return judge(program, folder, options=UNCHECKED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.programs.checks", description=__doc__)
    parser.add_argument("--seeds", default="0:500", help="first and behind the last (default: %(default)s)")
    parser.add_argument("--only", nargs="*", help="names of checks (default: all)")
    parser.add_argument("--most", type=int, default=500, help="programs that are judged for a check")
    options = parser.parse_args(arguments)
    first, last = map(int, options.seeds.split(":"))
    torch.set_num_threads(1)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            if not options.only or check.name in options.only:
                found = found_by(check, range(first, last), Path(folder), options.most)
                missed += found is None
                sys.stdout.write(f"{check.name}: {found}\n")
                sys.stdout.flush()
    return 1 if missed else 0


def found_by(check: Check, seeds: Sequence[int], folder: Path, most: int) -> tuple[int, str, str] | None:
    """Return the first seed, with its verdict, of a program that fails without the check, and does not with it.

    Programs that hold one of the check's pieces come first.
    """
    with_pieces = {seed: bool({*check.pieces} & {*program_of(seed).features}) for seed in seeds}
    for seed in sorted(seeds, key=lambda seed: not with_pieces[seed])[:most]:
        verdict = judged(check, program_of(seed), folder)
        if verdict.failed and not judged(None, program_of(seed), folder).failed:
            return seed, verdict.kind, verdict.detail.splitlines()[0] if verdict.detail else ""
    return None


if __name__ == "__main__":
    sys.exit(main())
