"""Lists that a dict or a list of the model holds, to which the turns of a loop append."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Row, of

Held = dict[str, list[Tensor]]


class Program(nn.Module):
    def __init__(self, run: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> object:
        return self.run(x)


def program(run: Callable[[Tensor], object]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        return Program(run)

    return build


def of_a_dict(x: Tensor) -> tuple[Tensor, Tensor]:
    found: Held = {"state": [], "sum": []}
    state = torch.zeros_like(x[0])
    for row in x:
        state = torch.tanh(state + row)
        found["state"].append(state)
        found["sum"].append(state.sum() * len(found["sum"]))
    return torch.stack(found["state"]), torch.stack(found["sum"])


def of_a_comprehension(x: Tensor) -> dict[str, Tensor]:
    found: Held = {name: [] for name in ("a", "b")}
    for row in x:
        found["a"].append(row)
        found["b"].append(row * 2)
    return {name: torch.stack(rows) for name, rows in found.items()}


def of_a_list(x: Tensor) -> tuple[Tensor, Tensor]:
    found: list[list[Tensor]] = [[], []]
    for row in x:
        for factor in range(2):
            found[factor].append(row * (factor + 1))
    return torch.stack(found[0]), torch.stack(found[1])


def with_another_name(x: Tensor) -> tuple[Tensor, Tensor]:
    found: Held = {"a": [], "b": [x[0]]}
    other = found["b"]
    for row in x:
        found["a"].append(row)
        found["b"].append(row)
    return torch.stack(found["a"]), torch.stack(other)


def by_sign(x: Tensor) -> Tensor:
    found: Held = {"above": [], "below": []}
    for row in x:
        if row.sum() > 0:
            found["above"].append(row)
        else:
            found["below"].append(row)
    return torch.stack(found["below"] + found["above"] + [x[0]])


def in_a_while(x: Tensor) -> Tensor:
    found: Held = {"rows": []}
    k = 0
    while k < x.shape[0]:
        found["rows"].append(x[k] * k)
        k += 1
    return torch.stack(found["rows"])


def made_elsewhere(x: Tensor) -> Tensor:
    rows: list[Tensor] = []
    found = {"rows": rows}
    for row in x:  # appends to a list with a name of its own
        found["rows"].append(row)
    return torch.stack(rows)


def chosen_by_data(x: Tensor) -> Tensor:
    found: list[list[Tensor]] = [[x], [x * 2]]
    found[int(x.sum() > 0)].append(x * 3)  # data choose the list
    return torch.cat(found[0] + found[1])


def chosen_by_each_row(x: Tensor) -> tuple[Tensor, Tensor]:
    found: dict[int, list[Tensor]] = {0: [], 1: []}
    for row in x:
        found[int(row.sum() > 0)].append(row)  # data choose it for each
    return torch.stack(found[0] + [x[0]]), torch.stack(found[1] + [x[0]])


def read_where_data_choose(x: Tensor) -> Tensor:
    sizes = {0: [1.0, 2.0], 1: [3.0, 4.0]}
    first, second = sizes[int(x.sum() > 0)]
    return x * first + second


CASES = of(
    "lists that are held",
    *(
        Row(run.__name__.replace("_", " "), program(run), SIZES, ROWS)
        for run in (of_a_dict, of_a_comprehension, of_a_list, with_another_name, by_sign, in_a_while)
    ),
    Row("read where data choose", program(read_where_data_choose), SIZES, ROWS),
    Row("made elsewhere", program(made_elsewhere), SIZES, ROWS, "# appends to a list with a name"),
    Row("chosen by data", program(chosen_by_data), SIZES, ROWS, "# data choose the list"),
    Row("chosen by each row", program(chosen_by_each_row), SIZES, ROWS, "# data choose it for each"),
)
