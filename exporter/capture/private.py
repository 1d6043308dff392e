"""Private parts of PyTorch that the capture uses or replaces; `fxport.fx_passes.private` tells what a row says.

A capture that went on without one of these would give another model, so a PyTorch that lacks one is refused when
`fxport.exporter.capture` is imported. Where a row has a fallback, the capture loses no more than the row says.
"""

from __future__ import annotations

from fxport.exporter.capture.private_transforms import TRANSFORMS
from fxport.fx_passes.private import Rows, call, fields, frames, names, text

_SYM_NODE = "torch.fx.experimental.sym_node:SymNode"
_SHAPES = "torch.fx.experimental.symbolic_shapes"
_SHAPE_ENV = f"{_SHAPES}:ShapeEnv"
_PROXIES = "torch.fx.experimental.proxy_tensor"

_EACH_TIME = "PyTorch 2.11: each result is worked out again"
REMEMBERED_SIZES: Rows = (
    names(_SYM_NODE, "_mul _eq _ne _ge _gt _le _lt expr maybe_as_int", "replaced: results that were worked out before"),
    fields(_SYM_NODE, "_hint _optimized_summation", "the same: what a result is made of"),
    fields(_SYM_NODE, "_expr_ver _expr_cache", "the same: what a result is made of", _EACH_TIME),
    fields(_SHAPE_ENV, "_replacements_version_counter", "the same: tells what is known of symbols", _EACH_TIME),
)
"""Rows that `sizes.remembered` needs: where one is gone, it does nothing."""

