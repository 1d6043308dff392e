"""Writes the tables of ONNX Runtime's kernels that the exporter ships.

`python -m fxport.ort_runner.kernels cpu VERSION FILE` asks the plain CPU wheel of that version in a throw-away
environment: the GPU build without its CUDA libraries ends the process when it is asked.
`python -m fxport.ort_runner.kernels cuda PAGE FILE` reads what docs/OperatorKernels.md of ONNX Runtime says of CUDA.
PAGE is a file, or the address of that page at the tag of a release.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

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


SECTION = re.compile(r"^## Operators implemented by (?P<provider>\w+)$", re.M)
DOMAIN = re.compile(r"\*\*Operator Domain:\*\* \*(?P<domain>[\w.]+)\*")
VERSIONS = re.compile(r"\[?(?P<since>\d+)(?:(?P<open>\+)|, (?P<until>\d+)\])?")
VARIABLE = re.compile(r"\*\*(?P<name>\w+)\*\* = (?P<kinds>[^*]+?)(?=<br|$)")
DOCUMENTED = "# op\tsince\tuntil\ttypes   kernels that onnxruntime documents, {provider}, ai.onnx, tensors only\n"


def documented(page: str, provider: str) -> str:
    """The table's text of one provider's section of the page. Raises ValueError where there is none."""
    starts = {match["provider"]: match.end() for match in SECTION.finditer(page)}
    if provider not in starts:
        raise ValueError(f"the page has no section on {provider}")
    section = page[starts[provider] :].partition("\n## ")[0]
    rows, op, domain = set(), "", ""
    for line in section.splitlines():
        if match := DOMAIN.search(line):
            domain = match["domain"]
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if domain != "ai.onnx" or len(cells) < 2 or (versions := VERSIONS.fullmatch(cells[-2])) is None:
            continue
        op = line.split("|")[1].strip() or op
        until = "" if versions["open"] else versions["until"] or versions["since"]
        rows.add(f"{op}\t{versions['since']}\t{until}\t{_documented_types(cells[-1])}\n")
    return DOCUMENTED.format(provider=provider) + "".join(sorted(rows))


def _documented_types(cell: str) -> str:
    found = {
        match["name"]: sorted(_short(kind) for kind in match["kinds"].strip().split(", ") if kind.startswith("tensor("))
        for match in VARIABLE.finditer(cell)
    }
    return ";".join(f"{name}={','.join(kinds)}" for name, kinds in sorted(found.items()))


def _page(source: str) -> str:
    """The text of a file or an address."""
    if source.startswith(("https://", "http://", "file://")):
        with urlopen(source, timeout=60) as answer:
            return answer.read().decode()
    return Path(source).read_text(encoding="utf-8")


def main(kind: str, source: str, target: str) -> None:
    """Write one of the tables."""
    text = table(source) if kind == "cpu" else documented(_page(source), "CUDAExecutionProvider")
    Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
