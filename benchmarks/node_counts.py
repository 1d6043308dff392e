"""Nodes of the model rows beside those of torch.onnx.export(dynamo=True, optimize=True).

    python benchmarks/node_counts.py                     # all rows, or those whose names hold one of --models
    python benchmarks/node_counts.py --write             # also writes torch.onnx's counts for the test of them

Each line is a row: its name, fxport's nodes, torch.onnx's ("-" where it refuses), and the operators of which ours has
more. Nodes of function bodies and of subgraphs count. Both exporters have the same call with the same sizes dynamic,
which are left to each (`Dim.DYNAMIC`). torch.onnx.export needs `onnxscript`: `python -m pip install onnxscript`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def ours(example: Any, path: Path) -> None:
    """Export by fxport."""
    import fxport

    options = fxport.Options(allow_specialization=example.constants)
    shapes = example.dynamic_shapes
    fxport.export(example.model, example.args, example.kwargs, dynamic_shapes=shapes, options=options).save(path)


def theirs(example: Any, path: Path) -> None:
    """Export by torch.onnx; what it prints is dropped."""
    import torch
    from torch.utils import _pytree as pytree

    dynamic = torch.export.Dim.DYNAMIC
    shapes = pytree.tree_map(lambda dim: dynamic if isinstance(dim, str) else dim, example.dynamic_shapes)
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            example.model, example.args, path, kwargs=dict(example.kwargs), dynamic_shapes=shapes, dynamo=True
        )


def nodes_of(build: Any, exporter: Any, static: bool) -> Counter[str] | None:
    """Count the nodes of a row by operator; None where the exporter refuses it."""
    import torch

    from tests.node_counts import operators

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.manual_seed(0)
        try:
            example = build()
            exporter(replace(example, dynamic_shapes=None) if static else example, path)
        except Exception as error:  # noqa: BLE001  # whatever it is, there is no file
            print(f"{exporter.__name__}: {type(error).__name__}: {str(error)[:200]!r}", file=sys.stderr)
            return None
        return operators(path)


def measured(chosen: Sequence[str], static: bool) -> Iterator[tuple[str, Counter[str] | None, Counter[str] | None]]:
    """Yield the name of each row with the operators of both."""
    from tests.node_counts import builders

    for name, build in builders():
        if not chosen or any(text in name for text in chosen):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield name, nodes_of(build, ours, static), nodes_of(build, theirs, static)


def main() -> None:
    """Measure, print the table, and write torch.onnx's counts where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], help="texts, one of which the name of a row holds")
    parser.add_argument("--write", action="store_true", help="write torch.onnx's counts of these rows")
    parser.add_argument("--static", action="store_true", help="with the sizes of the example for all dimensions")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.node_counts import COUNTS, counts

    known = counts()
    for name, mine, other in measured(options.models, options.static):
        more = {} if mine is None or other is None else dict((mine - other).most_common(6))
        print(name, *("-" if each is None else each.total() for each in (mine, other)), more, sep="\t", flush=True)
        if other is not None:
            known[name] = other.total()
        if options.write:
            text = "".join(f"{row}\t{count}\n" for row, count in sorted(known.items()))
            COUNTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
