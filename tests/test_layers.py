"""The imports of the repository, held against the code with `ast`: docs/design.md has the table.

That private parts of PyTorch stay where they belong is held by `exporter/test_torch_uses.py`.

Each check is a function from one source text to its breaches, so that the same function is run on planted violations.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("diagnostics", "fx_passes", "exporter", "ort_runner")
ABOVE = ("exporter.checks", "exporter.cli", "exporter.fxport", "exporter.language_models", "exporter.validation")
MAX_LINES = 400
MAX_PARTS = 14

# What a room may import of ours (itself always included). `above` is a room of its own above all others.
ALLOWED_ROOMS = {
    "diagnostics": {"diagnostics"},
    "fx_passes": {"fx_passes", "diagnostics"},
    "exporter": {"exporter", "fx_passes", "diagnostics"},
    "ort_runner": {"ort_runner", "diagnostics"},
    "above": {*ROOMS, "above"},
}

# What a room must not import of others: each runs on machines or at moments where these are absent or too slow.
FORBIDDEN_LIBRARIES = {
    "diagnostics": {"torch", "onnx", "onnx_ir", "onnxruntime", "numpy", "transformers"},
    "fx_passes": {"onnx", "onnx_ir", "onnxruntime", "transformers"},
    "exporter": {"onnxruntime"},
    "ort_runner": {"torch", "onnx_ir", "transformers"},
    "above": {"transformers"},
}

# The only module that imports the SARIF object model, which costs 180 ms and has no types.
SARIF_MODULE = "diagnostics/sarif/objects.py"

# The packages and modules of exporter.capture in the order of their imports: each imports those in the lines above it.
CAPTURE_ORDER = (
    ("function_mode", "settings", "annotations", "private_transforms"),
    (
        "private",
        "places",
        "wrappers",
        "faults",
        "fake",
        "frames",
        "forward",
        "subclasses",
        *("float64", "bounds", "input_types"),
        *("holders", "knowledge", "regions"),
    ),
    ("streams", "own_limits"),
    ("reachable",),
    ("snapshot",),
    ("arguments", "guards", "analysis"),
    ("sizes", "rewritten", "functional"),
    ("patches", "program", "overcome"),
    ("failures",),
    ("control_flow", "eager", "repeated", "request"),
    ("contexts", "exported", "further"),
    ("attempts",),
    ("self_check",),
    ("results",),
    ("branched",),
    ("driver",),
    ("__init__",),
)
AGAINST_THE_ORDER = {
    ("patches", "control_flow"): "symbolic_calls takes the functions of found_places into its table of functions",
}

# The packages of exporter above the export itself, in the order of their imports; all others are below them.
ABOVE_THE_EXPORT = ("sources", "validation", "language_models", "checks", "cli")

# What a lazy package may import when it is imported: nothing that pulls torch in.
LIGHT = {
    "exporter/fxport/__init__.py": ("__future__", "importlib", "typing"),
    "exporter/checks/pytest_plugin.py": ("__future__", "collections", "dataclasses", "pathlib", "pytest", "typing"),
    "exporter/cli/__init__.py": (
        "__future__",
        "collections",
        "importlib",
        "shlex",
        "sys",
        "traceback",
        "typer",
        "typing",
        "fxport.exporter.cli.exit_codes",
        "fxport.exporter.sources.usage",
    ),
}


@cache
def parsed(source: str) -> ast.Module:
    """Parse a text, once for all checks."""
    return ast.parse(source)


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module or attribute, absolute, at its line."""

    name: str
    line: int


def imports_of(tree: ast.AST, path: str) -> Iterator[Import]:
    """All names imported anywhere in a file, relative ones resolved; `import_module("…")` with a literal counts too."""
    package = module_of(path, ".py").split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)
        if isinstance(node, ast.Call) and dotted(node.func) in {"import_module", "importlib.import_module"}:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield Import(first.value, node.lineno)


