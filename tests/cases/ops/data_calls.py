"""Rows for exporter/capture/patches/data_calls.py."""

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.cases.ops import ALL, FLOATS, Draw, OpCase, f, i, v

NAN = float("nan")
LOOSE = {"tol": {torch.float32: (2e-5, 2e-5)}, "why": "a pseudoinverse and LAPACK's factors round differently"}


def _agrees(x: Tensor, y: Tensor, **options: object) -> Tensor:
    if x.allclose(y, **options):  # type: ignore[arg-type]  # its tolerances
        return x + 1
    return y * 2


def _same(x: Tensor, y: Tensor) -> Tensor:
    return x + y if x.equal(y) else x - y


def _first_counts(x: Tensor) -> Tensor:
    return x + 1 if torch.is_nonzero(x[0]) else x - 1


def _complex_lstsq(a: torch.Tensor, b: torch.Tensor, driver: str) -> tuple[torch.Tensor, ...]:
    solution, *others = torch.linalg.lstsq(torch.complex(a, a.flip(0)), torch.complex(b, b.flip(1)), driver=driver)
    return torch.view_as_real(solution), *others


CASES = (
    OpCase(torch.allclose, f(2, 3), f(2, 3), dtypes=ALL, dynamic="n 3,n 3"),
    OpCase(torch.allclose, v([1.0, NAN]), v([1.0, NAN]), vary={"equal_nan": (False, True)}),
    OpCase(torch.allclose, v([[1.0, 2.0]]), v([1.05, 2.05]), vary={"rtol": (1e-5, 0.1), "atol": (0.0, 0.1)}),
    OpCase(_agrees, f(2, 3), f(2, 3), rtol=0.5, atol=0.5, dynamic="n 3,n 3"),
    OpCase(_agrees, v([1.0, 2.0]), v([1.0, 2.0])),
    OpCase(torch.equal, f(2, 3), f(2, 3), dtypes=ALL),
    OpCase(torch.equal, v([1.0, 2.0]), v([1.0, 2.0]), dtypes=ALL, dynamic="n,n"),
    OpCase(_same, f(2, 3), f(1, 3)),
    OpCase(torch.equal, v([1.0, NAN]), v([1.0, NAN])),
    OpCase(_same, v([1.0, 2.0]), v([1.0, 2.0]), dynamic="n,n"),
    OpCase(_same, v([1.0, 2.0]), v([1.0, 3.0])),
    OpCase(_first_counts, v([0.0, 2.0]), dtypes=FLOATS),
    OpCase(_first_counts, v([NAN, 2.0])),
    OpCase(torch.narrow, f(4), 0, torch.tensor(1), 2),
    OpCase(torch.narrow, f(4, 3), 0, v(-3, torch.int64), 2, dynamic="n 3"),
    OpCase(F.one_hot, i(2, 3, high=6), dynamic="n 3"),
    OpCase(F.one_hot, v([[0], [0]], torch.int64)),
    OpCase(torch.linalg.lstsq, f(2, 5, 3), f(2, 5, 4), vary={"driver": ("gelsy", "gels")}, **LOOSE),
    OpCase(_complex_lstsq, f(2, 5, 3), f(2, 5, 2), vary={"driver": ("gelsy", "gels")}, **LOOSE),
    OpCase(torch.linalg.lstsq, f(5, 3), f(5), dtypes=(torch.float32, torch.float64), **LOOSE),
    OpCase(torch.linalg.lstsq, f(2, 3, 5), f(2, 3), vary={"driver": (None, "gels")}, **LOOSE),
    OpCase(torch.linalg.lstsq, v([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]), f(3, 2), **LOOSE),
    *(
        OpCase(
            F.gaussian_nll_loss,
            f(2, 3),
            f(2, 3),
            Draw(shape, low=0.0, high=2.0),
            vary={"full": (False, True), "reduction": ("none", "mean", "sum")},
            eps=0.5,
            dtypes=FLOATS,
            dynamic="n 3,n 3,n" + " 1" * (len(shape) - 1) if shape != (2, 3) else "n 3,n 3,n 3",
        )
        for shape in ((2, 3), (2, 1), (2,))
    ),
)
