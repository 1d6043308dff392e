"""SOURCE → a model with its example inputs: `file.py:name`, `package.module:name` or a file of `torch.export.save`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from fxport.diagnostics.limits import PT2, require_unpackable
from fxport.diagnostics.messages import error_line
from fxport.diagnostics.paths import is_special
from fxport.exporter.sources.files import described
from fxport.exporter.sources.search_path import look_first_in, look_last_in
from fxport.exporter.sources.usage import UsageError, did_you_mean
from fxport.exporter.sources.users_code import users_code

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

Call = tuple[tuple[object, ...], Mapping[str, object]]
"""Positional and keyword arguments."""

CONFIG = "config.json"
"""Name of the configuration file in a folder of transformers."""

SEED = 0
"""Of torch's generator before SOURCE is imported and called: untrained weights are the same in every run."""

MODEL = "a model, or a function that returns a model or (model, args[, kwargs[, dynamic_shapes]])"

ARGS_ADVICE: Mapping[str, str] = {
    "ndarray": ", and its arrays tensors: torch.from_numpy(array)",
    "dict": "; keyword arguments come after it: (model, (), {'name': value})",
}
"""Advice for a second value of SOURCE that is no tuple, by the name of its type."""


@dataclass(frozen=True, slots=True)
class Source:
    """Model and example that SOURCE names. `args` is None where it brings no example inputs.

    `label` is the example's name in findings, `further` holds other calls to validate with, by their labels. `whole` is
    the model in one process, where `model` runs it on several ranks.
    """

    name: str
    model: nn.Module | ExportedProgram
    args: tuple[object, ...] | None = None
    kwargs: Mapping[str, object] = field(default_factory=dict)
    dynamic_shapes: Any = None  # the nested specification of torch.export, which has no type
    weights: Path | None = None  # a checkpoint that SOURCE brings, whose values the model is without
    label: str = "sample"
    further: Mapping[str, Call] = field(default_factory=dict)
    whole: nn.Module | None = None
    guessed: bool = False  # inputs and dims are ours, from a configuration: what the user says takes their place
    masks: Mapping[str, str] = field(default_factory=dict)  # of guessed inputs, those with the sizes of another


def load(text: str, init: Mapping[str, object] = MappingProxyType({}), *, trust: bool = False) -> Source:
    """The model that SOURCE names, made with the arguments `init`. With `trust`, code in a .pt2 file is run.

    A mistake in it, or an exception in the user's code, is a `UsageError`.
    """
    if init and (text.endswith(".pt2") or Path(text).is_dir()):
        raise UsageError(f"--init gives arguments to a class or function; '{text}' is none; leave --init out.")
    if text.endswith(".pt2"):
        return load_program(Path(text), trust=trust)
    if Path(text).is_dir():
        return load_folder(Path(text), in_memory=True)
    value, name = found(text, "NAME is a model, an nn.Module class or a function, or give a .pt2 file")
    return made_from(value, name, text, init)


def load_without_memory(text: str, init: Mapping[str, object] = MappingProxyType({})) -> Source:
    """As `load`, with a model whose parameters have no memory. A .pt2 file has its weights in it, and is refused."""
    if Path(text).is_dir():
        return load_folder(Path(text), in_memory=False)
    if text.endswith(".pt2"):
        raise UsageError(f"--fake makes a model from code; '{text}' is a file that has its weights; leave --fake out.")
    from fxport.exporter.capture.fake import without_memory

    with without_memory():
        return load(text, init)


