"""Example inputs from the command line: `--input`, `--inputs`, and whether they fit `forward`."""

from __future__ import annotations

import inspect
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Union, get_args, get_origin

from fxport.diagnostics.limits import ARRAYS, require_unpackable
from fxport.diagnostics.messages import error_line
from fxport.exporter.sources.masks import with_masks
from fxport.exporter.sources.paths import nested
from fxport.exporter.sources.source import Source, require_file
from fxport.exporter.sources.usage import UsageError, did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SHAPE = re.compile(r"scalar|\d{1,18}(x\d{1,18})*")
NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})(e[+-]?\d{1,18})?", re.IGNORECASE)
RANGE = re.compile(r"(-?\d{1,20})\.\.(-?\d{1,20})")
WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}
QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
STRING = re.compile(r"(typing\.)?(Optional\[)?(str|(typing\.)?Literal\[['\"].*\])\]?(\|None)?")
BARE = re.compile(r"[A-Za-z_][\w-]*")

# Whole numbers are drawn from 0 and 1 unless a range is given: valid in a mask, as a token, as a token type.
WHOLE_RANGE = (0, 1)
SEED = 0

FORMS = (
    "write NAME=2x16:int64, NAME=2x16:int64:0..999, NAME=3:float32 for a vector, NAME=scalar:float32, "
    "NAME=1.5 for a Python number, NAME=\"'text'\" for a string, or NAME.KEY=2x16 for a value of a dict or list"
)

SHORT = {
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
}
SHORT |= {"f64": "float64", "i8": "int8", "i32": "int32", "i64": "int64", "u8": "uint8", "boolean": "bool"}
"""Names of dtypes as other programs have them, and torch's."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A tensor of random values: `name=2x16:int64:0..999`. The bounds are inclusive and for whole numbers only."""

    shape: tuple[int, ...]
    dtype: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Word:
    """A word without quotes, `mode=fast`: a string for an argument that takes strings, else a mistake."""

    text: str


Given = Drawn | Word | float | int | bool | str | None
"""Values of one `--input`, as they are read."""


def parse_input(text: str) -> tuple[str, Given]:
    """One `--input` → its name, and what it shall be. `2x16` alone is float32; a lone number is a Python number."""
    name, equals, value = text.partition("=")
    if not equals or not name.partition(".")[0].isidentifier():
        raise UsageError(f"--input '{text}' has no NAME=; {FORMS}.")
    shape, *rest = value.split(":")
    if not rest and value.lower() in WORDS:
        return name, WORDS[value.lower()]
    if not rest and NUMBER.fullmatch(value):
        return name, int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)
    if quoted := QUOTED.fullmatch(value):
        return name, quoted[1] if quoted[1] is not None else quoted[2]
    if value != "scalar" and BARE.fullmatch(value):
        return name, Word(value)
    if not SHAPE.fullmatch(shape) or len(rest) > 2:
        raise UsageError(f"--input '{text}' has no shape that can be read; {FORMS}.")
    dtype = rest[0] if rest else "float32"
    low, high = parse_range(rest[1], text) if len(rest) == 2 else WHOLE_RANGE
    dims = () if shape == "scalar" else tuple(int(size) for size in shape.split("x"))
    return name, Drawn(dims, dtype, low, high)


def parse_range(value: str, text: str) -> tuple[int, int]:
    """`0..999` → (0, 999)."""
    match = RANGE.fullmatch(value)
    if match is None or int(match[1]) > int(match[2]):
        raise UsageError(f"--input '{text}' has no range that can be read; {FORMS}.")
    return int(match[1]), int(match[2])


def numbers_given(texts: Sequence[str]) -> dict[str, int]:
    """The whole numbers among `--input` options by name, each of which may have been meant as the size of a vector."""
    values = dict(parse_input(text) for text in texts)
    return {name: value for name, value in values.items() if type(value) is int}


def dtypes() -> dict[str, torch.dtype]:
    """All dtypes of torch by all their names: `float32`, `float`, `half`, `int64`, `long`, …"""
    import torch

    return {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}


def draw(drawn: Drawn, text: str, generator: torch.Generator) -> Tensor:
    """Normal values for floating and complex dtypes, uniform ones for whole numbers and bool."""
    import torch

    known = dtypes()
    if drawn.dtype not in known:
        meant = SHORT.get(drawn.dtype.lower())
        advice = (
            f"Did you mean '{meant}'?"
            if meant
            else did_you_mean(drawn.dtype, known) or "Names are those of torch, such as float32, int64, bool."
        )
        raise UsageError(f"--input '{text}' has the unknown dtype '{drawn.dtype}'. {advice}")
    dtype = known[drawn.dtype]
    bounds = (0, 1) if dtype is torch.bool else range_of(dtype)
    if bounds and not bounds[0] <= drawn.low <= drawn.high <= bounds[1]:
        raise UsageError(f"--input '{text}': {drawn.dtype} holds {bounds[0]} to {bounds[1]} only; narrow the range.")
    try:
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.complex64 if dtype.is_complex else torch.float32
            return torch.randn(drawn.shape, generator=generator, dtype=wide).to(dtype)
        return torch.randint(drawn.low, drawn.high + 1, drawn.shape, generator=generator).to(dtype)
    except RuntimeError as error:
        raise UsageError(
            f"--input '{text}' cannot be made: {error_line(error)}; choose another shape or dtype."
        ) from error


