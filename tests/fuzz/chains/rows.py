"""The rows of chains: calls of operators as text, by what they do to numbers.

`x` is what the row before gave, `p` what that one was given; places in braces are filled by `fields.py`.
"""

from __future__ import annotations


def _rows(text: str) -> tuple[str, ...]:
    """The rows of a text, in which semicolons stand between them."""
    return tuple(row.strip() for row in text.replace("\n", " ").split(";"))


MOVES = _rows("""
x.abs(); -x; torch.relu(x); x.clamp({number}, {number}); x.clamp_min({number}); x.clamp_max({number});
torch.maximum(x, {a}); torch.minimum(x, {c}); torch.fmax(x, {a}); torch.where({mask}, x, {c}); torch.where({mask},
{number}, x); x.masked_fill({mask}, {number}); x.masked_fill({mask}, {special}); x.reshape({shape});
x.flatten({dim}); x.unsqueeze({dim}); x.squeeze({dim}); x.squeeze(); x.permute({perm});
x.permute({perm}).contiguous(); x.transpose({dim}, {other_dim}); x.flip({dim}); x.roll({integer}, {dim});
x.expand({repeat}, *x.shape); x.repeat({repeat}, *([1] * x.dim())); x.repeat_interleave({repeat}, {dim});
x.narrow({dim}, 0, {count}); x.select({dim}, {place}); x.index_select({dim}, {index}); torch.gather(x, {dim},
{like_index}); torch.cat([x, {b}], {dim}); torch.stack([x, p], 0); torch.cat([x, x], {dim}); x.split({count},
{dim})[0]; x.chunk(2, {dim})[-1]; x.unbind({dim})[0]; x[..., ::2]; x[..., 1:]; x[..., :-1]; x[..., None];
x[{index}]; x[..., {index0}]; x.tril({integer}); x.triu({integer}); x.diagonal(); x.amax({dim}); x.amin({dim},
keepdim={flag}); x.max(); x.min({dim})[0]; x.max({dim}, keepdim={flag})[0]; x.amax(keepdim={flag}); x.sort({dim},
descending={flag})[0]; x.topk({count}, {dim})[0]; x.cummax({dim})[0]; x.cummin({dim})[0]; x.scatter({dim},
{like_index}, {number}); x.index_fill({dim}, {index}, {number}); x.index_copy({dim}, {one_index}, {zeros_at});
x.new_zeros(2) + x.sum() * 0; F.pad(x, {pads}); F.pad(x, {pads}, value={number}); F.pad(x, {pads}, value={special});
F.pad(x, (1, 1), mode='reflect'); F.pad(x, (1, 1), mode='replicate'); F.pad(x, (1, 1), mode='circular');
F.max_pool1d(x, 2, {stride}, {half}, ceil_mode={flag}); F.max_pool2d(x, 2, {stride}, {half}, {stride},
ceil_mode={flag}); F.max_pool2d(x, 3, {stride}, 1); F.adaptive_max_pool2d(x, 2); F.max_pool2d(x, 2,
return_indices=True)[1]; F.unfold(x, 2); F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2); x.clone(); x.contiguous();
F.interpolate(x, scale_factor=2); torch.nan_to_num(x); x.view(-1); x.T; x.mT; x.movedim({dim}, {other_dim});
x.unflatten({dim}, (1, -1)); x.copysign({a}); torch.tile(x, (2,)); torch.broadcast_to(x, (2, *x.shape));
torch.take(x, {flat}); x.masked_fill(x == x, {number})
""")
"""Rows whose results are elements of what they are given, or constants."""

