"""Fixes: from a finding and the source around it to edits that nobody has tried yet. Text and `ast` only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fxport.diagnostics import rules
from fxport.diagnostics.fixes import branches, operators, shapes, state, types, values
from fxport.diagnostics.fixes.site import Site, site_of
from fxport.diagnostics.model import Finding, Fix

Maker = Callable[[Site], Iterator[Fix]]

MAKERS: Mapping[str, Sequence[Maker]] = {
    rules.DATA_DEPENDENT_CONTROL_FLOW.id: (
        values.outside_export,
        branches.branches,
        values.torch_functions,
        values.promise,
        values.in_words,
    ),
    rules.CAPTURE_FELL_BACK.id: (
        values.outside_export,
        branches.branches,
        values.torch_functions,
        values.stay_in_torch,
    ),
    rules.UNSUPPORTED_PYTHON_CONSTRUCT.id: (values.torch_functions, values.stay_in_torch),
    rules.STATE_MUTATED.id: (state.unshared_input,),
    rules.STATE_LOST.id: (state.buffer_of_tensor,),
    rules.PYTHON_STATE_BAKED.id: (state.buffer_of_number,),
    rules.SCALAR_INPUT_BAKED.id: (state.tensor_input,),
    rules.TRAINING_MODE_CAPTURED.id: (state.eval_mode,),
    rules.RANDOMNESS_CAPTURED.id: (state.functional_dropout,),
    rules.MISSING_FAKE_KERNEL.id: (operators.fake_kernel,),
    rules.UNSUPPORTED_VALUE.id: (types.registered_dataclass, types.tuple_output, types.input_in_words),
    rules.MODEL_FAILS.id: (types.integers_in_words,),
    rules.DIMENSION_SPECIALIZED.id: (shapes.fixed_dimension,),
    rules.DIMENSION_RANGE_NARROWED.id: (shapes.bounded_dimension,),
    rules.DIMENSIONS_TIED.id: (shapes.tied_dimensions,),
    rules.NO_ONNX_LOWERING.id: (operators.lowering,),
    rules.HIGHER_ORDER_OP_UNSUPPORTED.id: (operators.lowering,),
    rules.OPSET_TOO_LOW.id: (operators.newer_opset,),
    rules.IMPLICIT_TYPE_PROMOTION.id: (types.explicit_dtype,),
}
"""Rule → what makes fixes for it, the likeliest first."""

FROM_FACTS: Mapping[str, Callable[[Finding], Iterator[Fix]]] = {
    rules.DIMENSION_RANGE_NARROWED.id: shapes.bounds_in_words,
}
"""Rule → what makes fixes where the marked line is no code of the user's, from the facts of a finding alone."""


def suggested(finding: Finding, files: Iterable[str] = ()) -> tuple[Fix, ...]:
    """The fixes of a finding: its own, then those that the source around it allows, with edits before mere words.

    `files` are looked at besides that of the finding's place: the one that makes the model, say.
    """
    makers = MAKERS.get(finding.rule.id, ())
    paths: dict[str, None] = dict.fromkeys([*([finding.place.path] if finding.place else []), *files])
    made = [*finding.fixes]
    if finding.rule.id in FROM_FACTS and not any(site_of(finding, path) for path in paths):
        made += FROM_FACTS[finding.rule.id](finding)
    for path in paths if makers else ():
        site = site_of(finding, path)
        made += [each for maker in makers for each in (maker(site) if site else ())]
    return tuple(sorted(dict.fromkeys(made), key=lambda each: not each.edits and each not in finding.fixes))
