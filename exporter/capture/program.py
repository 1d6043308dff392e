"""ExportedProgram → Program: names for what goes in and comes out, weights by reference, dimension names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputSpec, TensorArgument
from torch.export.graph_signature import InputKind as ExportedInputKind
from torch.export.graph_signature import OutputKind as ExportedOutputKind
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.arguments.inputs import arguments_of, different, path_name
from fxport.exporter.capture.arguments.nesting import Structure, of_arguments, of_results, structure_of
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.capture.sizes.promises import dim_names, ranges_of, unified
from fxport.exporter.capture.sizes.shapes import Request
from fxport.exporter.capture.subclasses import weights_opened
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.graph import bodies
from fxport.fx_passes.program import Input, InputKind, Output, OutputKind, Program
from fxport.fx_passes.sizes import size_of

KINDS: Mapping[ExportedInputKind, InputKind] = {
    ExportedInputKind.USER_INPUT: InputKind.USER,
    ExportedInputKind.PARAMETER: InputKind.PARAMETER,
    ExportedInputKind.BUFFER: InputKind.BUFFER,
    ExportedInputKind.CONSTANT_TENSOR: InputKind.CONSTANT,
}


class NamesError(FxportError, ValueError):
    """Names for inputs or outputs do not fit their number. The text says how many there are."""


def from_exported(
    exported: ExportedProgram,
    known: Sequence[str] | None,
    requests: Sequence[Request],
    model: Any,
    options: Options,
    log: Log,
) -> Program:
    """Return the program of an ExportedProgram, whose graph module is taken over and not copied.

    `known` are the paths of the flattened inputs, where they are known from the call.
    """
    gm = exported.graph_module
    _take_names(gm)
    paths = _input_paths(exported, known)
    entries, tensors = weights_opened(exported, tensors_of(exported))
    names = _user_names([node.name for spec, node in entries if _is_fed(spec, node)], paths, options.input_names)
    inputs, dropped = [], []
    fed: list[tuple[str | None, Any]] = []
    for spec, node in entries:
        if spec.kind is ExportedInputKind.USER_INPUT:
            fed.append((names.get(node.name), _baked(spec, node)))
        if isinstance(spec.arg, TensorArgument) and spec.kind in KINDS:
            name = names.get(node.name) or spec.target or node.name
            inputs.append(Input(KINDS[spec.kind], name, spec.target, paths.get(node.name)))
        elif _is_fed(spec, node):
            inputs.append(Input(InputKind.USER, names[node.name], path=paths[node.name]))
        else:
            dropped.append((node, spec))
    for node, spec in dropped:
        _drop_constant(node, spec, paths.get(node.name) or node.name, model, log)
    inputs = _distinct(inputs)
    outputs = _results_first(gm, _outputs(exported, inputs, options.output_names))
    program = Program(gm, tuple(inputs), tuple(outputs), tensors)
    promised = unified(program, requests)
    names, ranges = dim_names(program, requests, promised), ranges_of(exported, promised)
    structure = structure_of(_arguments(exported, fed, model), _results(exported, outputs))
    return replace(program, dim_names=names, ranges=ranges, structure=structure)


def _take_names(gm: torch.fx.GraphModule) -> None:
    """Note the names of nodes as taken in the graphs of bodies, which PyTorch renames, before a pass makes nodes."""
    gm.graph._graph_namespace._used_names.update(node.name for node in gm.graph.nodes)
    for _, body in bodies(gm):
        _take_names(body)


def _arguments(exported: ExportedProgram, fed: Sequence[tuple[str | None, Any]], model: Any) -> Structure | None:
    """Return how the arguments nest; None where the program does not say it."""
    spec = exported.call_spec.in_spec
    if spec is None or spec.num_leaves != len(fed):
        return None
    args, kwargs = _skeleton(spec)
    if isinstance(model, torch.nn.Module):
        return of_arguments(arguments_of(model, args, kwargs), fed)
    names = _parameter_names(exported, len(args))
    return of_arguments({**dict(zip(names, args, strict=True)), **kwargs}, fed)


def _results(exported: ExportedProgram, outputs: Sequence[Output]) -> Structure | None:
    """Return how the results nest; None where the program does not say it."""
    results: Any = exported.graph_module.graph.output_node().args[0]
    spec = exported.call_spec.out_spec
    count = sum(output.kind is not OutputKind.MUTATION for output in outputs)
    if spec is None or spec.num_leaves != count:
        return None
    return of_results(_skeleton(spec), outputs, results)


def tensors_of(exported: ExportedProgram) -> dict[str, torch.Tensor]:
    """Return parameters, buffers and constants by their names, as the model holds them."""
    constants = {name: value for name, value in exported.constants.items() if isinstance(value, torch.Tensor)}
    return {**exported.state_dict, **constants}


def _input_paths(exported: ExportedProgram, known: Sequence[str] | None) -> dict[str, str]:
    """Map the name of each placeholder to the path of the user's input ("x", "past.0.key")."""
    user = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind is ExportedInputKind.USER_INPUT]
    if known is not None:
        return dict(zip(user, known, strict=True))
    in_spec = exported.call_spec.in_spec
    if in_spec is None:
        return {name: name for name in user}
    args, kwargs = _skeleton(in_spec)
    order = _parameter_names(exported, len(args))
    tree = {**dict(zip(order, args, strict=False)), **kwargs}
    paths = _leaf_paths(tree)
    return dict(zip(user, paths if len(paths) == len(user) else user, strict=True))