def range_of(dtype: torch.dtype) -> tuple[int, int] | None:
    """The whole numbers that a dtype holds; None for floating and complex dtypes, which take no range."""
    import torch

    if dtype.is_floating_point or dtype.is_complex:
        return None
    info = torch.iinfo(dtype)
    # The generator draws from int64 below its last number, whatever the dtype.
    return info.min, min(info.max, torch.iinfo(torch.int64).max - 1)


def drawn_inputs(texts: Sequence[str], worded: Collection[str] = ()) -> dict[str, object]:
    """All `--input` options → values by name, the same in every run. `worded` are the arguments that take strings."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    values: dict[str, object] = {}
    for text in texts:
        name, value = parse_input(text)
        if name in values:
            raise UsageError(f"--input gives '{name}' twice; give it once.")
        if isinstance(value, Word):
            values[name] = word(value, name, text, worded)
        else:
            values[name] = draw(value, text, generator) if isinstance(value, Drawn) else value
    return values


def word(value: Word, name: str, text: str, worded: Collection[str]) -> str:
    """The string that a word without quotes is; refused for an argument that is not known to take strings."""
    if name in worded:
        return value.text
    raise UsageError(
        f"--input '{text}' has no shape that can be read; if '{name}' is the string '{value.text}', write "
        f"--input \"{name}='{value.text}'\"; else {FORMS}."
    )


def takes_strings(parameter: inspect.Parameter) -> bool:
    """Return True if an argument has a string as its default, or is annotated as `str` or a `Literal` of strings."""
    meant = parameter.annotation
    if isinstance(parameter.default, str):
        return True
    if isinstance(meant, str):  # in a file with `from __future__ import annotations`
        return STRING.fullmatch(meant.replace(" ", "")) is not None
    if get_origin(meant) is Literal:
        return all(isinstance(each, str) for each in get_args(meant))
    return meant is str or (get_origin(meant) in {Union, UnionType} and str in get_args(meant))


def stored_inputs(path: Path) -> dict[str, object]:
    """`--inputs FILE`: arrays of an .npz or tensors of a .pt, by the names of forward's arguments."""
    require_file(path)
    if path.suffix not in READERS:
        raise UsageError(f"--inputs '{path}' is neither .npz nor .pt; save it with numpy.savez or torch.save.")
    try:
        values = READERS[path.suffix](path)
    except Exception as error:  # zipfile, numpy and torch each raise their own kinds on a foreign file
        raise UsageError(f"--inputs '{path}' cannot be read: {error_line(error)}; save it again.") from error
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise UsageError(
            f"--inputs '{path}' holds a {type(values).__name__}; save a dict from argument names to tensors."
        )
    return dict(values)


def read_npz(path: Path) -> object:
    import numpy
    import torch

    if zipfile.is_zipfile(path):
        require_unpackable(path, ARRAYS)
    arrays = numpy.load(path, allow_pickle=False)
    if not isinstance(arrays, numpy.lib.npyio.NpzFile):
        return arrays
    with arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def read_pt(path: Path) -> object:
    from fxport.exporter.weights.pickles import load_restricted

    return load_restricted(path)


READERS = {".npz": read_npz, ".pt": read_pt}


def with_inputs(source: Source, texts: Sequence[str], stored: Sequence[Path]) -> Source:
    """The source with the inputs of the command line over its own, checked against the signature of `forward`.

    Of several files each is a sample, called by its path: the first is the example, the others are further calls.
    """
    from torch.export import ExportedProgram

    if len({path.resolve() for path in stored}) < len(stored):
        raise UsageError(f"--inputs names a file twice ({', '.join(map(str, stored))}); name each once.")
    parameters = {} if isinstance(source.model, ExportedProgram) else inspect.signature(source.model.forward).parameters
    worded = {name for name, each in parameters.items() if takes_strings(each)}
    drawn, first = drawn_inputs(texts, worded), stored_inputs(stored[0]) if stored else {}
    told = "" if drawn or not stored else str(stored[0])
    example = with_sample(source, first | drawn, told)
    if len(stored) < 2:
        return example
    others = {str(path): with_sample(source, stored_inputs(path) | drawn, str(path)) for path in stored[1:]}
    further = {label: (other.args or (), other.kwargs) for label, other in others.items()}
    return replace(example, label=str(stored[0]), further=further)