JUMPS = _rows("""
x.floor(); x.ceil(); x.round(); x.trunc(); x.frac(); x.sign(); x == {a}; x != {number}; x < {c}; x >= {a}; x >
{number}; x.isnan(); x.isinf(); x.isfinite(); x.nan_to_num(1, 2, 3).signbit(); x.bool(); x.argmax({dim});
x.argmin({dim}, keepdim={flag}); x.argsort({dim}, stable=True); x.logical_not(); x.any({dim}); x.all({dim},
keepdim={flag}); x.any(); x.count_nonzero({dim}); x.nan_to_num(1, 2, 3).clamp(-99, 99).long(); x.nan_to_num(1, 2,
3).clamp(-99, 99).int(); x.nan_to_num(1, 2, 3).clamp(0, 99).to(torch.uint8); x.heaviside({a});
x.remainder({nonzero}); x.fmod({nonzero}); x // {nonzero}; torch.searchsorted({sorted}, x); torch.bucketize(x,
{sorted}); x.cumsum({dim}).bool(); torch.isin(x, {c}); x.sgn(); x.eq({special})
""")
"""Rows that tell apart what is nearly equal: they stand behind exact rows only."""

EXACT = _rows("""
x + {a}; x - {c}; x * {a}; x + {number}; {number} - x; x * {number}; x * 1; x + 0; x - 0; x / 1; x * 0; x * -1; 0 -
x; x + p; x - p; x * p; x + x; x * x; x.square(); x.float(); x.double().float(); x.half().float(); x.to({dtype}); (x
+ {number}) * {number}; x.long(); x.int(); x.add({a}, alpha={small}); torch.lerp(x, {a}, 0.5); x.pow(2);
torch.addcmul(x, {a}, {c}); x.float() * {number}; F.hardtanh(x); F.relu6(x); F.leaky_relu(x, 0.25); F.threshold(x,
{number}, {number}); F.hardshrink(x); F.prelu(x, torch.tensor(0.25)); F.softshrink(x); x.addcdiv({a}, {nonzero}); x
/ {nonzero}; {number} / x; x.sqrt(); x.reciprocal(); x / x; torch.rsub(x, {a}); torch.abs(x - {c})
""")
"""Rows of correctly rounded arithmetic."""

WHOLE = _rows("""
x & {a}; x | {c}; x ^ {a}; ~x; x << {shift}; x >> {shift}; x + {a}; x * {c}; x - {number}; x.sum({dim}); x.sum();
x.prod({dim}); x.cumsum({dim}); x.cumprod({dim}); x // {nonzero}; x % {nonzero}; torch.div(x, {nonzero},
rounding_mode='trunc'); x.fmod({nonzero}); x.bool(); x.float(); x / {nonzero}; x.to({dtype}); x.pow(2); x.pow(3); x
** {small}; x.abs(); x.sign(); -x; x.clamp({small}, 5); x * {small}; 1 // x.clamp_min(1); x.double().long();
torch.bincount(x.abs().clamp_max(9).flatten()); F.one_hot(x.remainder(4).long(), 4); x.scatter_add({dim},
{like_index}, {ones_at}); x.index_add({dim}, {one_index}, {zeros_at}); x.matmul({matrix}); x.mean({dim},
dtype=torch.float32); torch.arange(x.shape[{dim}]) + x; x.logical_xor({a}); x.all(); x.unique(); x.nonzero(); x[x >
0]; torch.eye(4, dtype=x.dtype)[x.remainder(4).long()]; x.sum({dim}, dtype=torch.int32); x.amax({dim});
x.bitwise_not()
""")
"""Rows of integers and truth values."""