def dotted(node: ast.expr) -> str | None:
    """`torch.fx.Node` for the expression that reads it, None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted(node.value)) is not None:
        return f"{base}.{node.attr}"
    return None


def module_of(path: str, suffix: str = "/__init__") -> str:
    """The dotted name of a file: the folders of the repository are packages within `fxport`."""
    return f"fxport/{path}".removesuffix(".py").removesuffix(suffix).replace("/", ".")


def room_of(module: str) -> str:
    """The package within `fxport` of a dotted name of ours; `above` for what stands above all, `fxport` itself too."""
    within = module.removeprefix("fxport.")
    room = within.split(".")[0]
    above = room not in ROOMS or any(within == name or within.startswith(f"{name}.") for name in ABOVE)
    return "above" if above else room


def room_breaches(source: str, path: str) -> list[str]:
    """Imports against the arrows diagnostics ← fx_passes ← exporter ← above → ort_runner → diagnostics."""
    room = room_of(module_of(path))
    breaches = []
    for found in imports_of(parsed(source), path):
        top = found.name.split(".")[0]
        target = room_of(found.name) if top == "fxport" else ""
        if top in ROOMS:
            breaches.append(f"{path}:{found.line}: {found.name} is called fxport.{found.name}")
        if target in (*ROOMS, "above") and target not in ALLOWED_ROOMS[room]:
            breaches.append(f"{path}:{found.line}: {room} must not import {found.name}")
        if top in FORBIDDEN_LIBRARIES[room]:
            breaches.append(f"{path}:{found.line}: {room} must not import the library {top}")
    return breaches


def capture_breaches(source: str, path: str) -> list[str]:
    """Imports inside of exporter.capture against CAPTURE_ORDER, but for those of AGAINST_THE_ORDER."""
    levels = {part: level for level, line in enumerate(CAPTURE_ORDER) for part in line}
    part = path.removeprefix("exporter/capture/").removesuffix(".py").split("/")[0]
    if part not in levels:
        return [f"{path}: {part} has no place in the order of imports of exporter.capture"]
    targets = [(found, target) for found, target in _capture_parts(source, path) if target != part]
    return [
        f"{path}:{found.line}: {part} must not import {found.name}, which is not above it in CAPTURE_ORDER"
        for found, target in targets
        if levels.get(target, len(levels)) >= levels[part] and (part, target) not in AGAINST_THE_ORDER
    ]


def _capture_parts(source: str, path: str) -> Iterator[tuple[Import, str]]:
    """Imports of exporter.capture, each with the package or module of it that is imported."""
    for found in imports_of(parsed(source), path):
        if found.name.startswith("fxport.exporter.capture."):
            yield found, found.name.split(".")[3]


def order_breaches(source: str, path: str) -> list[str]:
    """Imports inside of exporter against ABOVE_THE_EXPORT: nothing imports a package that is above it."""
    levels = {part: level for level, part in enumerate((*ABOVE_THE_EXPORT, "fxport"), start=1)}
    part = path.removeprefix("exporter/").removesuffix(".py").split("/")[0]
    found = [each for each in imports_of(parsed(source), path) if each.name.startswith("fxport.")]
    targets = [
        (each, parts[2] if parts[1] == "exporter" else "fxport" if parts[1] not in ROOMS else "")
        for each, parts in ((each, [*each.name.split("."), ""]) for each in found)
    ]
    return [
        f"{path}:{each.line}: {part} must not import {each.name}, which is above it"
        for each, target in targets
        if levels.get(target, 0) > levels.get(part, 0)
    ]


def test_exceptions_from_the_order_are_needed() -> None:
    files = [path for path in production() if path.is_relative_to(ROOT / "exporter/capture")]
    relative = ((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in files)
    used = {(path.split("/")[2], part) for path, source in relative for _, part in _capture_parts(source, path)}
    assert AGAINST_THE_ORDER.keys() <= used


def circle_in(sources: Mapping[str, str]) -> list[str]:
    """The modules of a circle of imports among files, by their paths; empty where there is none."""
    modules = {module_of(path): path for path in sources}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        body = ast.Module(body=list(run_on_import(parsed(sources[path]).body)), type_ignores=[])
        names = [found.name for found in imports_of(body, path)]
        found = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in found if name in modules and not module.startswith(f"{name}.")} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_circles() -> None:
    """Among imports that run at once; a package's `__init__` may import what is within it."""
    assert not circle_in({path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in production()})


