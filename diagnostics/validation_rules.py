"""Rules of stage 5, validation; `fxport.diagnostics.rules` has them all, and says what a message must be like."""

from __future__ import annotations

from fxport.diagnostics.model import Level, Rule

ERROR, WARNING, NOTE = Level.ERROR, Level.WARNING, Level.NOTE

VALIDATION_SKIPPED = Rule("FXP5001", "ValidationSkipped", WARNING, "The model was not validated. Reason: {reason}.")
OUTPUT_DRIFT = Rule(
    "FXP5002",
    "OutputDrift",
    ERROR,
    "Output '{output}' differs from PyTorch on '{provider}'. Its error is {ratio:.3g} times the allowed error. "
    "The worst difference is {worst:.3g}. Seen with the inputs '{sample}'. Cause: {cause}.",
)
NON_FINITE_OUTPUT = Rule(
    "FXP5003",
    "NonFiniteOutput",
    ERROR,
    "Output '{output}' is NaN or infinite at other elements than in PyTorch on '{provider}'. "
    "That is so for {count} elements. Seen with the inputs '{sample}'. Cause: {cause}.",
)
OUTPUT_SHAPE_MISMATCH = Rule(
    "FXP5004",
    "OutputShapeMismatch",
    ERROR,
    "Output '{output}' has another shape than in PyTorch. In the ONNX model: '{shape}'; PyTorch: '{expected}'. "
    "Seen with the inputs '{sample}'. Cause: {cause}.",
)
OUTPUT_TYPE_MISMATCH = Rule(
    "FXP5005",
    "OutputTypeMismatch",
    ERROR,
    "Output '{output}' has another type than in PyTorch. In the ONNX model: '{type}'; PyTorch: '{expected}'. "
    "Seen with the inputs '{sample}'. Cause: {cause}.",
)
DISTRIBUTION_DRIFT = Rule(
    "FXP5006",
    "DistributionDrift",
    ERROR,
    "Random output '{output}' is drawn from another distribution than in PyTorch on '{provider}'. "
    "Over {runs} runs its {statistic} is {got:.4g}; in PyTorch it is {want:.4g}.",
)
YARDSTICK_MISSING = Rule(
    "FXP5007",
    "YardstickMissing",
    NOTE,
    "There is no reference in float64, so looser tolerances are used. Reason: {reason}.",
)
BRANCH_NOT_TAKEN = Rule(
    "FXP5008",
    "BranchNotTaken",
    NOTE,
    "No sample runs the branch for '{truth}' of this condition, so that branch is not validated. "
    "Samples: {count}. Layers that only it uses: {reads}.",
)
NOT_REPEATABLE = Rule(
    "FXP5009",
    "NotRepeatable",
    WARNING,
    "A second call of the model in PyTorch gives another '{output}' for the same inputs. {detail} "
    "So it is not validated. Seen with the inputs '{sample}'.",
)
NOTHING_SHOWN = Rule(
    "FXP5010",
    "NothingShown",
    WARNING,
    "Output '{output}' is not validated: a wrong model would mostly give the same. "
    "In PyTorch it is {detail}. Samples: {count}.",
)
NOT_COMPARABLE = Rule(
    "FXP5011",
    "NotComparable",
    WARNING,
    "Output '{output}' cannot be compared: PyTorch itself is too inexact there. "
    "{detail}. Seen with the inputs '{sample}'.",
)
TIES_LEFT_OUT = Rule(
    "FXP5012",
    "TiesLeftOut",
    NOTE,
    "Elements of output '{output}' that PyTorch's own rounding decides either way were not compared. "
    "Of angles of pi, only the sign was not. "
    "These are {count} of {elements}. Seen with the inputs '{sample}'.",
)
PASS_CHANGES_VALUES = Rule(
    "FXP5013",
    "PassChangesValues",
    ERROR,
    "The pass '{name}' changes what the model computes. "
    "Seen in the output '{output}', with the inputs '{sample}': before the pass it is another one.",
)
RUNTIMES_DIFFER = Rule(
    "FXP5014",
    "RuntimesDiffer",
    NOTE,
    "Runtimes do not give the same '{output}'. {detail}. Seen with the inputs '{sample}'.",
)
TOKENS_DIFFER = Rule(
    "FXP5015",
    "TokensDiffer",
    ERROR,
    "The package generates another text than PyTorch on '{provider}'. Token {step} is {got}; in PyTorch it is {want}, "
    "and its logit {margin:.2g} above the other's, in parts of the largest. Weights: {weights}.",
)
EQUAL_ELEMENTS = Rule(
    "FXP5016",
    "EqualElements",
    NOTE,
    "Output '{output}' depends on which of equal elements an operator takes, which PyTorch leaves open. It is that of "
    "PyTorch where '{which}' is taken. Seen with the inputs '{sample}'.",
)
PRODUCTS_KEPT_EXACT = Rule(
    "FXP5017",
    "ProductsKeptExact",
    NOTE,
    "Products with '{name}' are exact, not fast. They are {layers} of all {all} with weights in few bits. "
    "Reason: {reason}.",
)
INEXACT_KERNELS = Rule(
    "FXP5018",
    "InexactKernels",
    NOTE,
    "Kernels on '{provider}' round what they give for output '{output}', which is PyTorch's otherwise. "
    "They are {operators}. The worst difference is {worst:.3g}: {got:.6g} in the place of {want:.6g}, "
    "and {share:.2g} of the values are lost. Seen with the inputs '{sample}'.",
)
