"""THE table of rules: `FXP` and four digits, thousands by stage. Ids are never reused.

Messages: the first sentence is stable, at most 100 characters, and holds names only, in single quotes; what changes
from run to run (values, errors, ratios) stands in later sentences. Each rule has a page in `pages/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxport.diagnostics.model import Level, Rule
from fxport.diagnostics.validation_rules import *  # noqa: F403  # those of stage 5

ERROR, WARNING, NOTE = Level.ERROR, Level.WARNING, Level.NOTE

# 1: capture

CAPTURE_FAILED = Rule("FXP1001", "CaptureFailed", ERROR, "torch.export could not capture the model. It said: {error}.")
DATA_DEPENDENT_CONTROL_FLOW = Rule(
    "FXP1002",
    "DataDependentControlFlow",
    ERROR,
    "This line depends on the values or sizes of tensors. Detail: {detail}.",
)
UNSUPPORTED_PYTHON_CONSTRUCT = Rule(
    "FXP1003", "UnsupportedPythonConstruct", ERROR, "This Python construct cannot be captured. Reason: {detail}."
)
CAPTURE_FELL_BACK = Rule(
    "FXP1004",
    "CaptureFellBack",
    NOTE,
    "The model was captured by '{strategy}' after '{failed}' had failed. Error: {error}.",
)
STATE_MUTATED = Rule(
    "FXP1005", "StateMutated", NOTE, "forward changes '{name}', so its new value became the output '{output}'."
)
SCALAR_INPUT_BAKED = Rule(
    "FXP1006", "ScalarInputBaked", NOTE, "The Python input '{input}' became a constant. Its value is {value!r}."
)
TRAINING_MODE_CAPTURED = Rule(
    "FXP1007", "TrainingModeCaptured", WARNING, "'{op}' was captured in training mode, so it behaves as in training."
)
RANDOMNESS_CAPTURED = Rule(
    "FXP1008", "RandomnessCaptured", WARNING, "'{op}' is random, so its values cannot be compared with PyTorch's."
)
MISSING_FAKE_KERNEL = Rule(
    "FXP1009", "MissingFakeKernel", ERROR, "The custom operator '{op}' has no fake kernel, so it cannot be captured."
)
INPUT_MISMATCH = Rule(
    "FXP1010",
    "InputMismatch",
    ERROR,
    "The sample inputs do not fit the model's forward. Python says: {error}. Seen with the inputs '{sample}'.",
)
UNSUPPORTED_VALUE = Rule(
    "FXP1011",
    "UnsupportedValue",
    ERROR,
    "A value of the type '{type}' among the '{name}' of forward cannot be captured.",
)
GRADIENT_MISSING = Rule(
    "FXP1015", "GradientMissing", ERROR, "The loss does not depend on the parameter '{name}', so it gets no gradient."
)
STATE_LOST = Rule(
    "FXP1016",
    "StateLost",
    WARNING,
    "forward assigns a tensor to '{name}', which is no buffer with a value, so the next run lacks it.",
)
LAYER_MADE = Rule(
    "FXP1017", "LayerMade", ERROR, "forward makes the layer '{name}', so its weights would be other ones in each run."
)
PYTHON_STATE_BAKED = Rule(
    "FXP1018",
    "PythonStateBaked",
    NOTE,
    "forward changes the Python value '{name}', which is frozen in the graph. It was {was} before the call.",
)
PYTHON_RANDOM_BAKED = Rule(
    "FXP1019",
    "PythonRandomBaked",
    WARNING,
    "forward draws numbers from '{name}', and those drawn during the export became constants.",
)
RANKS_DISAGREE = Rule(
    "FXP1020",
    "RanksDisagree",
    ERROR,
    "The ranks do not hold the same '{name}', so it cannot be put together. They hold: {detail}.",
)
RANK_LOST = Rule("FXP1021", "RankLost", ERROR, "The export has lost '{name}'. It {detail}.")
PLACEMENT_UNSUPPORTED = Rule(
    "FXP1022",
    "PlacementUnsupported",
    ERROR,
    "The parts that the ranks hold of '{name}' do not make it whole. Its placement is '{layout}'.",
)

MODEL_FAILS = Rule(
    "FXP1023", "ModelFails", ERROR, "'{name}' does not run in PyTorch with these inputs. It raises {error}."
)
VALUE_MADE_TEXT = Rule(
    "FXP1024",
    "ValueMadeText",
    WARNING,
    "A value known only at run time is formatted as text here, so the text is the same in every run.",
)

VALUES_SPECIALIZED = Rule(
    "FXP1025",
    "ValuesSpecialized",
    WARNING,
    "The values of '{name}' became constants, since Python asks for them here.",
)
RANKS_ASK_DIFFERENTLY = Rule(
    "FXP1026",
    "RanksAskDifferently",
    WARNING,
    "The ranks call export with different '{name}', and that of rank 0 is used. They give: {detail}.",
)
REPLICAS_DIFFER = Rule(
    "FXP1027",
    "ReplicasDiffer",
    WARNING,
    "The ranks have copies of '{name}' with other values, and those of the lowest rank are exported. "
    "Others like it: {others}.",
)
ATTENTION_SPREAD = Rule(
    "FXP1028",
    "AttentionSpread",
    ERROR,
    "Context parallelism spreads attention over the ranks, so '{name}' cannot be captured in one process.",
)
ENVIRONMENT_BAKED = Rule(
    "FXP1029",
    "EnvironmentBaked",
    WARNING,
    "forward reads '{name}', and the value read during the export became a constant.",
)
OTHER_CAPTURE_FAILED = Rule(
    "FXP1030",
    "OtherCaptureFailed",
    NOTE,
    "The capture '{strategy}', which might have kept more sizes dynamic, failed. Error: {error}.",
)
SHARED_MEMORY_WRITTEN = Rule(
    "FXP1031",
    "SharedMemoryWritten",
    ERROR,
    "'{name}' is written to and shares memory with '{other}', which would keep its old value.",
)
STATE_LEFT = Rule(
    "FXP1032",
    "StateLeft",
    ERROR,
    "'{name}' still holds a value of the capture, which Python offers no means to remove.",
)
CAPTURE_DIFFERS = Rule(
    "FXP1033",
    "CaptureDiffers",
    ERROR,
    "The captured program and the model give different values. For {call}, {result} is {got} instead of {want}.",
)
BRANCH_UNCHECKED = Rule(
    "FXP1034", "BranchUnchecked", WARNING, "A rewritten statement was not compared with PyTorch. {branch} never ran."
)
CAPTURE_UNCHECKED = Rule(
    "FXP1035", "CaptureUnchecked", WARNING, "The captured model was not compared with PyTorch. Reason: {reason}."
)
UNSEEDED_RANDOM = Rule(
    "FXP1036", "UnseededRandom", ERROR, "'{op}' draws random numbers that do not follow the seed of the training step."
)
NUMBER_TOO_LARGE = Rule(
    "FXP1037",
    "NumberTooLarge",
    WARNING,
    "A whole number here may need more than the 64 bits that the ONNX model has for it. Python has no such limit. "
    "{growth}.",
)
INPUTS_ARE_ONE = Rule(
    "FXP1038",
    "InputsAreOne",
    ERROR,
    "One tensor of the example is several inputs of the ONNX model, which then gives something else. "
    "For {inputs}, {result} is {got} instead of {want}.",
)
POWER_MAY_BE_COMPLEX = Rule(
    "FXP1039",
    "PowerMayBeComplex",
    WARNING,
    "If this number is below zero, its power is complex in Python, and NaN in the ONNX model.",
)
SORT_KEYS_MAY_BE_NAN = Rule(
    "FXP1040", "SortKeysMayBeNan", WARNING, "If a sort key is NaN, the ONNX model has another order: NaN last."
)

# 2: shapes

DIMENSION_SPECIALIZED = Rule(
    "FXP2001",
    "DimensionSpecialized",
    ERROR,
    "Dimension '{dim}' of input '{input}' was asked to be dynamic but is fixed by the code. The model takes {value}.",
)
DIMENSION_RANGE_NARROWED = Rule(
    "FXP2002",
    "DimensionRangeNarrowed",
    WARNING,
    "Dimension '{dim}' of input '{input}' is limited. The model is known to be right for sizes that are {range}.",
)
DIMENSIONS_TIED = Rule(
    "FXP2003",
    "DimensionsTied",
    WARNING,
    "Dimensions '{dim}' and '{other}' are not independent. The model needs '{relation}'.",
)
DATA_DEPENDENT_SHAPE = Rule(
    "FXP2005", "DataDependentShape", NOTE, "The size of output '{output}' is known only when the model runs."
)
DYNAMIC_SHAPES_INVALID = Rule(
    "FXP2007",
    "DynamicShapesInvalid",
    ERROR,
    "The dynamic shapes that were asked for do not fit the inputs. Reason: {detail}.",
)

# 3: operators

NO_ONNX_LOWERING = Rule("FXP3001", "NoOnnxLowering", ERROR, "No ONNX lowering for '{op}'.")
NO_MATCHING_OVERLOAD = Rule(
    "FXP3002", "NoMatchingOverload", ERROR, "'{op}' has a lowering, but not for these arguments. Reason: {detail}."
)
OPSET_TOO_LOW = Rule(
    "FXP3003",
    "OpsetTooLow",
    ERROR,
    "'{op}' needs a newer opset. It needs opset {needed}; the export asked for {opset}.",
)
LOWERING_RAISED = Rule(
    "FXP3004", "LoweringRaised", ERROR, "The lowering of '{op}' raised an exception. It said: {error}."
)
CUSTOM_OPERATOR_EMITTED = Rule(
    "FXP3006",
    "CustomOperatorEmitted",
    NOTE,
    "'{op}' became '{domain}::{onnx_op}', which needs a library of custom operators.",
)
HIGHER_ORDER_OP_UNSUPPORTED = Rule(
    "FXP3007", "HigherOrderOpUnsupported", ERROR, "No ONNX lowering for the higher-order operator '{op}'."
)
BRANCHES_DISAGREE = Rule(
    "FXP3008", "BranchesDisagree", ERROR, "The branches of '{op}' return different things. Torch says: {detail}."
)
OUTPUT_ALTERED = Rule(
    "FXP3009", "OutputAltered", NOTE, "Output '{output}' of forward is not in the model as PyTorch gives it. {detail}."
)
NO_OUTPUT = Rule(
    "FXP3010", "NoOutput", ERROR, "forward returns no tensor, so the model has no output. It returns: {detail}."
)

# 4: types

IMPLICIT_TYPE_PROMOTION = Rule(
    "FXP4001", "ImplicitTypePromotion", NOTE, "'{op}' mixes types, so '{source}' was cast to '{target}'."
)
PRECISION_LOWERED = Rule(
    "FXP4002", "PrecisionLowered", WARNING, "'{name}' was lowered from '{source}' to '{target}', which is less precise."
)
UNSUPPORTED_TYPE = Rule(
    "FXP4003", "UnsupportedType", ERROR, "'{name}' has type '{dtype}', which ONNX cannot hold here. Reason: {error}."
)

# 6: runtime

MODEL_REJECTED = Rule("FXP6001", "ModelRejected", ERROR, "The ONNX model is not valid. The checker said: {error}.")
KERNEL_MISSING = Rule(
    "FXP6002", "KernelMissing", ERROR, "ONNX Runtime has no kernel for '{op}' on '{provider}'. It said: {error}."
)
RUNTIME_FAILED = Rule(
    "FXP6003",
    "RuntimeFailed",
    ERROR,
    "ONNX Runtime failed to run the model. It said: {error}. Seen with the inputs '{sample}'. Cause: {cause}.",
)
PROVIDER_FELL_BACK = Rule(
    "FXP6004", "ProviderFellBack", WARNING, "'{used}' ran in the place of '{provider}'. Reason: {detail}."
)

NODE_ELSEWHERE = Rule(
    "FXP6005",
    "NodeElsewhere",
    WARNING,
    "'{op}' runs on '{used}', not on '{provider}', so its operands may be copied there and back.",
)

OPTIMIZER_FAULT = Rule(
    "FXP6006",
    "OptimizerFault",
    ERROR,
    "The optimizer '{optimizer}' of ONNX Runtime breaks '{operators}'. Without it the model runs. It said: {error}.",
)
WITNESS_FAILED = Rule(
    "FXP6007",
    "WitnessFailed",
    ERROR,
    "'{runtime}' cannot run the model. It said: {error}. Seen with the inputs '{sample}'.",
)

# 7: the artifact

EXTERNAL_DATA_WRITTEN = Rule(
    "FXP7001", "ExternalDataWritten", NOTE, "The weights are in '{name}', which must stay beside the model."
)
EXTERNAL_DATA_MISSING = Rule(
    "FXP7002", "ExternalDataMissing", ERROR, "The weights in '{name}' cannot be read. Reason: {reason}."
)
CONTRACT_BROKEN = Rule(
    "FXP7004",
    "ContractBroken",
    ERROR,
    "The interface of the file does not match at '{name}'. {detail}. Seen with the inputs '{sample}'.",
)
BUDGET_EXCEEDED = Rule(
    "FXP7005", "BudgetExceeded", ERROR, "'{name}' is over the budget. It is {value}; the budget is {limit}."
)
CONTRACT_CHANGED = Rule("FXP7006", "ContractChanged", ERROR, "'{name}' has changed. It was '{old}'; it is '{new}'.")
GREW_SINCE_BASELINE = Rule(
    "FXP7007", "GrewSinceBaseline", WARNING, "'{name}' is more than in the baseline. It was {old}; it is {new}."
)
OPERATORS_CHANGED = Rule(
    "FXP7008", "OperatorsChanged", NOTE, "The number of '{op}' nodes has changed. It was {old}; it is {new}."
)
WEIGHTS_CHANGED = Rule("FXP7009", "WeightsChanged", WARNING, "Weight '{name}' differs between the files. {detail}.")

WEIGHT_MISSING = Rule(
    "FXP7010",
    "WeightMissing",
    ERROR,
    "The checkpoint has no '{name}', which the model needs. Looked in '{path}'; {there}.",
)
WEIGHT_UNUSED = Rule(
    "FXP7011", "WeightUnused", WARNING, "The model has no '{name}', which the checkpoint holds. It is in '{path}'."
)
WEIGHT_MISMATCH = Rule(
    "FXP7012",
    "WeightMismatch",
    ERROR,
    "'{name}' of the model and of the checkpoint do not fit. The model's is {expected}; '{key}' is {found}.",
)
WEIGHTS_CONVERTED = Rule(
    "FXP7013",
    "WeightsConverted",
    NOTE,
    "Weights were converted from '{source}' to '{target}', the type that the model declares. They are {weights}.",
)
WEIGHT_WITHOUT_VALUES = Rule(
    "FXP7014",
    "WeightWithoutValues",
    ERROR,
    "'{name}' was made without memory, and nothing gives it values. Others like it: {others}.",
)
WEIGHTS_RENAMED = Rule(
    "FXP7015",
    "WeightsRenamed",
    NOTE,
    "The checkpoint's names differ from the model's by a prefix. The model's '{name}' is '{key}' there.",
)
NUMERICS_CHANGED = Rule(
    "FXP7016",
    "NumericsChanged",
    WARNING,
    "Output '{output}' has changed on the same inputs. Difference: {detail}. Seen with the inputs '{sample}'.",
)

# 9: fxport itself

INTERNAL_ERROR = Rule("FXP9001", "InternalError", ERROR, "fxport itself failed, please report it. It said: {error}.")
UNUSED_SUPPRESSION = Rule(
    "FXP9002", "UnusedSuppression", WARNING, "The comment that ignores '{name}' has no effect. Reason: {reason}."
)
NOT_CHECKED = Rule("FXP9003", "NotChecked", ERROR, "The check of '{name}' was not finished. Reason: {reason}.")
EXPECTED_FINDING_ABSENT = Rule(
    "FXP9004", "ExpectedFindingAbsent", ERROR, "The manifest expects '{name}', but there is no such finding."
)
OUT_OF_RESOURCES = Rule("FXP9005", "OutOfResources", ERROR, "There is not enough '{resource}'. {detail}.")

STAGES: Mapping[str, str] = MappingProxyType(
    {"1": "capture", "2": "shapes", "3": "operators", "4": "types", "5": "validation"}
    | {"6": "runtime", "7": "artifact", "8": "quality", "9": "fxport"}
)
RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.id: rule for rule in sorted((r for r in globals().values() if isinstance(r, Rule)), key=lambda rule: rule.id)}
)


def stage(rule: Rule) -> str:
    """The part of fxport that a rule belongs to, after the thousands of its id."""
    return STAGES[rule.id[3]]
