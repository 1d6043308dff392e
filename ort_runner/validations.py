"""Checks of one run: generators of (rule, facts), in the order in which they run.

Count and names come first, then types and shapes, then NaN and infinity, then values: an output that fails one check is
left out of the next, because (3, 1) would broadcast against (3,) and a NaN compares with nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fxport.diagnostics import Rule, rules
from fxport.diagnostics.amounts import percent
from fxport.ort_runner.compare import Gap, compare, disagreements, overflows
from fxport.ort_runner.distributions import Difference, compare_distributions
from fxport.ort_runner.providers import Provider
from fxport.ort_runner.samples import UNREPEATABLE, Arrays, Samples
from fxport.ort_runner.session import Dim, Opened, Port

Facts = Mapping[str, Any]  # Any: they are the keywords of Log.report, which has typed ones too
Report = tuple[Rule, Facts]
Pair = tuple[str, np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the model: what went in, what PyTorch made of it, and what ONNX Runtime did.

    `gaps` are those of the values, `differences` those of outputs that are drawn at random.
    """

    samples: Samples
    outputs: Mapping[str, np.ndarray]
    inputs: tuple[Port, ...]
    declared: tuple[Port, ...]
    provider: Provider
    gaps: Mapping[str, Gap]
    differences: Mapping[str, Difference]

    def pairs(self) -> Iterator[Pair]:
        """(name, PyTorch's, ONNX Runtime's) of the outputs that both have."""
        for name, want in self.samples.outputs.items():
            if name in self.outputs:
                yield name, want, self.outputs[name]

    def comparable(self) -> Iterator[Pair]:
        """Return the pairs of equal type and shape that are not drawn at random."""
        return (pair for pair in _comparable(self.pairs()) if pair[0] in self.gaps)


def run_of(
    samples: Samples,
    outputs: Mapping[str, np.ndarray],
    opened: Opened,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    sums: float = 0.0,
    draws: Mapping[str, np.ndarray] | None = None,
    roundings: Arrays | None = None,
) -> Run:
    """The run with the gap of each output that can be compared; the keywords are those of `compare`.

    `draws` are ONNX Runtime's random outputs over several runs, as `samples.draws` are PyTorch's; `roundings` are what
    `samples.roundings` gives.
    """
    provider = opened.choice.provider
    pairs = ((name, want, outputs[name]) for name, want in samples.outputs.items() if name in outputs)
    drawn, rounded = samples.draws or {}, roundings or {}
    judge = partial(compare, provider=provider, atol=atol, rtol=rtol, sums=sums)
    gaps = {
        name: judge(want, got, exact_of(samples, name), roundings=rounded.get(name))
        for name, want, got in _comparable(pairs)
        if name not in drawn and samples.doubts.get(name) != UNREPEATABLE
    }
    differences = {name: compare_distributions(drawn[name], got) for name, got in (draws or {}).items()}
    return Run(samples, outputs, opened.inputs, opened.outputs, provider, gaps, differences)


def exact_of(samples: Samples, name: str) -> np.ndarray | None:
    """The output in float64, where there is one."""
    return None if samples.exact is None else samples.exact.get(name)


def _comparable(pairs: Iterator[Pair]) -> Iterator[Pair]:
    return (pair for pair in pairs if pair[1].dtype == pair[2].dtype and pair[1].shape == pair[2].shape)


Check = Callable[[Run], Iterator[Report]]


def validation(check: Check) -> Check:
    """Declares a check. VALIDATIONS below says when it is asked. Raises TypeError at import if it is no generator,
    which would be asked and never answer, or says nothing of what it holds."""
    if not inspect.isgeneratorfunction(check) or not check.__doc__:
        raise TypeError(f"{check.__name__} is not a generator function with a docstring")
    return check


def inputs_fit(opened: Opened, samples: Samples) -> Iterator[Report]:
    """The samples are inputs of this model: asked before the run, which would not survive the contrary."""
    state = (port for port in opened.state if port.name in samples.inputs)
    ports = {port.name: port for port in (*opened.inputs, *state)}
    for name in samples.inputs.keys() - ports.keys():
        yield rules.CONTRACT_BROKEN, {"name": name, "detail": f"The model has no such input; it has {_list(ports)}"}
    sizes: dict[str, int] = {}
    for name, port in ports.items():
        array = samples.inputs.get(name)
        if array is None:
            yield rules.CONTRACT_BROKEN, {"name": name, "detail": "The samples have no value for this input"}
        elif array.dtype.name != port.dtype:
            detail = f"The input is {port.dtype}, but the samples hold {array.dtype.name}"
            yield rules.CONTRACT_BROKEN, {"name": name, "detail": detail}
        elif not _fits(port.shape, array.shape, sizes):
            detail = f"The input is {_dims(port.shape)}, but the samples hold {_dims(array.shape)}"
            yield rules.CONTRACT_BROKEN, {"name": name, "detail": detail}


@validation
def outputs_are_named(run: Run) -> Iterator[Report]:
    """The model has PyTorch's outputs, all of them, no others, in their order."""
    want, have = list(run.samples.outputs), [port.name for port in run.declared]
    for name in want:
        if name not in have:
            yield (
                rules.CONTRACT_BROKEN,
                {"name": name, "detail": f"The model has no such output; it has {_list(have)}"},
            )
    for name in have:
        if name not in want:
            yield rules.CONTRACT_BROKEN, {"name": name, "detail": "PyTorch returned no such output"}
    if want != have and sorted(want) == sorted(have):
        name = next(one for one, other in zip(want, have, strict=True) if one != other)
        detail = f"The order of the outputs is {_list(have)}; in PyTorch it is {_list(want)}"
        yield rules.CONTRACT_BROKEN, {"name": name, "detail": detail}