def found(text: str, expected: str) -> tuple[object, str]:
    """Return the object that `file.py:name` or `package.module:name` names, and the name. `expected` describes NAME."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        if told := described(text):
            raise UsageError(told)
        raise UsageError(
            f"SOURCE '{text}' names no model; write FILE.py:NAME or package.module:NAME, where {expected}."
        )
    module = import_file(Path(where)) if where.endswith(".py") else import_dotted(where)
    return named(module, name, where), name


def require_named(text: str) -> None:
    """Refuse a SOURCE that names no model, as far as that can be told without running anything."""
    where, _, name = text.rpartition(":")
    if where.endswith(".py"):
        require_file(Path(where))
    if not (where and name) and not text.endswith(".pt2") and not Path(text).is_dir():
        found(text, f"NAME is {MODEL}")


def load_program(path: Path, *, trust: bool = False) -> Source:
    """A file of `torch.export.save`, with the example inputs it holds. One that could run code needs `trust`."""
    require_file(path)
    import torch

    from fxport.exporter.sources.pt2 import code_in

    try:
        require_unpackable(path, PT2)
        if not trust and (code := code_in(path)) is not None:
            raise UsageError(
                f"'{path}' is not loaded, because that could run code in it: {code}; if you trust whoever made it, "
                "give --trust (in a manifest: trust = true)."
            )
        program = torch.export.load(path)
    except UsageError:
        raise
    except Exception as error:  # a foreign file makes the unzipper, json and torch raise what they like
        raise UsageError(f"'{path}' cannot be loaded by torch.export.load: {error_line(error)}.") from error
    args, kwargs = program.example_inputs or (None, {})
    return Source(path.stem, program, None if args is None else tuple(args), kwargs)


def load_folder(folder: Path, *, in_memory: bool) -> Source:
    """A folder that transformers has saved, with example inputs where they can be told from its configuration."""
    require_pretrained(folder)
    from fxport.exporter.sources.pretrained import PretrainedError, load
    from fxport.exporter.weights import CheckpointError

    try:
        found = load(folder, in_memory=in_memory)
    except (PretrainedError, CheckpointError) as error:
        raise UsageError(str(error)) from error
    args = () if found.inputs else None
    dims = dict(found.dynamic) or None
    name = folder.resolve().name
    return Source(name, found.model, args, found.inputs, dims, found.weights, guessed=True, masks=found.masks)


def require_pretrained(folder: Path) -> None:
    """Refuse a folder that transformers has not saved."""
    if not (folder / CONFIG).is_file():
        raise UsageError(f"'{folder}' is a folder without '{CONFIG}'; name a model as FILE.py:NAME.")


def require_file(path: Path) -> None:
    """Refuse a path that is no file, naming near ones."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a directory; name a file in it.")
    if is_special(path):
        raise UsageError(f"'{path}' is no ordinary file, but a device or a pipe; name a file.")
    if not path.is_file():
        near = [entry.name for entry in path.parent.glob(f"*{path.suffix}")] if path.parent.is_dir() else []
        raise UsageError(f"There is no file '{path}'. {did_you_mean(path.name, near)}".rstrip())