SIZES: Rows = (
    call(_SYM_NODE, "__init__", "self expr shape_env pytype hint", "gives a symbolic number another expression"),
    fields(_SYM_NODE, "_expr hint pytype shape_env", "the expression as it was made, its example, its kind"),
    names(
        _SYM_NODE,
        "_add _sub _int_floordiv _mod _sym_max _sym_min _ceil _floor _trunc",
        "replaced: results in their shortest form",
    ),
    *REMEMBERED_SIZES,
    call(_SYM_NODE, "guard_int", "self file line", "replaced: tells the loop that makes a number of a size"),
    call(_SYM_NODE, "guard_float", "self file line", "the same"),
    call(_SYM_NODE, "guard_bool", "self file line", "the same"),
    call(_SHAPE_ENV, "evaluate_expr", "self orig_expr", "replaced: answers what is asked about sizes"),
    call(_SHAPE_ENV, "_log_guard", "self prefix forcing_spec", "replaced: notes each guard with its line"),
    call(_SHAPE_ENV, "_maybe_guard_rel", "self expr", "replaced: does not spend minutes to solve an equation"),
    call(
        _SHAPE_ENV, "_set_replacement", "self a tgt msg", "makes sizes of one name one symbol; replaced for named sizes"
    ),
    call(f"{_SHAPES}:DimConstraints", "solve", "self", "replaced: goes on where an equality fixes no size"),
    call(_SHAPE_ENV, "produce_guards", "self args kwargs", "replaced: leaves guards on named sizes out"),
    call(_SHAPE_ENV, "_generate_unique_id", "self source_name", "the number of a new symbol"),
    call(_SHAPE_ENV, "_get_sloc", "self", "where a range of a symbol comes from"),
    names(_PROXIES, "_extract_tensor_metadata", "replaced: a tensor is described once"),
    names(_PROXIES, "set_proxy_slot", "a tensor that another one's memory is given to"),
    call(
        "torch._subclasses.fake_tensor:FakeTensorMode",
        "from_tensor",
        "self tensor static_shapes",
        "the fake of a tensor that is set by .data; replaced: those of weights are made beneath function modes",
    ),
    call(
        "torch._subclasses.fake_tensor:FakeTensorMode",
        "_cached_dispatch_impl",
        "self func types args kwargs",
        "replaced: what it remembers of `view` serves `_unsafe_view`",
    ),
    call(
        "torch._subclasses.fake_tensor:FakeTensorMode",
        "_get_output_tensor_from_cache_entry",
        "self state entry key args",
        "replaced: a view that it remembers is made in one step",
    ),
    names("torch._subclasses", "fake_impls", "the module of the next one"),
    names(
        "torch._subclasses.fake_impls",
        "op_implementations_dict",
        "replaced: slices have the size of any axis",
    ),
    call("torch._higher_order_ops.cond", "_merge_output", "a b mode", "replaced: arms may give other sizes"),
    names("torch._prims_common", "is_contiguous_or_false", "the same: asks nothing about sizes"),
    call(_SHAPE_ENV, "create_unbacked_symint", "self", "the same: a size that only data tells"),
    call(_SHAPE_ENV, "constrain_symbol_range", "self s compiler_min compiler_max", "the same: its limits"),
    call("torch._refs", "_reshape_view_helper_core_alg", "a shape allow_copy", "replaced: views have sizes as asked"),
    names("torch", "_refs _meta_registrations", "the modules in which it and the next are replaced"),
    names("torch._meta_registrations", "pooling_output_shape_pad_lr", "a pool asks nothing about its size"),
    names("torch._subclasses.fake_tensor", "in_kernel_invocation_manager", "makes a fake as PyTorch's own memory does"),
    names(_SHAPE_ENV, "suppress_guards", "answers by the example where nothing is to be relied on"),
    names(_SHAPE_ENV, "ignore_fresh_unbacked_symbols", "lets a body read numbers from data that are no results of it"),
    fields(
        _SHAPE_ENV,
        "backed_var_to_val guards size_like source_to_var var_to_range var_to_range_sloc var_to_sources",
        "what PyTorch knows of a symbol",
    ),
    fields(
        _SHAPE_ENV,
        "axioms deferred_runtime_asserts replacements _version_counter",
        "what it learns in a branch, which is forgotten behind it",
    ),
    names(
        _SHAPES,
        "ConstraintViolationError DimConstraints GuardOnDataDependentSymNode ShapeEnv ValueRangesSLoc",
        "what decides about sizes, and what it raises",
    ),
    names("torch.fx.experimental.sym_node", "SymNode", "the type behind a symbolic number"),
    names(
        "torch.fx.experimental._config", "backed_size_oblivious patch", "allows a dynamic size whose example is 0 or 1"
    ),
    names(
        "torch.utils._sympy.functions",
        "LShift PowByNatural",
        "powers of sizes, found by their types",
    ),
    names("torch.utils._sympy.numbers", "int_oo", "no upper limit"),
    names("torch.utils._sympy.value_ranges", "ValueRanges bound_sympy", "limits of an expression"),
    names("torch.utils._sympy.value_ranges:ValueRanges", "unknown_int is_singleton", "the same"),
    names("torch.utils._sympy.printers", "PythonPrinter", "writes conditions as Python"),
    names(
        "torch.utils._sympy.printers:PythonPrinter",
        "doprint _print _print_Float _print_Function _print_ToFloat _print_TruncToFloat _print_OpaqueUnaryFn_sqrt",
        "overridden, for text that runs without PyTorch",
    ),
    names(
        "torch.export.dynamic_shapes",
        "_DerivedDim _DimHint _DimHintType _tree_map_with_path",
        "dynamic_shapes as the user has written them",
    ),
    names("torch.export.dynamic_shapes:_DimHintType", "AUTO STATIC", "the same"),
    call("torch.export.dynamic_shapes", "_combine_args", "f args kwargs", "binds a call to forward's parameters"),
    names("torch.utils._pytree", "SUPPORTED_NODES tree_is_leaf", "which containers are taken apart"),
    names("torch.utils._pytree", "tree_map tree_map_only tree_leaves", "replaced: plain containers are no trees"),
    call("torch.utils._pytree", "_get_node_type", "tree", "the same"),
    call("torch.utils._pytree", "_broadcast_to_and_flatten", "tree treespec", "merges containers of two branches"),
)
"""Private parts that tell and decide about sizes and inputs."""