def _leaf_paths(tree: Any) -> list[str]:
    """Return the path of every leaf; none if a container was declared without names for what it holds."""
    named = dict(tree) if isinstance(tree, Mapping) else tree  # diffusers declares its outputs so, which are mappings
    try:
        return list(different(path_name(path) for path, _ in pytree.tree_flatten_with_path(named)[0]))
    except ValueError:
        return []


def _skeleton(spec: pytree.TreeSpec) -> Any:
    """Return the containers of a spec around tensors without storage, for those that look at what they hold.

    Flattened again, they are in the order of the spec's leaves.
    """
    return pytree.tree_unflatten([torch.empty(1, 1, 1, 1, device="meta") for _ in range(spec.num_leaves)], spec)


def _parameter_names(exported: ExportedProgram, count: int) -> list[str]:
    """Return the names of forward's positional parameters, after which torch.export names placeholders."""
    signature = exported.module_call_graph[0].signature
    names = list(getattr(signature, "forward_arg_names", None) or [])
    return names[:count] if len(names) >= count else [f"args.{i}" for i in range(count)]


def _is_fed(spec: InputSpec, node: torch.fx.Node) -> bool:
    """Return whether a value of the user's is an input of the graph: a tensor, or a number that is no constant."""
    if spec.kind is not ExportedInputKind.USER_INPUT or isinstance(spec.arg, ConstantArgument):
        return False
    return isinstance(spec.arg, TensorArgument) or isinstance(size_of(node.meta.get("val")), sympy.Basic)


def _user_names(fed: Sequence[str], paths: Mapping[str, str], wanted: Sequence[str] | None) -> dict[str, str]:
    """Map the name of each placeholder that the user feeds to its ONNX name."""
    wanted = wanted or ()
    if len(wanted) > len(fed):
        raise NamesError(
            f"input_names has {plural(len(wanted), 'name')}; "
            f"the model has {plural(len(fed), 'input')}: {', '.join(fed)}"
        )
    _require_usable("input_names", wanted)
    return dict(zip(fed, [*wanted, *different((paths[n] for n in fed[len(wanted) :]), wanted)], strict=True))


def _require_usable(what: str, names: Sequence[str]) -> None:
    """Raises NamesError for a name that the user gives twice, and for one that cannot be written in UTF-8."""
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise NamesError(f"{what} has {name!a}, which has no form in UTF-8, as a file holds names") from error
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise NamesError(f"{what} has '{twice[0]}' twice; the names in a model are different from each other")


def _baked(spec: InputSpec, node: torch.fx.Node) -> Any:
    """Return the value in the example of an argument that is no input of the graph."""
    return getattr(spec.arg, "value", size_of(node.meta.get("val")))


