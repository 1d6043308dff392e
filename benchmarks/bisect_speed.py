"""Finding the operation that differs: fxport's bisection against torch.onnx's comparison of intermediate values.

    python benchmarks/bisect_speed.py --layers 2

Both get the same BERT, exported by each with its defaults, and run in one process, one after the other. In fxport's
export one gelu is lowered wrongly, since a model that is right has nothing to search; torch.onnx compares all values
whether or not they differ. The time of the export is left out on both sides; fxport's includes capturing what it
compares with, and naming the stage and the line.

torch.onnx needs `onnxscript`: `python -m pip install onnxscript`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch


def bert(layers: int) -> tuple[Any, tuple[torch.Tensor]]:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=layers, use_cache=False, initializer_range=0.2)
    ids = torch.randint(0, config.vocab_size, (2, 16))
    return BertModel(config, add_pooling_layer=False).eval(), (ids,)


def of_torch(layers: int) -> tuple[float, int]:
    """(seconds, nodes) of comparing all intermediate values."""
    from torch.onnx.verification import verify_onnx_program

    model, args = bert(layers)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, args, dynamo=True, verbose=False)
        assert program is not None
        start = time.perf_counter()
        verify_onnx_program(program, args, compare_intermediates=True)
    return time.perf_counter() - start, len(list(program.model.graph))


def of_fxport(layers: int) -> tuple[float, int, str]:
    """(seconds, nodes, what was found) of telling the stage and the line of a planted fault."""
    from fxport import Options, export
    from fxport.diagnostics import Log
    from fxport.exporter.sources.source import Source
    from fxport.exporter.validation.against_eager import samples_of
    from fxport.exporter.validation.attribution import Subject, attribute

    def rough_gelu(op: Any, x: Any, *, approximate: str = "none") -> Any:
        return op.Gelu(x, approximate="tanh")

    model, args = bert(layers)
    options = Options(lowerings={torch.ops.aten.gelu.default: rough_gelu})
    program = export(model, args, options=options)
    source = Source("bert", model, args)
    with tempfile.TemporaryDirectory() as folder:
        path = program.save(Path(folder) / "bert.onnx")[0]
        (case,) = samples_of(source, program, Log())
        start = time.perf_counter()
        found = attribute(Subject(path, source, program, options, "cpu", isolate=False), case, case)
        seconds = time.perf_counter() - start
    place = f"{found.place.path.rpartition('/')[2]}:{found.place.line}" if found.place else "nowhere"
    return seconds, len(list(program.model.graph)), f"{found.stage} at {place}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2, help="layers of the BERT")
    asked = parser.parse_args()
    ours, nodes, found = of_fxport(asked.layers)
    print(f"fxport: {ours:.1f} s for {nodes} nodes; found: {found}")
    theirs, nodes = of_torch(asked.layers)
    print(f"torch.onnx, compare_intermediates: {theirs:.1f} s for {nodes} nodes")
    print(f"ratio: {ours / theirs:.3f}")


if __name__ == "__main__":
    main()