TRACE: Rows = (
    call(
        "torch.export._trace", "_export", "mod args kwargs dynamic_shapes strict pre_dispatch", "traces below autograd"
    ),
    names("torch.export._trace", "_aot_export_joint_with_descriptors", "replaced: traces a step once"),
    names("torch._functorch.aot_autograd", "run_functionalized_fw_and_collect_metadata", "the same: left out"),
    names("torch._functorch._aot_autograd.subclass_utils", "create_subclass_meta", "the same: tells inputs apart"),
    names(
        "torch._higher_order_ops.effects",
        "_register_effectful_op _get_effect",
        "the check of what linalg computes is no effect",
        fallback="gradients of torch.linalg.cholesky, inv and solve may be refused",
    ),
    names("torch._functorch._aot_autograd.graph_compile", "aot_stage2_export", "the same: its graph is finished"),
    names("torch._functorch._aot_autograd.functional_utils", "has_data_mutation", "the same: inputs written to"),
    names("torch.fx.proxy", "CapturedTraceback", "replaced: the user's frames are read alone"),
    call(_PROXIES, "get_proxy_mode", "", "tells whether a trace looks into an op"),
    call(_PROXIES, "get_proxy_slot", "obj tracer", "the node that stands for a tensor"),
    call(_PROXIES, "set_proxy_slot", "obj tracer proxy", "the same, of a tensor that was set by `.data`"),
    fields(f"{_PROXIES}:PythonKeyTracer", "tensor_tracker", "the same: tensors that a trace knows"),
    fields(f"{_PROXIES}:PythonKeyTracer", "sympy_expr_tracker symnode_tracker", "the same: numbers that a trace knows"),
    call(_PROXIES, "_SympyExprTrackerValue", "proxy value", "the same: what a trace knows of an expression"),
    call(_PROXIES, "_sympy_handlers", "", "the operations of numbers that a trace makes anew"),
    fields(f"{_PROXIES}:_ProxyTensor", "proxy", "the same: what a trace knows of one"),
    call("torch._subclasses.fake_tensor:FakeTensorMode", "from_tensor", "self tensor", "the same"),
    names(_PROXIES, "PreDispatchTorchFunctionMode disable_proxy_modes_tracing", "traces a body apart from the graph"),
    names(
        f"{_PROXIES}:PreDispatchTorchFunctionMode", "__torch_function__", "replaced: autocast acts while it is traced"
    ),
    fields(f"{_PROXIES}:PreDispatchTorchFunctionMode", "tracer", "the tracer of a graph"),
    names(_PROXIES, "maybe_handle_decomp", "replaced: autocast acts on what composite ops are made of"),
    names("torch._C:DispatchKey", "AutocastCPU AutocastCUDA", "tells ops for which autocast has a rule"),
    call("torch.overrides", "_get_current_function_mode_stack", "", "the modes that a body is traced in"),
    names("torch.overrides", "_pop_mode _push_mode", "takes them away from PyTorch's bookkeeping"),
    call("torch.utils._python_dispatch", "_get_current_dispatch_mode_stack", "", "the modes that a block is called in"),
    names("torch:Tensor", "_is_view", "tells a view from what has memory of its own"),
    call("torch", "_assert", "condition message", "a check of the model's, which a graph leaves out"),
    names("torch._dynamo.exc", "TorchDynamoException", "tells what Dynamo raises"),
    call(f"{_PROXIES}:PythonKeyTracer", "path_of_module", "self mod", "the path of a block, as its nodes have it"),
    names(_PROXIES, "track_tensor_tree", "replaced: gives inputs their nodes beneath function modes"),
    names("torch.export._trace", "_produce_aten_artifact", "replaced: writes the signature beneath function modes"),
    names("torch.fx.proxy:TracerBase", "create_node", "replaced: notes the region and the part of a node"),
    names("torch.fx.proxy:TracerBase", "_filter_traceback_frames", "replaced: keeps the user's whole stack"),
    fields("torch.fx.proxy:TracerBase", "_record_forward_stack_traces_only", "tells a capture by torch.export"),
    call("torch.fx.graph", "_Namespace.create_name", "self candidate", "names of nodes, of which bodies take some"),
    fields("torch.fx.graph:_Namespace", "_used_names", "the same"),
    fields("torch.fx:Graph", "_graph_namespace", "the same"),
    names("torch.fx:GraphModule", "recompile", "replaced, documented: writes the code of a graph when asked for"),
    fields("torch.fx:Graph", "_codegen", "the same: how arguments nest, which a module knows before it has code"),
    fields("torch.fx.graph:_PyTreeCodeGen", "pytree_info", "the same"),
    call("torch.fx.traceback", "get_current_meta", "", "the part that `annotate` names"),
    names(
        "torch._C",
        "_current_autograd_node _set_grad_enabled DisableTorchFunction _autograd _functorch _nn",
        "modules and functions in C++",
    ),
    names("torch.autograd", "_get_sequence_nr", "the line of what a gradient is a gradient of"),
    names("torch.autograd.graph:Node", "_sequence_nr", "the same"),
    names("torch.autograd.graph:Node", "next_functions", "the arms and turns that a gradient comes through"),
    names("torch._C._nn", "_parse_to", "what `module.to` is asked for"),
    names("torch._subclasses.functional_tensor", "FunctionalTensor", "a tensor of a trace that takes writes out"),
    names("torch._subclasses.functional_tensor:FunctionalTensor", "to_functional from_functional", "a copy of one"),
    names("torch._guards:TracingContext", "try_get extract_stack", "the user's stack where Dynamo reads it"),
    names("torch._guards", "detect_fake_mode", "the mode of a capture"),
    call("torch._subclasses", "FakeTensor.__format__", "self format_spec", "replaced: writes a known number"),
    fields(
        "torch._subclasses.fake_tensor:FakeTensor", "constant item_memo", "the number that a tensor is known to hold"
    ),
    fields("torch._subclasses.fake_tensor:FakeTensor", "nonzero_memo", "how many elements a mask selects"),
    names(
        "torch._subclasses.fake_tensor",
        "DataDependentOutputException DynamicOutputShapeException UnsupportedOperatorException",
        "what ends a capture",
    ),
    names("torch._dynamo.exc", "Unsupported UserError UserErrorType", "the same"),
    names("torch._dynamo.exc:UserErrorType", "CONSTRAINT_VIOLATION DYNAMIC_CONTROL_FLOW", "the same"),
    fields("torch._dynamo.exc:UserError", "error_type", "the same"),
    text(
        "torch._functorch._aot_autograd.frontend_utils", "assigned during export", "a warning: state that would be lost"
    ),
)
"""Private parts by which a graph is traced, and the exceptions of a trace."""

