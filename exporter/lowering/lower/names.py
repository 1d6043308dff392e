"""Names of dimensions: the user's own where there is one, and expressions over them."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from fxport.fx_passes.sizes import Size


class DimNames:
    """Sizes as ONNX writes them: a number, or the text of an expression over the users' names ("3*batch + 1")."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._texts: dict[sympy.Expr, str] = {}

    def name(self, size: Size) -> int | str:
        if isinstance(size, int):
            return size
        if size not in self._texts:
            renamed = {s: sympy.Symbol(self._names.get(str(s), str(s))) for s in size.free_symbols}
            self._texts[size] = str(size.subs(renamed))  # type: ignore[arg-type]  # symbols only
        return self._texts[size]
