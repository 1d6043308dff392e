"""Kernels of ONNX Runtime that are exact on the scale of 1, and not beside 0: their errors told from faults of a model.

Sigmoid of -16 is 1.1e-7, and the kernel misses it by up to 1.7e-7; Elu, Celu and Selu subtract 1 from an exponential.
PyTorch has these numbers to the last digit, so that a sound model differs by what a fault would bring. Three more runs
of the file tell the two apart. In one, the nodes below are computed in float64: what that gives is judged in the place
of the results, by the same budget as ever. In the others, each of them errs by a random part of what was measured for
its kernel: only where that explains how far each result is from that of the first run is any of this done. Nodes that
compute in float64 anyway do not err.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import onnx.parser

from fxport.ort_runner.budget import RATIO, Budget, budget_of
from fxport.ort_runner.compare import compare, disagreements
from fxport.ort_runner.cuts import scratch
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.providers import Provider
from fxport.ort_runner.samples import Arrays
from fxport.ort_runner.session import Runtime
from fxport.ort_runner.trials import NAME, locations, run_file

DOMAIN = "fxport.exact"
PROVIDER = "cpu"
"""The provider whose kernels were measured."""

UNIT = 2.0**-24
"""The unit of the errors below: half the distance from 1 to the next float32."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The largest error of a kernel in float32, and how its operator is computed in float64.

    `body` makes `y` of `w`, float64, and may read `attributes`, which are given with the defaults of ONNX, and
    `negative`, which is true where `w` is. `error` makes `units` of the same and of `y`: the largest error, in units of
    UNIT. `only` are attributes that a node must have for this to be its kernel.
    """

    body: str
    error: str
    attributes: Mapping[str, float] = field(default_factory=dict)
    only: Mapping[str, bytes] = field(default_factory=dict)


EXPM1 = """
    e = Exp ({of})
    less = Sub (e, one)
    half = Div ({of}, two)
    more = Add (one, half)
    near = Mul ({of}, more)
    size = Abs ({of})
    is_near = Less (size, tiny)
    m = Where (is_near, near, less)
"""
"""The exponential less 1: below `tiny` by its series, as float64 has 16 digits."""

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "Sigmoid": Kernel(
            "n = Neg (w) e = Exp (n) s = Add (one, e) y = Div (one, s)",
            "is_end = Less (w, end) b = Where (is_end, one, three) units = Where (negative, b, one)",
        ),
        "Tanh": Kernel("y = Tanh (w)", "units = Mul (y, five)"),
        "Elu": Kernel(
            EXPM1.format(of="w") + "b = Mul (alpha, m) y = Where (negative, b, w)",
            "c = Mul (alpha, two) units = Where (negative, c, zero)",
            {"alpha": 1.0},
        ),
        "Celu": Kernel(
            "q = Div (w, alpha)" + EXPM1.format(of="q") + "b = Mul (alpha, m) y = Where (negative, b, w)",
            "c = Mul (alpha, two) units = Where (negative, c, zero)",
            {"alpha": 1.0},
        ),
        "Selu": Kernel(
            EXPM1.format(of="w") + "b = Mul (alpha, m) t = Where (negative, b, w) y = Mul (gamma, t)",
            "c = Mul (alpha, two) g = Mul (c, gamma) units = Where (negative, g, zero)",
            {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
        ),
        "Gelu": Kernel(
            """
            w2 = Mul (w, w) w3 = Mul (w2, w) k = Mul (w3, cubic) i = Add (w, k) j = Mul (i, root) t = Tanh (j)
            s = Add (one, t) h = Div (w, two) y = Mul (h, s)
            """,
            "v = Neg (w) o = Min (v, five) c = Mul (o, two) units = Where (negative, c, zero)",
            only={"approximate": b"tanh"},
        ),
    }
)
"""Measured with onnxruntime 1.31.1 on the CPU, over 262,144 numbers in each of 18 ranges from -88 to 40: at most 2.8
units for Sigmoid (0.3 below -18, where it is 0, and a rounding above 0), 4.9 parts of the result for Tanh, 1.2 for Elu,
2.3 for Celu with an alpha of 2, 2.6 for Selu, and 2.2 parts of the operand for Gelu, from -5 to 0.
`tests/ort_runner/test_inexact_kernels.py` measures them again."""

BIAS = 0.1
"""The mean of the errors, in parts of the largest: kernels err more to one side than to the other."""

DRAW = """
    w_up = Max (w, lowest) w_in = Min (w_up, highest) fast = Mul (w_in, many) at = Add (fast, seed) wave = Sin (at)
    wide = Mul (wave, many) whole = Floor (wide) part = Sub (wide, whole) twice = Mul (part, two)
    u = Sub (twice, middle)
