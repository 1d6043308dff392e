"""Private parts of PyTorch that this repository uses: the form of a row, the check of one, and the rows of fx_passes.

A row is in the table of the package that uses it: here, in `exporter.capture.private` or in
`exporter.pipeline.private`. Each package verifies its table when it is imported, so that another PyTorch is refused by
the names of what it lacks, and not in the middle of a capture. `tests/exporter/test_torch_uses.py` finds uses that are
in no table.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from fxport.diagnostics.errors import FxportError


class Kind(Enum):
    """Kind of use of a part of PyTorch, which determines how its presence is checked."""

    NAME = "a module, class or object has an attribute of this name"
    FIELD = "instances of a class have an attribute of this name"
    CALL = "a function takes these parameters, in this order among others"
    FRAME = "a function is recognized on the stack by its code object"
    TEXT = "a module's source holds a text that is recognized in a message or set as an attribute"


@dataclass(frozen=True, slots=True)
class Private:
    """A row: names of one owner, with what happens where one of them is gone.

    Attributes:
        kind: How the names are used.
        owner: A module ("torch._refs"), or a part of one ("torch.fx.experimental.sym_node:SymNode").
        names: Attributes of the owner; of a TEXT, texts in its source.
        use: What the names are used for.
        parameters: Of a CALL, the parameters that are used.
        fallback: What is done where a name is gone; empty where PyTorch is refused when the package is imported.
    """

    kind: Kind
    owner: str
    names: tuple[str, ...]
    use: str
    parameters: tuple[str, ...] = ()
    fallback: str = ""

    @property
    def full_names(self) -> tuple[str, ...]:
        """The names behind that of their owner, as source code writes them: "torch._refs.tensor"."""
        return tuple(f"{self.owner.replace(':', '.')}.{name}" for name in self.names)


Rows = tuple[Private, ...]


class OtherTorch(FxportError, ImportError):
    """The installed PyTorch lacks private parts that fxport uses. The text names them."""


def names(owner: str, listed: str, use: str, fallback: str = "") -> Private:
    """Make a row of attributes; `listed` separates them by spaces."""
    return Private(Kind.NAME, owner, tuple(listed.split()), use, fallback=fallback)


def fields(owner: str, listed: str, use: str, fallback: str = "") -> Private:
    """Make a row of attributes that the instances of a class have; `listed` separates them by spaces."""
    return Private(Kind.FIELD, owner, tuple(listed.split()), use, fallback=fallback)


def call(owner: str, name: str, parameters: str, use: str) -> Private:
    """Make a row of a function and the parameters that are used of it, separated by spaces."""
    return Private(Kind.CALL, owner, (name,), use, tuple(parameters.split()))


def frames(owner: str, listed: str, use: str) -> Private:
    """Make a row of functions that are recognized on the stack; an inner one is named behind the outer: "f.inner"."""
    return Private(Kind.FRAME, owner, tuple(listed.split()), use)


def text(owner: str, said: str, use: str) -> Private:
    """Make a row of a text that a module of PyTorch's holds."""
    return Private(Kind.TEXT, owner, (said,), use)


def verify(rows: Iterable[Private]) -> None:
    """Check that the installed PyTorch has what the rows name, but for those that have a fallback.

    Raises:
        OtherTorch: Something is gone, or takes other parameters. The text lists all of it.
    """
    found = [gap for row in rows if not row.fallback for gap in gaps(row)]
    if found:
        raise OtherTorch(f"fxport cannot work with torch {torch.__version__}: " + "; ".join(found))


def is_whole(rows: Iterable[Private]) -> bool:
    """Return whether the installed PyTorch has all that the rows name, those with a fallback among them."""
    return not any(True for row in rows for _ in gaps(row))


def gaps(row: Private) -> Iterator[str]:
    """Tell what of a row the installed PyTorch does not have."""
    for name in row.names:
        try:
            missing = CHECKS[row.kind](found_by(row.owner), name, row)
        except (ImportError, AttributeError) as error:
            missing = str(error)
        if missing is not None:
            yield f"{row.owner}, '{name}' ({row.use}): {missing}"


