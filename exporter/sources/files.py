"""Recognition of unsupported files named by SOURCE, from their first bytes and names, with advice."""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from fxport.diagnostics.limits import SOURCE, read_bounded
from fxport.diagnostics.messages import error_line
from fxport.diagnostics.paths import is_special
from fxport.exporter.sources.definition import lines_of
from fxport.exporter.sources.usage import did_you_mean

ZIP, PICKLE = b"PK\x03\x04", b"\x80"
WEIGHTS = "write a function that makes the model, name it as FILE.py:NAME, and give the file with --weights"
MADE = "write a function that makes the module it came from, and name it as FILE.py:NAME"
LOADED = "write a function that loads it and returns (model, args), and name it as FILE.py:NAME"
BY_SUFFIX = {
    ".safetensors": f"holds weights and no model; {WEIGHTS}",
    ".onnx": "is an ONNX model already; `fxport validate` compares one with the model in PyTorch",
    ".gguf": f"holds weights and no model; {WEIGHTS}",
    ".npz": f"holds arrays and no model; {WEIGHTS}",
}
TENSORS = ("torch._utils ", "torch ", "torch.storage ", "collections ", "numpy", "_codecs ", "torch.serialization ")
"""Names that a pickle of plain tensors refers to, as it writes them: module, then name."""
MOST_READ = 1 << 22  # bytes of a pickle: names of classes stand at its beginning


def described(text: str) -> str:
    """A sentence on what the file or folder SOURCE is, and what to write; "" where nothing is known of it."""
    path = Path(text)
    if not path.exists():
        return _missing(path, text)
    if path.is_dir():
        return ""
    if is_special(path):
        return f"'{text}' is no ordinary file, but a device or a pipe."
    if path.suffix == ".py":
        held = _lines_of(path)
        names = ", ".join([name for name in held if not name.startswith("_")][:8])
        return f"'{text}' is a file; say which of its names is the model: {text}:NAME." + (
            f" It has: {names}." if names else ""
        )
    if path.suffix in BY_SUFFIX:
        return f"'{text}' {BY_SUFFIX[path.suffix]}."
    with path.open("rb") as file:
        start = file.read(4)
    if start == ZIP:
        return f"'{text}' {_archive(path)}."
    if start[:1] == PICKLE:
        with path.open("rb") as file:
            return f"'{text}' {_pickle(file.read(MOST_READ))}."
    return ""


def _missing(path: Path, text: str) -> str:
    if ":" in path.name or (not path.suffix and "/" not in text):
        return ""
    folder = path.parent
    near = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    kind = "file" if path.suffix else "folder"
    return f"There is no {kind} '{path}'. {did_you_mean(path.name, near) if len(near) < 200 else ''}".rstrip()


def _lines_of(path: Path) -> Mapping[str, int]:
    """The top-level names of a Python file; none of another one."""
    try:
        return lines_of(read_bounded(path, SOURCE))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the parser's, of deep nesting
        return {}


def _archive(path: Path) -> str:
    """Describe a zip file by the names in it."""
    try:
        return _archive_of_torch(path)
    except Exception as error:  # noqa: BLE001 - anybody's file, of which the library raises what it likes
        return f"is a damaged archive: {error_line(error)}"


def _archive_of_torch(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        inner = {name.partition("/")[2] for name in names}
        if any(name.startswith("code/") for name in inner):
            return f"is a TorchScript model, which cannot be captured; {MADE}"
        if any("archive_format" in name or name.startswith("models/") for name in inner):
            return "is a file of torch.export.save; give it the ending .pt2"
        data = next((name for name in names if name.endswith("/data.pkl")), None)
        if data is None:
            return "is an archive without a model"
        with archive.open(data) as file:
            return _pickle(file.read(MOST_READ))


def _pickle(data: bytes) -> str:
    """A pickle by the classes that it names: weights alone, or a module with them."""
    others = [name for name in _globals(data) if not name.startswith(TENSORS)]
    if others:
        return f"is a pickled {others[0].replace(' ', '.')}, whose code is elsewhere; {LOADED}"
    return f"holds weights (a state dict) and no model; {WEIGHTS}"


def _globals(data: bytes) -> Iterator[str]:
    """The names that a pickle imports, as "module name"; none of it is run."""
    strings: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name in ("GLOBAL", "INST") and isinstance(argument, str):
                yield argument
            elif code.name == "STACK_GLOBAL" and len(strings) > 1:
                yield f"{strings[-2]} {strings[-1]}"
            elif isinstance(argument, str):
                strings.append(argument)
    except ValueError:  # it was cut, or is none
        return
