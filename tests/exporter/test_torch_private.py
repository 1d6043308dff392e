"""What the capture replaces in PyTorch, or calls of it, that no promise of PyTorch covers: a table for every version.

A row that no longer holds names the version, and what has to be looked at again.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from exporter.capture.sizes.shortening import METHODS
from fx_passes.python_numbers import OPERATIONS

VALUE = None
"""In the place of parameters: the attribute has to be there, and that is all."""

RELIED_ON: Mapping[str, tuple[str, ...] | None] = {
    "torch.export._trace:_export": ("mod", "args", "kwargs", "dynamic_shapes", "strict", "pre_dispatch"),
    "torch.export.dynamic_shapes:_combine_args": ("f", "args", "kwargs"),
    "torch.fx.experimental._config:backed_size_oblivious": VALUE,
    "torch.fx.experimental.proxy_tensor:get_proxy_mode": (),
    "torch.fx.experimental.sym_node:SymNode.guard_int": ("self", "file", "line"),
    "torch.fx.experimental.sym_node:SymNode.guard_float": ("self", "file", "line"),
    "torch.fx.experimental.sym_node:SymNode.guard_bool": ("self", "file", "line"),
    **{f"torch.fx.experimental.sym_node:SymNode.{name}": VALUE for name in (*METHODS, *OPERATIONS)},
    "torch.fx.experimental.sym_node:SymNode.wrap_float": ("self", "num"),
    "torch.fx.experimental.sym_node:wrap_node": ("x",),
    "torch.fx.experimental.proxy_tensor:handle_sym_dispatch": ("func", "args", "kwargs"),
    "torch.utils._sympy.reference:PythonReferenceAnalysis": VALUE,
    "torch.utils._sympy.value_ranges:SymPyValueRangeAnalysis": VALUE,
    "torch.fx.experimental.sym_node:SymNode.__init__": ("self", "expr", "shape_env", "pytype", "hint"),
    "torch.fx.experimental.sym_node:SymNode._int_floordiv": ("self", "other"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.evaluate_expr": ("self", "orig_expr"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._log_guard": ("self", "prefix", "forcing_spec"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._maybe_guard_rel": ("self", "expr"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._set_replacement": ("self", "a", "tgt", "msg"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.produce_guards": ("self", "args", "kwargs"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._generate_unique_id": ("self", "source_name"),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._get_sloc": ("self",),
    "torch._export.non_strict_utils:_tensor_min_max": ("args", "real_callable", "tensor_callable"),
    "torch._meta_registrations:meta_copy_": ("self", "src", "non_blocking"),
    "torch.autograd:_get_sequence_nr": VALUE,
    "torch.fx.proxy:TracerBase._filter_traceback_frames": VALUE,
    "torch.fx.graph:_Namespace.create_name": ("self", "candidate"),
    "torch.fx.proxy:TracerBase.create_node": VALUE,
    "torch.fx.traceback:get_current_meta": (),
    "torch._C:_current_autograd_node": VALUE,
    "torch.nn.modules.transformer:_detect_is_causal_mask": ("mask", "is_causal", "size"),
    "torch.nn.modules.rnn:RNNBase.check_forward_args": ("self", "input", "hidden", "batch_sizes"),
    "torch.nn.modules.rnn:LSTM.check_forward_args": ("self", "input", "hidden", "batch_sizes"),
    "torch.nn.utils.rnn:_VF._pack_padded_sequence": VALUE,
    "torch.nn.utils.rnn:pad_packed_sequence": ("sequence", "batch_first", "padding_value", "total_length"),
    "torch.fx.experimental.proxy_tensor:PreDispatchTorchFunctionMode": VALUE,
    "torch.amp.autocast_mode:_enter_autocast": ("vals",),
    "torch.amp.autocast_mode:_exit_autocast": ("mode",),
    "torch._export.utils:_name_hoo_subgraph_placeholders": ("gm",),
    "torch.fx.experimental.proxy_tensor:disable_proxy_modes_tracing": VALUE,
    "torch.overrides:_get_current_function_mode_stack": (),
    "torch.utils._pytree:_broadcast_to_and_flatten": ("tree", "treespec"),
    "torch.utils._pytree:_get_node_type": ("tree",),
    "torch.utils._pytree:SUPPORTED_NODES": VALUE,
    "torch.utils.checkpoint:CheckpointFunction": VALUE,
    "torch.utils.checkpoint:_checkpoint_without_reentrant_generator": VALUE,
    "torch._decomp.decompositions:_rnn_helper": VALUE,
    "torch._dynamo:OptimizedModule": VALUE,
    "torch._dynamo.output_graph:AliasingInfo": ("has_aliasing", "msg"),
    "torch._dynamo.output_graph:SubgraphTracer.has_aliasing": ("self",),
    "torch._export.verifier:Verifier.allowed_op_types": ("self",),
    "torch:_sym_tanh": ("a",),
    "torch._functorch.eager_transforms:_jvp_with_argnums": ("func", "primals", "tangents", "argnums", "has_aux"),
    "torch._functorch.eager_transforms:_slice_argnums": VALUE,
    "torch._functorch.eager_transforms:_replace_args": VALUE,
    "torch._higher_order_ops.associative_scan:associative_scan": ("combine_fn", "xs", "dim", "reverse", "combine_mode"),
    "torch._higher_order_ops.flex_attention:math_attention": ("query", "key", "value", "score_mod", "block_mask"),
    "torch._higher_order_ops.invoke_subgraph:invoke_subgraph_placeholder": ("func",),
    "torch._higher_order_ops.scan:scan_op.python_key_table": VALUE,
    "torch._higher_order_ops.scan:scan": ("combine_fn", "init", "xs", "dim", "reverse"),
    "torch._higher_order_ops.scan:first_slice_copy": ("t", "dim"),
    "torch.optim.adam:_get_value": ("x",),
    "torch._refs:tensor": ("data", "dtype", "device"),
    "torch._subclasses.fake_tensor:FakeTensorMode": VALUE,
}
"""By "module:attribute": the parameters that are used, in their order among others."""


OTHERS = {
    "print": "made by us in a module of PyTorch's, before the builtin",
    "__divmod__": "made by us, as symbolic numbers have none",
    "__rdivmod__": "made by us, as symbolic numbers have none",
    "__format__": "every class has it",
    "__repr__": "every class has it",
    "__getitem__": "of os.environ",
    "get_code": "of Python's importlib",
    "to": "documented, of nn.Module",
    "register_parameter": "documented, of nn.Module",
    "__torch_function__": "documented, of every TorchFunctionMode",
    "_VF": "the row of what is called in it stands for it",
}
"""What is replaced and is no private part of PyTorch's."""