def test_a_planted_circle_is_found() -> None:
    sources = {
        "exporter/a.py": "from fxport.exporter import b",
        "exporter/b.py": "from fxport.exporter.c import f",
        "exporter/c.py": "",
    }
    assert not circle_in(sources)
    circle = circle_in({**sources, "exporter/c.py": "import fxport.exporter.a"})
    assert sorted({*circle}) == ["fxport.exporter.a", "fxport.exporter.b", "fxport.exporter.c"]


def sarif_breaches(source: str, path: str) -> list[str]:
    """`sarif_om` anywhere but in its one module."""
    found = [f for f in imports_of(parsed(source), path) if f.name.split(".")[0] == "sarif_om"]
    return [] if path == SARIF_MODULE else [f"{path}:{f.line}: only {SARIF_MODULE} imports sarif_om" for f in found]


def run_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported, without those under `if TYPE_CHECKING`."""
    for statement in body:
        if isinstance(statement, ast.If) and dotted(statement.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            yield from run_on_import(statement.orelse)
        elif isinstance(statement, ast.ClassDef):
            yield from run_on_import(statement.body)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement


def lazy_breaches(source: str, path: str) -> list[str]:
    """Imports that a package runs at once, where it has promised to be lazy."""
    module = ast.Module(body=list(run_on_import(parsed(source).body)), type_ignores=[])
    light = LIGHT[path]
    eager = [
        found for found in imports_of(module, path) if not f"{found.name}.".startswith(tuple(f"{n}." for n in light))
    ]
    return [f"{path}:{found.line}: {path} is lazy; it must not import {found.name} at once" for found in eager]


def length_breaches(source: str, path: str) -> list[str]:
    """Files that hold more than one idea."""
    lines = len(source.splitlines())
    return [f"{path}: {lines} lines, more than {MAX_LINES}; split it"] if lines > MAX_LINES else []


def parts_of(folder: Path) -> list[str]:
    """The packages and modules that are directly in a folder."""
    packages = [path.parent.name for path in folder.glob("*/__init__.py")]
    return sorted([*packages, *(path.stem for path in folder.glob("*.py") if path.stem != "__init__")])


def test_the_exporter_has_few_parts() -> None:
    parts = parts_of(ROOT / "exporter")
    assert len(parts) <= MAX_PARTS, f"{len(parts)} packages and modules directly in exporter/: {', '.join(parts)}"


def test_parts_are_packages_and_modules(tmp_path: Path) -> None:
    for name in ("__init__.py", "one.py", "two/__init__.py", "two/three.py", "data/table.tsv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert parts_of(tmp_path) == ["one", "two"]


def production() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def everything() -> list[Path]:
    others = [path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return production() + sorted(others)


CHECKS = {
    "rooms": (room_breaches, production),
    "capture": (capture_breaches, lambda: sorted((ROOT / "exporter/capture").rglob("*.py"))),
    "order": (order_breaches, lambda: sorted((ROOT / "exporter").rglob("*.py"))),
    "sarif_om": (sarif_breaches, production),
    "lazy": (lazy_breaches, lambda: [ROOT / path for path in LIGHT]),
    "length": (length_breaches, everything),
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_picture_holds(name: str) -> None:
    check, files = CHECKS[name]
    paths = files()
    assert paths, f"no files for the check {name}: has a room moved?"
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    breaches = [breach for path, text in texts.items() for breach in check(text, path)]
    assert not breaches, "\n".join(breaches)


PLANTED = [
    ("rooms", "diagnostics/log.py", "import fxport.fx_passes.base"),
    ("rooms", "diagnostics/log.py", "def f():\n    import torch"),
    ("rooms", "diagnostics/log.py", "if TYPE_CHECKING:\n    from numpy import ndarray"),
    ("rooms", "fx_passes/graph.py", "from fxport.exporter.lowering import lowerings"),
    ("rooms", "fx_passes/passes/fold.py", "import onnx_ir as ir"),
    ("rooms", "exporter/pipeline/stages.py", "from fxport.ort_runner import validate"),
    ("rooms", "exporter/pipeline/stages.py", "import importlib\nimportlib.import_module('onnxruntime')"),
    ("rooms", "exporter/pipeline/stages.py", "from ..cli import main"),
    ("rooms", "exporter/pipeline/stages.py", "from fxport import Log"),
    ("rooms", "exporter/lowering/lower/walk.py", "from ...cli import main"),
    ("rooms", "ort_runner/session.py", "from torch import Tensor"),
    ("rooms", "ort_runner/session.py", "import fxport.exporter"),
    ("rooms", "ort_runner/session.py", "import ort_runner.compare"),
    ("capture", "exporter/capture/guards/askers.py", "from fxport.exporter.capture.sizes.shapes import Request"),
    ("capture", "exporter/capture/sizes/shapes.py", "from fxport.exporter.capture.attempts import ATTEMPTS"),
    ("capture", "exporter/capture/places.py", "def f():\n    from fxport.exporter.capture import faults"),
    ("capture", "exporter/capture/patches/scans.py", "from fxport.exporter.capture.failures import TABLE"),
    ("capture", "exporter/capture/unplaced.py", ""),
    ("capture", "exporter/capture/patches/scans.py", "from ..unplaced import f"),
    ("order", "exporter/validation/request.py", "from fxport.exporter.cli.export import command"),
    ("order", "exporter/sources/source.py", "def f():\n    from fxport.exporter.validation import reference"),
    ("order", "exporter/capture/places.py", "from fxport.exporter.sources.source import Source"),
    ("order", "exporter/checks/pool.py", "from fxport import export"),
    ("sarif_om", "diagnostics/text.py", "import sarif_om"),
    ("sarif_om", "diagnostics/sarif/build.py", "def f():\n    import sarif_om"),
    ("sarif_om", "exporter/cli/export.py", "from sarif_om import Result"),
    ("lazy", "exporter/fxport/__init__.py", "from fxport.exporter.pipeline.stages import export"),
    ("lazy", "exporter/cli/__init__.py", "from fxport.exporter.cli.export import command"),
    ("lazy", "exporter/fxport/__init__.py", "try:\n    import torch\nexcept ImportError:\n    pass"),
    ("length", "exporter/pipeline/stages.py", "x = 1\n" * (MAX_LINES + 1)),
]


@pytest.mark.parametrize(("name", "path", "source"), PLANTED)
def test_a_planted_violation_is_red(name: str, path: str, source: str) -> None:
    check, _ = CHECKS[name]
    assert len(check(source, path)) == 1


def test_every_room_tells_its_types() -> None:
    """By the marker of PEP 561: without it type checkers look at nothing of an installed package."""
    assert [room for room in ROOMS if not (ROOT / room / "py.typed").exists()] == []


FINE = [
    (
        "rooms",
        "exporter/cli/export.py",
        "import onnxruntime\nfrom fxport.ort_runner import validate\nfrom fxport import export",
    ),
    ("rooms", "exporter/checks/pytest_plugin.py", "from fxport.ort_runner import validate"),
    (
        "rooms",
        "exporter/lowering/lower/walk.py",
        "from .registry import LOWERINGS\nfrom fxport.fx_passes import Program",
    ),
    ("capture", "exporter/capture/sizes/shapes.py", "from fxport.exporter.capture.guards.guard import Guard"),
    (
        "capture",
        "exporter/capture/sizes/shapes.py",
        "from .conditions import f\nfrom fxport.exporter import options",
    ),
    ("order", "exporter/cli/export.py", "from fxport.exporter.validation.request import Request"),
    ("sarif_om", "diagnostics/sarif/objects.py", "def f():\n    import sarif_om"),
    ("lazy", "exporter/fxport/__init__.py", "if TYPE_CHECKING:\n    import torch\ndef f():\n    import torch"),
    ("length", "exporter/pipeline/stages.py", "x = 1\n" * MAX_LINES),
]


@pytest.mark.parametrize(("name", "path", "source"), FINE)
def test_what_is_allowed_is_green(name: str, path: str, source: str) -> None:
    check, _ = CHECKS[name]
    assert check(source, path) == []
