"""Planted faults in the models of `blame_models`: every kind of mistake in every kind of model.

A line names the model, the operation and its number, and each fault that is planted there: in its lowering, in an FX
pass, or in an ONNX pass that is handed one of its nodes.
"""

from __future__ import annotations

import torch

from tests.cases.blame import (
    CLIPPED,
    COARSE,
    FACTOR,
    FLAT,
    LOST,
    NEGATED,
    OFFSET,
    ONE_MORE,
    SIGN,
    at,
    fx_lost,
    fx_merged,
    fx_swapped,
    in_fx_pass,
    in_lowering,
    in_onnx_pass,
    of_result,
    onnx_constant,
    onnx_lost,
    onnx_merged,
    onnx_operator,
    onnx_swapped,
    set_ints,
    swapped_operands,
    times,
)
from tests.cases.faults import (
    D,
    Fault,
    keyword,
    retarget,
    scaled,
    set_argument,
    set_float,
    set_int,
    shifted_slice,
    swapped,
    through,
    transposed,
    without,
)
from tests.cases.layer_faults import onnx

aten = torch.ops.aten

PERCEPTRON = (
    *in_lowering("perceptron", "linear", 0, lost_bias=without(2), transposed_weight=transposed, factor=FACTOR),
    *in_lowering("perceptron", "gelu", near_function=keyword(approximate="tanh"), lost=LOST, coarse=COARSE),
    *in_lowering("perceptron", "mul.Tensor", wrong_constant=times(1, 1.1), lost=LOST),
    *in_lowering("perceptron", "add.Tensor", lost=LOST),
    *in_fx_pass("perceptron", "sin", lost_in_pass=fx_lost, other_op=retarget(aten.tanh.default)),
    *in_fx_pass("perceptron", "tanh", lost_in_pass=fx_lost),
    *in_fx_pass("perceptron", "linear", 1, merged_in_pass=fx_merged),
    *in_onnx_pass("perceptron", "Sin", lost_by_onnx_pass=onnx_lost, other_operator=onnx_operator("Tanh")),
    *in_onnx_pass("perceptron", "Gemm", 1, wrong_weight=onnx_constant, merged_by_onnx_pass=onnx_merged),
    *in_onnx_pass("perceptron", "Sub", swapped_by_onnx_pass=onnx_swapped, lost_by_onnx_pass=onnx_lost),
)

PICTURE = (
    *in_lowering("picture", "conv2d", 0, lost_bias=without(2)),
    *in_lowering("picture", "batch_norm", wrong_epsilon=at(7, 0.1), lost=LOST),
    *in_lowering("picture", "hardswish", lost=LOST, other_function=onnx(lambda op, x: op.HardSigmoid(x))),
    *in_lowering("picture", "pad", wrong_mode=at(2, "replicate"), fails=LOST),
    *in_lowering("picture", "leaky_relu", wrong_slope=at(1, 0.01), lost=LOST),
    *in_lowering("picture", "mean.dim", sum_for_mean=scaled(16.0)),
    *in_lowering("picture", "log_softmax.int", wrong_axis=at(1, 0)),
    *in_fx_pass("picture", "leaky_relu", lost_in_pass=fx_lost),
    *in_onnx_pass("picture", "LeakyRelu", lost_by_onnx_pass=onnx_lost, wrong_slope=set_float("alpha", 0.2)),
    *in_onnx_pass("picture", "AveragePool", padding_counted=set_int("count_include_pad", 0)),
    *in_onnx_pass("picture", "Conv", 1, fails_to_run=set_ints("pads", 2, 2, 2, 2)),
)

