"""The tables of private parts of PyTorch are complete: every use in the code has a row, whatever form it takes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import sympy
import torch

from fxport.diagnostics.own import PACKAGES
from fxport.exporter.capture.patches.sized_calls import CHECKS
from fxport.exporter.capture.patches.symbolic_calls import CURVES
from fxport.exporter.capture.private import CAPTURE
from fxport.exporter.capture.sizes import remembered
from fxport.exporter.capture.sizes.shortening import METHODS
from fxport.fx_passes.broadcasting import REPLACED
from fxport.fx_passes.private import FX_PASSES, found_by
from fxport.fx_passes.python_numbers import FLOAT_OPERATIONS, INT_OPERATIONS
from tests.exporter.test_torch_private import ROWS, TABLES, members_of
from tests.torch_uses import Use, defined_in, is_hidden, is_private, nodes_of, uses

ROOT = Path(__file__).parents[2]

COMPUTED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("exporter/capture/control_flow/alternatives.py", "Tensor.<name>"): ("_version",),
    ("exporter/capture/patches/sized_calls.py", "functional.<name>"): CHECKS,
    ("exporter/capture/patches/symbolic_calls.py", "torch.<f'_sym_{name}'>"): tuple(
        f"_sym_{each.__name__}" for each in CURVES
    ),
    ("exporter/capture/sizes/remembered.py", "SymNode.<name>"): (*remembered.METHODS, *remembered.READS),
    ("exporter/capture/sizes/shortening.py", "SymNode.<name>"): METHODS,
    ("fx_passes/broadcasting.py", "owner.<name>"): tuple(name for _, name, _ in REPLACED),
    ("fx_passes/python_numbers.py", "SymNode.<name>"): (*FLOAT_OPERATIONS, *INT_OPERATIONS),
}
"""Attributes by a name that is computed: in which file, and the rows that stand for them."""

PUBLIC_COMPUTED = frozenset(
    (
        ("exporter/capture/control_flow/alternatives.py", "owner.<name>"),
        ("exporter/capture/control_flow/merged.py", "owner.<name>"),
        ("exporter/capture/patches/bounded_values.py", "torch.<name>"),
        ("exporter/capture/patches/bounded_values.py", "Tensor.<name>"),
        ("exporter/capture/patches/bounded_values.py", "owner.<name>"),
        ("exporter/capture/patches/known_values.py", "Tensor.<name>"),
        ("exporter/capture/patches/masks.py", "module.<GROUPED>"),
        ("exporter/capture/function_mode.py", "Tensor.<name>"),
        ("exporter/capture/knowledge.py", "torch.<name>"),
        ("exporter/capture/patches/known_constants.py", "Tensor.<name>"),
        ("exporter/capture/patches/known_constants.py", "Tensor.<f'__{name}__'>"),
        ("exporter/capture/patches/overlapping_writes.py", "Tensor.<name>"),
        ("exporter/capture/control_flow/math_calls.py", "torch.<name>"),
        ("exporter/capture/patches/arithmetic.py", "kind.<name>"),
        ("exporter/language_models/folders.py", "torch.<dtype>"),
        ("exporter/lowering/lower/registry.py", "torch.ops.<namespace>"),
        ("exporter/weights/dcp_folders.py", "torch.<name>"),
        ("fx_passes/passes/writes.py", "torch.ops.<namespace>"),
    )
)
"""The same, of public names: functions of tensors and of transformers, operators, dtypes, what Python calls for an
operator."""

OTHERS: Mapping[str, str] = {
    "torch.export._trace.print": "made by us in a module of PyTorch's, before the builtin",
    "adafactor.<name>": "the same: min and max",
    "SymPyValueRangeAnalysis.<_name>": "made by us, for functions that PyTorch does not know",
    "PythonReferenceAnalysis.<_name>": "the same",
    "torch.utils._sympy.reference.PythonReferenceAnalysis.where": "the same",
    ".__repr__": "every class has it",
    "torch.Tensor.__setattr__": "the same",
    "torch.Tensor.__getattr__": "made by us: tensors have none",
    ".__torch_function__": "documented, of every TorchFunctionMode",
    ".saved_tensors": "documented, of the context of torch.autograd.Function",
    ".save_for_backward": "the same",
    ".set_materialize_grads": "the same",
    ".metadata": "of an entry of PyTorch's cache of fake tensors",
    ".__getitem__": "of os.environ",
    ".get_code": "of Python's importlib",
    ".cache_info": "of functools.cache",
    ".cache_clear": "of functools.cache",
    "._attributes": "of Python's ast.AST",
    ".init": "of a dataclass field, and of ray",
    ".AUTO": "documented, of torch.export.Dim",
    ".register_fake": "documented, of what torch.library.custom_op gives",
    ".reshard": "documented, of FSDPModule",
    "._assumptions_orig": "of sympy.Symbol",
    "._repr_base": "of onnx_ir.TensorBase",
    "._from_config": "of transformers' models",
    "._from_model_config": "of transformers' generation settings",
    "._global_mapping": "of transformers' tables of attention functions",
    "._sliding_window_tensor": "of transformers' caches",
    "makers": "a table of transformers'",
    "uses": "a table of transformers'",
    "module.<name>": "functions of other libraries",
    "torch.distributed._shard.sharded_tensor.metadata": "what a checkpoint names, whichever PyTorch has written it",
}
"""Names that are no private part of PyTorch's, with the reason."""


