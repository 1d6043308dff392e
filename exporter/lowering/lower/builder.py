"""`Op`, what a lowering writes with: every ONNX operator is a method, numbers and sizes become values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import sympy

from fxport.exporter.lowering.lower.output_types import BODIES, OUTPUT_TYPES, STATISTICS, from_body
from fxport.exporter.lowering.lower.schema import OpSchema, schema_of
from fxport.exporter.lowering.lower.symbols import Symbols
from fxport.fx_passes.sizes import Size, is_symbolic, plain

Value = ir.Value
Values = Sequence[ir.Value]
Scalar = bool | int | float | sympy.Expr

PLACE = "fxport.place"
"""Node metadata: index of the node's line in the model's table of places."""

REGION = "fxport.region"
"""Node metadata, in memory only: the calls of regions that the node is inside of, outermost first."""

SIZES = "fxport.sizes"
"""Value metadata, in memory only: its sizes as numbers and expressions."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dtype and sizes of a result, from its fake tensor."""

    dtype: ir.DataType
    sizes: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True)
class RegionCall:
    """One call of a region that may become a function: its name, the call's number, and the place of the call."""

    name: str
    number: int
    place: int | None


class Scope:
    """The nodes of one graph under construction, and what was computed in it or around it."""

    def __init__(self, parent: Scope | None = None, nodes: list[ir.Node] | None = None) -> None:
        self.parent = parent
        self.nodes = [] if nodes is None else nodes
        self._known: dict[Any, ir.Value] = {}

    def lookup(self, key: Any) -> ir.Value | None:
        if key in self._known:
            return self._known[key]
        return self.parent.lookup(key) if self.parent is not None else None

    def remember(self, key: Any, value: ir.Value) -> None:
        self._known[key] = value


