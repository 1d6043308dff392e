"""Options of an export."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

MIN_OPSET, MAX_OPSET = 18, 26
"""18 is the first opset whose Split and Reduce operators take what ATen needs; 26 the last that ONNX Runtime loads."""

SelfCheck = Literal["rewritten", "always", "never"]
"""Choice of the captures that are compared with the model in PyTorch."""

DEFAULT_OPSET = 23
"""The first with Attention, RMSNormalization and RotaryEmbedding; docs/decisions/default-opset.md has the figures."""


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of one export; most have a flag of the same name on the command line.

    `opset`: the ai.onnx version of the model, 18 to 26; by default 23, or 21 where an operator of the model has a
    kernel on CUDA at that version alone. `lowerings`: a user's own, by ATen overload, on top of
    fxport's. `ir_passes`: further passes on the ONNX model, run last. `dump`: a folder for the graph after each pass.
    `allow_specialization`: accept that a dimension asked to be dynamic became a constant (a warning, not an error), and
    so the values of an input for which Python asks.
    `input_names`, `output_names`: names for the flattened inputs and outputs, in order. `strategy`: the only way of
    capture to try, a name in `fxport.exporter.capture.attempts.ATTEMPTS`; by default they are tried in order.
    `weights`: a checkpoint from which the weights are taken, by name, in the place of the model's own.
    `weights_in_place`: those that lie in its files as ONNX would have them stay there, and the model refers to them.
    `functions`: repeated calls of a region of `torch.compiler.nested_compile_region` become calls of one function.
    `custom_ops`: an operator of a library for which there is no lowering becomes a node of its own domain.
    `reuse`: blocks that the model repeats, such as its layers, are captured once where they are proven to be alike.
    `rewrite`: statements that depend on data or on dynamic sizes become operators; without it, PyTorch's own rules
    hold. `self_check`: which captures are compared with the model in PyTorch: those with rewritten statements or
    gradients, all, or none. `rank_timeout`: seconds for which one rank of a sharded model waits for another that is
    expected to answer.
    `optimize`: run the passes that make the ONNX model smaller and faster. `keep_exported_program`: the result has the
    program as torch.export gives it (`OnnxProgram.exported_program`), which is a copy of the graph more. `kernels`: the
    providers ("cpu", "cuda") of whose kernels a node may use one; one for whose types none has a kernel is cast.
    """

    opset: int | None = None
    lowerings: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    ir_passes: tuple[Any, ...] = ()
    dump: Path | None = None
    allow_specialization: bool = False
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    strategy: str | None = None
    weights: Path | None = None
    weights_in_place: bool = False
    functions: bool = True
    custom_ops: bool = False
    reuse: bool = True
    rewrite: bool = True
    self_check: SelfCheck = "rewritten"
    rank_timeout: float = 45.0
    optimize: bool = True
    keep_exported_program: bool = False
    kernels: tuple[str, ...] = ("cpu",)

    def __post_init__(self) -> None:
        if not isinstance(self.opset, int | None) or isinstance(self.opset, bool):
            raise TypeError(f"opset is {self.opset!r}; give a number, such as {DEFAULT_OPSET}")
        if self.opset is not None and not MIN_OPSET <= self.opset <= MAX_OPSET:
            raise ValueError(
                f"opset {self.opset} is out of range: fxport writes opsets {MIN_OPSET} to {MAX_OPSET}; give one of them"
            )
        if self.self_check not in get_args(SelfCheck):
            known = ", ".join(map(repr, get_args(SelfCheck)))
            raise ValueError(f"self_check {self.self_check!r} is unknown; it can be {known}")

    @property
    def lowered_opset(self) -> int:
        """The opset that the graph is lowered to."""
        return DEFAULT_OPSET if self.opset is None else self.opset

    def named(
        self,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        opset_version: int | None = None,
        lowerings: Mapping[Any, Callable[..., Any]] | None = None,
        weights: str | os.PathLike[str] | None = None,
    ) -> Options:
        """These options with what was given beside them, under torch.onnx's names."""
        given: dict[str, Any] = {
            "input_names": tuple(input_names) if input_names else None,
            "output_names": tuple(output_names) if output_names else None,
            "opset": opset_version,
            "lowerings": {**self.lowerings, **lowerings} if lowerings else None,
            "weights": None if weights is None else Path(weights),
        }
        return replace(self, **{name: value for name, value in given.items() if value is not None})
