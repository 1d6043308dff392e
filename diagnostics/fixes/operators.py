"""Stubs to fill in: a fake kernel, a lowering with the operator's signature."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from fxport.diagnostics.fixes.site import Site, fix
from fxport.diagnostics.model import Applicability, Fix

_SCHEMA = re.compile(r"(?P<name>[\w:.]+)\((?P<arguments>.*)\) *-> *(?P<result>.+)")
_ARGUMENT = re.compile(r"(?P<type>[\w.\[\]?]+(?:\([^)]*\))?[\[\]?]*) (?P<name>\w+)(?:=(?P<default>.+))?")


def fake_kernel(site: Site) -> Iterator[Fix]:
    """A fake kernel below the operator: of the same arguments, with a result like its first tensor."""
    op = site.facts.get("op", "").replace(".", "::", 1).partition(".")[0]
    for node in ast.walk(site.tree):
        if not isinstance(node, ast.FunctionDef) or not _declares(site, node, op):
            continue
        first = node.args.args[0].arg if node.args.args else "x"
        result = f"return torch.empty_like({first})"
        if node.returns is not None and site.code(node.returns) == "None":
            result = "return None"
        arguments = ast.unparse(node.args)
        text = f"\n\n@{node.name}.register_fake\ndef _({arguments}){_returns(site, node)}:\n    {result}"
        stub = fix(f"Register a fake kernel for '{op}': the shape and the dtype of its result.", site.below(node, text))
        yield replace(stub, applicability=Applicability.PLACEHOLDERS)


INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        r"sparse|to_dense": "ONNX has no sparse tensors: make it dense where it is made, `adjacency.to_dense()`.",
        r"quantize_per|dequantize|quantized": "Quantize by torchao or PT2E, whose operators have lowerings, or export "
        "the model in float.",
        r"fused_moving_avg_obs": "Call the prepared model once on an example before the export: its observers get the "
        "sizes of its weights.",
        r"nested": "Pad to one size and keep a mask: ONNX has no nested tensors.",
    }
)
"""Advice by patterns of the names of operators, where no lowering could help."""


def lowering(site: Site) -> Iterator[Fix]:
    """A lowering to fill in, with the arguments of the operator's schema, and the table that holds it."""
    name = site.facts.get("op", "")
    if name.startswith("aten.") and (said := next((v for k, v in INSTEAD.items() if re.search(k, name)), None)):
        yield Fix(said)
        return
    if (code := stub(site.facts.get("op", ""), site.facts.get("schema", ""))) is not None:
        said = f"Write a lowering for '{site.facts['op']}' and give it to export(..., lowerings=LOWERINGS)."
        if (why := site.facts.get("decomposition")) is not None:
            said += f" PyTorch's own form does not serve: {why.splitlines()[0].rstrip('.')}."
        yield Fix(said, applicability=Applicability.PLACEHOLDERS, code=code)


def stub(op: str, schema: str) -> str | None:
    """Python for a lowering of `op`, from its schema as PyTorch prints it; None where that is not one."""
    found = _SCHEMA.fullmatch(schema)
    if found is None:
        return None
    name = re.sub(r"\W", "_", found["name"].rpartition("::")[2].partition(".")[0])
    name = f"{name}_" if keyword.iskeyword(name) else name
    arguments = ", ".join(["op", *_arguments(found["arguments"])])
    return (
        f"def {name}({arguments}):\n"
        f'    """{schema.partition("::")[2] or schema}"""\n'
        "    raise NotImplementedError  # build the result with op.<ONNX operator>(...)\n\n\n"
        f"LOWERINGS = {{torch.ops.{op.removeprefix('torch.ops.')}: {name}}}\n"
    )


def newer_opset(site: Site) -> Iterator[Fix]:
    """The opset to ask for."""
    if needed := site.facts.get("needed"):
        yield fix(f"Export with opset {needed}: `--opset {needed}`, or Options(opset={needed}).")


def _arguments(text: str) -> Iterator[str]:
    for part in re.split(r", *(?![^(\[]*[)\]])", text):
        if part == "*":
            yield "*"
        elif match := _ARGUMENT.fullmatch(part.strip()):
            default = match["default"]
            name = f"{match['name']}_" if keyword.iskeyword(match["name"]) else match["name"]
            yield name if default is None else f"{name}={_default(default)}"


def _default(text: str) -> str:
    """A default of a schema in Python: `true`, words such as `mean` and `contiguous_format`, numbers."""
    known = {"True": "True", "False": "False", "None": "None"}
    if text in known or re.fullmatch(r"-?[\d.e+-]+|\[[-\d, .]*\]|\"[^\"]*\"", text):
        return known.get(text, text)
    return repr(text)


def _declares(site: Site, node: ast.FunctionDef, op: str) -> bool:
    return any(
        isinstance(each, ast.Call)
        and site.code(each.func).rpartition(".")[2] == "custom_op"
        and any(isinstance(argument, ast.Constant) and argument.value == op for argument in each.args)
        for each in node.decorator_list
    )


def _returns(site: Site, node: ast.FunctionDef) -> str:
    return f" -> {site.code(node.returns)}" if node.returns is not None else ""
