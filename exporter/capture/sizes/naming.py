"""Symbols for sizes that are fractions made whole, such as those of a picture scaled to fit a frame.

PyTorch's algebra takes minutes over what a network computes from such a size, and learns nothing from where it came
from. What is asked of the symbol is asked of the definition that it carries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock

import sympy
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, ValueRangesSLoc, free_unbacked_symbols
from torch.utils._sympy.functions import IntTrueDiv
from torch.utils._sympy.value_ranges import bound_sympy

from fxport.exporter.capture.sizes.floor_linear import TO_INT
from fxport.fx_passes.sizes import NamedSize


def named(node: SymNode, expr: Any, names: dict[Any, NamedSize]) -> Any:
    """Return the expression of a number, or the symbol that stands for it from now on, which is added to `names`."""
    env = node.shape_env
    if node.pytype is not int or env is None or node.hint is None or not _is_opaque(expr):
        return expr
    if (env, expr) not in names:
        names[env, expr] = _symbol(expr, int(node.hint), env)
    return names[env, expr]


@lru_cache(maxsize=2**14)  # an operand is asked about in each operation; the answer is of the expression alone
def _is_opaque(expr: Any) -> bool:
    """Return whether a size that several others determine rounds something else than a quotient of whole numbers."""
    if len(expr.free_symbols) < 2 or free_unbacked_symbols(expr):
        return False
    return any(not isinstance(each.args[0], IntTrueDiv) for each in expr.atoms(*TO_INT))


def _symbol(expr: Any, hint: int, env: ShapeEnv) -> NamedSize:
    bounds = bound_sympy(expr, env.var_to_range)
    sign = {"nonnegative": True} if bounds.lower >= 0 else {}
    symbol = NamedSize(f"s{env._generate_unique_id(str(expr))}", expr, integer=True, **sign)
    here = env._get_sloc()
    env.backed_var_to_val[symbol] = sympy.Integer(hint)
    env.var_to_range[symbol], env.var_to_range_sloc[symbol] = bounds, ValueRangesSLoc(here, here)
    env.var_to_sources[symbol] = []
    return symbol


@contextmanager
def names_unasked() -> Iterator[None]:
    """Keep PyTorch from looking for the input of a named size, and from replacing the size of an input by one.

    Nor does it solve conditions on truth values in arithmetic, which its solver refuses.
    """
    produce, replace = ShapeEnv.produce_guards, ShapeEnv._set_replacement

    def produced(env: ShapeEnv, *args: Any, **kwargs: Any) -> Any:
        env.guards = [guard for guard in env.guards if not guard.expr.atoms(NamedSize, sympy.Piecewise)]
        return produce(env, *args, **kwargs)

    def replaced(env: ShapeEnv, a: Any, tgt: Any, msg: str) -> None:
        if isinstance(a, NamedSize) or not tgt.atoms(NamedSize):
            replace(env, a, tgt, msg)

    with (
        mock.patch.object(ShapeEnv, "produce_guards", produced),
        mock.patch.object(ShapeEnv, "_set_replacement", replaced),
    ):
        yield
