"""Writes the table of ONNX Runtime's kernels that the exporter ships: `python -m ort_runner.kernels VERSION FILE`.

Asks the plain CPU wheel of that version in a throw-away environment: the GPU build without its CUDA libraries ends
the process when it is asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ASK = """
import json
from onnxruntime.capi import _pybind_state as state
for kernel in state.get_all_opkernel_def():
    if kernel.provider == "CPUExecutionProvider" and kernel.domain in ("", "ai.onnx"):
        first, last = kernel.version_range
        types = {name: sorted(set(kinds)) for name, kinds in kernel.type_constraints.items()}
        print(kernel.op_name, first, last, json.dumps(types), sep="\\t")
"""
OPEN_ENDED = 2**31 - 1
SHORT = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "string": "str"}
HEADER = "# op\tsince\tuntil\ttypes   kernels of onnxruntime {version}, CPUExecutionProvider, ai.onnx, tensors only\n"


def table(version: str) -> str:
    """The table's text: one row a registration, sorted; `until` is empty for a kernel that serves on."""
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, f"onnxruntime=={version}"]
        subprocess.run(install, check=True)
        ask = [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r}){ASK}"]
        rows = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.splitlines()
    return HEADER.format(version=version) + "".join(sorted({f"{row}\n" for row in map(_row, rows)}))


def _row(line: str) -> str:
    name, first, last, types = line.split("\t")
    constraints = {
        variable: [_short(kind) for kind in kinds if kind.startswith("tensor(")]
        for variable, kinds in json.loads(types).items()
    }
    text = ";".join(f"{variable}={','.join(kinds)}" for variable, kinds in sorted(constraints.items()))
    return f"{name}\t{first}\t{'' if int(last) == OPEN_ENDED else last}\t{text}"


def _short(kind: str) -> str:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return SHORT.get(name, name.replace("uint", "u").replace("int", "i"))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(table(sys.argv[1]), encoding="utf-8")
