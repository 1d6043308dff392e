"""Quotients of whole numbers whose common factors are taken out before PyTorch sees them.

`FloorDiv` takes them out as well, and lets sympy simplify both operands then, with all that is nested in them: one
quotient of sizes of windows takes 9 s.
"""

from __future__ import annotations

import math
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv

Expr = Any
"""An expression of sympy, which has no types."""


def quotient(base: Expr, divisor: Expr) -> Expr:
    """Return `base // divisor` as Python rounds it."""
    if not isinstance(base, (sympy.Add, sympy.Mul)):
        return FloorDiv(base, divisor)
    numbers = [term.as_coeff_Mul()[0] for each in (base, divisor) for term in sympy.Add.make_args(each)]
    if all(isinstance(each, sympy.Integer) for each in numbers) and (common := math.gcd(*map(int, numbers))) > 1:
        base, divisor = (sympy.Add(*(term / common for term in sympy.Add.make_args(each))) for each in (base, divisor))
    terms = [[*sympy.Mul.make_args(term)] for term in sympy.Add.make_args(base)]
    below = [*sympy.Mul.make_args(divisor)]  # factors one by one, as sympy multiplies a number into a sum
    for factor in [each for each in below if not each.is_Number]:
        if all(factor in each for each in terms):
            for each in (*terms, below):
                each.remove(factor)
    return FloorDiv(sympy.Add(*(sympy.Mul(*each) for each in terms)), sympy.Mul(*below))