"""
"""A number from BIAS - 1 to BIAS + 1 by the operand: as of a kernel, the error of one number is always the same."""

WIDTH = """
    fine = CastLike (nearly, x) again = Cast <to = 11> (fine) is_wide = Equal (again, nearly)
    unit = Where (is_wide, zero, single)
"""
"""The unit of errors: none of a kernel of float64, which is told by its keeping a number that float32 does not."""

DRAWS = 2
"""Runs with errors: in both, few elements have nearly none."""

CONSTANTS: Mapping[str, float] = MappingProxyType(
    {
        "zero": 0.0,
        "one": 1.0,
        "two": 2.0,
        "three": 3.0,
        "five": 5.0,
        "end": -18.0,
        "tiny": 1e-5,
        "single": UNIT,
        "cubic": 0.044715,
        "root": 0.7978845608028654,
        "many": 1e6,
        "highest": 1e6,
        "lowest": -1e6,
        "middle": 1.0 - BIAS,
        "nearly": 1.0 + 2.0**-40,
    }
)


@dataclass(frozen=True, slots=True)
class Exact:
    """Outputs with the kernels computed in float64, those of runs with random errors, and the operators concerned."""

    outputs: Arrays
    erring: Sequence[Arrays]
    operators: tuple[str, ...]

    def explains(self, name: str, got: np.ndarray, provider: Provider, sums: float) -> bool:
        """Return True if the errors of the kernels are why an output is not what it is without them."""
        if any(name not in each for each in (self.outputs, *self.erring)):
            return False
        exact, erring = self.outputs[name], [each[name] for each in self.erring]
        if any(each.dtype != got.dtype or each.shape != got.shape for each in (exact, *erring)):
            return False
        if element_of(got.dtype).kind != FLOAT or got.dtype == np.float64 or disagreements(exact, got).any():
            return False
        budget = budget_of(got.dtype, provider, has_exact=True, sums=sums)
        if not _each_explained(exact, got, erring, budget):
            return False
        return not compare(erring[0], got, exact.astype(np.float64), provider=provider, sums=sums).too_big


def _each_explained(exact: np.ndarray, got: np.ndarray, erring: Sequence[np.ndarray], budget: Budget) -> bool:
    """Return True if no element is further from `exact` than the errors of the kernels, or a rounding, take it."""
    x, g = exact.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(g)
    x, g = np.where(finite, x, 0.0), np.where(finite, g, 0.0)
    moved = np.zeros(x.shape)
    for each in erring:
        e = each.astype(np.float64)  # the logarithm of less than nothing is NaN, and whatever is finite is nearer
        moved = np.maximum(moved, np.where(np.isfinite(e), np.abs(np.where(np.isfinite(e), e, 0.0) - x), np.inf))
    known = finite & np.isfinite(moved)
    spread = np.sqrt(np.square(moved[known]).sum() / max(np.count_nonzero(known), 1))
    floor = budget.mean_limit(float(np.abs(x).max(initial=0.0)))
    return bool((np.abs(g - x) <= np.maximum(RATIO * np.maximum(moved, spread), floor))[finite].all())


def exact_outputs(path: Path, inputs: Mapping[str, np.ndarray], runtime: Runtime) -> Exact | None:
    """Run a file without the errors of its kernels, and with others; None where it has none that are inexact."""
    operators: tuple[str, ...] = ()
    runs: list[Arrays] = []
    try:
        for draw in (None, *range(DRAWS)):
            with exact_file(path, draw) as replaced:
                if replaced is None:
                    return None
                runs.append(run_file(replaced.path, inputs, runtime)[1])
                operators = replaced.operators
    except Failure:
        return None
    return Exact(runs[0], runs[1:], operators)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file in which kernels are computed otherwise, and their operators."""

    path: Path
    operators: tuple[str, ...]