def import_file(path: Path) -> ModuleType:
    """Run a file as a module, with its folder first on `sys.path` as `python FILE` has it, and the current one last.

    A file with relative imports is imported as the module of its package that it is.
    """
    require_file(path)
    if dotted := in_package(path):
        root, name = dotted
        return import_dotted(name, root)
    seed()
    name = path.stem if path.stem not in sys.modules else f"fxport_source_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    loader = spec.loader if spec else None
    if spec is None or loader is None:
        raise UsageError(f"'{path}' cannot be imported as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up here
    look_first_in(path.resolve().parent)
    look_last_in(Path.cwd())
    users_code(partial(loader.exec_module, module), f"Importing '{path}'")
    return module


def in_package(path: Path) -> tuple[Path, str] | None:
    """The folder above the package of a file that has relative imports, and the dotted name of the file from there.

    None for another file. Raises UsageError for relative imports in a folder that is no package.
    """
    if not has_relative_imports(path):
        return None
    file = path.resolve()
    above = [folder for folder in file.parents if (folder / "__init__.py").is_file()]
    parts = [file.stem]
    folder = file.parent
    while folder in above:
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1:
        raise UsageError(
            f"'{path}' has relative imports, and '{path.parent}' has no __init__.py; add one, or name the module: "
            f"{path.parent.resolve().name}.{path.stem}:NAME, from the folder above."
        )
    return folder, ".".join(parts[:-1] if file.stem == "__init__" else parts)


def has_relative_imports(path: Path) -> bool:
    """Return True if a file says `from . import`, which needs a package around it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # which the import tells
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in ast.walk(tree))


def import_dotted(name: str, root: Path | None = None) -> ModuleType:
    """Import `package.module`, also from the current folder, or from the folder `root`."""
    seed()
    look_first_in(root or Path.cwd())
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        prefix = ".".join(parts[:end])
        if not parts[end - 1].isidentifier() or not users_code(partial(is_there, prefix), f"Importing '{name}'"):
            raise UsageError(
                f"There is no module '{prefix}', neither installed nor in this folder; for a file write FILE.py:NAME."
            )
    return users_code(partial(importlib.import_module, name), f"Importing '{name}'")


def is_there(module: str) -> bool:
    """Return True if a module can be imported; its parents are imported to find out."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return False  # its parent is no package
    except ValueError:
        return module in sys.modules  # `__main__` and the like have no spec


def named(module: ModuleType, dotted: str, where: str) -> object:
    """The attribute that NAME says, inner ones with dots."""
    value: object = module
    for part in dotted.split("."):
        if not hasattr(value, part):
            if isinstance(value, ModuleType) and value.__file__ is None:
                raise UsageError(f"'{where}' is a folder; name a file in it: {where.replace('.', '/')}/FILE.py:NAME.")
            raise UsageError(f"'{where}' has no '{dotted}'. {did_you_mean(part, _own_names(value))}".rstrip())
        value = getattr(value, part)
    return value


def _own_names(value: object) -> list[str]:
    """The public names of a module or a class that may be a model; what it has imported is none."""
    held = vars(value) if hasattr(value, "__dict__") else {}
    home = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)

    def is_imported(each: object) -> bool:
        return (isinstance(each, type) or inspect.isroutine(each)) and getattr(each, "__module__", home) != home

    def may_be_model(each: object) -> bool:
        return (callable(each) or isinstance(each, tuple)) and not is_imported(each)

    return [name for name, each in held.items() if not name.startswith("_") and may_be_model(each)]


def made_from(value: object, name: str, text: str, init: Mapping[str, object] = MappingProxyType({})) -> Source:
    """A model instance, a class, a function or a tuple → a `Source`.

    A class is constructed with the arguments `init` and put in eval mode; a model that somebody else made keeps its
    mode.
    """
    from torch import nn
    from torch.export import ExportedProgram

    short = name.rpartition(".")[2]
    seed()
    if isinstance(value, type) and issubclass(value, nn.Module):
        require_arguments(value, text, "write a function that constructs it and name that", init)
        model: nn.Module = users_code(partial(value, **init), f"Constructing '{text}'")
        return Source(short, model.eval())
    if callable(value) and not isinstance(value, nn.Module | type):
        require_arguments(value, text, "name a function without parameters that returns a model", init)
        value = users_code(partial(value, **init), f"Calling '{text}'")
    elif init:
        raise UsageError(f"--init gives arguments to a class or function; '{text}' is made already; leave --init out.")
    if isinstance(value, ExportedProgram):
        args, kwargs = value.example_inputs or (None, {})
        return Source(short, value, None if args is None else tuple(args), kwargs)
    if isinstance(value, nn.Module):
        return Source(short, value)
    if isinstance(value, tuple) and 1 <= len(value) <= 4 and isinstance(value[0], nn.Module | ExportedProgram):
        return Source(short, value[0], *inputs_of(value, text))
    given, place = (value[0], " as its first value") if isinstance(value, tuple) and value else (value, "")
    raise UsageError(f"'{text}' gives {no_model(given)}{place}; it should be {MODEL}.")