@validation
def types_are_equal(run: Run) -> Iterator[Report]:
    """Each output has PyTorch's type."""
    for name, want, got in run.pairs():
        if want.dtype != got.dtype:
            yield rules.OUTPUT_TYPE_MISMATCH, {"output": name, "type": got.dtype.name, "expected": want.dtype.name}


@validation
def shapes_are_equal(run: Run) -> Iterator[Report]:
    """Each output has PyTorch's shape: the same rank, and the same sizes."""
    for name, want, got in run.pairs():
        if want.shape != got.shape:
            facts = {"output": name, "shape": _dims(got.shape), "expected": _dims(want.shape)}
            yield rules.OUTPUT_SHAPE_MISMATCH, facts


@validation
def declared_shapes_hold(run: Run) -> Iterator[Report]:
    """The shapes that the model declares for its outputs are those it produces; a name has one size in a run.

    ONNX Runtime only logs the contrary, and whoever allocates outputs from the declaration gets it wrong.
    """
    sizes: dict[str, int] = {}
    for port in run.inputs:
        _fits(port.shape, run.samples.inputs[port.name].shape, sizes)
    for port in run.declared:
        got = run.outputs.get(port.name)
        if got is not None and not _fits(port.shape, got.shape, sizes):
            detail = f"The output is declared {_dims(port.shape)}, but ONNX Runtime returned {_dims(got.shape)}"
            yield rules.CONTRACT_BROKEN, {"name": port.name, "detail": detail}


@validation
def non_finites_are_equal(run: Run) -> Iterator[Report]:
    """NaN and the infinities stand at the same elements."""
    for name, want, got in run.comparable():
        unequal = disagreements(want, got, exact_of(run.samples, name))
        count = int(np.count_nonzero(unequal))
        if count:
            at = tuple(int(i) for i in np.argwhere(unequal)[0])
            facts = {"output": name, "provider": run.provider.name, "count": count, "index": list(at)}
            yield rules.NON_FINITE_OUTPUT, {**facts, "got": float(got[at]), "want": float(want[at])}


@validation
def values_are_near(run: Run) -> Iterator[Report]:
    """Each output is eager PyTorch's within the error budget of its type on this provider."""
    for name, gap in run.gaps.items():
        if gap.too_big:
            shown = {"index": list(gap.index), "got": gap.got, "want": gap.want, "ulp": gap.ulp, "cosine": gap.cosine}
            facts = {"output": name, "provider": run.provider.name, "ratio": gap.ratio, "worst": gap.worst}
            yield rules.OUTPUT_DRIFT, {**facts, **shown}


@validation
def ties_are_few(run: Run) -> Iterator[Report]:
    """The elements that PyTorch's own rounding decides either way were left out of the comparison, and are told."""
    for name, gap in run.gaps.items():
        if gap.ties:
            yield rules.TIES_LEFT_OUT, {"output": name, "count": gap.ties, "elements": gap.elements}


@validation
def values_are_comparable(run: Run) -> Iterator[Report]:
    """No output is within its budget only because eager PyTorch is as far from the truth as a fault would be."""
    for name, gap in run.gaps.items():
        if not gap.comparable:
            how_far = f"PyTorch is {percent(gap.own)} of the values off float64, and the model {percent(gap.share)}"
            detail = f"{how_far}; above {percent(gap.ceiling)} a fault cannot be told from rounding"
            yield rules.NOT_COMPARABLE, {"output": name, "detail": detail}


@validation
def overflows_are_told(run: Run) -> Iterator[Report]:
    """No element is left out of the comparison because PyTorch alone is NaN or infinite there."""
    for name, want, got in run.comparable():
        found = overflows(want, got, exact_of(run.samples, name))
        if found.any():
            at = tuple(int(i) for i in np.argwhere(found)[0])
            numbers = f"at {list(at)} it is {float(want[at])}, and the model gives {float(got[at]):.6g}"
            where = f"{np.count_nonzero(found)} of {found.size} elements overflow in PyTorch, and not in float64"
            yield rules.NOT_COMPARABLE, {"output": name, "detail": f"{where}; {numbers}"}


@validation
def distributions_are_equal(run: Run) -> Iterator[Report]:
    """Each output that is drawn at random has the distribution that it has in PyTorch."""
    for name, found in run.differences.items():
        if found.too_big:
            facts = {"output": name, "provider": run.provider.name, "runs": len((run.samples.draws or {})[name])}
            yield (
                rules.DISTRIBUTION_DRIFT,
                {**facts, "statistic": found.statistic, "got": found.got, "want": found.want},
            )


VALIDATIONS: tuple[Check, ...] = (
    outputs_are_named,
    types_are_equal,
    shapes_are_equal,
    declared_shapes_hold,
    non_finites_are_equal,  # before the values, which are compared where both are finite
    values_are_near,
    ties_are_few,
    values_are_comparable,
    overflows_are_told,
    distributions_are_equal,
)


def _fits(declared: tuple[Dim, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    """Return True if a shape matches the declared one; `sizes` collects the size of each symbolic name."""
    if not declared:  # ONNX Runtime tells a scalar and an unknown rank apart by nothing
        return True
    if len(declared) != len(shape):
        return False
    for dim, size in zip(declared, shape, strict=True):
        if isinstance(dim, str):
            dim = sizes.setdefault(dim, size)
        if dim is not None and dim != size:
            return False
    return True


def _dims(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"


def _list(names: Mapping[str, object] | list[str]) -> str:
    return ", ".join(names) or "none"
