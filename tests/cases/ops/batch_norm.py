"""Rows for exporter/lowering/lowerings/batch_norm.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, f, v

aten = torch.ops.aten

WHOLE = (torch.float32, torch.float64)  # for halves PyTorch's fake statistics have another dtype than its real ones
MEAN, VAR = f(3), f(3, low=0.5, high=2.0)

# PyTorch's CPU kernel keeps the mean and deviation of a batch in the dtype of the weight before it uses them.
ROUNDED = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2)}
WHY = "eager rounds the batch's statistics to half precision; here they stay float32"


def _of_chosen(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Of the rows that are chosen: how many they are depends on data."""
    return torch.nn.functional.batch_norm(x[chosen], x[0], x[1].abs() + 1)


def _instances_of_chosen(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.instance_norm(x[chosen])


CASES = (
    OpCase(_of_chosen, f(4, 3), v([True, False, True, True], torch.bool)),
    OpCase(_of_chosen, f(4, 3), v([False, False, False, False], torch.bool)),
    OpCase(_instances_of_chosen, f(4, 3, 5), v([True, False, True, True], torch.bool)),
    OpCase(aten.batch_norm.default, f(2, 3, 4, 5), f(3), f(3), MEAN, VAR, False, 0.1, 1e-5, True, dtypes=FLOATS),
    OpCase(aten.batch_norm.default, f(2, 3, 4, 5), f(3), f(3), MEAN, VAR, False, 0.1, 1e-5, True, dynamic="n 3 h w"),
    OpCase(aten.batch_norm.default, f(4, 3), None, None, MEAN, VAR, False, 0.1, 1e-3, True, dynamic="n 3"),
    OpCase(aten.batch_norm.default, f(2, 3, 4), f(3), None, MEAN, VAR, False, 0.1, 1e-5, True),
    OpCase(aten.batch_norm.default, f(0), None, None, f(0), f(0), False, 0.1, 1e-5, True),
    OpCase(aten.batch_norm.default, f(0), None, None, None, None, True, 0.1, 1e-5, True),
    OpCase(aten.batch_norm.default, f(2, 0, 4), None, None, MEAN, VAR, False, 0.1, 1e-5, True),
    OpCase(aten.batch_norm.default, f(0, 3, 4), f(3), f(3), MEAN, VAR, False, 0.1, 1e-5, True),
    OpCase(
        aten.batch_norm.default,
        f(4, 3, 5),
        f(3),
        f(3),
        None,
        None,
        True,
        0.1,
        1e-5,
        True,
        dtypes=FLOATS,
        dynamic="n 3 l",
        tol=ROUNDED,
        why=WHY,
    ),
    OpCase(aten.batch_norm.default, f(4, 3), None, f(3), None, None, True, 0.1, 1e-5, True, dynamic="n c, c"),
    OpCase(
        aten._native_batch_norm_legit_functional.default,
        f(4, 3, 5),
        f(3),
        f(3),
        MEAN,
        VAR,
        vary={"training": (True, False)},
        momentum=0.3,
        eps=1e-5,
        dtypes=WHOLE,
        dynamic="n 3 l",
    ),
    OpCase(aten._native_batch_norm_legit_functional.default, f(4, 3), None, None, MEAN, VAR, True, 0.1, 1e-5),
    OpCase(aten.native_batch_norm.default, f(4, 3, 5), f(3), f(3), MEAN, VAR, False, 0.1, 1e-5, dynamic="n 3 l"),
    OpCase(aten.native_batch_norm.default, f(4, 3, 5), f(3), f(3), None, None, True, 0.1, 1e-5, dynamic="n 3 l"),
    OpCase(
        aten._native_batch_norm_legit_no_training.default, f(2, 3, 4), f(3), f(3), MEAN, VAR, 0.1, 1e-5, dynamic="n"
    ),
    OpCase(
        aten._native_batch_norm_legit.no_stats, f(4, 3, 5), f(3), f(3), True, 0.1, 1e-5, dtypes=WHOLE, dynamic="n 3 l"
    ),
    OpCase(
        aten._batch_norm_with_update_functional.default, f(4, 3, 5), f(3), f(3), MEAN, VAR, 0.1, 1e-5, dynamic="n 3 l"
    ),
    OpCase(aten._batch_norm_no_update.default, f(4, 3, 5), f(3), f(3), MEAN, VAR, 0.1, 1e-5, dynamic="n 3 l"),
)