def no_model(value: object) -> str:
    """Describe a value that is no model, and what the model would be."""
    from torch import Tensor, nn

    if isinstance(value, type):
        made = f", which is not called: {value.__name__}()" if issubclass(value, nn.Module) else ""
        return f"the class '{value.__name__}'{made}"
    if inspect.isroutine(value):
        return f"the function '{getattr(value, '__name__', '')}', which is no nn.Module: call it in the forward of one"
    if isinstance(value, Mapping) and value and all(isinstance(each, Tensor) for each in value.values()):
        return "a state dict, which has weights and no code: make the model and call load_state_dict, or give --weights"
    return "nothing" if value is None else f"a value of type '{type(value).__name__}'"


def inputs_of(parts: tuple[object, ...], text: str) -> tuple[tuple[object, ...] | None, Mapping[str, object], object]:
    """`(model, args, kwargs, dynamic_shapes)` → the last three, checked; a lone tensor stands for one argument."""
    from torch import Tensor

    args, kwargs, dynamic_shapes = (*parts[1:], *(None,) * (4 - len(parts)))
    if isinstance(args, Tensor):
        args = (args,)
    if not isinstance(args, tuple | list | None):
        advice = ARGS_ADVICE.get(type(args).__name__, "")
        raise UsageError(
            f"The second value of '{text}' is of type '{type(args).__name__}'; it should be the tuple of args{advice}."
        )
    if not isinstance(kwargs, Mapping | None):
        raise UsageError(
            f"The third value of '{text}' is of type '{type(kwargs).__name__}'; it should be the dict of kwargs."
        )
    if args is None and kwargs is None:
        return None, {}, dynamic_shapes
    return tuple(args or ()), {str(key): value for key, value in (kwargs or {}).items()}, dynamic_shapes


def require_arguments(
    function: Callable[..., object],
    text: str,
    cure: str,
    init: Mapping[str, object] = MappingProxyType({}),
    option: str | None = "--init",
) -> None:
    """Refuse a callable that cannot be called with the arguments `init`, which `option` gives, if there is one."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C, without a signature: the call itself will tell
    try:
        signature.bind(**init)
    except TypeError as error:
        known = list(signature.parameters)
        takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        if not takes_any and (unknown := [name for name in init if name not in known]):
            near = did_you_mean(unknown[0], known) or "It takes none."
            raise UsageError(f"'{text}' has no argument '{unknown[0]}'. {near}") from error
        missing = [each.name for each in signature.parameters.values() if each.default is each.empty]
        wanted = " ".join(f"{option} {name}=…" for name in missing if name not in init)
        how = f"with {', '.join(f'{name}={value!r}' for name, value in init.items())}" if init else "without arguments"
        given = f"give {wanted}, or {cure}" if option else cure
        help = given if wanted else f"'{text}' takes {signature}"
        raise UsageError(f"'{text}' cannot be called {how}: {error}; {help}.") from error


def init_of(texts: Sequence[str]) -> dict[str, object]:
    """All `--init NAME=VALUE` → arguments; a value that is no Python literal is text."""
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--init '{text}' has no NAME=VALUE; write hidden=64 or act=relu.")
        if name in values:
            raise UsageError(f"--init gives '{name}' twice; give it once.")
        try:
            values[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):  # {{}}, and too many brackets
            values[name] = value
    return values


def seed() -> None:
    """Begin torch's random numbers anew. Imports torch, before the user's folder is where Python looks for modules."""
    import torch

    torch.manual_seed(SEED)


def short_name(source: str) -> str:
    """`bert` for `bert.pt2` and a folder `bert`, `model` for `bert.py:model` and for `package.bert:parts.model`."""
    if Path(source).is_dir():
        return Path(source).resolve().name
    return Path(source).stem if source.endswith(".pt2") else source.rpartition(":")[2].rpartition(".")[2] or "model"
