"""Fakes of views that are made from what PyTorch remembers are those that it makes the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from fxport.exporter.capture.patches.views_of_fakes import views_remembered

aten = torch.ops.aten

VIEWS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: aten.view(x, [x.shape[0], 2, 3]),
    "unsafe view": lambda x: aten._unsafe_view(x, [x.shape[0], 2, 3]),
    "transpose": lambda x: aten.transpose(x, 0, 1),
    "slice": lambda x: aten.slice(x, 1, 2, 5),
    "slice of rows": lambda x: aten.slice(x, 0, 1, x.shape[0] - 1),
    "select": lambda x: aten.select(x, 1, 3),
    "expand": lambda x: aten.expand(aten.unsqueeze(x, 0), [4, -1, -1]),
    "detach": lambda x: aten.detach(x),
    "alias": lambda x: aten.alias(x),
    "diagonal": lambda x: aten.diagonal(x),
    "as strided": lambda x: aten.as_strided(x, [2, 2], [1, 3], 1),
    "split": lambda x: aten.split(x, 4, 1)[1],
    "view of a slice": lambda x: aten.unsqueeze(aten.slice(x, 1, 2, 5), 1),
    "other dtype": lambda x: aten.view.dtype(x, torch.int32),
    "real part": lambda x: aten.view_as_real(aten.complex(x, x)),
    "conjugate": lambda x: aten._conj(aten.complex(x, x)),
    "view of a conjugate": lambda x: aten.view(aten._conj(aten.complex(x, x)), [x.shape[0], 6, 1]),
    "imaginary part of a conjugate": lambda x: aten._neg_view(x),
}


def described(tensor: Tensor, base: Tensor, writes: bool) -> tuple[Any, ...]:
    """Return all that a fake tensor tells of itself."""
    before = tensor._version, base._version
    if writes:
        aten.add_(tensor, 1)
    return (
        *(type(tensor), str(tuple(tensor.shape)), str(tensor.stride()), str(tensor.storage_offset()), tensor.dtype),
        *(tensor.device, tensor.layout, tensor.is_conj(), tensor.is_neg(), tensor.requires_grad, tensor.is_inference()),
        *(tensor._is_view(), tensor.is_leaf, type(tensor.grad_fn).__name__, str(torch._C._dispatch_keys(tensor))),
        *(tensor.untyped_storage()._cdata == base.untyped_storage()._cdata, str(tensor.untyped_storage().nbytes())),
        *(before, tensor._version, base._version, str(base.untyped_storage().nbytes())),
    )


@pytest.mark.parametrize("gradient", [False, True], ids=["", "with gradient"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", VIEWS)
def test_second_views_are_like_the_first(name: str, dynamic: bool, gradient: bool) -> None:
    view = VIEWS[name]
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext(
        dynamic_sizes=[[DimDynamic.STATIC, DimDynamic.DYNAMIC][dynamic], DimDynamic.STATIC]
    )

    def results() -> list[tuple[Any, ...]]:
        found = []
        for _ in range(2):
            with mode, torch.set_grad_enabled(gradient):
                whole = base.clone().requires_grad_(gradient)
                result = view(whole)
                assert isinstance(result, FakeTensor)
            with mode, torch.no_grad():
                found.append(described(result, whole, writes=name not in ("expand", "split")))
        return found

    base = mode.from_tensor(torch.empty(5, 6), symbolic_context=context)
    FakeTensorMode.cache_clear()
    first, second = results()
    assert first == second, "PyTorch itself makes it in two ways"
    guards = [str(each.expr) for each in mode.shape_env.guards]
    with views_remembered():
        FakeTensorMode.cache_clear()
        mode.shape_env.fake_tensor_cache.clear()
        assert results() == [first, second]
    assert [str(each.expr) for each in mode.shape_env.guards] == guards
