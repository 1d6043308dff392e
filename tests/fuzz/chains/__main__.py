"""`python -m tests.fuzz.chains --seeds 0:2000`: many chains, those that are not right, and a count."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.fuzz.chains.judging import faults


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.chains", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="first and behind the last (default: %(default)s)")
    parser.add_argument("--together", type=int, default=20, help="chains of one export (default: %(default)s)")
    parser.add_argument("--refused", action="store_true", help="show also what is refused")
    options = parser.parse_args(arguments)
    first, last = map(int, options.seeds.split(":"))
    counts: dict[str, int] = {}
    for begin in range(first, last, options.together):
        for fault in faults(range(begin, min(begin + options.together, last))):
            counts[fault.kind] = counts.get(fault.kind, 0) + 1
            if fault.kind != "refused" or options.refused:
                sys.stdout.write(f"== {fault.kind}: {fault.detail}\n{fault.chain.shown()}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{last - first} chains: {counts}\n")
    return 1 if counts.keys() - {"refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