def covered(use: Use, path: str) -> bool:
    """Return whether a use is in a table of its file, or is none."""
    if use.name in OTHERS or (path, use.name) in COMPUTED or (path, use.name) in PUBLIC_COMPUTED:
        return True
    if use.overrides and not hasattr(found_by(_with_colon(use.name.rpartition(".")[0])), use.name.rpartition(".")[2]):
        return True
    parameters, names, full, parts = _of_file(path)
    if use.name.endswith("="):
        return use.name[:-1] in parameters
    if use.name.startswith("."):
        return use.name[1:] in names
    if any(each == use.name or each.startswith(f"{use.name}.") for each in parts):
        return True
    if any(use.name.startswith(f"{each}.__") for each in full):  # `__code__` of a function in the table
        return True
    within, _, last = use.name.rpartition(".")  # a method of a value that is in the table, `OPDEFS.get`
    return within in full and not is_hidden(last) and not isinstance(found_by(_with_colon(within)), (type, ModuleType))


@cache
def _of_file(path: str) -> tuple[frozenset[str], ...]:
    """Return what the rows of a file tell: parameters, last names, full names, and these with their owners."""
    rows = [row for folder, table in TABLES.items() if path.startswith(folder) for row in table]
    full = {name for row in rows for name in row.full_names}
    return (
        frozenset(name for row in rows for name in row.parameters),
        frozenset(name.rpartition(".")[2] for row in rows for name in row.names),
        frozenset(full),
        frozenset({*full, *(row.owner.replace(":", ".") for row in rows)}),
    )


def _with_colon(name: str) -> str:
    """Separate the module from its attribute, by what is imported: "torch._refs:tensor"."""
    module = name.rpartition(".")[0]
    while module not in sys.modules:
        module = module.rpartition(".")[0]
    return f"{module}:{name.removeprefix(module + '.')}"


PUBLIC = (
    *(object, type, BaseException, str, int, float, list, dict, set, tuple, Path, ast.AST),
    *(sympy.Expr, sympy.Symbol, torch.Tensor, torch.nn.Module, torch.fx.Node, torch.fx.Graph, torch.fx.GraphModule),
)
"""Classes whose attributes have a promise."""


@cache
def private_members() -> frozenset[str]:
    """Names of attributes that private classes in the tables have, and neither public ones nor ours."""
    owners = {row.owner for row, _ in ROWS if ":" in row.owner and is_private(row.owner.replace(":", "."))}
    kinds = [kind for kind in map(found_by, owners) if isinstance(kind, type)]
    found = {name for kind in kinds for name in members_of(kind) if not name.startswith("__")}
    of_python = {field for kind in vars(ast).values() for field in getattr(kind, "_fields", ())}
    return frozenset(found - {name for kind in PUBLIC for name in dir(kind)} - of_python - set(own_members()))


