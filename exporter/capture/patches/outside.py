"""What `forward` does outside of tensors while it is captured: random numbers of Python's, attributes, globals, layers.

The graph has what there was in that one run. The model is given back as it was.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from diagnostics import Log, Place, rules
from diagnostics.calls import scope_of
from diagnostics.source import USER, kind_of, lines_of
from exporter.capture.forward import forward_by
from exporter.capture.places import place_of_function, place_of_module
from exporter.capture.patches.assignments import place_of_assignment
from exporter.capture.patches.environment import environment_watched
from exporter.capture.patches.generators import generators_of
from exporter.capture.patches.given_back import attributes_given_back, values_given_back
from exporter.capture.patches.process import process_given_back

SCALARS = (bool, int, float, str, type(None))
UNWATCHED = frozenset(vars(torch.nn.Module()))
"""Attributes of every module: weights and layers, and how it is called."""
MOST_WATCHED = 256
"""Entries of a list or a dict; a longer one is a table, such as a vocabulary."""


@contextmanager
def nothing_lost(model: torch.nn.Module, log: Log) -> Iterator[list[str]]:
    """Puts back what the model changes meanwhile, and reports it once the model has been captured.

    The list is for names that somebody else has seen change: see `attributes_watched`.
    """
    scalars, generators = _scalars(model), generators_of(model)
    states = {name: generator.state for name, generator in generators.items()}
    layers = {path: (module, dict(module._modules)) for path, module in model.named_modules()}
    made: list[str] = []
    changed: list[str] = []
    drawn: list[str] = []
    with process_given_back(), attributes_given_back(model), values_given_back(model):
        try:
            with environment_watched() as reads:
                yield changed
        finally:
            made += _restored_layers(layers)
            changed += _restored_scalars(scalars)
            drawn += (name for name, state in states.items() if generators[name].state != state)
    for name in made:
        log.report(rules.LAYER_MADE, at=place_of_assignment(model, name), name=name)
    for name in dict.fromkeys(changed):
        if name not in made and name in scalars:
            log.report(rules.PYTHON_STATE_BAKED, at=scalars[name].place(), name=name, value=scalars[name].value)
    for name in drawn:
        log.report(rules.PYTHON_RANDOM_BAKED, at=_place_of_draw(model, generators[name].written), name=name)
    for (name, _, _), place in reads.items():
        log.report(rules.ENVIRONMENT_BAKED, at=place, name=name)


def attributes_watched(model: torch.nn.Module, changed: list[str]) -> AbstractContextManager[None]:
    """Notes the attributes that `forward` has changed when it returns, for PyTorch then puts them back.

    What only the capture knows, such as a symbolic number, is put back here: PyTorch would compare it.
    """

    def way(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = _scalars(model)
        result = forward(*args, **kwargs)
        changed.extend(name for name, scalar in before.items() if scalar.has_changed)
        for scalar in before.values():
            if not isinstance(scalar.now, (*SCALARS, torch.Tensor)):
                scalar.put_back()
        return result

    return forward_by(model, way)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number or a string that `forward` can change: where it is kept under which key, and its value."""

    kept: Any
    key: Any
    value: Any
    place: Callable[[], Place | None]

    @property
    def has_changed(self) -> bool:
        """Whether there is another value now; NaN is what it was."""
        return self.now is not self.value and (type(self.now) not in SCALARS or self.now != self.value)

    @property
    def now(self) -> Any:
        if isinstance(self.kept, list):
            return self.kept[self.key] if self.key < len(self.kept) else ...
        return self.kept.get(self.key, ...)

    def put_back(self) -> None:
        """Sets it again; a list that has become shorter is given back as a whole."""
        if isinstance(self.kept, dict) or self.key < len(self.kept):
            self.kept[self.key] = self.value


def _scalars(model: torch.nn.Module) -> dict[str, Scalar]:
    """By names: "layer.count" for an attribute, "layer.counts[0]" for what is in one, the bare name for a global of a
    module with a `forward`.
    """
    found: dict[str, Scalar] = {}
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in UNWATCHED:
                name = f"{path}.{key}" if path else key
                found.update(_within(vars(module), key, value, name, partial(place_of_assignment, model, name)))
    for function in _functions(model):
        kept = function.__globals__
        for key in function.__code__.co_names:
            if type(kept.get(key, ...)) in SCALARS:
                found.setdefault(key, Scalar(kept, key, kept[key], partial(place_of_function, function)))
    return found


def _within(
    kept: Any, key: Any, value: Any, name: str, place: Callable[[], Place | None]
) -> Iterator[tuple[str, Scalar]]:
    """A number or a string, or those in a list or a dict, by their names."""
    if type(value) in SCALARS:
        yield name, Scalar(kept, key, value, place)
    elif type(value) in (list, dict) and len(value) <= MOST_WATCHED:
        for inner, each in value.items() if isinstance(value, dict) else enumerate(value):
            if type(each) in SCALARS:
                yield f"{name}[{inner!r}]", Scalar(value, inner, each, place)


def _restored_scalars(before: Mapping[str, Scalar]) -> Iterator[str]:
    for name, scalar in before.items():
        if scalar.has_changed:
            scalar.put_back()
            yield name


def _functions(model: torch.nn.Module) -> Iterator[Any]:
    """The `forward` of each class of the user's in a model, once."""
    modules = (module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule))
    kinds = dict.fromkeys(type(module) for module in modules)
    for kind in kinds:
        function = kind.forward
        if inspect.isfunction(function) and kind_of(function.__code__.co_filename) == USER:
            yield function


def _restored_layers(
    before: Mapping[str, tuple[torch.nn.Module, Mapping[str, torch.nn.Module | None]]],
) -> Iterator[str]:
    """Takes out the layers that `forward` has put in, whose weights are not real; gives their paths."""
    for path, (module, kept) in before.items():
        for name in [name for name, layer in module._modules.items() if layer is not kept.get(name)]:
            del module._modules[name]
            if name in kept:
                module._modules[name] = kept[name]
            yield f"{path}.{name}" if path else name


def _place_of_draw(model: torch.nn.Module, written: re.Pattern[str]) -> Place | None:
    """The first call of a generator in a class of the model's, or in its file; `forward` where there is none."""
    functions = list(_functions(model))
    classes = {function.__qualname__.rpartition(".")[0] for function in functions}
    for path in dict.fromkeys(function.__code__.co_filename for function in functions):
        lines = lines_of(path)
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            continue
        inside = [node for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) for node in ast.walk(each)]
        calls = [node for node in inside if isinstance(node, ast.Call) and written.fullmatch(ast.unparse(node.func))]
        if calls:
            owned = [node for node in calls if scope_of("".join(lines), node.lineno).rpartition(".")[0] in classes]
            first = min(owned or calls, key=lambda node: node.lineno)
            return Place(path, first.lineno, call=ast.unparse(first.func).rpartition(".")[2])
    return place_of_module(model)
