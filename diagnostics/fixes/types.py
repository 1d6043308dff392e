"""Types: operands of one dtype, and values that torch.export can take apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fxport.diagnostics.fixes.numbers import is_number
from fxport.diagnostics.fixes.site import Site, fix
from fxport.diagnostics.model import Fix


def explicit_dtype(site: Site) -> Iterator[Fix]:
    """`1.0 - mask` as `1.0 - mask.to(torch.float32)`: the cast where everybody sees it. A number has no such method."""
    node, target = site.expression, site.facts.get("target")
    if not isinstance(node, ast.BinOp) or not target:
        return
    number = site.finding.facts.get("operand")  # the one that was cast; the other has the type already
    both = (node.left, node.right)
    named = both[number : number + 1] if isinstance(number, int) and number in (0, 1) else both
    swapped = all(isinstance(each, ast.Constant) for each in named)  # `1.0 - mask` is rsub(mask, 1.0)
    for operand in both if swapped else named:
        if not is_number(site, operand):
            text = f"{site.operand(operand)}.to(torch.{target})"
            yield fix(f"Cast '{site.code(operand)}' where it is used.", site.replaced(operand, text))


def registered_dataclass(site: Site) -> Iterator[Fix]:
    """torch.export.register_dataclass below a dataclass of this file."""
    name = site.facts.get("type", "").rpartition(".")[2]
    for node in site.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            decorators = {site.code(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}
            if "dataclass" in decorators:
                yield fix("Register the dataclass.", site.below(node, f"\n\ntorch.export.register_dataclass({name})"))
            else:
                yield fix(f"Make '{name}' a dataclass, and call torch.export.register_dataclass({name}).")


def integers_in_words(site: Site) -> Iterator[Fix]:
    """Inputs of `--input x=2x7` are float32, which an embedding does not take."""
    if "scalar types: Long, Int; but got" in site.facts.get("error", ""):
        yield fix("Give integers, below the number of rows: `--input ids=2x7:int64:0..99`, or a tensor of torch.int64.")


def tuple_output(site: Site) -> Iterator[Fix]:
    """A generator or a set that forward returns, as a tuple."""
    node = site.statement
    if not isinstance(node, ast.Return) or node.value is None or site.facts.get("name") != "outputs":
        return
    if isinstance(node.value, ast.GeneratorExp):
        yield fix("Return a tuple.", site.replaced(node.value, f"tuple{site.code(node.value)}"))
    elif isinstance(node.value, ast.Set):
        inner = ", ".join(site.code(each) for each in node.value.elts)
        yield fix("Return a tuple.", site.replaced(node.value, f"({inner},)" if inner else "()"))
    elif site.facts.get("type") == "function":
        yield fix("Return tensors only: leave the function out of what forward returns.")


IN_WORDS = {
    "numpy.ndarray": "Give a tensor: torch.from_numpy(array).",
    "numpy": "Give a tensor, torch.tensor(number), or a number of Python's, which becomes a constant.",
    "torch.sparse": "Give its dense form, x.to_dense(), or its indices and values.",
    "torch._mkldnn": "Give its dense form, x.to_dense().",
    "torch.nested": "Give the padded tensor and the lengths; torch.nested.to_padded_tensor makes the first.",
}


def input_in_words(site: Site) -> Iterator[Fix]:
    """For inputs of types that belong to nobody here."""
    kind = site.facts.get("type", "")
    words = next((words for start, words in IN_WORDS.items() if kind.startswith(start)), None)
    if words is not None:
        yield fix(words)