ATTENTION = (
    *in_lowering("attention", "layer_norm", wrong_epsilon=at(4, 0.1)),
    *in_lowering("attention", "transpose.int", 3, lost_transposition=LOST),
    *in_lowering("attention", "transpose.int", 4, lost_transposition=LOST),
    *in_lowering("attention", "div.Tensor", wrong_scale=at(1, 4.0), lost=LOST),
    *in_lowering("attention", "masked_fill.Scalar", wrong_mask=lambda op, right, x, m, v: right(op, x, op.Not(m), v)),
    *in_lowering("attention", "tril", mask_off_by_one=lambda op, right, x: right(op, x, 1)),
    *in_lowering("attention", "eq.Scalar", wrong_mask=NEGATED),
    *in_lowering("attention", "ones", zeros=onnx(lambda op, *_: op.const([[0.0] * 4] * 4, dtype=D.FLOAT))),
    *in_lowering("attention", "softmax.int", wrong_axis=at(1, -2), half_type=through(D.FLOAT16)),
    *in_lowering("attention", "view", 1, fails=of_result(lambda op, y: op.Reshape(y, op.const([2, 4, 2, 8])))),
    *in_lowering("attention", "matmul", 1, swapped=swapped_operands),
    *in_fx_pass("attention", "transpose.int", 1, lost_in_pass=fx_lost),
    *in_fx_pass("attention", "linear", 2, merged_in_pass=fx_merged),
    *in_onnx_pass("attention", "Softmax", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("attention", "Transpose", 2, lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("attention", "Transpose", 3, lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("attention", "MatMul", 1, merged_by_onnx_pass=onnx_merged),
    *in_onnx_pass("attention", "Reshape", 3, fails_by_onnx_pass=onnx_lost),
)

RECURRENT = (
    *in_lowering("recurrent", "relu", lost=LOST),
    *in_lowering(
        "recurrent", "lstm.input", swapped_states=swapped(0, 2, 1), factor=of_result(lambda op, y: op.Mul(y, 1.1))
    ),
    *in_lowering("recurrent", "sigmoid", near_function=onnx(lambda op, x: op.HardSigmoid(x)), lost=LOST),
    *in_lowering("recurrent", "flip", lost=LOST, fails=FLAT),
    *in_fx_pass("recurrent", "sigmoid", lost_in_pass=fx_lost),
    *in_onnx_pass("recurrent", "LSTM", wrong_weight=onnx_constant),
    *in_onnx_pass("recurrent", "Exp", other_operator=onnx_operator("Sinh"), lost_by_onnx_pass=onnx_lost),
)

FOURIER = (
    *in_lowering("fourier", "tanh", lost=LOST, factor=FACTOR),
    *in_lowering("fourier", "log1p", lost=LOST),
    *in_lowering("fourier", "hypot", wrong_sign=SIGN),
    *in_lowering("fourier", "sub.Tensor", wrong_sign=onnx(lambda op, x, y: op.Add(x, y))),
    *in_lowering("fourier", "mul.Tensor", 4, wrong_constant=at(1, 0.6)),
    *in_lowering("fourier", "fxport::fft_c2r", factor=scaled(8.0)),
    *in_fx_pass("fourier", "sin", lost_in_pass=fx_lost),
    *in_fx_pass("fourier", "mul.Tensor", 4, wrong_constant=set_argument(1, 0.4)),
    *in_onnx_pass("fourier", "Sin", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("fourier", "Tanh", other_operator=onnx_operator("Sigmoid"), lost_by_onnx_pass=onnx_lost),
)

WORDS = (
    *in_lowering("words", "arange", off_by_one=onnx(lambda op, *_: op.const([0, 1, 2, 3, 4, 5, 7, 6]))),
    *in_lowering("words", "embedding", 1, factor=FACTOR, fails=of_result(lambda op, y: op.Slice(y, [0], [3], [0]))),
    *in_lowering("words", "ne.Scalar", wrong_constant=at(1, 1)),
    *in_lowering("words", "masked_fill.Scalar", lost=LOST, wrong_value=at(2, 0.5)),
    *in_lowering("words", "cumsum", wrong_axis=at(1, 2), lost=LOST),
    *in_lowering("words", "amax", wrong_reduction=onnx(lambda op, x, *_: op.ReduceMin(x, op.const([1]), keepdims=0))),
    *in_lowering("words", "clamp", no_bound=LOST, wrong_bound=at(1, 5)),
    *in_lowering("words", "softplus", lost=LOST),
    *in_fx_pass("words", "cumsum", lost_in_pass=fx_lost),
    *in_onnx_pass("words", "Softplus", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("words", "Add", lost_by_onnx_pass=onnx_lost),
)

GROUPS = (
    *in_lowering("groups", "conv2d", 0, lost_bias=without(2)),
    *in_lowering(
        "groups", "transpose.int", 0, lost_shuffle=onnx(lambda op, x, *_: op.Reshape(x, op.const([2, 4, 2, 6, 6])))
    ),
    *in_lowering("groups", "group_norm", wrong_groups=at(1, 4), wrong_epsilon=at(4, 0.1)),
    *in_lowering("groups", "elu", lost=LOST, clipped=CLIPPED),
    *in_lowering("groups", "slice.Tensor", off_by_one=shifted_slice),
    *in_fx_pass("groups", "elu", lost_in_pass=fx_lost, other_op=retarget(aten.relu.default)),
    *in_onnx_pass("groups", "Elu", wrong_slope=set_float("alpha", 0.5), lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("groups", "ConvTranspose", wrong_weight=onnx_constant),
)

LOOPS = (
    *in_lowering("loops", "linear", 1, transposed_weight=transposed, lost_bias=without(2)),
    *in_lowering("loops", "tanh", 1, lost=LOST, factor=FACTOR),
    *in_lowering("loops", "zeros", ones=onnx(lambda op, *_: op.const([1.0] * 6, dtype=D.FLOAT))),
    *in_lowering("loops", "cos", lost=LOST),
    *in_fx_pass("loops", "tanh", 2, merged_in_pass=fx_merged, lost_in_pass=fx_lost),
    *in_onnx_pass("loops", "Tanh", 1, lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("loops", "Abs", other_operator=onnx_operator("Neg")),
)


def _half(model: str) -> tuple[Fault, ...]:
    return (
        *in_lowering(model, "layer_norm", factor=FACTOR, wrong_epsilon=at(4, 0.3)),
        *in_lowering(model, "sigmoid", factor=FACTOR, lost=LOST),
        *in_lowering(model, "silu", other_function=onnx(lambda op, x: op.Mul(x, 0.5)), offset=OFFSET),
        *in_lowering(model, "linear", 2, lost_bias=without(2)),
        *in_lowering(model, "mul.Tensor", 1, wrong_constant=at(1, 0.65)),
        *in_fx_pass(model, "silu", lost_in_pass=fx_lost),
    )


GRAPH = (
    *in_lowering("graph", "index_select", fails=at(1, 1)),
    *in_lowering("graph", "relu", lost=LOST),
    *in_lowering("graph", "index_put", 1, no_sum=at(3, False)),
    *in_lowering("graph", "clamp", wrong_bound=at(1, 2.0), lost=LOST),
    *in_lowering("graph", "scatter_reduce.two", wrong_reduction=at(4, "amin")),
    *in_lowering("graph", "zeros", 1, ones=onnx(lambda op, *_: op.const([[1.0] * 8] * 6, dtype=D.FLOAT))),
    *in_fx_pass("graph", "sub.Tensor", swapped_in_pass=fx_swapped),
    *in_fx_pass("graph", "relu", lost_in_pass=fx_lost),
    *in_onnx_pass("graph", "Relu", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("graph", "Sigmoid", lost_by_onnx_pass=onnx_lost),
)

SORTED = (
    *in_lowering("sorted", "topk", smallest=lambda op, right, x, k, *_: right(op, x, k, -1, False)),
    *in_lowering("sorted", "sort", ascending=at(2, False)),
    *in_lowering("sorted", "cumsum", lost=LOST),
    *in_lowering("sorted", "flip", lost=LOST),
    *in_lowering("sorted", "gather", fails=at(1, 0)),
    *in_lowering("sorted", "round", ceiling=onnx(lambda op, x: op.Ceil(x)), lost=LOST),
    *in_lowering("sorted", "remainder.Scalar", wrong_constant=at(1, 3), one_more=ONE_MORE),
    *in_onnx_pass("sorted", "Sin", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("sorted", "ArgMin", wrong_operator=onnx_operator("ArgMax")),
    *in_onnx_pass("sorted", "Round", lost_by_onnx_pass=onnx_lost),
)

NORMS = (
    *in_lowering("norms", "instance_norm", wrong_epsilon=at(7, 0.2)),
    *in_lowering("norms", "relu6", no_bound=onnx(lambda op, x, *_: op.Relu(x)), lost=LOST),
    *in_lowering("norms", "layer_norm", lost_bias=at(3, None), wrong_epsilon=at(4, 0.2)),
    *in_lowering("norms", "rms_norm", wrong_epsilon=at(3, 0.3), lost=LOST),
    *in_lowering("norms", "std.correction", no_correction=keyword(correction=0)),
    *in_lowering("norms", "logsumexp", wrong_axis=at(1, [2])),
    *in_fx_pass("norms", "relu6", lost_in_pass=fx_lost),
    *in_onnx_pass("norms", "Mul", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("norms", "ReduceL2", other_operator=onnx_operator("ReduceL1")),
)

STATE = (
    *in_lowering("state", "mean.dim", factor=FACTOR),
    *in_lowering("state", "mul.Tensor", 0, wrong_constant=at(1, 0.99), lost=LOST),
    *in_lowering("state", "add.Tensor", 1, lost=LOST),
    *in_lowering("state", "atan", lost=LOST),
    *in_fx_pass("state", "mul.Tensor", 1, merged_in_pass=fx_merged),
    *in_onnx_pass("state", "Atan", lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("state", "Sub", swapped_by_onnx_pass=onnx_swapped),
)

BRANCHES = (
    *in_lowering("branches", "gt.Scalar", wrong_constant=at(1, 0.5), other_way=NEGATED),
    *in_lowering("branches", "where.self", other_branch=lambda op, right, m, x, y: right(op, m, y, x)),
    *in_lowering("branches", "logical_or", other_operator=onnx(lambda op, x, y: op.And(x, y)), lost=LOST),
    *in_lowering("branches", "maximum", smallest=onnx(lambda op, x, y: op.Min(x, y)), lost=LOST),
    *in_fx_pass("branches", "lt.Scalar", other_way=set_argument(1, 0.6)),
    *in_onnx_pass("branches", "Or", other_operator=onnx_operator("Xor"), lost_by_onnx_pass=onnx_lost),
    *in_onnx_pass("branches", "Mul", wrong_constant=onnx_constant),
    *in_onnx_pass("branches", "Max", lost_by_onnx_pass=onnx_lost),
)

FAULTS: tuple[Fault, ...] = (
    *PERCEPTRON,
    *PICTURE,
    *ATTENTION,
    *RECURRENT,
    *FOURIER,
    *WORDS,
    *GROUPS,
    *LOOPS,
    *_half("bf16"),
    *_half("fp16"),
    *GRAPH,
    *SORTED,
    *NORMS,
    *STATE,
    *BRANCHES,
)