def _drop_constant(node: torch.fx.Node, spec: InputSpec, path: str, model: Any, log: Log) -> None:
    """Drop the placeholder of a None, number or string that has become part of the graph."""
    value = _baked(spec, node)
    if value is not None:
        place = place_of_module(model) if isinstance(model, torch.nn.Module) else None
        log.report(rules.SCALAR_INPUT_BAKED, at=place, input=path, value=value)
    node.replace_all_uses_with(value) if node.users else None  # type: ignore[arg-type]  # a literal is a legal argument
    node.graph.erase_node(node)


def _distinct(inputs: Sequence[Input]) -> list[Input]:
    """Give a weight that has the name of an input another one, so that the input keeps its own."""
    user = {entry.name for entry in inputs if entry.kind is InputKind.USER}
    return [
        entry
        if entry.kind is InputKind.USER or entry.name not in user
        else Input(entry.kind, f"{entry.name}.weight", entry.target)
        for entry in inputs
    ]


def _outputs(exported: ExportedProgram, inputs: Sequence[Input], wanted: Sequence[str] | None) -> list[Output]:
    """Return the outputs of the graph, each named by its path in what the model returns."""
    specs = exported.graph_signature.output_specs
    results = exported.graph_module.graph.output_node().args[0]
    user_count = sum(spec.kind is ExportedOutputKind.USER_OUTPUT for spec in specs)
    paths = iter(_output_paths(exported, user_count))
    by_target = {entry.target: entry.name for entry in inputs if entry.target}
    taken = {entry.name for entry in inputs}
    outputs: list[Output] = []
    for spec, result in zip(specs, results, strict=True):  # type: ignore[arg-type]  # an output node holds a tuple
        if spec.kind is not ExportedOutputKind.USER_OUTPUT:
            updated = by_target.get(spec.target, spec.target)
            outputs.append(Output(OutputKind.MUTATION, f"{updated}.updated", updated))
            continue
        path = next(paths)
        kind = OutputKind.USER if isinstance(result, torch.fx.Node) else OutputKind.LITERAL
        outputs.append(Output(kind, f"{path}.out" if path in taken else path))
    return _renamed(outputs, wanted, [entry.name for entry in inputs if entry.kind is InputKind.USER])


def _results_first(gm: torch.fx.GraphModule, outputs: Sequence[Output]) -> list[Output]:
    """Put what the model returns before the new values of its state: a capture below autograd has it behind them."""
    order = sorted(range(len(outputs)), key=lambda place: outputs[place].kind is OutputKind.MUTATION)
    node = gm.graph.output_node()
    results: Any = node.args[0]
    node.args = (tuple(results[place] for place in order),)
    return [outputs[place] for place in order]


def _output_paths(exported: ExportedProgram, count: int) -> list[str]:
    """Return "output" for a single tensor, else paths in the results: "logits", "past.0.key", "output.1"."""
    out_spec = exported.call_spec.out_spec
    if out_spec is None or out_spec.num_leaves != count:
        return [f"output.{i}" for i in range(count)]
    names = _leaf_paths(_skeleton(out_spec))
    if len(names) != count:
        return [f"output.{i}" for i in range(count)]
    return ["output" if not name else f"output.{name}" if name[0].isdigit() else name for name in names]


def _renamed(outputs: Sequence[Output], wanted: Sequence[str] | None, fed: Sequence[str]) -> list[Output]:
    """Return outputs under the user's names: one for each value the model returns, or for each that is a tensor.

    All have different names, also from those of the inputs that are `fed`.
    """
    wanted = wanted or ()
    user = [i for i, each in enumerate(outputs) if each.kind is not OutputKind.MUTATION]
    tensors = [i for i in user if outputs[i].kind is OutputKind.USER]
    targets = user if len(wanted) == len(user) else tensors
    if len(wanted) > len(targets):
        raise NamesError(f"output_names has {len(wanted)} names; the model returns {plural(len(tensors), 'tensor')}")
    _require_usable("output_names", wanted)
    if both := [name for name in wanted if name in fed]:
        raise NamesError(f"output_names has '{both[0]}', which is the name of an input; give the output another")
    asked = dict(zip(targets, wanted, strict=False))
    others = [position for position in range(len(outputs)) if position not in asked]
    names = dict(zip(others, different((outputs[i].name for i in others), asked.values()), strict=True)) | asked
    return [Output(each.kind, names[i], each.updates) for i, each in enumerate(outputs)]
