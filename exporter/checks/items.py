"""Work items: a manifest's models, each at each of its opsets on each of its providers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from fxport.diagnostics.rules import RULES
from fxport.exporter.checks.manifest import Budget, Choices, Manifest, Model
from fxport.exporter.sources.usage import UsageError, did_you_mean

if TYPE_CHECKING:
    from fxport.exporter.checks.group import Member

T = TypeVar("T")

TIME_LIMIT = 600.0
TIMED_RUNS = 20


@dataclass(frozen=True, slots=True)
class Item:
    """One check, as a process of its own gets it: what of the manifest the results depend on.

    `id` names it in reports and files. Inputs and dims are written as on the command line of `fxport export`.
    """

    id: str
    model: str
    source: str
    opset: int | None
    provider: str
    inputs: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()
    allow_specialization: bool = False
    adversarial: bool = False
    weights: str | None = None
    fake: bool = False
    trust: bool = False
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    atol: float | None = None
    rtol: float | None = None
    runs: int = 0
    depends: tuple[str, ...] = ()
    ranks: int = 1
    validate: bool = True
    runtimes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The file or module that the model comes from; "" for a saved one, which brings no code."""
        return self.source.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class Terms:
    """Requirements on the result, and limits of the process: none of them changes the result.

    `memory` is in bytes, `time_limit` in seconds; `expect` holds ids of rules.
    """

    budget: Budget = field(default_factory=Budget)
    expect: tuple[str, ...] = ()
    time_limit: float = TIME_LIMIT
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """An item and its terms; of a model that several ranks hold, what one rank, the `member`, does of it."""

    item: Item
    terms: Terms
    member: Member | None = None


def tasks_of(manifest: Manifest, names: Sequence[str] = ()) -> list[Task]:
    """All checks of the manifest, or those of the models named. Raises UsageError for an unknown name."""
    known = [model.name for model in manifest.model]
    for name in names:
        if name not in known:
            raise UsageError(f"There is no model '{name}' in the manifest. {did_you_mean(name, known)}".rstrip())
    chosen = [model for model in manifest.model if not names or model.name in names]
    return [task for model in chosen for task in tasks_of_model(model, manifest.defaults)]


def tasks_of_model(model: Model, defaults: Choices) -> list[Task]:
    """A task for each opset and provider; their names say which only where there are several."""
    asked = defaults.opset if model.opset is None else model.opset
    opsets: list[int | None] = [None] if asked is None else [*each(asked)]
    providers = each(said(model.provider, defaults.provider, "auto"))
    terms = terms_of(model, defaults)
    runs = said(model.runs, defaults.runs, TIMED_RUNS if terms.budget.latency is not None else 0)
    found = []
    for opset, provider in product(opsets, providers):
        parts = [model.name]
        parts += [f"opset{opset}"] if len(opsets) > 1 else []
        parts += [provider] if len(providers) > 1 else []
        item = Item(
            id="-".join(parts),
            model=model.name,
            source=model.source,
            opset=opset,
            provider=provider,
            inputs=tuple(f"{name}={typed(value)}" for name, value in model.inputs.items()),
            samples=tuple(each(model.samples)) if model.samples else (),
            dynamic=tuple(f"{name}:{dims}" for name, dims in model.dynamic.items()),
            plugin=tuple(said(model.plugin, defaults.plugin, [])),
            allow_specialization=said(model.allow_specialization, defaults.allow_specialization, False),
            adversarial=said(model.adversarial, defaults.adversarial, False),
            weights=model.weights,
            fake=model.fake,
            trust=model.trust,
            input_names=tuple(model.input_names) if model.input_names else None,
            output_names=tuple(model.output_names) if model.output_names else None,
            atol=said(model.atol, defaults.atol, None),
            rtol=said(model.rtol, defaults.rtol, None),
            runs=runs,
            depends=tuple(model.depends),
            ranks=model.ranks,
            runtimes=tuple(each(said(model.runtime, defaults.runtime, []))),
        )
        found.append(Task(item, terms))
    return found


def terms_of(model: Model, defaults: Choices) -> Terms:
    """Budgets of the model over those of the defaults, key by key."""
    own, common = model.budget or Budget(), defaults.budget or Budget()
    budget = Budget(**{key: said(getattr(own, key), getattr(common, key), None) for key in Budget.model_fields})
    ids = {word: rule.id for rule in RULES.values() for word in (rule.id, rule.name)}
    expect = tuple(ids[name] for name in said(model.expect, defaults.expect, []))
    memory = said(model.memory, defaults.memory, None)
    return Terms(budget, expect, said(model.time_limit, defaults.time_limit, TIME_LIMIT), memory)


def said(own: T | None, common: T | None, otherwise: T) -> T:
    """The model's word, else that of the defaults, else ours."""
    return own if own is not None else common if common is not None else otherwise


def each(value: T | list[T]) -> list[T]:
    return value if isinstance(value, list) else [value]


def typed(value: str | float | bool) -> str:
    """A value of `inputs` as `--input NAME=` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
