"""Run parsers, one after another, on changed files: `python -m tests.fuzz.fuzzing --seconds 1800 [NAME …]`.

Prints a line of JSON for each parser, with the number of examples and each fault once, and ends with 1 if there is one.
Files that lead to an answer of another kind than all before are changed further.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fxport.diagnostics.exhaustion import exhausted, unusable
from tests.fuzz.mutation import mutated
from tests.fuzz.parsers import PARSERS, Parser

LONGEST = 20.0
"""Seconds for one file, beyond which a parser is said to hang."""

MOST_KEPT = 2000
"""Files that are changed further."""


@dataclass
class Found:
    """Result for one parser: examples, files that it took, kinds of answers, and the faults with a file for each."""

    name: str
    examples: int = 0
    sound: int = 0
    kinds: int = 0
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)


def fuzz(
    parser: Parser, folder: Path, chance: random.Random, *, examples: int | None = None, seconds: float = 0.0
) -> Found:
    """Try changed files until there were so many, or so many seconds have passed. The working folder is `folder`."""
    path = folder / parser.file
    path.parent.mkdir(parents=True, exist_ok=True)
    parser.beside(folder)
    seeds, found, seen = parser.seeds(), Found(parser.name), set[str]()
    start, seed_count = time.monotonic(), len(seeds)
    while found.examples < seed_count + examples if examples else time.monotonic() < start + seconds:
        number, found.examples = found.examples, found.examples + 1
        content = seeds[number] if number < seed_count else mutated(chance.choice(seeds), chance)
        path.write_bytes(content)
        kind, is_fault = answer(parser, path)
        found.sound += kind == SOUND
        if is_fault:
            found.faults.setdefault(kind, repr(content[:3000]))
        elif kind not in seen and number >= seed_count and len(seeds) < MOST_KEPT:
            seeds.append(content)
        seen.add(kind)
    found.kinds, found.seconds = len(seen), time.monotonic() - start
    return found


SOUND = "a value"


def answer(parser: Parser, path: Path) -> tuple[str, bool]:
    """The kind of a parser's answer for a file, and whether it would be a fault of fxport's on the command line."""
    start = time.monotonic()
    try:
        parser.parse(path)
        kind, is_fault = SOUND, False
    except parser.raises as error:
        kind, is_fault = kind_of(error), False
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        kind, is_fault = kind_of(error), unusable(error) is None and exhausted(error) is None
    if (taken := time.monotonic() - start) > LONGEST:
        return f"{taken:.0f} s for {kind}", True
    return kind, is_fault


def kind_of(error: BaseException) -> str:
    """An error by its type and the lines that it went through, the innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    lines = [f"{Path(frame.filename).stem}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} {' '.join(lines[:3] + lines[-4:])}"


@contextmanager
def silent() -> Iterator[None]:
    """Silence prints and warnings of libraries inside, those of native code included."""
    kept = [os.dup(each) for each in (1, 2)]
    with open(os.devnull, "wb") as nothing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stdout.flush()
        for each in (1, 2):
            os.dup2(nothing.fileno(), each)
        try:
            yield
        finally:
            sys.stdout.flush()
            for each, before in zip((1, 2), kept, strict=True):
                os.dup2(before, each)
                os.close(before)


def main() -> int:
    """Run the parsers that are named, or all. Returns the exit code."""
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("names", nargs="*", metavar="NAME")
    told.add_argument("--seconds", type=float, default=1800.0, help="for each parser")
    told.add_argument("--seed", type=int, help="of the changes; another one each time by default")
    args = told.parse_args()
    chosen = [parser for parser in PARSERS if not args.names or parser.name in args.names]
    failed = False
    for parser in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            with silent():
                found = fuzz(parser, Path(scratch), random.Random(args.seed), seconds=args.seconds)
            os.chdir("/")
        failed |= bool(found.faults) or not found.sound
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