class Op:
    """Writes ONNX nodes at one opset into the current scope.

    `op.Add(x, 1.0)` appends a node and returns its output: a Value, or a tuple of them with `outputs=n`. Python numbers
    become constants of the type that the operator's schema asks for at that place, sequences of sizes become shape
    vectors. The outputs' dtypes follow from the schema. Attributes are keyword arguments; None leaves one out.

    While a lowering runs, `target` is the ATen overload that it stands for, and `out` and `outs` tell the types of the
    results it has to give.
    """

    def __init__(
        self,
        opset: int,
        inline: Callable[[Any, Sequence[Any], str | None], list[Value]] | None = None,
        dim_name: Callable[[Size], int | str] = str,
    ) -> None:
        self.opset = opset
        self.scope = Scope()
        self.symbols = Symbols(self)
        self.initializers: dict[str, ir.Value] = {}
        self.domains: dict[str, int] = {"": opset}
        self.target: Any = None
        self.outs: tuple[TensorType, ...] = ()
        self.place: int | None = None
        self.regions: tuple[RegionCall, ...] = ()
        self.customs: list[tuple[str, str]] = []
        self.prefix = ""
        self._inline = inline
        self._dim_name = dim_name
        self._constants: dict[Any, ir.Value] = {}
        self._names: dict[str, int] = {}

    @property
    def out(self) -> TensorType:
        """The type of the (first) result of the ATen op being lowered."""
        return self.outs[0]

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def write(*inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
            return self.call(op_type, *inputs, outputs=outputs, **attributes)

        return write

    def call(self, op_type: str, *inputs: Any, outputs: int | None = None, domain: str = "", **attributes: Any) -> Any:
        """Appends a node of a standard operator. Raises AttributeError where the opset has no such operator."""
        schema = schema_of(op_type, self.domains.get(domain, self.opset), domain)
        unknown = attributes.keys() - schema.attributes
        if unknown:
            raise TypeError(f"{op_type} has no attribute {', '.join(sorted(unknown))} at opset {self.opset}")
        operands = self._operands(op_type, schema, inputs)
        node = self._append(op_type, operands, domain, attributes, outputs or max(schema.min_outputs, 1))
        self._type_outputs(node, schema, operands)
        return node.outputs[0] if outputs is None else tuple(node.outputs)

    def custom(
        self,
        domain: str,
        op_type: str,
        *inputs: Value | None,
        version: int = 1,
        outputs: int | None = None,
        **attributes: Any,
    ) -> Any:
        """Appends a node outside the standard; its outputs get the types of the results being lowered."""
        self.domains[domain] = version
        self.customs.append((domain, op_type))
        node = self._append(op_type, list(inputs), domain, attributes, outputs or 1)
        for value, known in zip(node.outputs, self.outs, strict=False):
            value.dtype = known.dtype
        return node.outputs[0] if outputs is None else tuple(node.outputs)

    def _append(
        self, op_type: str, operands: Sequence[Value | None], domain: str, attributes: Mapping[str, Any], outputs: int
    ) -> ir.Node:
        name = self.unique(f"{self.prefix}/{op_type}" if self.prefix else op_type)
        node = ir.Node(
            domain,
            op_type,
            operands,
            ir.convenience.convert_attributes({k: _attribute(v) for k, v in attributes.items() if v is not None}),
            outputs=[ir.Value(name=name if i == 0 else f"{name}.{i}") for i in range(outputs)],
            name=name,
        )
        if self.place is not None:
            node.metadata_props[PLACE] = str(self.place)
        if self.regions:
            node.meta[REGION] = self.regions
        self.scope.nodes.append(node)
        return node

    def unique(self, name: str) -> str:
        """A name that nothing in the model has yet: the given one, or with a number behind it."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return self.unique(f"{name}_{count}") if count else name

    # Operands -------------------------------------------------------------------------------------------------------

    def _operands(self, op_type: str, schema: OpSchema, inputs: Sequence[Any]) -> list[Value | None]:
        variables: dict[str, ir.DataType] = {}
        for index, operand in enumerate(inputs):
            if isinstance(operand, ir.Value) and operand.dtype is not None:
                parameter = schema.input(index)
                seen = variables.setdefault(parameter.variable, operand.dtype)
                if seen != operand.dtype and parameter.homogeneous:
                    raise TypeError(f"{op_type} got {seen.name} and {operand.dtype.name}, which must be the same type")
        operands: list[Value | None] = []
        for index, operand in enumerate(inputs):
            if operand is None or isinstance(operand, ir.Value):
                operands.append(operand)
            else:
                parameter = schema.input(index)
                dtype = parameter.fixed or variables.get(parameter.variable)
                if dtype is None and isinstance(operand, float) and ir.DataType.DOUBLE in variables.values():
                    dtype = ir.DataType.DOUBLE  # an exponent of doubles: rounded to a float, a root would be another
                operands.append(self.const(operand, dtype=dtype))
        return operands

    def _type_outputs(self, node: ir.Node, schema: OpSchema, operands: Sequence[Value | None]) -> None:
        for index, value in enumerate(node.outputs):
            value.dtype = self._output_type(node, schema, operands, index)  # type: ignore[assignment]  # the walk knows

    def _output_type(
        self, node: ir.Node, schema: OpSchema, operands: Sequence[Value | None], index: int
    ) -> ir.DataType | None:
        parameter = schema.output(index)
        if node.op_type in BODIES:
            return from_body(node, index)
        if index == 0 and node.op_type in OUTPUT_TYPES:
            return OUTPUT_TYPES[node.op_type](node)
        if parameter.fixed is not None:
            return parameter.fixed
        if index > 0 and node.op_type in STATISTICS:
            return STATISTICS[node.op_type]
        alike = (x for i, x in enumerate(operands) if schema.input(i).variable == parameter.variable)
        return next((x.dtype for x in alike if x is not None), None)

    # Constants and sizes ----------------------------------------------------------------------------------------------

    def const(self, value: Any, *, dtype: ir.DataType | None = None, like: Value | None = None) -> Value:
        """A constant: a number (shape []), a flat sequence of numbers (shape [n]) or an array.

        `like` lends its dtype. Symbolic numbers become computed values of that dtype, and a value is cast to it, so
        that "tensor or number" arguments need no cases. Equal constants are one.
        """
        dtype = like.dtype if like is not None else dtype
        if isinstance(value, ir.Value):
            return value if dtype is None else self.cast(value, dtype)
        if isinstance(value, (list, tuple)) and any(is_symbolic(plain(v)) for v in value):
            vector = self.symbols.shape(value)
            return vector if dtype in (None, ir.DataType.INT64) else self.Cast(vector, to=dtype)
        value = plain(value)
        if is_symbolic(value):
            scalar = self.symbols.scalar(value)
            return scalar if dtype is None else self.cast(scalar, dtype)
        array = _array(value, dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            name = self.unique("const")
            tensor = ir.Tensor(array, name=name)
            made = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
            made.meta[SIZES] = tuple(array.shape)
            self.initializers[name] = made
            self._constants[key] = made
        return self._constants[key]

    def shape(self, sizes: Sequence[Size]) -> Value:
        """Sizes as an INT64 vector, constant where none is symbolic."""
        return self.symbols.shape(sizes)

    def sizes(self, x: Value) -> tuple[Size, ...]:
        """The sizes of a value: numbers, and expressions where they are symbolic. Known for every ATen operand."""
        try:
            return x.meta[SIZES]
        except KeyError:
            raise LookupError(f"the sizes of the intermediate value '{x.name}' are not known") from None

    def rank(self, x: Value) -> int:
        return len(self.sizes(x))

    def is_scalar(self, x: Value) -> bool:
        """Return True if a value is known to be of rank 0; of a Loop's outputs, nothing is known."""
        return x.meta.get(SIZES) == ()

    def typed(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Notes the sizes of an intermediate value, for helpers that ask for them."""
        x.meta[SIZES] = tuple(plain(size) for size in sizes)
        return x

    # Common steps -----------------------------------------------------------------------------------------------------

    def cast(self, x: Value, dtype: ir.DataType) -> Value:
        """`x` in another dtype; `x` itself if it has that dtype. What is too large for FLOAT8E5M2 becomes infinite."""
        if x.dtype == dtype:
            return x
        y = self.Cast(x, to=dtype, **({"saturate": 0} if dtype == ir.DataType.FLOAT8E5M2 else {}))
        if SIZES in x.meta:
            y.meta[SIZES] = x.meta[SIZES]
        return y

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """`x` with new sizes, by a constant shape wherever 0 (copy the axis) and one -1 (infer) can say it."""
        target = [plain(size) for size in sizes]
        known = x.meta.get(SIZES)
        hints: list[Size] = list(target)
        for axis, size in enumerate(target):
            if is_symbolic(size) and known is not None and axis < len(known) and known[axis] == size:
                hints[axis] = 0
        computed = [axis for axis, size in enumerate(hints) if is_symbolic(size)]
        zero = any(size == 0 for size in target)
        if len(computed) == 1 and all(is_not_zero(size) for axis, size in enumerate(target) if axis != computed[0]):
            hints[computed[0]] = -1
            computed = []
        # Without allowzero, a size that is computed as 0 would copy the axis of the input instead.
        literal = zero or bool(computed)
        if literal:
            hints = target
        result = self.Reshape(x, self.shape(hints), allowzero=1 if literal else None)
        return self.typed(result, target)

    # Graphs within the graph ----------------------------------------------------------------------------------------

    def graph(self, inputs: Sequence[Value], build: Callable[[], Sequence[Any]]) -> ir.Graph:
        """A graph for an attribute: the nodes that `build` writes and the results that it returns.

        `inputs` are made by `formal`; everything else that the nodes read is a value of the graph around. A result that
        is not the graph's own, or that stands twice, is copied, as ONNX asks; numbers become values.
        """
        outer, sources = self.scope, self.symbols.snapshot()
        self.scope = Scope(outer)
        try:
            results = [x if isinstance(x, ir.Value) else self.symbols.scalar(x) for x in build()]
            own = {id(value) for node in self.scope.nodes for value in node.outputs}
            outputs: list[Value] = []
            for value in results:
                outputs.append(value if id(value) in own else self._copy(value))
                own.discard(id(value))
            return ir.Graph(list(inputs), outputs, nodes=self.scope.nodes, name=self.unique(f"{self.prefix}/graph"))
        finally:
            self.scope = outer
            self.symbols.restore(sources)

    def formal(self, dtype: ir.DataType | None, sizes: Sequence[Size] | None) -> Value:
        """A formal input of a graph within the graph; without sizes where a loop changes them."""
        value = Value(name=self.unique(f"{self.prefix}/formal"))
        if dtype is not None and sizes is not None:
            self.stamp(value, TensorType(dtype, tuple(sizes)))
        elif dtype is not None:
            value.dtype = dtype
        return value

    def inline(self, gm: Any, operands: Sequence[Any], region: str | None = None) -> list[Value]:
        """The results of a control-flow body, its nodes written here; operands stand for its placeholders.

        With `region`, they are one call of a region of that name.
        """
        if self._inline is None:
            raise RuntimeError("this Op was made without a way to lower bodies")
        return self._inline(gm, operands, region)

    def body(self, gm: Any, operands: Sequence[Any]) -> ir.Graph:
        """The graph of a control-flow body without inputs of its own."""
        return self.graph((), lambda: self.inline(gm, operands))

    def stamp(self, value: Value, kind: TensorType) -> None:
        """Notes a value's type, with the names of its symbolic sizes."""
        value.dtype = kind.dtype
        value.shape = ir.Shape([self._dim_name(size) for size in kind.sizes])
        value.meta[SIZES] = kind.sizes

    def _copy(self, value: Value) -> Value:
        copy = self.Identity(value)
        copy.shape = value.shape
        if SIZES in value.meta:
            copy.meta[SIZES] = value.meta[SIZES]
        return copy


def is_not_zero(size: Size) -> bool:
    """Return True if a size is at least 1 whenever the model runs; a data-dependent size may be 0."""
    return bool(size.is_positive) if isinstance(size, sympy.Expr) else size > 0


def _attribute(value: Any) -> Any:
    if isinstance(value, (ir.DataType, bool)):
        return int(value)
    if isinstance(value, np.ndarray):
        return ir.Tensor(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _array(value: Any, dtype: ir.DataType | None) -> np.ndarray:
    """A Python number, a sequence of them or an array as an array of the dtype; floats default to float32."""
    if isinstance(value, np.ndarray):
        return value if dtype is None else value.astype(dtype.numpy())
    if dtype is None:
        sample = (
            value[0] if isinstance(value, (list, tuple)) and value else 0 if isinstance(value, (list, tuple)) else value
        )
        dtype = _DEFAULTS[type(sample)]
    if isinstance(value, (list, tuple)) and not value:
        return np.zeros((0,), dtype.numpy())
    if dtype in _WRAPPING:
        return np.asarray(value).astype(dtype.numpy())
    with np.errstate(over="ignore"):  # PyTorch, too, lets a literal that is too large become infinity
        return np.asarray(value, np.float64 if dtype in _VIA_DOUBLE else None).astype(dtype.numpy())


_DEFAULTS: Mapping[type, ir.DataType] = {
    bool: ir.DataType.BOOL,
    int: ir.DataType.INT64,
    float: ir.DataType.FLOAT,
    complex: ir.DataType.COMPLEX64,
}
_WRAPPING = frozenset({ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32})
_VIA_DOUBLE = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})
