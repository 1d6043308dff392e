"""Rows for fx_passes/passes/complex_*.py: ops on complex tensors, as real ones in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import torch

from fxport.fx_passes.passes.complex_axes import SAME
from tests.cases.ops import COMPLEX, Draw, OpCase, b, f, i, v

aten, prims = torch.ops.aten, torch.ops.prims

BOTH = (torch.complex64, torch.complex128)
R, I64 = torch.float32, torch.int64

TRANSCENDENTAL = {torch.complex64: (1e-5, 1e-5)}
WHY = "several float32 functions in a row, where PyTorch computes in one"


def r(*shape: int) -> Draw:
    """Real numbers among the complex ones."""
    return Draw(shape, R)


def row(target: Any, *args: Any, **options: Any) -> OpCase:
    return OpCase(target, *args, **{"dtypes": COMPLEX, "opsets": (), **options})


def function(target: Any, *args: Any) -> OpCase:
    return row(target, *args, tol=TRANSCENDENTAL, why=WHY, dtypes=BOTH)


SQUARE = v([[3 + 1j, 1j, 0.5], [0.5, 2 - 1j, 1], [1j, 0.25, 4]])
SPECIAL = v([0, 1j, -1, complex("nan"), complex("inf"), 2.5 - 1e-3j])

ARITHMETIC = (
    *(
        row(op, f(3, 4), f(4), dynamic="n 4", dtypes=BOTH)
        for op in (aten.add.Tensor, aten.sub.Tensor, aten.rsub.Tensor)
    ),
    *(row(op, f(3, 4), f(4), dynamic="n 4", dtypes=BOTH) for op in (aten.mul.Tensor, aten.div.Tensor)),
    *(row(op, f(3), r(3)) for op in (aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor)),
    *(row(op, r(3), f(3)) for op in (aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)),
    *(row(op, r(3), 1 + 2j) for op in (aten.add.Scalar, aten.sub.Scalar, aten.rsub.Scalar, aten.mul.Scalar)),
    *(row(op, f(3), 1 - 2j) for op in (aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar)),
    *(row(op, f(3), f(3)) for op in (prims.add.default, prims.sub.default, prims.mul.default, prims.div.default)),
    row(aten.add.Tensor, f(3), f(3), alpha=2j),
    *(
        row(op, f(3))
        for op in (
            aten.reciprocal.default,
            aten.square.default,
            aten.neg.default,
            aten._neg_view.default,
            aten.conj.default,
            aten._conj.default,
            aten._conj_physical.default,
            aten.conj_physical.default,
            aten.real.default,
            aten.imag.default,
            aten.view_as_real.default,
        )
    ),
    *(row(op, f(3), f(3), f(3), vary={"value": (1, 0.5 - 1j)}) for op in (aten.addcmul.default, aten.addcdiv.default)),
    *(row(aten.lerp.Scalar, f(3), f(3), weight) for weight in (0.25, 0.75)),
    row(aten.lerp.Tensor, f(3), f(3), f(3)),
    row(aten.where.self, b(3), f(3), f(3)),
    row(aten.where.self, b(3), f(3), r(3)),
    row(aten.where.Scalar, b(3), 1j, 2),
    row(aten.where.ScalarOther, b(3), f(3), 2),
    row(aten.where.ScalarSelf, b(3), 2, f(3)),
    row(aten.masked_fill.Scalar, f(3, 4), b(4), 1j),
    row(aten.masked_fill.Tensor, f(3), b(3), v(1 + 1j)),
    *(row(op, v([1j, 2, 3 + 1j]), v([1j, 2 + 1j, 3])) for op in (aten.eq.Tensor, aten.ne.Tensor, aten.isclose.default)),
    *(row(op, v([1j, 2, 3 + 1j]), number) for op in (aten.eq.Scalar, aten.ne.Scalar) for number in (2, 1j)),
    row(aten.isclose.default, SPECIAL, SPECIAL, equal_nan=True),
    *(
        row(op, v([1j, 0, 3]), v([0, 0, 1]))
        for op in (aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default)
    ),
    row(aten.logical_not.default, v([1j, 0, 3])),
    *(row(op, SPECIAL) for op in (aten.isnan.default, aten.isinf.default, aten.isfinite.default, aten.isreal.default)),
    row(aten.view_as_complex.default, r(3, 2)),
    row(aten.view_as_complex_copy.default, r(3, 2)),
    row(aten.view.dtype, f(3), R),
    row(aten.view.dtype, r(3, 4), torch.complex64),
    row(aten.complex.default, r(3), r(3)),
    row(aten.polar.default, r(3), r(3)),
    *(row(aten._to_copy.default, f(3), dtype=dtype) for dtype in (torch.complex128, R, torch.int64, torch.bool)),
    row(aten._to_copy.default, r(3), dtype=torch.complex64),
    row(aten.to.dtype, f(3), torch.complex128),
    row(aten.to.dtype_layout, f(3), dtype=torch.complex128),
    row(aten.to.device, f(3), "cpu", torch.complex128),
)

FUNCTIONS = (
    *(
        function(op, f(3, 4))
        for op in (
            aten.abs.default,
            aten.angle.default,
            aten.sgn.default,
            aten.exp.default,
            aten.exp2.default,
            aten.expm1.default,
            aten.log.default,
            aten.log2.default,
            aten.log10.default,
            aten.log1p.default,
            aten.sqrt.default,
            aten.rsqrt.default,
            aten.sin.default,
            aten.cos.default,
            aten.tan.default,
            aten.sinh.default,
            aten.cosh.default,
            aten.tanh.default,
            aten.asin.default,
            aten.acos.default,
            aten.atan.default,
            aten.asinh.default,
            aten.acosh.default,
            aten.atanh.default,
            aten.sigmoid.default,
            aten.silu.default,
        )
    ),
    *(function(aten.sqrt.default, v([z])) for z in (0, -4, complex(-4, -0.0), 4j, 1e-30 + 1e-30j)),
    *(function(op, v([2, -2, 0.5, 0.5j, -3 + 4j])) for op in (aten.asin.default, aten.acos.default, aten.log.default)),
    function(aten.logaddexp.default, f(3), f(3)),
    *(function(aten.pow.Tensor_Scalar, f(3), power) for power in (0, 1, 2, 3, -1, -2, 0.5, 1.5, 1 + 1j)),
    *(function(aten.pow.Tensor_Scalar, v([0, 1j]), power) for power in (0, 2, 2.5)),
    function(aten.pow.Tensor_Tensor, f(3), f(3)),
    function(aten.pow.Scalar, 2 - 1j, f(3)),
    function(aten.pow.Scalar, 0, f(3)),
)

MOVES = (
    row(aten.resize.default, f(3, 4), [2, 5]),
    row(aten.resize_as.default, f(3, 4), f(6)),
    *(row(op, f(3)) for op in SAME),
    row(aten.view.default, f(3, 4), [2, -1]),
    row(aten._unsafe_view.default, f(3, 4), [12]),
    row(aten._reshape_alias.default, f(3, 4), [4, 3], [3, 1]),
    row(aten.reshape.default, f(3, 4), [2, -1]),
    row(aten.expand.default, f(3, 1), [2, 3, 4]),
    row(aten.repeat.default, f(3, 4), [2, 1, 2]),
    row(aten.permute.default, f(2, 3, 4), [-1, 0, 1]),
    row(aten.transpose.int, f(2, 3, 4), 0, -1),
    *(row(aten.unsqueeze.default, f(3, 4), dim) for dim in (0, -1)),
    row(aten.squeeze.default, f(1, 3, 1)),
    row(aten.squeeze.dim, f(1, 3, 1), -1),
    row(aten.squeeze.dims, f(1, 3, 1), [0, -1]),
    row(aten.select.int, f(3, 4), -1, 2, dynamic="n 4"),
    row(aten.slice.Tensor, f(3, 4), -1, 1, 4, 2),
    row(aten.split.Tensor, f(3, 4), 2, -1),
    row(aten.split_with_sizes.default, f(3, 4), [1, 3], 1),
    row(aten.unbind.int, f(3, 4), -1),
    row(aten.flip.default, f(3, 4), [-1, 0]),
    row(aten.index.Tensor, f(3, 4), [None, i(2, high=3)]),
    row(aten.as_strided.default, f(3, 4), [2, 2], [4, 2], 1),
    row(aten.cat.default, [f(3, 2), f(3, 4)], -1),
    row(aten.cat.default, [f(3), r(3)]),
    row(aten.stack.default, [f(3, 4), f(3, 4)], -1),
    row(aten.select_scatter.default, f(3, 4), f(3), -1, 2),
    row(aten.slice_scatter.default, f(3, 4), f(3, 2), -1, 1, 3),
    row(aten.as_strided_scatter.default, f(3, 4), f(2, 2), [2, 2], [4, 2], 1),
    row(aten.t.default, f(3, 4)),
    row(aten.diagonal.default, f(2, 3, 4), 1, 0, -1),
    row(aten.diag_embed.default, f(2, 3)),
    row(aten.tril.default, f(3, 4)),
    row(aten.triu.default, f(3, 4), 1),
    row(aten.roll.default, f(3, 4), [1], [-1]),
    row(aten.unfold.default, f(3, 6), -1, 3, 2),
    row(aten.im2col.default, f(1, 2, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1]),
    row(aten.col2im.default, f(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
    row(aten.pixel_shuffle.default, f(1, 4, 2, 2), 2),
    row(aten.pixel_unshuffle.default, f(1, 1, 4, 4), 2),
    row(aten.reflection_pad1d.default, f(2, 5), [1, 2]),
    row(aten.reflection_pad2d.default, f(1, 2, 5, 5), [1, 2, 0, 1]),
    row(aten.reflection_pad3d.default, f(1, 2, 3, 3, 3), [1, 1, 1, 1, 1, 1]),
    row(aten.replication_pad1d.default, f(2, 5), [1, 2]),
    row(aten.replication_pad2d.default, f(1, 2, 5, 5), [1, 2, 0, 1]),
    row(aten.replication_pad3d.default, f(1, 2, 3, 3, 3), [1, 1, 1, 1, 1, 1]),
    row(aten.constant_pad_nd.default, f(3, 4), [1, 2], 1, dynamic="n 4"),
    row(aten.gather.default, f(3, 4), -1, i(3, 2, high=4)),
    row(aten.index_select.default, f(3, 4), -1, i(2, high=4)),
    row(aten.copy.default, f(3, 4), f(4)),
    row(aten.copy.default, f(3, 4), r(3, 4)),
    row(aten.repeat_interleave.self_int, f(3, 4), 2),
    row(aten.repeat_interleave.self_int, f(3, 4), 2, -1),
    row(aten.take.default, f(3, 4), i(5, high=12)),
    row(aten.put.default, f(3, 4), v([0, 5], I64), f(2)),
    row(aten.masked_select.default, f(3, 4), b(3, 4)),
    row(aten.masked_scatter.default, f(3, 4), b(3, 4), f(12)),
    row(aten._unsafe_masked_index.default, f(3, 4), b(2), [i(2, high=3), i(2)], 0),
    row(aten._unsafe_masked_index_put_accumulate.default, f(3, 4), b(2), [i(2, high=3), i(2)], f(2)),
    row(aten.index_put.default, f(3, 4), [v([0, 2], I64)], f(2, 4)),
    row(aten.index_put.default, f(3, 4), [v([0, 0], I64)], f(2, 4), True),
    row(aten.index_fill.int_Scalar, f(3, 4), -1, v([0, 2], I64), 1j),
    row(aten.index_fill.int_Tensor, f(3, 4), -1, v([0, 2], I64), v(2 + 1j)),
    row(aten.index_copy.default, f(3, 4), -1, v([0, 2], I64), f(3, 2)),
    row(aten.index_add.default, f(3, 4), -1, v([0, 2], I64), f(3, 2)),
    row(aten.scatter.src, f(3, 4), -1, v([[0], [2], [1]], I64), f(3, 1)),
    row(aten.scatter.value, f(3, 4), -1, v([[0], [2], [1]], I64), 1),
    row(aten.scatter_add.default, f(3, 4), -1, v([[0], [2], [1]], I64), f(3, 1)),
    row(aten.diagonal_scatter.default, f(3, 4), f(3)),
)

MADE = (
    row(aten.full.default, [2, 3], 1 + 2j),
    row(aten.full_like.default, f(3), 2j),
    row(aten.new_full.default, f(3), [2], 2j),
    row(aten.scalar_tensor.default, 1j, dtype=torch.complex64),
    row(aten.fill.Scalar, f(3), 1j),
    row(aten.fill.Tensor, f(3), v(2 - 1j)),
    *(row(op, f(3, 4)) for op in (aten.zeros_like.default, aten.ones_like.default)),
    row(aten.ones_like.default, f(3), dtype=R),
    *(row(op, [2, 3], dtype=torch.complex64) for op in (aten.zeros.default, aten.ones.default)),
    *(row(op, f(3), [2, 3]) for op in (aten.new_zeros.default, aten.new_ones.default)),
    *(row(op, f(3, 4), compare="shape") for op in (aten.empty_like.default, aten.randn_like.default)),
    row(aten.rand_like.default, f(3, 4), compare="shape"),
    row(aten.uniform.default, f(3, 4), compare="shape"),
    row(aten.normal_functional.default, f(3, 4), compare="shape"),
    row(aten.new_empty.default, f(3), [2, 3], compare="shape"),
    row(aten.new_empty_strided.default, f(3), [2, 3], [3, 1], compare="shape"),
    *(
        row(op, [2, 3], dtype=torch.complex64, compare="shape")
        for op in (aten.empty.memory_format, aten.randn.default, aten.rand.default)
    ),
    row(aten.empty_permuted.default, [2, 3], [0, 1], dtype=torch.complex64, compare="shape"),
    row(aten.empty_strided.default, [2, 3], [3, 1], dtype=torch.complex64, compare="shape"),
    row(aten.eye.default, 3, dtype=torch.complex64),
    row(aten.eye.m, 3, 4, dtype=torch.complex64),
    row(aten.linspace.default, 0, 1j, 5, dtype=torch.complex64),
    row(aten.linspace.default, 1, 1j, 1, dtype=torch.complex64),
    row(aten.linspace.Tensor_Tensor, v(1 + 1j), v(2.0), 5, dtype=torch.complex64),
    row(aten.linspace.Tensor_Scalar, v(1 + 1j), 2, 5, dtype=torch.complex64),
    row(aten.linspace.Scalar_Tensor, 1, v(2 + 1j), 5, dtype=torch.complex64),
    *(
        row(op, start, end, 5, dtype=torch.complex64, tol=TRANSCENDENTAL, why=WHY)
        for op, start, end in (
            (aten.logspace.Tensor_Tensor, v(1 + 1j), v(2j)),
            (aten.logspace.Tensor_Scalar, v(1 + 1j), 2),
            (aten.logspace.Scalar_Tensor, 1, v(2 + 1j)),
        )
    ),
    row(aten.logspace.default, 0, 1j, 5, dtype=torch.complex64, tol=TRANSCENDENTAL, why=WHY),
)


def _conv1d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *options: Any) -> torch.Tensor:
    return torch.nn.functional.conv1d(x, weight, bias, stride=2, padding=1)


PRODUCTS = (
    row(aten.matmul.default, f(2, 3, 4), f(4, 5), dtypes=BOTH, dynamic="n 3 4"),
    row(aten.mm.default, f(3, 4), f(4, 5)),
    row(aten.bmm.default, f(2, 3, 4), f(2, 4, 5)),
    row(aten.mv.default, f(3, 4), f(4)),
    row(aten.dot.default, f(4), f(4)),
    row(aten.vdot.default, f(4), f(4)),
    row(aten.linalg_cross.default, f(2, 3), f(2, 3)),
    row(aten.einsum.default, "bix,iox->box", [f(2, 3, 5), f(3, 4, 5)], dtypes=BOTH, dynamic="b 3 n,3 4 n"),
    row(aten.einsum.default, "...i,io", [f(2, 1, 3), f(3, 4)]),
    row(aten.einsum.default, "...i,...i->...", [f(2, 1, 3), f(5, 3)], dynamic="b 1 n,5 n"),
    row(aten.einsum.default, "ab,bc,dc->ad", [f(2, 3), f(3, 4), f(5, 4)]),
    row(aten.einsum.default, "ii->i", [f(3, 3)]),
    row(aten.einsum.default, "ba", [f(3, 2)]),
    row(aten.linear.default, f(2, 4), f(3, 4), f(3)),
    row(aten.linear.default, f(2, 4), f(3, 4)),
    *(row(aten.addmm.default, f(5), f(3, 4), f(4, 5), beta=beta, alpha=2 - 1j) for beta in (0, 1j)),
    row(aten.addmv.default, f(3), f(3, 4), f(4)),
    row(aten.addr.default, f(3, 4), f(3), f(4)),
    row(aten.baddbmm.default, f(2, 3, 5), f(2, 3, 4), f(2, 4, 5)),
    row(aten.addbmm.default, f(3, 5), f(2, 3, 4), f(2, 4, 5)),
    row(aten.convolution.default, f(1, 2, 8), f(3, 2, 3), f(3), [2], [1], [1], False, [0], 1, reference=_conv1d),
)

REDUCTIONS = (
    row(aten.sum.default, f(3, 4), dynamic="n 4"),
    row(aten.mean.default, f(3, 4)),  # torch.export makes its size a constant
    *(row(op, f(3, 4), [-1], True, dynamic="n 4") for op in (aten.sum.dim_IntList, aten.mean.dim)),
    row(aten.cumsum.default, f(3, 4), -1),
    row(aten.trace.default, f(3, 3)),
    row(aten.prod.default, f(3, 4)),
    *(row(aten.prod.dim_int, f(3, size), -1, keepdim) for size, keepdim in ((1, False), (5, True), (0, False))),
    row(aten.cumprod.default, f(3, 5), -1),
    function(aten.logcumsumexp.default, f(3, 5), -1),
    *(row(op, f(3, 4), [1]) for op in (aten.var.correction, aten.std.correction)),
    *(row(op, f(3, 4), [1], keepdim=True) for op in (aten.var_mean.correction, aten.std_mean.correction)),
    row(aten.linalg_vector_norm.default, f(3, 4), 3, [1]),
    function(aten.logsumexp.default, f(3, 4), [1]),
    *(row(op, v([[1j, 0], [1, 2]])) for op in (aten.all.default, aten.any.default, aten.count_nonzero.default)),
    *(row(op, v([[1j, 0], [1, 2]]), 1) for op in (aten.all.dim, aten.any.dim)),
    *(row(op, v([[1j, 0], [1, 2]]), [1]) for op in (aten.all.dims, aten.any.dims, aten.count_nonzero.dim_IntList)),
    *(row(op, v([[1j, 0], [1, 2]])) for op in (aten.nonzero.default, aten.argwhere.default)),
    row(aten.nonzero_static.default, v([[1j, 0], [1, 2]]), size=4),
)

FOURIER = (
    row(aten._fft_r2c.default, r(3, 6), [1], 0, True),
    row(aten._fft_c2c.default, f(3, 6), [0, 1], 1, True),
    row(aten._fft_c2r.default, f(3, 4), [1], 2, 6),
    row(torch.fft.irfft, r(3, 4)),
    row(aten.stft.default, r(2, 32), 8, 4, 6, v([0.5, 1, 1, 1, 1, 0.5], R), True, None, True, dynamic="n 32"),
    row(aten.stft.default, f(32), 8, None, None, None, False, False, True),
)

CASES = (*ARITHMETIC, *FUNCTIONS, *MOVES, *MADE, *PRODUCTS, *REDUCTIONS, *FOURIER)
