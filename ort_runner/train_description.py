"""The description of a training step in the metadata of its model, read as a stranger's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.limits import METADATA as LIMIT
from fxport.diagnostics.limits import json_of
from fxport.ort_runner.json_values import count, named_texts, text, texts
from fxport.ort_runner.train_inputs import Rates

METADATA = "fxport.training"
"""Key of the model's metadata: which outputs are the new values of which inputs, and the learning rates."""


class NotATrainingStep(FxportError, ValueError):
    """A model that does not say how its state goes round. The text names the model."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the optimizer: the names of its parameters, and its settings."""

    params: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that running a step again and again needs.

    Attributes:
        state: The outputs with the new values of inputs, by the names of those.
        constant: The other inputs that are state.
        steps: How many steps a run makes.
        rates: Learning rates at the beginning.
        model: The input that has the value of each name of `model.state_dict()`; None of an earlier version.
        groups: Groups of all optimizers; None where JSON does not hold their settings.
        optimizers: How many of the groups each of several optimizers has; None where there is one.
        numbers: State of the optimizer that PyTorch keeps as Python numbers.
    """

    state: Mapping[str, str]
    constant: tuple[str, ...]
    steps: int
    rates: Rates
    model: Mapping[str, str] | None
    groups: tuple[Group, ...] | None
    optimizers: tuple[int, ...] | None
    numbers: frozenset[str]


def description_in(metadata: Mapping[str, str], model: str, inputs: set[str], outputs: set[str]) -> Description:
    """Read the description in a model's metadata. Raises NotATrainingStep where there is none that fits the model."""
    written = metadata.get(METADATA)
    if written is None:
        raise NotATrainingStep(f"'{model}' is no training step: its metadata has no '{METADATA}'")
    try:
        held = json_of(written, LIMIT)
        groups, names, shares = held.get("groups"), held.get("model"), held.get("optimizers")
        if None not in (shares, groups) and sum(map(count, shares)) != len(groups):
            raise ValueError("the optimizers have more or fewer groups than there are")
        found = Description(
            state=named_texts(held["state"]),
            constant=texts(held["constant"]),
            steps=count(held["steps"]),
            rates=Rates(held["rates"]),
            model=None if names is None else named_texts(names),
            groups=None if groups is None else tuple(_group(each) for each in groups),
            optimizers=None if shares is None else tuple(count(each) for each in shares),
            numbers=frozenset(texts(held.get("numbers", []))),
        )
        _require(inputs, "input", *found.state, *found.constant, *found.rates)
        _require({*found.state, *found.constant}, "state", *(found.model or {}).values())
        _require(outputs, "output", *found.state.values())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotATrainingStep(f"'{model}' has damaged metadata '{METADATA}': {error}; export it again") from error
    return found


def _group(value: Any) -> Group:
    settings = value["settings"]
    if not isinstance(settings, Mapping):
        raise ValueError(f"{settings!r} is no table")
    return Group(texts(value["params"]), {text(name): each for name, each in settings.items()})


def _require(known: set[str], kind: str, *names: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"'{name}' is no {kind} of the model")
