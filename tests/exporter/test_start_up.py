"""What `from fxport import export` may not import: a script waits for what captures when it exports, not before."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "fxport.exporter.capture",
    "fxport.exporter.lowering.lower",
    "fxport.exporter.lowering.lowerings",
    "fxport.exporter.pipeline.stages",
    "fxport.fx_passes",
    "networkx",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.fsdp",
    "transformers",
)
"""Modules that cost tens of milliseconds and more."""

NEW_MODULES = """
import json, sys
{first}
for statement in {statements}:
    before = set(sys.modules)
    exec(statement)
    print(json.dumps(sorted(set(sys.modules) - before)))
"""


def new_modules(*statements: str, first: str = "import torch") -> list[list[str]]:
    """Return the modules that each statement imports, in one process that has run a first one."""
    code = NEW_MODULES.format(first=first, statements=statements)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()[-len(statements) :]]


IMPORT = "from fxport import ExportError, Level, Log, Options, export"
EXPORT = "import torch; from fxport import export; export(torch.nn.Linear(2, 2).eval(), torch.zeros(1, 2))"


def test_export_is_imported_without_what_a_call_of_it_imports() -> None:
    imported, called = new_modules(IMPORT, EXPORT)
    assert set(imported).isdisjoint(HEAVY)
    assert set(called) >= {"fxport.exporter.pipeline.stages", "fxport.exporter.capture", "sympy", "onnx_ir"}


def test_a_trial_of_a_fix_finds_imported_what_it_runs() -> None:
    """Its process is a fork of the server's."""
    (found,) = new_modules(EXPORT, first="from fxport.exporter.validation.fixes.trials import preload; preload()")
    assert set(found).isdisjoint({"torch", *HEAVY})