PATCHES: Rows = (
    names("torch", "finfo", "replaced, documented: limits of a model's own type in a run in float64"),
    names("torch.nn:Module", "__setattr__", "replaced: notes what a branch assigns to a module"),
    names("torch.nn:Module", "__getattr__", "replaced: refuses an attribute that only one branch sets"),
    names("torch.nn:Module", "__call__", "replaced: calls what a trace puts in its place"),
    names("torch.fx._symbolic_trace", "_PatchedFnSetAttr", "replaced: puts methods of all modules in place at no cost"),
    fields("torch.fx._symbolic_trace:_PatchedFnSetAttr", "frame_dict fn_name new_fn", "which method, of what"),
    names("torch.fx._symbolic_trace:_PatchedFnSetAttr", "patch revert", "replaced: the same"),
    names("torch.fx._symbolic_trace", "_orig_module_getattr", "the same, as a trace calls it"),
    names("torch.nn:Module", "register_parameter", "replaced, documented: makes weights without memory"),
    names("torch.nn:Module", "to", "replaced, documented: no conversion that changes nothing"),
    names("torch.nn.modules.dropout", "_DropoutNd", "modules that act in training alone"),
    names("torch.nn.modules.batchnorm", "_BatchNorm", "the same"),
    names("torch.nn.modules.adaptive", "_ASMoutput", "the result of its loss"),
    names("torch.nn.functional", "scaled_dot_product_attention", "replaced, documented: takes no symbolic flags"),
    fields("torch.nn:Module", "_buffers _modules _parameters", "tensors and modules by their names"),
    fields(
        "torch.nn:Module", "_forward_hooks _forward_pre_hooks", "tells a wrapper with hooks; hooks that make weights"
    ),
    text("torch.nn.utils.prune", "_tensor_name", "the weight that a hook of pruning makes anew"),
    names("torch:Tensor", "_version", "tells whether a tensor was written to"),
    text("torch.nn.parameter", "_is_param", "the mark of a parameter of another class: what a trace has for one"),
    names("torch:UntypedStorage", "_cdata", "tells whether two tensors share their memory"),
    fields("torch:SymInt", "node", "the SymNode of a size"),
    names("torch:SymInt", "__int__ __index__", "replaced: a size in a text made by `%` is that of the example"),
    names("torch:SymFloat", "__float__", "replaced, for the same"),
    names("torch.jit:ScriptFunction", "__call__", "replaced: what C++ reads for it is not read by the model"),
    names("torch:SymInt", "__format__", "replaced: a size in a text with a format has the name of its symbol"),
    names(
        "torch", "_sym_sin _sym_cos _sym_tan _sym_asin _sym_acos _sym_atan _sym_sinh _sym_cosh _sym_tanh", "of `math`"
    ),
    names("torch", "_sym_log2", "the bits of a size"),
    names("torch", "_sym_sqrt", "a root of a size by NumPy"),
    call(
        "torch._export.non_strict_utils",
        "_tensor_min_max",
        "args real_callable tensor_callable",
        "`max` of tensors",
    ),
    call(
        "torch._export.non_strict_utils:_NonStrictTorchFunctionHandler",
        "_override",
        "self func args kwargs",
        "replaced: `True` beside a size as an index is an axis",
    ),
    call("torch.export._trace", "_override_builtin_ops", "", "replaced: `max` and `math.pow` as Python's"),
    call(
        "torch.export._trace",
        "register_buffer_assignment_hook",
        "mod assigned_buffers",
        "replaced: assigned buffers are written to",
    ),
    names("torch:SymInt", "__pow_by_natural__ __rpow_by_natural__", "powers of whole numbers"),
    names("torch:SymFloat", "__float_pow__ __rfloat_pow__", "powers of fractions"),
    names("torch:SymBool", "__sym_ite__", "a truth value as 0 or 1"),
    call(_SYM_NODE, "has_hint", "self", "tells sizes from data"),
    call(
        "torch._export.verifier", "Verifier.allowed_op_types", "self", "replaced: graphs may hold functions of `math`"
    ),
    call("torch._export.verifier", "Verifier.allowed_builtin_ops", "self", "replaced: graphs may hold `^` of numbers"),
    names("torch._export.verifier", "Verifier", "the same"),
    call("torch._export.utils", "_name_hoo_subgraph_placeholders", "gm", "replaced: bodies keep names of their own"),
    call("torch._dynamo.output_graph", "AliasingInfo", "has_aliasing msg", "a body may read one tensor twice"),
    fields("torch._dynamo.output_graph:AliasingInfo", "msg", "the same"),
    call("torch._dynamo.output_graph", "SubgraphTracer.has_aliasing", "self", "replaced, for the same"),
    names("torch._dynamo.output_graph", "SubgraphTracer", "the same"),
    text("torch._dynamo.output_graph", "Input-to-input", "the same: tells reads from writes"),
    call("torch._refs", "tensor", "data dtype device", "makes a tensor of sizes; replaced: of numbers of one kind"),
    call("torch._meta_registrations", "meta_copy_", "self src non_blocking", "asks how a tensor lies in memory"),
    names("torch._C", "DispatchKey", "keys of kernels"),
    names("torch._C:DispatchKey", "Autograd CompositeImplicitAutograd Meta", "the same"),
    fields("torch._ops:OpOverload", "py_kernels _dispatch_cache _op_dk", "replaced: ops that stay whole"),
    fields("torch._ops:OpOverload", "is_view", "what keeps its dtype in a float64 run"),
    names("torch._ops:OpOverload", "has_kernel_for_dispatch_key", "tells ops that may give their argument"),
    fields("torch._ops:HigherOrderOperator", "python_key_table", "replaced: scans whose bodies read numbers from data"),
    names("torch._higher_order_ops.scan:scan_op", "python_key_table", "the same"),
    names("torch._higher_order_ops.cond:cond_op", "python_key_table", "replaced: tells sizes of what arms are given"),
    call("torch._higher_order_ops.scan", "scan", "combine_fn init xs dim reverse", "the loop of a graph"),
    names("torch._higher_order_ops.scan", "scan_op", "the same"),
    call("torch._higher_order_ops.scan", "first_slice_copy", "t dim", "replaced: the row of a loop without iterations"),
    call(
        "torch._higher_order_ops.associative_scan",
        "associative_scan",
        "combine_fn xs dim reverse combine_mode",
        "becomes a scan",
    ),
    call(
        "torch._higher_order_ops.associative_scan",
        "generic_associative_scan",
        "operator leaves dim additional_inputs",
        "replaced, for the same",
    ),
    call(
        "torch._higher_order_ops.invoke_subgraph",
        "invoke_subgraph_placeholder",
        "func",
        "replaced: keeps regions apart",
    ),
    names("torch._C._autograd", "_saved_tensors_hooks_set_tracing", "hooks on saved tensors run while tracing"),
    names("torch.utils.checkpoint", "CheckpointFunction", "replaced: activation checkpoints run once"),
    names("torch.utils.checkpoint", "_checkpoint_without_reentrant_generator", "the same"),
    names("torch.utils._python_dispatch", "_disable_current_modes", "computes known values beside the trace"),
    names("torch._C._functorch", "peek_interpreter_stack", "tells rows of a vmap from constants"),
    names("torch", "_is_functional_tensor", "tells tensors of a trace from constants"),
    names(
        "torch.distributions:Distribution", "_validate_args", "whether parameters are checked; they are not meanwhile"
    ),
    names("torch:autocast", "__init__", "replaced: a setting that a size turns on has the truth of the example"),
    names("torch:set_grad_enabled", "__init__", "the same"),
    names("torch:inference_mode", "__new__ __init__", "the same"),
    names("torch.distributions:Distribution", "__init__", "replaced: refuses a check whose error a model would catch"),
    call("torch.amp.autocast_mode", "_enter_autocast", "vals", "a region of autocast in a graph"),
    call("torch.amp.autocast_mode", "_exit_autocast", "mode", "the same"),
    names(
        "torch.nn.functional", "_verify_batch_size _verify_spatial_size", "replaced: checks of sizes that a graph lacks"
    ),
    call(
        "torch.nn.modules.transformer", "_detect_is_causal_mask", "mask is_causal size", "replaced: the user's own word"
    ),
    call(
        "torch.nn.modules.rnn", "RNNBase.check_forward_args", "self input hidden batch_sizes", "replaced: packed inputs"
    ),
    call("torch.nn.modules.rnn", "LSTM.check_forward_args", "self input hidden batch_sizes", "the same"),
    names("torch.nn.utils.rnn", "_VF _VF._pack_padded_sequence", "replaced: packing is one op"),
    call(
        "torch.nn.utils.rnn",
        "pad_packed_sequence",
        "sequence batch_first padding_value total_length",
        "replaced by its code, which a model may have imported: unpacking is one op",
    ),
    names("torch.nn.utils.rnn:pad_packed_sequence", "__code__", "the same"),
    names("torch._dynamo", "is_compiling", "replaced: tells a model that asks how it is called"),
    names("torch._utils", "is_compiling", "the same"),
)
"""Private parts that are replaced while a model is captured, and those that the replacements use."""