@contextmanager
def exact_file(path: Path, draw: int | None = None) -> Iterator[Replaced | None]:
    """The file with its inexact kernels computed in float64, as long as the context lasts; None if it has none.

    With `draw`, each of them errs by a random part of its largest error: another one for each number.
    """
    origin = read_model_file(path)
    if not any(node.op in KERNELS for node in origin.nodes):
        yield None
        return
    model = onnx.load(path, load_external_data=False)
    operators = replace_kernels(model, draw)
    if not operators:
        yield None
        return
    with scratch(path, locations(origin)) as folder:
        target = folder / NAME
        target.write_bytes(model.SerializeToString())
        yield Replaced(target, operators)


@contextmanager
def file_to_run(path: Path, *, exact: bool) -> Iterator[Path]:
    """The file itself or, with `exact`, one without the errors of its kernels."""
    if not exact:
        yield path
        return
    with exact_file(path) as without_errors:
        yield path if without_errors is None else without_errors.path


def replace_kernels(model: onnx.ModelProto, draw: int | None = None) -> tuple[str, ...]:
    """Let functions compute the inexact operators of a model in float64. Returns those operators."""
    graphs: list[Sequence[onnx.NodeProto]] = [model.graph.node, *(each.node for each in model.functions)]
    found = [node for nodes in graphs for node in _nodes(nodes) if _kernel(node) is not None]
    if not found:
        return ()
    used = tuple(sorted({node.op_type for node in found}))
    for number, node in enumerate(found):
        node.domain = DOMAIN
        for name in KERNELS[node.op_type].only:
            node.attribute.remove(next(each for each in node.attribute if each.name == name))
        node.attribute.append(onnx.helper.make_attribute("seed", float(number + (draw or 0) * len(found))))
    imports = (each for held in (model, *model.functions) for each in held.opset_import)
    version = max(
        each.version for each in imports if each.domain in ("", "ai.onnx")
    )  # a model may leave it to functions
    for held in (model, *model.functions):
        held.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    model.functions.extend(_function(op, version, errs=draw is not None) for op in used)
    return used


def _kernel(node: onnx.NodeProto) -> Kernel | None:
    kernel = KERNELS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if kernel is None:
        return None
    given = {each.name: each.s for each in node.attribute}
    return kernel if all(given.get(name) == value for name, value in kernel.only.items()) else None


def _nodes(nodes: Collection[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, with those of the graphs in them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _nodes(graph.node)


def _function(op: str, version: int, *, errs: bool) -> onnx.FunctionProto:
    kernel = KERNELS[op]
    constants = [f"{name} = Constant <value = double {{{number!r}}}> ()" for name, number in CONSTANTS.items()]
    for name in ("seed", *kernel.attributes):
        constants += [f"{name}_f = Constant <value_float: float = @{name}> ()", f"{name} = Cast <to = 11> ({name}_f)"]
    erring = f"{WIDTH} {DRAW} {kernel.error} most = Mul (units, unit) off = Mul (u, most) z = Add (y, off)"
    attributes = ", ".join(["seed: float = 0.0", *(f"{name}: float = {n!r}" for name, n in kernel.attributes.items())])
    text = f"""
        <opset_import: ["" : {version}], domain: "{DOMAIN}">
        {op} <{attributes}> (x) => (r) {{
            {" ".join(constants)}
            w = Cast <to = 11> (x)
            negative = Less (w, zero)
            {kernel.body}
            {erring if errs else "z = Identity (y)"}
            r = CastLike (z, x)
        }}"""
    return onnx.parser.parse_function(text)
