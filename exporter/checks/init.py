"""`fxport check --init`: a manifest from what stands in a project's files, by reading and not by running them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics.limits import SOURCE, read_bounded
from fxport.diagnostics.paths import write_whole
from fxport.exporter.checks import manifest
from fxport.exporter.sources.usage import UsageError

SKIPPED = frozenset(("build", "dist", "venv", "env", "node_modules", "site-packages", "tests", "test", "__pycache__"))
MODULE = re.compile(r"\b(Module|PreTrainedModel)$")
HEAD = """\
# The models that `fxport check` exports and validates. Keys: docs/check.md, or fxport.schema.json in an editor.

[defaults]
# opset = [18, 23]
# budget = { error = 1.0 }
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A model that can be made without arguments. `inputs` are arguments of `forward` whose shapes must be guessed."""

    path: str
    name: str
    inputs: tuple[str, ...] = ()


def write(folder: Path) -> tuple[Path, Sequence[Found]]:
    """Writes fxport.toml with a table for each model found. Raises UsageError if there is one, or if none is found."""
    target = folder / manifest.NAME
    if target.exists():
        raise UsageError(f"There is a {manifest.NAME} already; edit it, or remove it first.")
    found = [each for path in files_in(folder) for each in models_in(path, path.relative_to(folder).as_posix())]
    if not found:
        raise UsageError(
            "No function here returns a model and no nn.Module can be made without arguments; write a function that "
            "returns (model, args) and name it as the source of a [[model]]."
        )
    return write_whole(target, HEAD + "".join(table_of(each, name) for each, name in named(found))), found


def files_in(folder: Path) -> Iterator[Path]:
    """Python files of the project, without tests, environments, builds and hidden folders."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if not any(part in SKIPPED or part.startswith((".", "test_")) for part in parts):
            yield path


def unread(folder: Path) -> Sequence[str]:
    """Return the Python files of the project in which no model was looked for: they cannot be parsed."""
    return [path.relative_to(folder).as_posix() for path in files_in(folder) if _statements(path) is None]


def _statements(path: Path) -> Sequence[ast.stmt] | None:
    try:
        return ast.parse(read_bounded(path, SOURCE)).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # a template, another version of Python
        return None


def models_in(path: Path, shown: str) -> Iterator[Found]:
    """Yield the models that a file offers at its top level: functions that return models, and classes of models."""
    body = _statements(path) or ()
    classes = {entry.name: entry for entry in body if isinstance(entry, ast.ClassDef)}
    makes = frozenset(name for name in classes if is_model(name, classes))
    returned: set[str] = set()
    for entry in body:
        if isinstance(entry, ast.FunctionDef) and not required(entry.args) and (told := returns(entry, makes)):
            returned |= told
            yield Found(shown, entry.name)
    for name in sorted(makes - returned, key=lambda name: classes[name].lineno):
        init, forward = method(classes[name], "__init__"), method(classes[name], "forward")
        if forward is not None and (init is None or not required(init.args, bound=True)):
            yield Found(shown, name, tuple(required(forward.args, bound=True)))


def is_model(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """A class that inherits from nn.Module, also through others of the file."""
    bases = [ast.unparse(base) for base in classes[name].bases]
    return any(MODULE.search(base) or (base in classes and base != name and is_model(base, classes)) for base in bases)


def returns(function: ast.FunctionDef, makes: frozenset[str]) -> set[str]:
    """The classes of models that a function returns, alone or first in a tuple; "Module" if its annotation says so."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    firsts = [value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value for value in values]
    assigned = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    made = [assigned.get(first.id, first) if isinstance(first, ast.Name) else first for first in firsts]
    named = {node.id for value in made if value for node in ast.walk(value) if isinstance(node, ast.Name)}
    annotation = ast.unparse(function.returns) if function.returns else ""
    return (named & makes) or ({"Module"} if re.search(r"\bModule\b", annotation) else set())


def method(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((entry for entry in owner.body if isinstance(entry, ast.FunctionDef) and entry.name == name), None)


def required(arguments: ast.arguments, *, bound: bool = False) -> list[str]:
    """Arguments without a default; without `self` where bound."""
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in positional[: len(positional) - len(arguments.defaults)]][bound:]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return names + [argument.arg for argument, default in pairs if default is None]


def named(found: Sequence[Found]) -> Iterator[tuple[Found, str]]:
    """A name for each: that of the function, with the file's before it where two are equal."""
    names = [each.name for each in found]
    taken: set[str] = set()
    for each in found:
        stem = Path(each.path).stem
        name = stem if each.name in ("model", "main") else each.name
        name = name if names.count(each.name) == 1 or name == stem else f"{stem}-{name}"
        again = sum(other == name or other.startswith(f"{name}-") for other in taken)
        taken.add(name := f"{name}-{again + 1}" if name in taken else name)
        yield each, name.lstrip("_")


def table_of(found: Found, name: str) -> str:
    """A `[[model]]` of the manifest."""
    lines = ["", "[[model]]", f"name = {json.dumps(name)}", f"source = {json.dumps(f'{found.path}:{found.name}')}"]
    if found.inputs:
        values = ", ".join(f"{argument} = {json.dumps(guess(argument))}" for argument in found.inputs)
        lines.append(f"inputs = {{ {values} }}  # a guess: give the shapes that the model takes")
    return "\n".join(lines) + "\n"


def guess(argument: str) -> str:
    """A shape that stands for an argument until somebody says better."""
    return "2x16:int64" if argument.endswith(("ids", "mask", "tokens")) else "1x3"
