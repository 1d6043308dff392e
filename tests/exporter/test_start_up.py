"""What `from fxport import export` may not import: a script waits for what captures when it exports, not before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def new_modules(statement: str, first: str = "import torch") -> list[str]:
    """Return the modules that a statement imports in a process that has run a first one."""
    code = NEW_MODULES.format(first=first, statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "statement",
    [
        "from fxport import export",
        "from fxport import ExportError, Level, Log, Options, export",
    ],
)
def test_export_is_imported_without_what_it_runs(statement: str) -> None:
    assert set(new_modules(statement)).isdisjoint(HEAVY)


EXPORT = "import torch; from fxport import export; export(torch.nn.Linear(2, 2).eval(), torch.zeros(1, 2))"


def test_a_trial_of_a_fix_finds_imported_what_it_runs() -> None:
    """Its process is a fork of the server's."""
    found = new_modules(EXPORT, "from fxport.exporter.validation.fixes.trials import preload; preload()")
    assert set(found).isdisjoint({"torch", *HEAVY})


def test_a_call_of_export_imports_it() -> None:
    found = new_modules(EXPORT)
    assert set(found) >= {"fxport.exporter.pipeline.stages", "fxport.exporter.capture", "sympy", "onnx_ir"}
