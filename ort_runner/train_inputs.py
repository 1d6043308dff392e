"""Values that a training session is given, checked by name against what the model declares, and converted."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from fxport.diagnostics.errors import FxportError
from fxport.ort_runner.dtypes import BOOL, BY_NAME, FLOAT, INTEGER
from fxport.ort_runner.session import Port, in_native_order
from fxport.ort_runner.size_limits import Limit

LARGEST_SEED = 2**63 - 1


class RefusedInput(FxportError, ValueError):
    """A value that a training session does not take. The text names it, and says what is expected."""


def require_mapping(given: Any, where: str, values: str) -> None:
    """Raise RefusedInput for anything else than a mapping of names to `values`."""
    if not isinstance(given, Mapping):
        raise RefusedInput(f"{where} is of type '{type(given).__name__}'; give a mapping of names to {values}")


def require_names(given: Collection[str], wanted: Collection[str], where: str) -> None:
    """Raise RefusedInput for a name that is missing or unknown; `where` is what has the names."""
    unknown = sorted(name for name in given if name not in wanted)
    if unknown:
        near = difflib.get_close_matches(unknown[0], wanted, n=1)
        known = f"; did you mean '{near[0]}'?" if near else f"; the model takes {_listed(wanted)}"
        raise RefusedInput(f"{where} has '{unknown[0]}', which the model does not take{known}")
    missing = [name for name in wanted if name not in given]
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise RefusedInput(f"{where} lacks '{missing[0]}'{more}")


def _listed(names: Collection[str]) -> str:
    first = [f"'{name}'" for name in list(names)[:5]]
    return ", ".join(first) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if first else "none"


def arrays_for(
    ports: Iterable[Port], given: Mapping[str, Any], *, may_be_empty: bool, limits: Sequence[Limit] = ()
) -> dict[str, np.ndarray]:
    """The values of all ports, in the dtypes of the model. Sizes of one name must agree, and be within the limits.

    Raises RefusedInput; unless `may_be_empty`, also for a tensor without elements where the model does not fix that.
    """
    sizes: dict[str, tuple[int, str]] = {}
    found: dict[str, np.ndarray] = {}
    for port in ports:
        array = found[port.name] = as_declared(given[port.name], port)
        _require_shape(array, port, sizes)
        if array.size == 0 and 0 not in port.shape and not may_be_empty:
            raise RefusedInput(f"'{port.name}' is empty: its shape is {list(array.shape)}; leave such a batch out")
    for limit in limits:
        size, name = sizes.get(limit.name, (None, ""))
        if size is not None and not limit.allows(size):
            known = f"the model is known to be right for {limit.words}"
            raise RefusedInput(f"'{name}' has the size {size} for '{limit.name}'; {known}")
    return found


def _require_shape(array: np.ndarray, port: Port, sizes: dict[str, tuple[int, str]]) -> None:
    declared = f"[{', '.join('?' if dim is None else str(dim) for dim in port.shape)}]"
    said = f"'{port.name}' has the shape {list(array.shape)}; the model takes {declared}"
    if array.ndim != len(port.shape):
        raise RefusedInput(said)
    for size, dim in zip(array.shape, port.shape, strict=True):
        if isinstance(dim, int) and size != dim:
            raise RefusedInput(said)
        if isinstance(dim, str):
            first, name = sizes.setdefault(dim, (size, port.name))
            if first != size:
                raise RefusedInput(f"{said}, and '{dim}' is {first} in '{name}'")


def as_declared(value: Any, port: Port) -> np.ndarray:
    """An array of a value in the dtype of a port.

    Floating-point values are rounded, integers and booleans kept as they are; numbers without a dtype (lists, Python's)
    may also be integers for a floating-point port. Raises RefusedInput for any other conversion.
    """
    array = _as_array(value, port)
    held, wanted = BY_NAME.get(array.dtype.name), BY_NAME[port.dtype]
    if held is wanted:
        return array
    if held is None:
        raise RefusedInput(f"'{port.name}' is of dtype {array.dtype}, the model takes {port.dtype}")
    untyped = not hasattr(value, "dtype")
    if (held.kind, wanted.kind) not in CONVERTED and not (untyped and (held.kind, wanted.kind) == (INTEGER, FLOAT)):
        raise RefusedInput(f"'{port.name}' is {held.name}, the model takes {port.dtype}; convert it")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(wanted.dtype)
    kept = np.isfinite(converted) | ~np.isfinite(array) if wanted.kind == FLOAT else converted == array
    if not np.all(kept):
        first = array[~np.asarray(kept)].reshape(-1)[0]
        raise RefusedInput(f"'{port.name}' has the value {first}, which does not fit into {port.dtype}")
    return converted


CONVERTED = frozenset({(FLOAT, FLOAT), (INTEGER, INTEGER), (BOOL, INTEGER)})
"""From which kind of dtype to which a value is converted."""


def _as_array(value: Any, port: Port) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise RefusedInput(f"'{port.name}' is a masked array, whose mask no model takes; fill it, with `.filled(…)`")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor of PyTorch that asks for a gradient
        raise RefusedInput(f"'{port.name}' is no array: {error}") from error
    if array.dtype.kind in "OUSMm" or array.dtype.names:
        kind = type(value).__name__
        raise RefusedInput(f"'{port.name}' is no array of numbers but {kind} of dtype {array.dtype}")
    return in_native_order(array)


def as_seed(value: Any, name: str = "seed") -> int:
    """A seed as a Python integer. Raises RefusedInput for what is none, or does not fit into int64."""
    try:
        seed = operator.index(value)
    except TypeError as error:
        raise RefusedInput(f"{name} is {value!r}; it must be an integer") from error
    if not -LARGEST_SEED <= seed <= LARGEST_SEED:
        raise RefusedInput(f"{name} is {seed}, which does not fit into int64")
    return seed


def as_steps(value: Any) -> int:
    """A count of steps as a Python integer. Raises RefusedInput for what is none."""
    steps = as_seed(value, "steps")
    if steps < 0:
        raise RefusedInput(f"steps is {steps}; it must be at least 0")
    return steps


class Rates(MutableMapping[str, float]):
    """Learning rates by the names of the model's inputs. Other names, and values that are no numbers, are refused."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        self._rates = {name: _as_rate(name, rate) for name, rate in rates.items()}

    def replace(self, rates: Mapping[str, float]) -> None:
        """Take all values of a mapping with the same names, or none of them. Raises RefusedInput."""
        require_mapping(rates, "the mapping of learning rates", "numbers")
        require_names(rates, self._rates, "the mapping of learning rates")
        self._rates = {name: _as_rate(name, rates[name]) for name in self._rates}

    def update(self, *rates: Any, **named: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Change several learning rates, or none of them. Raises RefusedInput."""
        self.replace({**self._rates, **dict(*rates, **named)})

    def __setitem__(self, name: str, rate: float) -> None:
        require_names([*self._rates, name], self._rates, "the mapping of learning rates")
        self._rates[name] = _as_rate(name, rate)

    def __getitem__(self, name: str) -> float:
        return self._rates[name]

    def __delitem__(self, name: str) -> None:
        raise RefusedInput(f"'{name}' is an input of the model, which needs a learning rate; set it to 0")

    def __iter__(self) -> Iterator[str]:
        return iter(self._rates)

    def __len__(self) -> int:
        return len(self._rates)

    def __repr__(self) -> str:
        return repr(self._rates)


def _as_rate(name: str, rate: Any) -> float:
    try:
        number = float(rate)
    except (TypeError, ValueError) as error:
        raise RefusedInput(f"the learning rate '{name}' is {rate!r}, which is no number") from error
    if not abs(number) <= float(np.finfo(np.float32).max):
        raise RefusedInput(f"the learning rate '{name}' is {number}, which is no finite float32")
    return number


def named_batch(batch: Any, ports: Sequence[Port], prefix: str) -> dict[str, Any]:
    """The batch by the names of the model's inputs, which may be given without their prefix. Raises RefusedInput."""
    require_mapping(batch, "the batch", "arrays")
    wanted = [port.name for port in ports]
    named: dict[str, Any] = {}
    for name, value in batch.items():
        full = name if name in wanted else f"{prefix}{name}"
        if full in named:
            raise RefusedInput(f"the batch has '{full}' twice, with and without '{prefix}'")
        named[full if full in wanted else str(name)] = value
    require_names(named, wanted, "the batch")
    return named
