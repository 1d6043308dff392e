"""Private parts of PyTorch that the exporter uses beside the capture; `fx_passes.private` tells what a row says."""

from __future__ import annotations

from fxport.fx_passes.private import Rows, call, fields, names, text

_FLAT = "torch.distributed.fsdp._flat_param"
_FSDP2 = "torch.distributed.fsdp._fully_shard"

WRAPPERS: Rows = (
    names("torch._dynamo", "OptimizedModule", "the wrapper of torch.compile, which computes what its module does"),
    text("torch._dynamo.eval_frame", "_orig_mod", "the module inside of it"),
)
"""Private parts of PyTorch by which a compiled module is recognized; verified with the package."""

DISTRIBUTED: Rows = (
    text(
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
        "_checkpoint_wrapped_module",
        "the module inside of a wrapper for activation checkpoints",
    ),
    names("torch.distributed", "_composable", "the package of `replicate`, whose classes are the model's own"),
    names("torch.fx.experimental.symbolic_shapes", "ShapeEnv", "sizes of the fake tensors of a copy"),
    names("torch._C._distributed_c10d", "_resolve_process_group", "the group that a collective names"),
    names("torch.distributed:ProcessGroup", "_device_types", "the devices of a group"),
    names("torch.distributed.distributed_c10d", "_get_default_store", "how ranks exchange values"),
    names("torch.distributed.tensor._utils", "compute_local_shape_and_global_offset", "the box that a rank holds"),
    fields("torch.distributed.tensor:DTensor", "_local_tensor", "the values of that box"),
    fields(
        f"{_FLAT}:FlatParameter",
        "_is_padding_mask _numels_with_padding _param_infos _shapes _shard_param_infos _shared_param_infos",
        "parameters that FSDP1 has flattened",
    ),
    names(_FLAT, "_ShardParamInfo", "the same"),
    fields(f"{_FLAT}:FlatParameter", "_local_shard", "the values that a rank holds of them"),
    fields(
        f"{_FLAT}:FlatParamHandle",
        "_force_full_precision flat_param uses_sharded_strategy world_size",
        "how FSDP1 holds its parameters",
    ),
    text("torch.distributed.fsdp.fully_sharded_data_parallel", "_handle", "the handle of a wrapper of FSDP1"),
    text("torch.distributed.fsdp._init_utils", "_use_full_prec_in_eval", "whether it casts in evaluation"),
    text("torch.distributed.fsdp._common_utils", "_fsdp_wrapped_module", "the module inside of it"),
    names(f"{_FSDP2}._fsdp_state", "_get_module_fsdp_state", "the state of a module of FSDP2"),
    fields(
        f"{_FSDP2}._fsdp_state:FSDPState",
        "_fsdp_param_groups",
        "its parameters",
        fallback="the one group of PyTorch 2.11 is taken",
    ),
    fields(f"{_FSDP2}._fsdp_state:FSDPState", "_fsdp_param_group _mp_policy", "the same, and their precision"),
    fields(f"{_FSDP2}._fsdp_param_group:FSDPParamGroup", "fsdp_params", "the same"),
    fields(f"{_FSDP2}._fsdp_param:FSDPParam", "mp_policy param_dtype sharded_param", "the same"),
    call("torch.distributed.utils", "_apply_to_tensors", "fn container", "casts what FSDP passes on"),
    call("torch.distributed.utils", "_cast_forward_inputs", "dtype args kwargs", "the same"),
    fields("torch.nn:Module", "_buffers _modules _parameters", "what a copy of a module is filled with"),
    fields(
        "torch.nn:Module",
        "_forward_hooks _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs",
        "hooks, of which a copy has the model's own",
    ),
)
"""Private parts that fxport.exporter.distributed uses; verified when a model of several ranks is exported."""

TRAINING: Rows = (
    names("torch.optim.swa_utils:AveragedModel", "update_parameters", "replaced, documented: counts in a tensor"),
    names(
        "torch:Tensor",
        "_backward_hooks _post_accumulate_grad_hooks",
        "hooks of parameters, which become part of a step",
    ),
    fields("torch.optim:Optimizer", "_optimizer_step_pre_hooks _optimizer_step_post_hooks", "hooks of a step"),
    names(
        "torch.optim.optimizer",
        "_global_optimizer_pre_hooks _global_optimizer_post_hooks",
        "hooks of all optimizers, which are refused",
    ),
    names("torch.autograd:Function", "apply", "replaced: functions that are given the model's own parameters"),
    call("torch.overrides", "_get_current_function_mode_stack", "", "the modes that hooks of gradients run in"),
    names("torch.autograd", "_engine_run_backward", "replaced: hooks that read the model's own parameters"),
    text("torch.optim.lr_scheduler", "_wrapped_by_lr_sched", "the mark of a step that a schedule counts"),
    names("torch.optim.adam", "_get_value", "replaced: the count of steps in float64, as in Python"),
    names("torch.optim", "_adafactor", "the module whose `min` and `max` are replaced"),
    names(
        "torch.optim:Adam",
        "_init_group",
        "makes an optimizer's state without a step",
        fallback="the first step makes it; an optimizer that makes state in its step is refused",
    ),
    names("torch.optim:Optimizer", "step", "replaced in base classes: a step without the hooks that wrap it"),
    fields("torch.nn:Embedding", "sparse", "replaced: gradients as dense tensors"),
    names("torch.nn.modules.batchnorm", "_BatchNorm", "the class of every batch normalization"),
    fields("torch.nn:BatchNorm1d", "momentum", "replaced: averages over all batches"),
)
"""Private parts that fxport.exporter.training uses."""

WEIGHTS: Rows = (
    fields("torch:UntypedStorage", "_checkpoint_offset", "documented with torch.load: where the bytes of a tensor are"),
)
"""Private parts that fxport.exporter.weights uses."""