def found_by(name: str) -> Any:
    """Return the module, or the part of it, that has this name: "torch._refs", "torch.fx.proxy:TracerBase"."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    return attrgetter(attribute)(found) if attribute else found


def codes(rows: Iterable[Private]) -> frozenset[CodeType]:
    """Return the code objects of the functions in the FRAME rows, which the frames of their calls have."""
    found = (row for row in rows if row.kind is Kind.FRAME)
    return frozenset(_code_of(found_by(row.owner), name) for row in found for name in row.names)


def _code_of(owner: Any, name: str) -> CodeType:
    """Return the code of a function, also of one that is defined inside of another: "is_contiguous.eval_eager"."""
    found = owner
    for part in name.split("."):
        constants = getattr(getattr(found, "__code__", found), "co_consts", ())
        inner = [each for each in constants if isinstance(each, CodeType) and each.co_name == part]
        found = inner[0] if inner else inspect.unwrap(getattr(found, part))
    return found if isinstance(found, CodeType) else found.__code__


def _name_gap(owner: Any, name: str, row: Private) -> str | None:
    attrgetter(name)(owner)
    return None


def _field_gap(owner: Any, name: str, row: Private) -> str | None:
    """Look for a class attribute, an annotation, or a name that the code of a method has."""
    for kind in owner.__mro__:
        own = vars(kind)
        methods = (each for each in own.values() if isinstance(getattr(each, "__code__", None), CodeType))
        if name in own or name in own.get("__annotations__", ()) or any(name in m.__code__.co_names for m in methods):
            return None
    return "its instances have no such attribute"


def _call_gap(owner: Any, name: str, row: Private) -> str | None:
    has = tuple(inspect.signature(attrgetter(name)(owner)).parameters)
    kept = tuple(each for each in has if each in row.parameters)
    return None if kept == row.parameters else f"it takes {has}, and is used with {row.parameters}"


def _frame_gap(owner: Any, name: str, row: Private) -> str | None:
    code = _code_of(owner, name)
    return None if code.co_name == name.rpartition(".")[2] else f"its code is named '{code.co_name}'"


def _text_gap(owner: Any, name: str, row: Private) -> str | None:
    return None if name in Path(owner.__file__).read_text(encoding="utf-8") else "its source has no such text"


CHECKS: Mapping[Kind, Callable[[Any, str, Private], str | None]] = {
    Kind.NAME: _name_gap,
    Kind.FIELD: _field_gap,
    Kind.CALL: _call_gap,
    Kind.FRAME: _frame_gap,
    Kind.TEXT: _text_gap,
}
"""Each returns what is missing of one name, or raises AttributeError."""


SHARED: Rows = (
    names("torch._ops", "OpOverload OpOverloadPacket HigherOrderOperator", "types of targets; none is public"),
    fields("torch._ops:OpOverload", "_schema tags namespace overloadpacket", "the schema of an ATen target, its name"),
    names("torch._C", "FunctionSchema Argument", "types of a schema and its arguments"),
    names(
        "torch._subclasses", "FakeTensor FakeTensorMode", "types of values in `node.meta`; FakeTensorMode is documented"
    ),
    names("torch._subclasses.fake_tensor", "FakeTensor FakeTensorMode", "the same, by their module"),
    fields("torch._subclasses.fake_tensor:FakeTensor", "fake_mode", "the mode that made a value"),
    fields(
        "torch._subclasses.fake_tensor:FakeTensorMode", "shape_env", "the environment that knows the sizes of values"
    ),
    names(
        "torch.fx.experimental.symbolic_shapes",
        "GuardOnDataDependentSymNode free_unbacked_symbols statically_known_true",
        "asks about sizes",
    ),
    fields("torch.fx.experimental.sym_node:SymNode", "expr", "the expression of a symbolic number"),
    names("torch", "_check", "documented: what users are told to call"),
    names("torch", "__version__", "named in messages"),
    names(
        "torch.utils._sympy.functions",
        "CeilToInt CleanDiv FloorDiv FloorToInt IntTrueDiv Max Min Mod PythonMod RoundToInt TruncToInt",
        "the functions that PyTorch writes sizes with, matched by their types",
    ),
    names(
        "torch.utils._pytree",
        "GetAttrKey MappingKey SequenceKey TreeSpec keystr register_pytree_node tree_flatten tree_flatten_with_path "
        "tree_leaves tree_map tree_map_only tree_structure tree_unflatten",
        "how torch.export takes nested inputs apart",
    ),
    names("torch.utils._python_dispatch", "TorchDispatchMode", "documented: a mode below autograd"),
    names(
        "torch.utils._python_dispatch:TorchDispatchMode", "ignore_compile_internals __torch_dispatch__", "overridden"
    ),
)
"""Private parts of PyTorch that every package may use."""

BROADCASTING: Rows = (frames("torch._prims", "_broadcast_in_dim_meta", "broadcasting"),)
"""Functions that take it, where they do not know better, that a size is not one that broadcasts."""

_SHAPE_ENV = "torch.fx.experimental.symbolic_shapes:ShapeEnv"

FX_PASSES: Rows = (
    *BROADCASTING,
    call(_SHAPE_ENV, "guard_or_defer_runtime_assert", "self orig_expr", "replaced: does not learn what is so taken"),
    names("torch", "sym_ite", "documented: the size that a result of broadcasting has"),
    call("torch.fx.experimental.sym_node:SymNode", "_sym_ite", "", "replaced: writes that size in one form"),
    fields("torch.fx.experimental.sym_node:SymNode", "_hint", "tells sizes that data decide"),
    call("torch._refs", "_broadcast_shapes", "_shapes", "replaced: broadcasts sizes that data decide"),
    call("torch._refs", "_maybe_broadcast", "args preserve_cpu_scalar_tensors", "replaced: the same"),
    call("torch._refs", "expand", "a shape", "the same, also in a kernel, where `x.expand` takes no symbolic sizes"),
    names("torch._meta_registrations", "_broadcast_shapes _maybe_broadcast", "the same"),
    names("torch._refs._conversions", "_broadcast_shapes", "the same"),
    call(
        "torch._meta_registrations",
        "check_inplace_broadcast",
        "self_shape args_shape",
        "replaced: for operators in place",
    ),
    call("torch._subclasses.fake_impls", "infer_size", "a b", "the same"),
    names("torch", "_meta_registrations _refs", "modules in which broadcasting is replaced"),
    names("torch._prims_common", "is_cpu_scalar_tensor", "what broadcasting leaves as it is"),
    names("torch.utils._sympy.functions", "Where", "the size of a result of broadcasting"),
    names("torch", "__file__", "frames of PyTorch that are between a check and what is learned"),
    names("torch.fx.experimental", "__path__", "the same"),
    names("torch.fx.experimental.symbolic_shapes", "ShapeEnv guard_or_false", "asks about sizes"),
    names("torch._C", "_AutoDispatchBelowAutograd", "runs a rule as a kernel does, without autograd"),
    names("torch._decomp", "core_aten_decompositions decomposition_table", "PyTorch's decompositions by op"),
    names(
        "torch._higher_order_ops.auto_functionalize", "auto_functionalized_v2_dense", "custom ops that write, as values"
    ),
    call(
        "torch.fx.experimental.symbolic_shapes:ShapeEnv",
        "_set_replacement",
        "self a tgt msg",
        "replaced: refuses to decide anything about a dynamic size after the capture",
    ),
    call(_SHAPE_ENV, "_log_guard", "self prefix forcing_spec", "replaced: the same, before a guard is made"),
    names(
        "torch.fx.experimental._config", "backed_size_oblivious patch", "asks nothing of a size whose example is 0 or 1"
    ),
    fields(_SHAPE_ENV, "backed_var_to_val replacements var_to_range", "what is known of the sizes already"),
    fields(_SHAPE_ENV, "_version_counter", "the same: PyTorch looks anew for what follows from it when this changes"),
    names(_SHAPE_ENV, "suppress_guards", "answers by the example where nothing is to be relied on"),
    call(_SHAPE_ENV, "_maybe_evaluate_static", "self expr", "whether a condition follows from what is known"),
    call(
        "torch._higher_order_ops.flex_attention",
        "math_attention",
        "query key value score_mod block_mask",
        "computes flex_attention where PyTorch has no kernel",
    ),
    names("torch._higher_order_ops.out_dtype", "out_dtype_fallback", "decomposes out_dtype"),
    names("torch._library.custom_ops", "OPDEFS", "the Python of operators of `torch.library.custom_op`"),
    fields("torch._library.custom_ops:CustomOpDef", "_init_fn", "that Python"),
    names("torch._library.utils", "lookup_op", "the overload of a qualified name"),
    fields(
        "torch._ops:OpOverload", "_can_decompose decompose _overloadname", "whether PyTorch composes an op, and how"
    ),
    names("torch._prims_common", "elementwise_dtypes ELEMENTWISE_TYPE_PROMOTION_KIND", "PyTorch's type promotion"),
    names("torch._prims_common:ELEMENTWISE_TYPE_PROMOTION_KIND", "NO_OPMATH", "promotion by arguments alone"),
    call(
        "torch.fx.experimental.proxy_tensor",
        "make_fx",
        "f decomposition_table tracing_mode _allow_non_fake_inputs",
        "traces one decomposition",
    ),
    names("torch", "_meta_registrations", "the module in which a function is replaced"),
    call("torch._meta_registrations", "_exec_fft", "out self out_sizes dim", "replaced: strides decide no size"),
    names("torch.utils._python_dispatch", "_disable_current_modes", "makes fake tensors out of the sight of a trace"),
    fields(
        "torch.fx.experimental.symbolic_shapes:ShapeEnv",
        "pending_fresh_unbacked_symbols",
        "symbols that a node which is run again makes, and nothing shall bind",
    ),
    names(
        "torch.fx.experimental.proxy_tensor",
        "get_proxy_mode handle_sym_dispatch",
        "writes `//` of numbers into a graph",
    ),
    names("torch.fx.experimental.sym_node", "SymNode wrap_node", "numbers of a graph that are not known"),
    names(
        "torch.fx.experimental.sym_node:SymNode",
        "_add _sub _mul _mod _neg _int_floordiv _trunc",
        "replaced: numbers as Python computes them",
    ),
    call("torch.fx.experimental.sym_node:SymNode", "__init__", "self expr shape_env pytype hint", "the same"),
    call("torch.fx.experimental.sym_node:SymNode", "wrap_float", "self num", "the same"),
    fields("torch.fx.experimental.sym_node:SymNode", "hint is_float shape_env", "the same"),
    names("torch:SymInt", "__floordiv__ __rfloordiv__", "the same"),
    names("torch:SymFloat", "__floordiv__ __rfloordiv__", "the same"),
    names("torch.utils._sympy.functions", "FloatTrueDiv Identity", "the same, in expressions"),
    names("torch.utils._sympy.reference", "PythonReferenceAnalysis", "extended: what such an expression is in a graph"),
    names(
        "torch.utils._sympy.value_ranges", "SymPyValueRangeAnalysis ValueRanges", "extended: limits of an expression"
    ),
    names("torch.utils._sympy.value_ranges:ValueRanges", "unknown wrap", "the same"),
    fields("torch.utils._sympy.value_ranges:ValueRanges", "lower upper", "the same"),
    names("torch.utils._sympy.printers:PythonPrinter", "parenthesize", "the text of an expression"),
    text("torch.utils._sympy.interp", "_torch_handler_name", "the handler that a class of expressions names"),
    text("torch.utils._sympy.printers", "_torch_sympystr", "the text of an expression that its class writes"),
    names("torch:UntypedStorage", "_cdata", "tells whether two tensors share their memory"),
)
"""Private parts of PyTorch that only fx_passes uses."""
