"""Models with derivatives inside of forward: exported, saved, and validated in ONNX Runtime at two sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import grad as derive
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

from fxport import export, ort_runner
from fxport.diagnostics import Level, Log
from fxport.exporter.capture.eager import called
from fxport.exporter.validation import reference

N = {0: "n"}


def t(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def mlp(inputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 1))


class Net(nn.Module):
    """A model that is a function of a small network and the inputs."""

    def __init__(self, function: Callable[..., Any], net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self.net, *inputs)


@dataclass(frozen=True)
class Row:
    function: Callable[..., Any]
    args: tuple[Tensor, ...]
    shapes: tuple[Any, ...]
    net: Callable[[], nn.Module] = mlp


def force_field(net: nn.Module, positions: Tensor) -> tuple[Tensor, Tensor]:
    def energy(at: Tensor) -> Tensor:
        apart = (at[:, None] - at[None]).square().sum(-1) + torch.eye(at.shape[0])
        return net(at).sum() + apart.reciprocal().sum()

    return energy(positions), -grad(energy)(positions)


def force_by_autograd(net: nn.Module, positions: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        at = positions.detach().requires_grad_(True)
        energy = net(at).sum()
        (slope,) = torch.autograd.grad(energy, at)
    return energy, -slope


def force_without_enable_grad(net: nn.Module, positions: Tensor) -> tuple[Tensor, Tensor]:
    positions.requires_grad_(True)
    energy = net(positions).sum()
    (slope,) = torch.autograd.grad(energy, positions, create_graph=True)
    return energy, -slope


def force_by_another_name(net: nn.Module, positions: Tensor) -> Tensor:
    positions = positions.detach().clone().requires_grad_()
    return -derive(net(positions).sum(), positions)[0]


def force_of_a_profiled_range(net: nn.Module, positions: Tensor) -> Tensor:
    with torch.enable_grad():
        at = positions.detach().requires_grad_(True)
        with torch.profiler.record_function("energy"):
            energy = net(at).sum()
        return -torch.autograd.grad(energy, at)[0]


def meta_learning(net: nn.Module, x: Tensor, y: Tensor, query: Tensor) -> Tensor:
    weights = dict(net.named_parameters())
    slopes = grad(lambda given: F.mse_loss(functional_call(net, given, (x,)), y))(weights)
    return functional_call(net, {name: each - 0.1 * slopes[name] for name, each in weights.items()}, (query,))


def heat_equation(net: nn.Module, points: Tensor) -> Tensor:
    """The residual of u_t = 0.1 u_xx at each point: a physics-informed network."""

    def residual(point: Tensor) -> Tensor:
        slope = grad(lambda at: net(at).sum())
        bend = grad(lambda at: slope(at)[1])(point)
        return slope(point)[0] - 0.1 * bend[1]

    return vmap(residual)(points)


def jacobian(net: nn.Module, x: Tensor) -> Tensor:
    return vmap(jacrev(net))(x)


def forward_jacobian(net: nn.Module, x: Tensor) -> Tensor:
    return vmap(jacfwd(net))(x)


def one_hessian(net: nn.Module, x: Tensor) -> Tensor:
    return hessian(lambda at: net(at).sum())(x)


def hessian_vector_product(net: nn.Module, x: Tensor, v: Tensor) -> Tensor:
    return jvp(grad(lambda at: net(at).sum()), (x,), (v,))[1]


def hessian_vector_product_in_reverse(net: nn.Module, x: Tensor, v: Tensor) -> Tensor:
    slope = grad(lambda at: net(at).sum())
    return grad(lambda at: (slope(at) * v).sum())(x)


def vector_jacobian_product(net: nn.Module, x: Tensor, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    found: tuple[Any, ...] = vjp(net, x)
    y, pullback = found
    return y, pullback(cotangent)[0]


def ensemble(nets: nn.Module, x: Tensor) -> Tensor:
    members = [net for net in nets.children() if isinstance(net, nn.Sequential)]
    weights, buffers = stack_module_state(members)  # type: ignore[arg-type]  # modules, all of one kind
    return vmap(lambda given, held: functional_call(members[0], (given, held), (x,)))(weights, buffers)


def vmap_of_a_module(net: nn.Module, x: Tensor) -> Tensor:
    return vmap(net)(x)


def gradients_per_sample(net: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    def loss(weights: dict[str, Tensor], one: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(functional_call(net, weights, (one[None],)), target[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(dict(net.named_parameters()), x, y)


def step_of_its_own(net: nn.Module, x: Tensor) -> list[Tensor]:
    """Weights after a step of training at the time of the test."""
    weights = list(net.parameters())
    with torch.enable_grad():
        slopes = torch.autograd.grad(net(x).square().mean(), weights)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]


def langevin_steps(net: nn.Module, x: Tensor) -> Tensor:
    for _ in range(2):
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            x = x + 0.1 * torch.autograd.grad(net(at).sum(), at)[0]
    return x


def step_on_a_mean(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Joins inputs of one dimension in a loss; what is learnt of them in one trace is there in the next."""
    weight = net[0].weight  # type: ignore[index]  # it is a sequence
    return weight - 0.1 * grad(lambda w: ((x @ w.t() - y) ** 2).mean())(weight)


