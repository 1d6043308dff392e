"""A model without its wrappers, which one process can capture: no weight is copied, sharded ones are only shapes."""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.fsdp._fully_shard._fsdp_state import _get_module_fsdp_state
from torch.distributed.tensor import DTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fxport.exporter.distributed import is_replicated, wrapped_by
from fxport.exporter.distributed.casts import cast_inputs, cast_output
from fxport.exporter.distributed.holdings import Holding, of_dtensor, of_flat

THEIRS = (
    "torch.distributed.",
    "torch.nn.parallel.",
    "transformers.distributed.",
    "transformers.integrations.tensor_parallel",
)
"""Modules of the functions that wrappers hook into a model or set as its `forward`, and of the classes that they mix
in.

Those of transformers are for its `tp_plan`.
"""

KEPT = ("_override_module_mixed_precision",)
"""Hooks of theirs that compute: FSDP1 keeps the modules of some classes in float32 so."""

PRE_HOOKS = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs")
POST_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
HOOKS = (
    *PRE_HOOKS,
    *POST_HOOKS,
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


@dataclass(frozen=True)
class Skeleton:
    """The plain module, and what this process holds of the weights that are only shapes in it, by all their names."""

    module: torch.nn.Module
    holdings: Mapping[str, Holding]


def skeleton_of(model: torch.nn.Module) -> Skeleton:
    """The model as it would be in one process.

    Wrappers and their hooks are gone, those of the user stay, tied weights stay tied, what is not sharded is the
    model's own tensor. Precision policies are casts in it, and dtypes of its weights.
    """
    return _Copy().run(model)


@dataclass(frozen=True)
class _Copy:
    """The state of one copy: what has been copied by the id of its original, and how FSDP treats parameters."""

    modules: dict[int, torch.nn.Module] = field(default_factory=dict)
    tensors: dict[int, torch.Tensor] = field(default_factory=dict)
    held: dict[int, Holding] = field(default_factory=dict)
    flat: dict[tuple[int, str], Holding] = field(default_factory=dict)
    precision: dict[int, torch.dtype] = field(default_factory=dict)
    mode: FakeTensorMode = field(
        default_factory=lambda: FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    )

    def run(self, model: torch.nn.Module) -> Skeleton:
        for module in model.modules():
            self._note_fsdp(module)
        plain = self._module(model, None)
        for module in {id(each): each for each in self.modules.values()}.values():
            for name, value in vars(module).items():
                if not name.startswith("_") or name.startswith("__"):
                    vars(module)[name] = self._reference(value)
        state = (*plain.named_parameters(remove_duplicate=False), *plain.named_buffers(remove_duplicate=False))
        return Skeleton(plain, {name: self.held[id(tensor)] for name, tensor in state if id(tensor) in self.held})

    def _note_fsdp(self, module: torch.nn.Module) -> None:
        """Brings FSDP's modules back to their shards, without communication, and notes the precision of forward."""
        if isinstance(module, FSDPModule):
            module.reshard()
            for group in groups_of(_get_module_fsdp_state(module)):
                for each in group.fsdp_params:
                    if each.mp_policy.param_dtype and each.sharded_param.is_floating_point():
                        self.precision[id(each.sharded_param)] = each.mp_policy.param_dtype
        if isinstance(module, FullyShardedDataParallel):
            self.flat.update(of_flat(module, _dtype_of_parameters(module)))

    # Modules -----------------------------------------------------------------------------------------------------

    def _module(self, module: torch.nn.Module, root: FullyShardedDataParallel | None) -> torch.nn.Module:
        """The copy of a module. `root` is the outermost FSDP1 wrapper around it."""
        if id(module) in self.modules:
            return self.modules[id(module)]
        is_flat = isinstance(module, FullyShardedDataParallel)
        attribute = "_fsdp_wrapped_module" if is_flat else wrapped_by(module)
        if attribute is not None:
            outermost = is_flat and root is None
            plain = self._module(getattr(module, attribute), module if outermost else root)  # type: ignore[arg-type]
            self.modules[id(module)] = plain
            _wrap_hooks(plain, module, _casts_of_wrapper(module, outermost))
            return plain
        if isinstance(module, torch.jit.ScriptModule):
            return module
        plain: torch.nn.Module = object.__new__(_own_class(type(module)))
        self.modules[id(module)] = plain
        vars(plain).update({name: value for name, value in vars(module).items() if not _is_theirs(value)})
        for name in HOOKS:
            hooks = getattr(module, name, None)
            if isinstance(hooks, dict):
                vars(plain)[name] = OrderedDict((key, hook) for key, hook in hooks.items() if not _is_theirs(hook))
        vars(plain)["_compiled_call_impl"] = None  # of `module.compile()`: it calls the original
        _replace_casts(plain, module)
        vars(plain)["_parameters"] = self._parameters(module)
        for name in plain._parameters:
            vars(plain).pop(name, None)  # FSDP1 without original parameters keeps views of its own there
        vars(plain)["_buffers"] = {name: self._tensor(each) for name, each in module._buffers.items()}
        vars(plain)["_modules"] = {
            name: None if child is None else self._module(child, root) for name, child in module._modules.items()
        }
        return plain

    def _parameters(self, module: torch.nn.Module) -> dict[str, Any]:
        from torch.distributed.fsdp import FlatParameter

        flat = {name: holding for (owner, name), holding in self.flat.items() if owner == id(module)}
        found: dict[str, Any] = {}
        for name, parameter in module._parameters.items():
            if name in flat:
                found[name] = self._flattened(flat.pop(name), getattr(parameter, "requires_grad", False))
            elif not isinstance(parameter, FlatParameter):
                found[name] = self._tensor(parameter)
        return found | {name: self._flattened(holding, requires_grad=False) for name, holding in flat.items()}

    # Tensors -----------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: torch.Tensor | None) -> torch.Tensor | None:
        """The model's own tensor where it is whole, else a shape."""
        if not isinstance(tensor, DTensor):
            return tensor
        if id(tensor) not in self.tensors:
            self.tensors[id(tensor)] = self._plain(tensor)
        return self.tensors[id(tensor)]

    def _plain(self, tensor: DTensor) -> torch.Tensor:
        holding = of_dtensor(tensor, self.precision.get(id(tensor)))
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        if not is_parameter and all(placement.is_replicate() for placement in tensor.placements):
            return tensor._local_tensor.detach()  # a buffer may be changed by forward, and then its value is looked at
        return self._shape(holding, tensor.device, is_parameter, tensor.requires_grad)

    def _flattened(self, holding: Holding, requires_grad: bool) -> torch.Tensor:
        if id(holding) not in self.tensors:
            device = holding.read().device if holding.box is not None else torch.device("cpu")
            self.tensors[id(holding)] = self._shape(holding, device, True, requires_grad)
        return self.tensors[id(holding)]

    def _shape(self, holding: Holding, device: torch.device, is_parameter: bool, requires_grad: bool) -> torch.Tensor:
        with self.mode:
            fake = torch.empty(holding.shape, dtype=holding.dtype, device=device)
        fake = torch.nn.Parameter(fake, requires_grad and fake.is_floating_point()) if is_parameter else fake
        self.held[id(fake)] = holding
        return fake

    # What modules say of each other ------------------------------------------------------------------------------

    def _reference(self, value: Any) -> Any:
        """An attribute with the copies in place of the modules that it names."""
        match value:
            case torch.nn.Module():
                return self.modules.get(id(value), value)
            case types.MethodType() if id(value.__self__) in self.modules:
                return types.MethodType(value.__func__, self.modules[id(value.__self__)])
            case partial():
                return partial(
                    self._reference(value.func),
                    *map(self._reference, value.args),
                    **{name: self._reference(each) for name, each in value.keywords.items()},
                )
        if type(value) in (list, tuple):
            return type(value)(map(self._reference, value))
        if type(value) is dict:
            return {key: self._reference(each) for key, each in value.items()}
        return value


# Classes and hooks ---------------------------------------------------------------------------------------------


def groups_of(state: Any) -> list[Any]:
    """Return the groups of parameters of an FSDP2 module; PyTorch 2.11 has at most one, under another name."""
    if hasattr(state, "_fsdp_param_groups"):
        return state._fsdp_param_groups
    return [] if state._fsdp_param_group is None else [state._fsdp_param_group]


def _own_class(cls: type) -> type:
    """The class that a wrapper mixed itself into: `Model` for `FSDPModel(FSDPModule, Model)`."""
    if not (issubclass(cls, FSDPModule) or is_replicated(cls)):
        return cls
    return next(base for base in cls.__mro__ if not base.__module__.startswith(THEIRS))


def _is_theirs(function: Any) -> bool:
    """Return True if a hook, or a method set on an instance, is a function of a wrapper's."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        else:
            break
    if not isinstance(function, types.FunctionType) or any(name in function.__qualname__ for name in KEPT):
        return False
    return function.__module__.startswith(THEIRS)


def _replace_casts(plain: torch.nn.Module, module: torch.nn.Module) -> None:
    """Puts the casts of FSDP2's policy where its hooks stood among the others."""
    if not isinstance(module, FSDPModule):
        return
    policy = _get_module_fsdp_state(module)._mp_policy  # type: ignore[union-attr]  # an FSDPModule has a state
    if policy.cast_forward_inputs and policy.param_dtype:
        _insert(plain, module, PRE_HOOKS, cast_inputs(policy.param_dtype))
    if policy.output_dtype:
        _insert(plain, module, POST_HOOKS, cast_output(policy.output_dtype))


def _insert(plain: torch.nn.Module, module: torch.nn.Module, names: tuple[str, ...], hook: Callable[..., Any]) -> None:
    """Adds a hook in the order of the original's hooks, at the place of its wrapper's."""
    merged: OrderedDict[int, Any] = OrderedDict()
    for key, each in getattr(module, names[0]).items():
        if not _is_theirs(each):
            merged[key] = each
        elif hook not in merged.values():
            merged[key] = hook
            if names is PRE_HOOKS:
                vars(plain)["_forward_pre_hooks_with_kwargs"][key] = True
    vars(plain)[names[0]] = merged


def _casts_of_wrapper(wrapper: torch.nn.Module, outermost: bool) -> list[torch.dtype]:
    """The precisions to which FSDP1 casts what it passes on to its module."""
    if not isinstance(wrapper, FullyShardedDataParallel) or (dtype := _dtype_of_parameters(wrapper)) is None:
        return []
    policy = wrapper.mixed_precision
    cast_root = outermost and policy.cast_root_forward_inputs
    return [dtype] if cast_root or (policy.cast_forward_inputs and wrapper._handle is not None) else []


def _dtype_of_parameters(wrapper: FullyShardedDataParallel) -> torch.dtype | None:
    """The precision in which forward sees the parameters of an FSDP1 wrapper; None where that is their own."""
    handle: Any = wrapper._handle
    if handle is not None and handle._force_full_precision:
        return None
    if not wrapper.training and wrapper._use_full_prec_in_eval:
        return None
    return wrapper.mixed_precision.param_dtype


def _wrap_hooks(plain: torch.nn.Module, wrapper: torch.nn.Module, casts: list[torch.dtype]) -> None:
    """The user's hooks on a wrapper run around those of its module, and its casts between the two."""
    for dtype in casts:
        plain.register_forward_pre_hook(cast_inputs(dtype), with_kwargs=True, prepend=True)
    for key, hook in reversed(wrapper._forward_pre_hooks.items()):
        if not _is_theirs(hook):
            with_kwargs = key in wrapper._forward_pre_hooks_with_kwargs
            plain.register_forward_pre_hook(hook, with_kwargs=with_kwargs, prepend=True)
    for key, hook in wrapper._forward_hooks.items():
        if not _is_theirs(hook):
            with_kwargs = key in wrapper._forward_hooks_with_kwargs
            plain.register_forward_hook(hook, with_kwargs=with_kwargs)  # type: ignore[call-overload]


def names_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """All weights and buffers of a module under all their names."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
