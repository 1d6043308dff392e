"""The captured program: one flat graph, what goes in, what comes out, and where the weights are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from fxport.fx_passes.sizes import rebuilt


class InputKind(StrEnum):
    """Meaning of a placeholder of the graph."""

    USER = "user"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"


class OutputKind(StrEnum):
    """Meaning of a result of the graph."""

    USER = "user"
    MUTATION = "mutation"
    """The new value of a buffer or an input that the model changed in place."""
    LITERAL = "literal"
    """A Python constant or None: part of what the model returns, but no value of the graph."""


@dataclass(frozen=True, slots=True)
class Input:
    """One placeholder; a program's inputs stand in the order of its graph's placeholders.

    `name` is what the ONNX model will call it; `target` is the key in `Program.tensors` (None for a user's input),
    `path` the place in the call ("x", "past.0.key"; None for what the user does not feed).
    """

    kind: InputKind
    name: str
    target: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One result, in the graph's order. `updates` names the buffer or the input whose new value this is."""

    kind: OutputKind
    name: str
    updates: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that a captured graph asks of its dynamic sizes, in words: "n: a multiple of 4", "m == 2*n".

    `holds` are conditions on the size symbols; none where the sizes of the inputs say it themselves.
    """

    words: str
    holds: tuple[sympy.Basic, ...]

    def symbols(self) -> set[sympy.Basic]:
        """Return the symbols of the sizes that it is about."""
        return {symbol for test in self.holds for symbol in test.free_symbols}

    def allows(self, sizes: Mapping[sympy.Symbol, int]) -> bool:
        """Return True if it holds for sizes by their symbols; False where it cannot be computed, as `n % 0`.

        PyTorch's functions assert that their operands are those that they are for, such as no negative ones of `Mod`.
        """
        numbers = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
        try:
            return all(rebuilt(each, numbers) == sympy.true for each in self.holds)
        except (ArithmeticError, AssertionError):
            return False


class WeightSource(Protocol):
    """Source of a weight's values, if not the model. They are read when the model is saved."""

    def read(self) -> torch.Tensor:
        """The values, in the source's own type, as a tensor that nothing else holds."""
        ...


MUTATED = "fxport_mutated"
"""Key in the output node's `meta`: names of the placeholders whose new values were appended to the results."""


@dataclass(frozen=True)
class Program:
    """A captured model between two stages. The graph module is owned by the program; passes change it in place.

    `tensors` holds parameters, buffers and constants under their fully qualified names, exactly as the model holds
    them: nothing is copied, moved or converted here. Where `sources` has one of these names, the values are
    those of the source, and the tensor may have none. `dim_names` maps the name of a size symbol to the user's name of
    it, `ranges` to the smallest and largest size that the captured graph allows (None: no bound). `conditions` are
    what else it asks of them. `structure` is JSON of how arguments and results nest, by `exporter.capture.arguments`.
    `exported` is the program as torch.export gives it, before all passes, if that was to be kept.
    """

    graph_module: GraphModule = field(repr=False)
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    tensors: Mapping[str, torch.Tensor] = field(repr=False)
    dim_names: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    sources: Mapping[str, WeightSource] = field(default_factory=dict, repr=False)
    structure: str = ""
    exported: ExportedProgram | None = field(default=None, repr=False)

    @property
    def placeholders(self) -> list[Node]:
        """The graph's placeholders, one for each of `inputs`."""
        return self.graph_module.graph.find_nodes(op="placeholder")

    @property
    def state(self) -> dict[str, str]:
        """For each output that is the new value of an input, the name of that input."""
        names = {entry.target: entry.name for entry in self.inputs if entry.target is not None}
        updates = {output.name: output.updates for output in self.outputs if output.updates is not None}
        return {output: names.get(updated, updated) for output, updated in updates.items()}

    @property
    def user_inputs(self) -> tuple[Input, ...]:
        """The inputs that the user feeds."""
        return tuple(entry for entry in self.inputs if entry.kind is InputKind.USER)