ROWS = {
    "force field": Row(force_field, (t(5, 3),), (None,)),
    "force by autograd.grad": Row(force_by_autograd, (t(5, 3),), (N,)),
    "force without enable_grad": Row(force_without_enable_grad, (t(5, 3),), (N,)),
    "force by another name": Row(force_by_another_name, (t(5, 3),), (N,)),
    "force of a profiled range": Row(force_of_a_profiled_range, (t(5, 3),), (N,)),
    "a step of meta-learning": Row(
        meta_learning, (t(5, 3), t(5, 1), t(2, 3)), ({0: "shots"}, {0: "shots"}, {0: "queries"})
    ),
    "the residual of a heat equation": Row(heat_equation, (t(5, 2),), (N,), lambda: mlp(2)),
    "jacobian": Row(jacobian, (t(4, 3),), (N,)),
    "jacobian in forward mode": Row(forward_jacobian, (t(4, 3),), (N,)),
    "hessian": Row(one_hessian, (t(3),), (None,)),
    "hessian-vector product": Row(hessian_vector_product, (t(4, 3), t(4, 3, seed=1)), (N, N)),
    "hessian-vector product in reverse": Row(hessian_vector_product_in_reverse, (t(4, 3), t(4, 3, seed=1)), (N, N)),
    "vector-jacobian product": Row(vector_jacobian_product, (t(4, 3), t(4, 1)), (N, N)),
    "a step on a mean": Row(step_on_a_mean, (t(5, 3), t(5, 8)), (N, N)),
    "an ensemble": Row(ensemble, (t(5, 3),), (N,), lambda: nn.ModuleList(mlp() for _ in range(3))),
    "vmap of a module": Row(vmap_of_a_module, (t(5, 3),), (N,)),
    "gradients of each sample": Row(gradients_per_sample, (t(4, 3), t(4, 1)), (N, N)),
    "a step of its own": Row(step_of_its_own, (t(5, 3),), (N,)),
    "Langevin steps": Row(langevin_steps, (t(5, 3),), (N,)),
}


SLOW = ("gradients of each sample", "hessian-vector product in reverse", "jacobian in forward mode", "Langevin steps")
"""Left to the long run: what they show is shown by the others, of which they are made."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in ROWS])
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # PyTorch's forward mode
def test_derivatives(name: str, tmp_path: Path) -> None:
    row, log = ROWS[name], Log()
    torch.manual_seed(0)
    model = Net(row.function, row.net())
    shapes = (row.shapes,) if any(row.shapes) else None
    program = export(model, row.args, dynamic_shapes=shapes, log=log)
    path = tmp_path / "model.onnx"
    program.save(path)
    recorded = reference.cases(model, row.args, None, program, log)
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    assert [each.label for each in samples] == ["sample", "resized"][: 2 if shapes else 1]
    ort_runner.validate(path, samples, provider="cpu", log=log)
    assert not [f"{f.rule.id} {f.message}" for f in log.findings if f.level is Level.ERROR]
    assert "post-dispatch" in {str(f.facts.get("strategy", "")).partition(",")[0] for f in log.findings}
    assert all(parameter.requires_grad for parameter in model.parameters())


class Counting(nn.Module):
    """Count the calls, and take a gradient that nobody has turned on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x = x.detach().requires_grad_()
        return derive((x**2).sum() * self.calls, x)[0]


def test_a_model_with_state_runs_once_for_a_call() -> None:
    model = Counting()
    with torch.no_grad():
        result, _ = called(model, ((t(3),), {}))
    assert model.calls == 1
    assert torch.equal(result, 2 * t(3))