def replaced() -> Iterator[str]:
    """The names of all attributes that fxport replaces for a while, as `mock.patch.object` is told them."""
    for path in (Path(__file__).parents[2] / "exporter").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "mock.patch.object":
                name = node.args[1]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


def test_what_is_replaced_is_in_the_table() -> None:
    rows = {name.rpartition(":")[2].rpartition(".")[2] for name in RELIED_ON}
    found = set(replaced())
    assert found - rows == OTHERS.keys()


def gap(name: str, parameters: tuple[str, ...] | None) -> str | None:
    """What of a row does not hold in the PyTorch that is installed."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        return f"torch {torch.__version__} has no {name}, which the capture uses: {error}"
    if parameters is None:
        return None
    has = tuple(inspect.signature(found).parameters)
    if tuple(each for each in has if each in parameters) == parameters:
        return None
    return f"{name} of torch {torch.__version__} takes {has}, but the capture uses it with {parameters}"


@pytest.mark.parametrize("name", RELIED_ON)
def test_torch_has_it(name: str) -> None:
    assert gap(name, RELIED_ON[name]) is None


def test_gaps_are_told() -> None:
    assert "has no torch._refs:tensors" in str(gap("torch._refs:tensors", VALUE))
    assert "has no torch._gone:f" in str(gap("torch._gone:f", ()))
    assert "uses it with ('data', 'extra')" in str(gap("torch._refs:tensor", ("data", "extra")))
