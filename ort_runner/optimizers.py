"""Faults of ONNX Runtime's graph optimizations: the optimizer that brings one, and the nodes that it breaks.

A session without any optimization tells whether one is at fault. Then those that need to be off for the model to be
right are searched for, and the model is cut down to the nodes that still show the fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from fxport.diagnostics import Place
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import ModelFile
from fxport.ort_runner.session import Opened, Runtime
from fxport.ort_runner.trials import Sessions

OPTIMIZERS = (
    # Rewriting rules, each for one node and its neighbours.
    "EliminateIdentity",
    "EliminateSlice",
    "EliminateDropout",
    "UnsqueezeElimination",
    "ExpandElimination",
    "CastElimination",
    "CastChainElimination",
    "PreShapeNodeElimination",
    "NoopElimination",
    "DivMulFusion",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "Pad_Fusion",
    "MatMul_BatchNormalization_Fusion",
    "LabelEncoderFusion",
    "ClipQuantRewrite",
    "ReluQuantRewrite",
    # Transformers of the whole graph that every provider gets.
    "ConstantSharing",
    "CommonSubexpressionElimination",
    "ConstantFolding",
    "ConstantFoldingDQ",
    "ReshapeFusion",
    "FreeDimensionOverrideTransformer",
    "GatherToSliceFusion",
    "GatherSliceToSplitFusion",
    "GeluFusionL1",
    "LayerNormFusionL1",
    "QDQPropagationTransformer",
    "DoubleQDQPairsRemover",
    "WeightBiasQuantization",
    "WhereDummyDq",
    "EnsureUniqueDQForNodeUnit",
    "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider",
    # Fusions for the kernels of a provider.
    "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer",
    "QDQFinalCleanupTransformer",
    "DQMatMulNBitsFusion",
    "GemmActivationFusion",
    "MatMulIntegerToFloatFusion",
    "DynamicQuantizeMatMulFusion",
    "ConvActivationFusion",
    "ConvAddActivationFusion",
    "GeluFusionL2",
    "LayerNormFusionL2",
    "SimplifiedLayerNormFusion",
    "AttentionFusion",
    "EmbedLayerNormFusion",
    "GroupQueryAttentionFusion",
    "GroupQueryAttentionPreNormFusion",
    "GqaValueLayoutTransformer",
    "MatmulTransposeFusion",
    "MatMulAddFusion",
    "MatMulActivationFusion",
    "MatMulScaleFusion",
    "MatMulNBitsFusion",
    "MatMulNBitsMlpFusion",
    "MatMulNBitsQkvFusion",
    "BiasGeluFusion",
    "SkipLayerNormFusion",
    "BiasSkipLayerNormFusion",
    "FastGeluFusion",
    "QuickGeluFusion",
    "GeluApproximation",
    "BiasSoftmaxFusion",
    "BiasDropoutFusion",
    "SliceConcatToSpaceToDepthFusion",
    "RemoveDuplicateCastTransformer",
    "CastFloat16Transformer",
    "Avx2WeightS8ToU8Transformer",
    "NchwcTransformer",
    "NhwcTransformer",
    "MemcpyTransformer",
)
"""Names that the session option `disabled_optimizers` takes, as the library has them (1.31.1); others are ignored."""

MOST_SECONDS = 90.0
"""The time for one search; what it knows by then is told."""

Arrays = Mapping[str, np.ndarray]
IsRight = Callable[[Opened, Arrays], bool]
"""Function of an open session and the outputs of a run: True if they are what they should be."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class OptimizerFault:
    """A fault of the runtime: the optimizers of which each one must be off, and the nodes that they break together.

    `optimizers` is empty where no names of `OPTIMIZERS` make a difference, only all optimization.
    """

    optimizers: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The optimizers in words."""
        return " and ".join(self.optimizers) or "graph optimization"

    @property
    def broken(self) -> str:
        """The operators of the nodes in words."""
        return " and ".join(dict.fromkeys(self.operators)) or "the graph"

    def places(self, file: ModelFile) -> tuple[Place, tuple[Place, ...]]:
        """The place of the last node that is broken, and those of the others; the file's where no node is known."""
        *others, last = [file.place_of_node(name) for name in self.nodes] or [Place(str(file.path), 1, 1)]
        return last, tuple(dict.fromkeys(place for place in others if place != last))


def optimizer_fault(path: Path, inputs: Arrays | None, runtime: Runtime, right: IsRight) -> OptimizerFault | None:
    """Search for the optimizers that make a model fail or give something that is not `right`.

    None where they are not at fault: the model is wrong without them, or right with them. Without `inputs`, only
    whether a session opens is asked.
    """
    from fxport.ort_runner.broken_nodes import broken_nodes

    until = time.monotonic() + MOST_SECONDS
    with Sessions(path, runtime) as sessions:

        def is_right(disabled: Sequence[str], *, optimize: bool = True) -> bool:
            try:
                opened, outputs = sessions.run(path, inputs, optimize=optimize, disabled=disabled)
            except Failure:
                return False
            return inputs is None or right(opened, outputs)

        if not is_right((), optimize=False) or is_right(()):
            return None
        if not is_right(OPTIMIZERS):
            return OptimizerFault(())
        found = smallest(OPTIMIZERS, is_right, until)
        if len(found) == len(OPTIMIZERS):
            return OptimizerFault(())
        nodes = broken_nodes(path, inputs, found, sessions, until) if inputs is not None else ()
    return OptimizerFault(tuple(found), tuple(node.name for node in nodes), tuple(node.op_type for node in nodes))


def smallest(items: Sequence[Item], holds: Callable[[Sequence[Item]], bool], until: float) -> list[Item]:
    """A part of `items` that `holds` and of which none can be left out (QuickXplain, Junker 2004).

    `holds` is true of all of them, and of more than a part that it is true of. After `until`, a time of
    `time.monotonic`, what is not decided stays in.
    """

    def needed(given: list[Item], rest: list[Item], *, changed: bool) -> list[Item]:
        if changed and time.monotonic() < until and holds(given):
            return []
        if len(rest) == 1 or time.monotonic() >= until:
            return rest
        left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        of_right = needed([*given, *left], right, changed=True)
        of_left = needed([*given, *of_right], left, changed=bool(of_right))
        return [*of_left, *of_right]

    return needed([], list(items), changed=False) if len(items) > 0 else []
