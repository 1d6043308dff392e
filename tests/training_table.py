"""`python -m tests.training_table`: measures the rows of tests/cases/training.py and writes docs/training.md."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from tests.cases.training import CASES, matrices, mlp
from tests.training import MAKERS, OPTIMIZERS, noise_of

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
BEGIN, END = "<!-- table of noise: begin -->", "<!-- table of noise: end -->"
STEPS = 20

ROWS = (
    *((case, name, make) for case in CASES for name, make in MAKERS.items()),
    *((matrices if name == "muon" else mlp, name, make) for name, make in OPTIMIZERS.items()),
)
"""Each model with the two usual optimizers, and each optimizer on a small model."""

HEAD = """
| model | optimizer | nodes | loss | parameters | PyTorch's own | ratio |
|---|---|---|---|---|---|---|
"""


def main(chosen: Sequence[str]) -> int:
    """Measures the rows, or those that are named; only a whole run writes the page."""
    torch.set_num_threads(1)
    console, lines = Console(), []
    rows = [row for row in ROWS if not chosen or row[0].__name__ in chosen]
    for case, name, make in track(rows, console=console):
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            noise = noise_of(case(), make, Path(folder), STEPS)
        lines.append(
            f"| {case.__name__} | {name} | {noise.nodes} | {noise.loss:.0e} | {noise.runtime:.0e} | {noise.eager:.0e} "
            f"| {noise.ratio:.1f} |"
        )
        console.print(lines[-1])
    if not chosen:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        draft = PAGE.with_suffix(".partial")
        draft.write_text(f"{before}{BEGIN}\n{HEAD}" + "\n".join(lines) + f"\n\n{END}{after}", encoding="utf-8")
        draft.replace(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