LAYOUT: Rows = (
    frames("torch._prims_common", "check_contiguous_sizes_strides _is_non_overlapping_and_dense_or_false", "layout"),
    frames("torch._prims_common", "is_contiguous check_contiguous_sizes_strides.eval_eager", "layout"),
    frames("torch._prims_common", "is_contiguous.eval_eager", "layout"),
    frames("torch._prims_common", "is_channels_last_contiguous_2d is_channels_last_contiguous_3d", "layout"),
    frames("torch.fx.passes.shape_prop", "_extract_tensor_metadata", "layout"),
    frames("torch._subclasses.fake_tensor:FakeTensorMode", "_get_output_tensor_from_cache_entry", "layout"),
    frames("torch._meta_registrations", "meta_copy_", "layout"),
)
"""Functions that ask about sizes only to know how a tensor lies in memory: their guards limit no input."""

FORMAT: Rows = (frames("torch._prims_common", "are_strides_like_channels_last_or_false", "layout in general"),)
"""Functions that compare strides to tell which axis of an image lies innermost: their guards limit no input."""

CONVOLUTION: Rows = (frames("torch._subclasses.fake_impls", "conv", "layout in general, where it asks for a format"),)
"""Function that computes the shape of a convolution, one line of which asks in C++ for a format alone."""

CALLING: Rows = (frames("torch._ops:OpOverload", "__call__ decompose", "tells which op asks in C++"),)
"""Functions that call an op."""

UNCHECKED: Rows = (
    names(
        "torch", "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo", "they check no index on the CPU"
    ),
)
"""Functions that models call, and which may end the process on values of ours."""

FILES: Rows = (
    names("torch", "__file__", "frames of PyTorch are told from those of a model by their files"),
    names("torch.fx.experimental", "__path__", "where a symbolic number becomes a Python one"),
    names("torch._subclasses.functional_tensor", "__file__", "the same, for the truth of a tensor"),
    names("torch._dynamo", "__path__", "frames of Dynamo, which reads the model's code"),
    names("torch.nn.functional", "__file__", "functions that ask about sizes to refuse or return early"),
)
"""Files whose frames tell who asks about a size."""

CAPTURE: Rows = (*SIZES, *TRACE, *PATCHES, *TRANSFORMS, *LAYOUT, *FORMAT, *CONVOLUTION, *CALLING, *UNCHECKED, *FILES)