TAME = _rows("""
x.sum({dim}); x.sum(); x.mean({dim}, keepdim={flag}); x.mean(); torch.tanh(x); torch.sigmoid(x); x.softmax({dim});
x.log_softmax({dim}); F.gelu(x); F.gelu(x, approximate='tanh'); F.silu(x); x * torch.sigmoid(x); F.elu(x);
F.selu(x); F.celu(x); F.softplus(x); F.mish(x); F.hardswish(x); F.hardsigmoid(x); F.logsigmoid(x);
x.matmul({matrix}); {matrix}.matmul(x); F.linear(x, {linear}, {bias}); x @ x.mT; x.mT @ x; F.layer_norm(x,
x.shape[-1:]); F.layer_norm(x, x.shape[-1:], {last}); F.rms_norm(x, x.shape[-1:]); F.batch_norm(x, {mean}, {var},
{mean}); F.group_norm(x, 1); F.instance_norm(x); F.conv1d(x, {kernel1}); F.conv2d(x, {kernel2}, padding={half});
F.conv_transpose2d(x, {kernel3}, stride=2); F.avg_pool2d(x, 2, {stride}, {half}, ceil_mode={flag},
count_include_pad={flag}); F.avg_pool1d(x, 2, {stride}, {half}); F.adaptive_avg_pool2d(x, 1);
F.adaptive_avg_pool2d(x, 2); F.adaptive_avg_pool2d(x, 4); F.adaptive_avg_pool1d(x, 3); F.interpolate(x,
scale_factor=2, mode='bilinear'); F.interpolate(x, size=(3, 4), mode='bilinear', align_corners=True);
F.interpolate(x, size=(3, 4), mode='bicubic'); F.interpolate(x, size=(3, 3), mode='area'); x.cumsum({dim});
x.norm(dim={dim}); F.normalize(x, dim={dim}); x.var({dim}); x.std({dim}); torch.var_mean(x, {dim})[0];
x.logsumexp({dim}); x.scatter_add({dim}, {like_index}, {ones_at}); x.index_add({dim}, {one_index}, {zeros_at});
torch.einsum('...i,...j->...ij', x, x); x.logcumsumexp({dim}); torch.sin(x); torch.cos(x); torch.atan(x);
torch.erf(x); F.cosine_similarity(x, {a}, {dim}); F.scaled_dot_product_attention(x, x, x);
F.scaled_dot_product_attention(x, x, x, is_causal=True); x.nansum({dim}); F.local_response_norm(x, 2);
x.prod({dim}); torch.baddbmm(x, x, {square}); F.grid_sample(x, {grid}); F.glu(x, {dim}); F.softmin(x, {dim});
torch.trapezoid(x); torch.cdist(x, x); x.norm(); x.norm(1, {dim}); torch.linalg.vector_norm(x, math.inf, {dim});
x.median({dim})[0]; x.nanmean({dim}); F.lp_pool2d(x, 2, 2); F.hinge_embedding_loss(x, {a}); F.mse_loss(x, {a});
F.smooth_l1_loss(x, {a}); F.huber_loss(x, {a}); F.l1_loss(x, {a}); x.logaddexp({a}); torch.outer(x, x); x.trace();
x.renorm(2, {dim}, 1)
""")
"""Rows that round, and let small errors stay small."""

WILD = _rows("""
x.exp(); x.log(); x.tan(); x.rsqrt(); x.pow(3); x ** 0.5; x ** -1; {small} ** x; x.expm1(); x.log1p(); x.log2();
x.exp2(); x.sinh(); x.cosh(); x.asinh(); x.acosh(); x.atanh(); x.asin(); x.acos(); x.atan2({a}); x.hypot({a});
x.logit(); torch.xlogy(x, {a}); x.erfinv(); x.sinc(); x.pow({a}); 1 / (1 + (-x).exp()); x.log10(); x / (x.exp() + 1)
""")
"""Rows that round, and let small errors grow: the last ones of a chain that rounds."""

MOVING, JUMPING, EXACTLY, ROUNDING = range(4)
FLOATS = tuple(
    (text, kind)
    for rows, kind in ((MOVES, MOVING), (JUMPS, JUMPING), (EXACT, EXACTLY), (TAME, ROUNDING), (WILD, ROUNDING))
    for text in rows
)
INTEGERS = tuple((text, JUMPING) for text in (*MOVES, *JUMPS, *WHOLE, *WHOLE))
TAMED = frozenset((*MOVES, *TAME, "x + {a}", "x * {a}", "x + {number}", "x * {number}", "x + p", "x + x"))
"""Operators that may follow one whose result is rounded."""
