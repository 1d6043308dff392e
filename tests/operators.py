"""`python -m tests.operators` writes docs/operators.md, from the registry and the rows of tests/cases/ops."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch._ops import HigherOrderOperator

from fxport import export
from fxport.exporter.cli.ops import family_of
from fxport.exporter.lowering.lower.registry import registered
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.pipeline.options import DEFAULT_OPSET, MIN_OPSET, Options
from fxport.fx_passes.passes import complex_to_real
from tests.called import Called
from tests.cases import ops
from tests.cases.ops import Draw, OpCase

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
HEAD = f"""# Operators

Written by `python -m tests.operators`; `fxport ops WORD` searches the same table.

Each line is a lowering: the operators of PyTorch that it takes, what the first of its test rows becomes at opset
{DEFAULT_OPSET}, the dtypes in which rows compare it with eager PyTorch, and the first opset that can express it.
Other arguments, dtypes and opsets may become other operators. `f` stands for float, `bf` for bfloat, `i` and `u` for
integers, with their bits.
"""
DECOMPOSED = """
## Decomposed

A decomposition, PyTorch's or one of fxport, leads from these to the operators above; rows prove it. Any other operator
that PyTorch decomposes to them is exported as well.
"""
CONTROL_FLOW = "\n## Control flow\n\nBodies become graphs of If, Loop and Scan, or are written in place.\n\n"
COMPLEX = """
## Complex numbers

A complex tensor becomes a real one with a last axis of 2 (see [decisions/complex.md](decisions/complex.md)). These have
a form on real numbers, and so has what decomposes to them:

"""
FIX = "docs/operators.md is out of date: run `python -m tests.operators`"

WIDTH = 8
"""How many ONNX operators a line shows."""


@dataclass(frozen=True)
class Line:
    """One line of a table. `case` is the row that is exported to see what the operators become."""

    family: str
    targets: tuple[str, ...]
    dtypes: str
    opset: int
    case: OpCase

    @property
    def fixed(self) -> str:
        """The line without what it becomes: nothing has to be exported for it."""
        return f"| {' · '.join(f'`{name}`' for name in self.targets)} | {{}} | {self.dtypes} | {self.opset} |"

    @property
    def text(self) -> str:
        return self.fixed.format(becomes(self.case, max(DEFAULT_OPSET, self.opset)))


@dataclass(frozen=True)
class Unexported(Line):
    """A line that says nothing of what it becomes."""

    @property
    def text(self) -> str:
        return self.fixed.format("")


def cases() -> Iterator[OpCase]:
    for info in pkgutil.iter_modules(ops.__path__):
        yield from importlib.import_module(f"{ops.__name__}.{info.name}").CASES


def lines() -> list[Line]:
    """Those of lowerings, by family in the order of the registry, then those of what only decomposes."""
    rows: dict[Any, list[OpCase]] = {}
    for case in cases():
        rows.setdefault(case.target, []).append(case)
    lowered = registered(LOWERINGS)
    found = []
    for entry in {id(entry): entry for entry in lowered.values()}.values():
        tried = [case for target in entry.targets for case in rows.get(target, ())]
        if tried:
            opset = max(MIN_OPSET, entry.since)
            found.append(Line(family_of(entry), _names(entry.targets), _dtypes(tried), opset, _first(tried)))
    for target, tried in rows.items():
        if target not in lowered and isinstance(target, torch._ops.OpOverload):
            found.append(Line("", _names([target]), _dtypes(tried), MIN_OPSET, _first(tried)))
    return found


def _first(tried: Sequence[OpCase]) -> OpCase:
    """The first row with elements and without a gap."""
    plain = [case for case in tried if case.known_gap is None]
    filled = [case for case in plain if all(0 not in each.shape for each in case.args if isinstance(each, Draw))]
    return (filled or plain or list(tried))[0]


def _names(targets: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(target).removeprefix("aten.").removesuffix(".default") for target in targets)


_SHORT: Mapping[torch.dtype, str] = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8",
    torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip


def _dtypes(tried: Sequence[OpCase]) -> str:
    """Those of the drawn operands, and where none is drawn in the dtype of the row, those that it names."""
    found: set[torch.dtype] = set()
    for case in tried:
        draws = [each for each in case.args if isinstance(each, Draw)]
        if not draws or any(draw.dtype is None for draw in draws):
            found.update(case.dtypes)
        found.update(draw.dtype for draw in draws[:1] if draw.dtype is not None)
    return " ".join(short for dtype, short in _SHORT.items() if dtype in found)


def becomes(case: OpCase, opset: int) -> str:
    """The ONNX operators of the exported row, in the order in which they come, those of bodies after them."""
    kwargs = next(case.variants())
    model = Called(case.target, (case.args, kwargs), case.results)
    generator = torch.Generator().manual_seed(zlib.crc32(str(case.target).encode()))
    inputs = tuple(leaf.make(case.dtypes[0], generator) for leaf in model.leaves if isinstance(leaf, Draw))
    options = Options(opset=max(opset, case.since))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = export(model, inputs, options=options).model.graph
    found = list(dict.fromkeys(node.op_type for node in _nodes(graph)))
    if found != ["Identity"]:
        found = [name for name in found if name != "Identity"]
    more = f" and {len(found) - WIDTH} more" if len(found) > WIDTH else ""
    return (", ".join(found[:WIDTH]) + more) or "a constant"


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    bodies = []
    for node in graph:
        yield node
        bodies += [each.value for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH]
    for body in bodies:
        yield from _nodes(body)


def page(found: Sequence[Line]) -> str:
    """The whole file."""
    parts = [HEAD]
    for family in sorted({line.family for line in found} - {""}):
        module = importlib.import_module(f"fxport.exporter.lowering.lowerings.{family}")
        about = (module.__doc__ or "").partition("\n")[0]
        parts.append(f"\n## {family}\n\n{about}\n\n{_table([line for line in found if line.family == family])}")
    parts.append(f"{DECOMPOSED}\n{_table([line for line in found if not line.family])}")
    higher = sorted(target.name() for target in registered(LOWERINGS) if isinstance(target, HigherOrderOperator))
    parts.append(CONTROL_FLOW + _listed(higher))
    parts.append(COMPLEX + _listed(sorted({name for target in complex_to_real.ROWS for name in _names([target])})))
    return "".join(parts)


def without_onnx(text: str) -> list[str]:
    """The lines of a page without what the operators become."""
    return re.sub(r"^(\| `[^|]*\|)[^|]*\|", r"\1  |", text, flags=re.MULTILINE).splitlines()


def is_current() -> bool:
    """Whether the page has every operator with its dtypes and opset; what they become takes longer to see."""
    expected = page([Unexported(line.family, line.targets, line.dtypes, line.opset, line.case) for line in lines()])
    return without_onnx(PAGE.read_text(encoding="utf-8")) == without_onnx(expected)


def _table(found: Sequence[Line]) -> str:
    body = "\n".join(line.text for line in found)
    return f"| PyTorch | ONNX | dtypes | opset |\n|---|---|---|---|\n{body}\n"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + ".\n"


def main() -> int:
    draft = PAGE.with_suffix(".partial")
    draft.write_text(page(lines()), encoding="utf-8")
    draft.replace(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
