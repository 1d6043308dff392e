"""Chains exported, run in ONNX Runtime with all optimizations, and held against eager PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor, nn

from fxport import ExportError, OnnxProgram, export
from tests.fuzz.chains.chain import Chain, chain_of
from tests.fuzz.chains.fields import values
from tests.running import run_session, session_of, within_conditions

TOLERANCE = {torch.float32: (1e-4, 1e-4), torch.float16: (2e-2, 2e-2), torch.float64: (1e-4, 1e-4)}


class Batch(nn.Module):
    """Several chains, each with tensors of its own: one export serves them all."""

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__()
        self.chains = nn.ModuleList(chains)

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        results, first = [], 0
        for chain in self.chains:
            count = len(chain.inputs)  # type: ignore[arg-type]  # a Chain
            results.append(chain(*tensors[first : first + count]))
            first += count
        return results


@dataclass(frozen=True)
class Fault:
    """A chain that is not right: "refused", "crashes", "fails" or "wrong", and what was seen.

    `of_nan`: True if PyTorch gives NaN in what is wrong.
    """

    chain: Chain
    kind: str
    detail: str
    of_nan: bool = False


def judged(chains: Sequence[Chain], dynamic: bool) -> list[Fault]:
    """The faults among chains: all in one model, by halves where that cannot be exported or run."""
    kind, detail, wrong = _judged(chains, dynamic)
    if not kind:
        return wrong
    if len(chains) == 1:
        return [Fault(chains[0], kind, detail)]
    middle = len(chains) // 2
    return judged(chains[:middle], dynamic) + judged(chains[middle:], dynamic)


def _judged(chains: Sequence[Chain], dynamic: bool) -> tuple[str, str, list[Fault]]:
    """Run a model of all chains. Return the kind and the detail of what ends the run, both empty if nothing does, and
    the chains that are wrong.
    """
    inputs = [tuple(chain.inputs.values()) for chain in chains]
    flat = tuple(tensor for each in inputs for tensor in each)
    shapes = (tuple(dict.fromkeys(range(each.dim()), torch.export.Dim.AUTO) for each in flat),) if dynamic else None
    try:
        program = export(Batch(chains), tuple(each.clone() for each in flat), dynamic_shapes=shapes)
    except ExportError as error:
        found = [finding for finding in error.log.findings if finding.level == "error"]
        return "refused", "; ".join(f"{each.rule.id} {each.message}" for each in found), []
    except Exception as error:  # noqa: BLE001  # a crash is a fault that is told
        return "crashes", f"{type(error).__name__}: {error}", []
    faults: dict[int, Fault] = {}
    try:
        session = session_of(program)
        for case in _cases(program, chains, inputs, dynamic):
            actual = run_session(session, program, tuple(tensor for each in case for tensor in each))
            for chain, given, got in zip(chains, case, actual, strict=True):
                expected = chain(*(tensor.clone() for tensor in given))
                if wrong := difference(got, expected, chain.exact):
                    told = "\n".join(f"{tuple(tensor.shape)} {tensor.tolist()}" for tensor in given)
                    faults.setdefault(
                        chain.seed, Fault(chain, "wrong", f"{wrong}\nat {told}", bool(expected.isnan().any()))
                    )
    except Exception as error:  # noqa: BLE001  # what the runtime raises is a fault that is told
        return "fails", f"{type(error).__name__}: {error}", []
    return "", "", list(faults.values())


Inputs = tuple[Tensor, ...]


def _cases(
    program: OnnxProgram, chains: Sequence[Chain], inputs: Sequence[Inputs], dynamic: bool
) -> Iterator[list[Inputs]]:
    """The example; the same sizes with more awkward values; with `dynamic`, other sizes where they are allowed."""
    yield list(inputs)
    for seed, awkward in ((1, 0.0), (2, 0.6)):
        random = Random(chains[0].seed + seed)
        other = [tuple(values(t.shape, t.dtype, random, awkward) for t in given) for given in inputs]
        rows = zip(chains, inputs, other, strict=True)
        yield [new if _runs(chain, new) else old for chain, old, new in rows]
    if not dynamic:
        return
    for size in (1, 7):
        case, random = list(inputs), Random(chains[0].seed)
        for number, (chain, given) in enumerate(zip(chains, inputs, strict=True)):
            axis = random.randrange(max(given[0].dim(), 1)) - given[0].dim()
            other = [*case]
            other[number] = tuple(_resized(tensor, axis, size, given[0], random) for tensor in given)
            if _is_possible(chain, other[number]) and _fits(program, [tensor for each in other for tensor in each]):
                case = other
        yield case


def _fits(program: OnnxProgram, tensors: Sequence[Tensor]) -> bool:
    """Return whether the sizes are those that the model was exported for."""
    fed = [value.shape for value in program.model.graph.inputs if not value.is_initializer()]
    fixed = (
        isinstance(want, int) and want != has
        for shape, tensor in zip(fed, tensors, strict=True)
        for want, has in zip(shape or (), tensor.shape, strict=True)
    )
    return not any(fixed) and within_conditions(program, tuple(tensors))


def _resized(tensor: Tensor, axis: int, size: int, first: Tensor, random: Random) -> Tensor:
    if not axis or -axis > tensor.dim() or tensor.shape[axis] != first.shape[axis]:
        return tensor
    shape = list(tensor.shape)
    shape[axis] = size
    return values(shape, tensor.dtype, random, 0.1)


def _is_possible(chain: Chain, given: Inputs) -> bool:
    """Return whether the sizes may be others: places that are constants are made for those of the example."""
    return not any(constant.dtype == torch.int64 for constant in chain.buffers()) and _runs(chain, given)


def _runs(chain: Chain, given: Inputs) -> bool:
    """Return whether PyTorch takes the inputs."""
    try:
        chain(*given)
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def difference(actual: Tensor, expected: Tensor, exact: bool) -> str:
    """Return the difference as text; an empty one if there is none."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype} {tuple(actual.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
    tolerance = (0.0, 0.0)
    if expected.is_floating_point():
        rtol, atol = TOLERANCE[expected.dtype]
        tolerance = (rtol, 0.0) if exact else (rtol, atol)
    if torch.allclose(actual, expected, *tolerance, equal_nan=True):
        return ""
    return f"{actual.tolist()}\ninstead of {expected.tolist()}"


def faults(seeds: range) -> list[Fault]:
    """The faults of chains of seeds that follow each other; every second batch has dynamic sizes."""
    return judged([chain_of(seed) for seed in seeds], bool(seeds.start // len(seeds) % 2))
