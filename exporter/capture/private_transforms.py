"""Private parts of PyTorch's derivatives and of `torch.func` that the capture uses or replaces; see `private`."""

from __future__ import annotations

from fxport.fx_passes.private import Rows, call, names

TRANSFORMS: Rows = (
    names(
        "torch._higher_order_ops.cond:CondAutogradOp", "forward backward", "replaced: strides, and no second derivative"
    ),
    names("torch._higher_order_ops.map:MapAutogradOp", "forward backward", "replaced: no second derivative"),
    names("torch._higher_order_ops.scan:ScanAutogradOp", "forward backward", "the same"),
    names("torch._higher_order_ops.while_loop:WhileLoopAutogradOp", "forward backward", "the same"),
    call("torch._higher_order_ops.utils", "materialize_as_graph", "fn args", "a branch as it is where it is called"),
    names("torch._functorch", "eager_transforms", "forward-mode derivatives"),
    call(
        "torch._functorch.eager_transforms",
        "_jvp_with_argnums",
        "func primals tangents argnums has_aux",
        "replaced: forward mode by reverse mode",
    ),
    names("torch._functorch.eager_transforms", "_slice_argnums _replace_args", "the same"),
    names("torch._functorch", "apis vmap", "sizes of a vmap that stay dynamic"),
    names("torch._functorch.apis", "vmap_impl", "the same"),
    names("torch._functorch.vmap", "_vmap_increment_nesting _process_batched_inputs", "the same"),
    names("torch._decomp", "decomposition_table", "the same"),
    names("torch._C._functorch", "is_batchedtensor maybe_get_level _unwrap_batched _add_batch_dim", "rows of a vmap"),
    names("torch._C", "_ExcludeDispatchKeyGuard DispatchKeySet DispatchKey", "all rows by one call of an op"),
    names("torch._C:DispatchKey", "FuncTorchBatched", "the same"),
    names("torch.library:Library", "_destroy", "PyTorch's own rules of a vmap are there again"),
)
"""Derivatives of operators with bodies, forward mode, and the rows of a vmap."""