def with_sample(source: Source, named: Mapping[str, object], file: str = "") -> Source:
    """The source with inputs by name over its own. `file` is where they come from, to be told."""
    from torch.export import ExportedProgram

    if isinstance(source.model, ExportedProgram):
        return with_program_inputs(source, named)
    if getattr(source.model.forward, "__name__", "") == "_forward_unimplemented":  # what nn.Module has
        raise UsageError(f"'{source.name}' has no method forward; write one, or name the model that has it.")
    signature = inspect.signature(source.model.forward)
    if named:
        named = nested(named, signature, own_values(source, signature))
        refuse_unknown(named, signature, file)
        if source.guessed:
            refuse_misspelt(named, signature)
        named = with_masks(named, {mask: of for mask, of in source.masks.items() if of in named and mask not in named})
        source = with_named(source, named, signature)
        source = replace(source, dynamic_shapes=asked_still(source, named)) if source.guessed else source
    elif source.args is None and any(is_required(parameter) for parameter in signature.parameters.values()):
        raise UsageError(
            f"'{source.name}' comes without example inputs; give them with --input or --inputs for "
            f"forward{signature}, e.g. {example(signature)}, or let SOURCE return (model, args)."
        )
    args = source.args or ()
    try:
        signature.bind(*args, **source.kwargs)
    except TypeError as error:
        refuse_unknown(source.kwargs, signature, "" if named else source.name)
        held = f" of '{file}'" if file else ""
        cure = FORMS if named else "let SOURCE return (model, args, kwargs) that forward takes"
        raise UsageError(
            f"The inputs{held} do not fit forward{signature} of '{source.name}': {error}; {cure}."
        ) from error
    return replace(source, args=args)


def with_program_inputs(source: Source, named: Mapping[str, object]) -> Source:
    """An exported program keeps the inputs that it was captured with: its dims and branches were decided on them."""
    if named:
        raise UsageError(f"'{source.name}' is already captured with its own inputs; leave --input and --inputs out.")
    if source.args is None:
        raise UsageError(
            f"'{source.name}' holds no example inputs; save it again with the inputs it was captured with."
        )
    return source


def with_named(source: Source, named: Mapping[str, object], signature: inspect.Signature) -> Source:
    """Values by name into the places of a call: over the source's own, positional as long as no gap comes before."""
    own = own_values(source, signature)
    catch_all = {
        p.name: own.pop(p.name) for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD and p.name in own
    }
    values = own | {key: value for inner in catch_all.values() for key, value in inner.items()} | dict(named)
    args: list[object] = []
    for parameter in signature.parameters.values():
        if parameter.name not in values or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD}:
            break
        value = values.pop(parameter.name)
        args.extend(value if parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, tuple) else [value])
    return replace(source, args=tuple(args), kwargs=values)


def own_values(source: Source, signature: inspect.Signature) -> dict[str, Any]:
    """The source's own inputs by argument; none where they do not fit: the command line's then stand for all."""
    try:
        return dict(signature.bind_partial(*(source.args or ()), **source.kwargs).arguments)
    except TypeError:
        return {}


def asked_still(source: Source, named: Mapping[str, object]) -> object:
    """The dims of a source whose dims are guessed, without those that an input of the user's has the size 1 of.

    PyTorch may keep such a size as it is, and nobody has asked for it to vary.
    """
    dims = dict(source.dynamic_shapes or {})
    for name, value in named.items():
        shape = getattr(value, "shape", ())
        dims[name] = {axis: dim for axis, dim in dict(dims.get(name) or {}).items() if shape[axis] != 1}
    return {name: axes for name, axes in dims.items() if axes} or None


def refuse_unknown(named: Iterable[str], signature: inspect.Signature, file: str = "") -> None:
    """Refuse names that `forward` does not have, unless it takes any. `file` is where they come from."""
    parameters = signature.parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in named:
        if name not in parameters:
            unknown_input(name, parameters, file)


def refuse_misspelt(named: Iterable[str], signature: inspect.Signature) -> None:
    """Refuse names that are nearly those of `forward`, which takes any: models of transformers pass others on.

    Such an input would be one of the model, and without effect.
    """
    named_ones = [name for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD]
    for name in named:
        if name not in named_ones and did_you_mean(name, named_ones).startswith("Did"):
            unknown_input(name, named_ones)


def unknown_input(name: str, known: Iterable[str], file: str = "") -> NoReturn:
    held = f", which '{file}' gives" if file else ""
    raise UsageError(f"forward has no argument '{name}'{held}. {did_you_mean(name, known)}".rstrip())


def is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in {
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    }


def example(signature: inspect.Signature) -> str:
    """The options that a user would type for the required arguments."""
    required = [parameter.name for parameter in signature.parameters.values() if is_required(parameter)]
    return " ".join(f"--input {example_of(name)}" for name in required)


def example_of(name: str) -> str:
    """A value of an argument as a user would type it, guessed from its name."""
    return f"{name}=2x16:int64" if name.endswith(("ids", "mask")) else f"{name}=1x3"
