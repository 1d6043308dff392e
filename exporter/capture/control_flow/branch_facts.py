"""Facts about numbers from data, which PyTorch learns in a branch or a loop: they hold there, and not behind it.

`y.view(3, 1)` has PyTorch take `len(y)` to be 3 from there on. Behind `if len(y) == 3: y.view(3, 1)` it is any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols


@contextmanager
def facts_forgotten(env: Any) -> Iterator[None]:
    """Forget at the end what was learned of the numbers from data that were known before.

    Args:
        env: PyTorch's `ShapeEnv`; None where a capture has no symbols.
    """
    if env is None:
        yield
        return
    known = {symbol for symbol in env.var_to_range if free_unbacked_symbols(symbol)}
    tables = [{key: table[key] for key in known & table.keys()} for table in _tables(env)]
    asserts = {key: [*found] for key, found in env.deferred_runtime_asserts.items()}
    axioms, size_like = {**env.axioms}, known & env.size_like
    try:
        yield
    finally:
        for table, before in zip(_tables(env), tables, strict=True):
            for key in known & table.keys() - before.keys():
                del table[key]
            table.update(before)
        for key in known & env.deferred_runtime_asserts.keys():
            env.deferred_runtime_asserts[key] = asserts.get(key, [])
        learned = [fact for fact in env.axioms.keys() - axioms.keys() if free_unbacked_symbols(fact) & known]
        for fact in learned:
            del env.axioms[fact]
        env.size_like -= known - size_like
        env._version_counter += 1
        if hasattr(env, "_replacements_version_counter"):  # PyTorch 2.11 has the one counter only
            env._replacements_version_counter += 1


def _tables(env: Any) -> tuple[dict[Any, Any], ...]:
    return env.replacements, env.var_to_range
