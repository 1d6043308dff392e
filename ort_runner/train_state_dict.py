"""The state of a training session as PyTorch's state dicts, by the description in the model's metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from fxport.ort_runner.train_description import Description, Group
from fxport.ort_runner.train_inputs import RefusedInput

OPTIMIZER, RATE = "opt", "lr"
UNTOUCHED = "untouched"
"""State that the step has and PyTorch has not: 1 as long as SGD with dampening has no momentum yet."""


def state_dicts(
    description: Description,
    state: Mapping[str, np.ndarray],
    rates: Mapping[str, float],
    tensor: Callable[[np.ndarray], Any],
) -> dict[str, Any]:
    """`{"model": …, "optimizer": …}`, a list of several optimizers; `tensor` makes each value.

    Raises RefusedInput where the model does not tell.
    """
    groups = description.groups
    if groups is None or description.model is None:
        raise RefusedInput(
            "the model does not tell the settings of its optimizer's groups, which are no plain numbers or which an "
            "earlier version has exported; use load_into(model, optimizer, session.state())"
        )
    entries: dict[str, dict[str, Any]] = {}
    for name, value in state.items():
        kind, _, rest = name.partition("/")
        parameter, _, key = rest.rpartition("/")
        if kind == OPTIMIZER:
            entries.setdefault(parameter, {})[key] = (
                value.item() if name in description.numbers and value.size == 1 else tensor(value)
            )
    begun = {name: held for name, held in entries.items() if not _is_untouched(state, name)}
    numbered = iter(enumerate(groups))
    optimizers = [
        _optimizer(list(islice(numbered, count)), begun, rates) for count in description.optimizers or (len(groups),)
    ]
    return {
        "model": {key: tensor(state[name]) for key, name in description.model.items()},
        "optimizer": optimizers if description.optimizers else optimizers[0],
    }


def _optimizer(
    groups: Sequence[tuple[int, Group]], begun: Mapping[str, Mapping[str, Any]], rates: Mapping[str, float]
) -> dict[str, Any]:
    """`optimizer.state_dict()` of one with these groups, each with its number among those of all."""
    order = [name for _, group in groups for name in group.params]
    return {
        "state": {
            number: {key: value for key, value in begun[name].items() if key != UNTOUCHED}
            for number, name in enumerate(order)
            if name in begun
        },
        "param_groups": [
            {
                **{key: _setting(value) for key, value in group.settings.items()},
                **({"lr": rates[f"{RATE}/{index}"]} if f"{RATE}/{index}" in rates else {}),
                "params": [order.index(name) for name in group.params],
            }
            for index, group in groups
        ],
    }


def _is_untouched(state: Mapping[str, np.ndarray], parameter: str) -> bool:
    return bool(np.max(state.get(f"{OPTIMIZER}/{parameter}/{UNTOUCHED}", np.zeros(()))) > 0)


def _setting(value: Any) -> Any:
    """JSON has lists where PyTorch has tuples, as for betas."""
    return tuple(value) if isinstance(value, list) else value
