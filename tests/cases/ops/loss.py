"""Rows for exporter/lowering/lowerings/loss.py, and for losses that decompose."""

import torch
import torch.nn.modules.linear_cross_entropy  # registers its ops

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten, torch_nn = torch.ops.aten, torch.ops.torch_nn

LOGS = f(3, 4, low=-5.0, high=-0.5)
WEIGHT = f(4, low=0.5, high=2.0)
REDUCED = {"reduction": (0, 1, 2)}

CASES = (
    OpCase(aten.nll_loss_nd.default, LOGS, i(3), vary=REDUCED, dtypes=FLOATS, dynamic="n 4, n"),
    OpCase(aten.nll_loss_nd.default, f(3, 4), v([1, -100, 3], torch.int64), WEIGHT, vary=REDUCED),
    OpCase(aten.nll_loss_nd.default, f(3, 4), v([2, 2, 2], torch.int64), ignore_index=2),
    OpCase(aten.nll_loss_nd.default, f(3, 4), v([2, 1, 2], torch.int64), WEIGHT, ignore_index=2, vary=REDUCED),
    OpCase(aten.nll_loss_nd.default, f(3, 4, 2, 5), i(3, 2, 5), WEIGHT, vary=REDUCED, dynamic="n 4 h w, n h w"),
    OpCase(aten.nll_loss_nd.default, f(4), i(), vary=REDUCED),
    OpCase(aten.nll_loss_nd.default, f(0, 4), i(0), vary=REDUCED),
    OpCase(aten.nll_loss.default, f(3, 4), i(3)),
    OpCase(aten.nll_loss2d.default, f(3, 4, 2, 5), i(3, 2, 5), WEIGHT),
    OpCase(
        aten.nll_loss_forward.default, f(3, 4), i(3), None, vary={**REDUCED, "ignore_index": (-100, 2)}, dtypes=FLOATS
    ),
    OpCase(aten.nll_loss_forward.default, f(3, 4), v([2, 1, -7], torch.int64), WEIGHT, vary=REDUCED, ignore_index=-7),
    OpCase(aten.nll_loss2d_forward.default, f(3, 4, 2, 5), i(3, 2, 5), WEIGHT, vary=REDUCED, ignore_index=-100),
    OpCase(aten.cross_entropy_loss.default, f(3, 4), i(3), vary=REDUCED, dtypes=FLOATS, dynamic="n 4, n"),
    OpCase(aten.cross_entropy_loss.default, f(3, 4), i(3), WEIGHT, vary=REDUCED, label_smoothing=0.1, ignore_index=1),
    OpCase(aten.cross_entropy_loss.default, f(3, 4), f(3, 4, low=0.0), WEIGHT, vary=REDUCED, label_smoothing=0.1),
    OpCase(aten.cross_entropy_loss.default, f(3, 4, 2), i(3, 2), dynamic="n 4 m, n m"),
    OpCase(aten.cross_entropy_loss.default, f(4), i()),
    OpCase(aten.mse_loss.default, f(3, 4), f(3, 4), vary=REDUCED),
    OpCase(aten.l1_loss.default, f(3, 4), f(3, 4), vary=REDUCED),
    OpCase(aten.smooth_l1_loss.default, f(3, 4), f(3, 4), vary={**REDUCED, "beta": (0.0, 0.5)}),
    OpCase(aten.huber_loss.default, f(3, 4), f(3, 4), vary=REDUCED, delta=0.7),
    OpCase(aten.kl_div.default, f(3, 4), f(3, 4, low=0.0), vary={**REDUCED, "log_target": (False, True)}),
    OpCase(aten.binary_cross_entropy.default, f(3, 4, low=0.0), f(3, 4, low=0.0), WEIGHT, vary=REDUCED),
    OpCase(aten.binary_cross_entropy_with_logits.default, f(3, 4), f(3, 4, low=0.0), WEIGHT, WEIGHT, vary=REDUCED),
    OpCase(aten.poisson_nll_loss.default, f(3, 4, low=0.1), f(3, 4, low=0.0, high=3.0), True, True, 1e-8, 1),
    OpCase(aten.hinge_embedding_loss.default, f(3, 4), v([[1, -1, 1, -1]]), vary=REDUCED),
    OpCase(aten.margin_ranking_loss.default, f(3), f(3), v([1, -1, 1]), vary=REDUCED, margin=0.3),
    OpCase(aten.multi_margin_loss.default, f(3, 4), i(3), vary={**REDUCED, "p": (1, 2)}, dynamic="n 4, n"),
    OpCase(aten.multi_margin_loss.default, f(3, 4), i(3), 2, 0.5, WEIGHT, vary=REDUCED),
    OpCase(aten.multi_margin_loss.default, f(4), i(), vary=REDUCED),
    *(
        OpCase(
            aten.multi_margin_loss_backward.default,
            f(*grad),
            f(2, 4),
            v([3, 0], torch.int64),
            p,
            1.0,
            weight,
            reduction,
        )
        for reduction, grad in ((0, (2,)), (1, ()), (2, ()))
        for p in (1, 2)
        for weight in (None, f(4, low=0.1))
    ),
    OpCase(aten.multi_margin_loss_backward.default, f(), f(4), v(2, torch.int64), 1, 0.5),
    *(
        OpCase(
            aten.multilabel_margin_loss_backward.default,
            f(*grad),
            f(2, 4),
            v([[3, 0, -1, 1], [0, 1, 2, 3]], torch.int64),
            reduction,
            v([[1.0, 0.0, 0.0, 1.0], [1.0] * 4]),
        )
        for reduction, grad in ((0, (2,)), (1, ()), (2, ()))
    ),
    OpCase(aten.multilabel_margin_loss.default, f(2, 4), v([[3, 0, -1, 1], [0, 1, 2, 3]], torch.int64), vary=REDUCED),
    OpCase(
        aten.multilabel_margin_loss.default,
        f(4, 5),
        v([[1, 2, -1, 0, 0], [0, -1, 1, 1, 1], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0]], torch.int64),
        vary=REDUCED,
    ),
    OpCase(aten.multilabel_margin_loss.default, f(2, 3), i(2, 3, low=-1, high=3), dynamic="n m, n m"),
    OpCase(aten.multilabel_margin_loss.default, f(3), v([2, -1, 0], torch.int64), vary=REDUCED),
    OpCase(aten.soft_margin_loss.default, f(3, 4), v([[1, -1, 1, -1]] * 3), vary=REDUCED),
    OpCase(aten.triplet_margin_loss.default, f(3, 4), f(3, 4), f(3, 4), vary={**REDUCED, "swap": (False, True)}),
    OpCase(aten.cosine_embedding_loss.default, f(3, 4), f(3, 4), v([1, -1, 1]), vary=REDUCED),
    *(
        OpCase(
            torch_nn._linear_cross_entropy_batch_chunked.default,
            f(5, 3),
            f(4, 3),
            v([1, -100, 3, 0, 2], torch.int64),
            f(4),
            weight,
            reduction,
            -100,
            0.0,
            2,
            "accurate",
            torch.float32,
            True,
            wanted,
            wanted,
            wanted,
        )
        for weight, reduction, wanted in ((WEIGHT, "mean", True), (WEIGHT, "sum", True), (None, "mean", False))
    ),
    OpCase(
        torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default,
        f(5, 3),
        f(4, 3),
        v([1, 2, 3, 0, 2], torch.int64),
        None,
        WEIGHT,
        2,
        2,
        "accurate",
        torch.float32,
    ),
)