def own_members() -> Iterator[str]:
    """Names that classes of ours give to their attributes."""
    for file in (file for room in PACKAGES for file in (ROOT / room).rglob("*.py")):
        for kind in nodes_of(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(kind, ast.ClassDef):
                yield from (each for each in defined_in(kind) if not is_hidden(each))


def breaches(source: str, path: str, members: Collection[str]) -> list[str]:
    """Uses of private parts of PyTorch in a file that are in none of its tables."""
    found = (use for use in uses(source, members) if not covered(use, path))
    return [f"{path}:{use.line}: {use.name} is in no table of private parts of PyTorch" for use in found]


def test_every_use_is_in_a_table() -> None:
    members = private_members()
    files = (file for folder in ("exporter", "fx_passes") for file in sorted((ROOT / folder).rglob("*.py")))
    others = {file.relative_to(ROOT).as_posix(): file for file in files if file.name != "private.py"}
    found = [each for path, file in others.items() for each in breaches(file.read_text("utf-8"), path, members)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("key", COMPUTED)
def test_computed_names_have_rows(key: tuple[str, str]) -> None:
    path, name = key
    assert name in {use.name for use in uses((ROOT / path).read_text("utf-8"))}
    rows = {each for row in (*FX_PASSES, *CAPTURE) for each in row.names}
    assert set(COMPUTED[key]) <= rows


PLANTED = {
    "import of a private module": "import torch._inductor",
    "import under another name": "import torch._inductor.config as config",
    "import of a private name": "from torch.nn.parallel import _functions",
    "import inside of a function": "def f():\n    from torch._inductor import config",
    "import of fx.experimental": "from torch.fx.experimental.symbolic_shapes import DimDynamic",
    "chain": "import torch\ntorch._inductor.list_options()",
    "chain on an imported name": "from torch.nn import functional as F\nF._pad(x)",
    "chain on a private class": "from torch.fx.experimental.sym_node import SymNode\nSymNode.is_symbolic",
    "chain on an alias": "import torch\ninner = torch.nn\ninner._reduction",
    "chain on one of a tuple": "import torch\na, b = torch.nn, torch.optim\nb._functional",
    "chain on a loaded module": "import importlib\nm = importlib.import_module('torch.optim')\nm._multi_tensor",
    "chain on sys.modules": "import sys\nsys.modules['torch.optim']._multi_tensor",
    "attribute of an object": "def f(x):\n    return x._is_zerotensor()",
    "attribute of a private class's object": "def f(env):\n    return env.unbacked_inputs",
    "assignment to one": "def f(env):\n    env.unbacked_inputs[0] = 1",
    "getattr": "import torch\ngetattr(torch, '_inductor')",
    "getattr with a default": "def f(x):\n    return getattr(x, '_is_zerotensor', None)",
    "getattr of a computed name": "import torch\nfor name in 'ab':\n    getattr(torch, name)",
    "import by text": "import importlib\nimportlib.import_module('torch._inductor')",
    "patch of a private name": "from torch.nn import functional\nmock.patch.object(functional, '_pad', f)",
    "patch of a public name": "import torch\nmock.patch.object(torch.nn.Linear, 'forward', f)",
    "patch of an object": "def f(x):\n    mock.patch.object(x, 'extra_repr', f)",
    "patch by text": "mock.patch('torch.nn.Linear.forward', f)",
    "patch of a dictionary": "import torch\nmock.patch.dict(torch.nn.Linear.__dict__, x=1)",
    "setattr": "import torch\nsetattr(torch.nn.Linear, 'forward', f)",
    "assignment to a class": "import torch\ntorch.nn.Linear.forward = f",
    "assignment to an imported class": "from torch.nn import Linear\nLinear.forward = f",
    "assignment in a loop": "from torch import nn\nfor kind in (nn.Linear, nn.Conv2d):\n    kind.forward = f",
    "deletion": "import torch\ndel torch.nn.Linear.forward",
    "keyword": "torch.load(path, _rebuild=True)",
    "override": "from torch.fx.experimental.sym_node import SymNode\nclass N(SymNode):\n    def is_int(self): ...",
    "name that PyTorch looks up": "class E:\n    _torch_unpickler = None",
    "name of a frame": "def f(frame):\n    return frame.f_code.co_name == 'guard_or_false'",
    "names of frames": "def f(frame):\n    return frame.f_code.co_name in ('guard_int', 'guard_or_false')",
    "file of a module": "from torch.nn.modules import rnn\nrnn.__file__",
}
"""What must be found, each in another form."""


@pytest.mark.parametrize("form", PLANTED)
def test_a_planted_use_is_found(form: str) -> None:
    assert breaches(PLANTED[form], "exporter/capture/planted.py", {"unbacked_inputs"})


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("exporter/lowering/lower/walk.py", "def f(x):\n    return x._version"),
        ("exporter/lowering/lower/walk.py", "from torch.fx.experimental.symbolic_shapes import ShapeEnv"),
        ("exporter/capture/fake.py", "from torch._decomp import core_aten_decompositions"),
        ("fx_passes/trace.py", "from torch._refs import tensor"),
    ],
)
def test_rows_hold_for_their_folder(path: str, source: str) -> None:
    assert len(breaches(source, path, ())) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.ops.aten._softmax.default",
        "import torch\naten, prims = torch.ops.aten, torch.ops.prims\naten._softmax.default",
        "import os\nos._exit(0)",
        "class C:\n    def __init__(self):\n        self._own = 1\n    def f(self):\n        return self._own",
        "def f(x):\n    x.name = 'a'",
        "import torch\ntorch.nn.functional.pad",
    ],
)
def test_what_is_public_is_not_found(source: str) -> None:
    assert not breaches(source, "exporter/lowering/lower/walk.py", ())


def test_members_of_private_classes_are_known() -> None:
    assert {"item_memo", "size_like", "source_to_var", "py_kernels", "unbacked_inputs"} <= private_members()
