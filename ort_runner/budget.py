"""The error budget: how far an output of ONNX Runtime may be from the truth.

The truth is eager PyTorch in float64, and the yardstick is how far eager in the model's own type is from it, over the
same elements: what depth, cancellation and magnitude cost PyTorch is granted to ONNX Runtime too, times RATIO, or times
MEAN_RATIO for the root mean square of a whole output. Below that, FLOORS grant every type some rounding units of the
values' own magnitude, for outputs on which eager happens to be exact, and `sums.allowance` some more for long sums.
Without the truth, eager is taken for it, and only a rule by type is left: LOOSE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import ml_dtypes
import numpy as np

from fxport.ort_runner.providers import Provider

# Two sound kernels differ in the order of their sums and in the last bits of exp, erf and tanh. Over BERT, GPT-2,
# Llama, ViT, ConvNeXt, ResNet, wav2vec2, LSTM and GRU with random weights the root mean squares of their errors differ
# by a factor of less than 1.8, largest errors and slices by less than 3. One matmul of an attention that adds up in
# float16 costs 2.8 and more, an epsilon of 1e-6 for 1e-5 in the last layer norm 6 and more.
RATIO, MEAN_RATIO = 8.0, 2.5

# The yardstick is itself a draw of rounding errors, and over few independent elements it may be small by luck: the
# ratio of two draws of n elements exceeds r with a probability of about r to the power of -n. So FEW / n² is added to
# the ratio: 256 for one element, which is exceeded once in 400 times and only beyond the floor, and nothing from 64 on.
FEW = 256.0

# In rounding units (the type's epsilon). The coarser the type, the rarer the roundings: kernels compute in float32. The
# root mean square of a whole output gets MEAN_SHARE of them.
FLOORS: Mapping[str, float] = MappingProxyType({"float64": 4096.0, "float32": 16.0, "float16": 4.0, "bfloat16": 2.0})
LOOSE: Mapping[str, float] = MappingProxyType({"float64": 4096.0, "float32": 1024.0, "float16": 32.0, "bfloat16": 8.0})
MEAN_SHARE = 0.5
SUBNORMAL, FLOAT32_EPSILON = 1e-30, 2.0**-23
COARSE_FLOOR, COARSE_LOOSE = 1.0, 2.0  # of the 8-bit and 4-bit types


# Errors above these parts of the values (root mean squares of the whole output) cannot be told from a fault, even where
# eager's own are as large: such an output is not comparable. Deep networks stay below a tenth of them.
CEILINGS: Mapping[str, float] = MappingProxyType(
    {"float64": 1e-6, "float32": 2e-2, "float16": 1e-1, "bfloat16": 2.5e-1}
)
COARSE_CEILING = 0.5

# In rounding units: the most that FEW may add where all elements have one error, which counts as one draw. A mean that
# was subtracted is that far off; a factor or an offset that is wrong is further.
SYSTEMATIC: Mapping[str, float] = MappingProxyType(
    {"float64": 65536.0, "float32": 4096.0, "float16": 16.0, "bfloat16": 4.0}
)
COARSE_SYSTEMATIC = 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Allowed error of one output.

    `epsilon` is the rounding unit of its type; below `tiny` nothing counts. `sums` is what long sums may cost, relative
    to the values. `ceiling` is the largest error, relative to the values, that is told from a fault; `systematic` are
    the rounding units that an error of one sign may have by bad luck.
    """

    slack: float
    units: float
    epsilon: float
    tiny: float
    sums: float = 0.0
    ceiling: float = math.inf
    systematic: float = math.inf

    def limit(
        self,
        own: np.ndarray,
        scale: np.ndarray,
        count: np.ndarray,
        *,
        ratio: float = RATIO,
        share: float = 1.0,
        one_sign: bool = False,
    ) -> np.ndarray:
        """The largest error norm granted, given eager's error norm, the values' norm and the number of
        independent elements; `one_sign` says that these are fewer than there are because all have one error."""
        luck = FEW / np.square(np.maximum(count, 1.0)) * own
        if one_sign:
            luck = np.minimum(luck, self.systematic * self.epsilon * scale)
        floor = (share * self.units * self.epsilon + self.sums) * scale
        return np.maximum(self.slack * (ratio * own + luck), floor) + self.tiny

    def mean_limit(self, scale: float) -> float:
        """The mean error that is granted without regard to eager's, given the root mean square of the values."""
        return (self.units * self.epsilon + self.sums) * scale + self.tiny


def budget_of(dtype: np.dtype, provider: Provider, *, has_exact: bool, sums: float = 0.0) -> Budget:
    """The budget of an output of a floating-point type on a provider. `sums` is an allowance in units of float32, the
    type in which kernels of smaller types add up too."""
    table, other = (FLOORS, COARSE_FLOOR) if has_exact else (LOOSE, COARSE_LOOSE)
    info = ml_dtypes.finfo(dtype)
    epsilon = max(float(info.eps), provider.epsilon.get(dtype.name, 0.0))
    units = table.get(dtype.name, other) * provider.slack
    # Kernels may flush subnormal numbers to zero; those of float16 and below are everyday values and never flushed.
    tiny = float(info.tiny) if info.tiny < SUBNORMAL else float(info.smallest_subnormal)
    ceiling = CEILINGS.get(dtype.name, COARSE_CEILING) if has_exact else math.inf
    systematic = SYSTEMATIC.get(dtype.name, COARSE_SYSTEMATIC)
    return Budget(
        provider.slack, units, epsilon, tiny, sums * min(epsilon, FLOAT32_EPSILON), ceiling, systematic * provider.slack
    )
