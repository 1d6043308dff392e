"""Samples: the inputs of a model and what PyTorch made of them, as values and as one .npz file without pickles."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fxport.diagnostics.limits import ARRAYS, require_unpackable
from fxport.diagnostics.paths import written_whole
from fxport.ort_runner.dtypes import BY_NAME, FLOAT, element_of

FORMAT, VERSION, HEADER = "fxport-samples", 1, "header"
OPTIONAL = ("exact", "draws")
UNREPEATABLE, STATEFUL = "unrepeatable", "stateful"
Arrays = Mapping[str, np.ndarray]
Choices = Callable[[], Iterator[tuple[str, Arrays, Arrays | None]]]


@dataclass(frozen=True, slots=True)
class Samples:
    """One run of the model in PyTorch. Keys are ONNX names, in the order of the model's inputs and outputs.

    `exact` holds the outputs of the same run in float64, as far as there are any: the yardstick of the error budget.
    `draws` holds the outputs that PyTorch draws at random, each of shape [runs, ...] over several runs. `doubts` names
    the outputs that a second call of PyTorch gives otherwise: UNREPEATABLE ones are not compared by value, STATEFUL
    ones are, but to be equal says little of them. `is_extra` says that there was time for this run, which may not be so
    the next time, `may_fail` that ONNX Runtime may refuse these inputs. `roundings` calls PyTorch again with each
    operation rounded a little otherwise, and gives outputs of shape [runs, ...]; `choices` calls it again with each
    choice among equal elements made otherwise, and gives (which of them, outputs, those in float64). Neither is saved.
    `is_made` says that no user gave these inputs, so that what is open or inexact there is nobody's concern. Types that
    numpy lacks are ml_dtypes arrays. Raises ValueError for a type that
    ONNX Runtime has no tensors of, and for an exact output whose shape is not that of the output.
    """

    label: str
    inputs: Arrays
    outputs: Arrays
    exact: Arrays | None = None
    draws: Arrays | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)
    is_extra: bool = False
    may_fail: bool = False
    roundings: Callable[[], Arrays] | None = field(default=None, compare=False, repr=False)
    choices: Choices | None = field(default=None, compare=False, repr=False)
    is_made: bool = False

    def __post_init__(self) -> None:
        for group in ("inputs", "outputs", "exact", "draws"):
            arrays = getattr(self, group)
            if arrays is not None:
                held = {name: _native(f"{group}['{name}']", array) for name, array in arrays.items()}
                object.__setattr__(self, group, MappingProxyType(held))
        object.__setattr__(self, "doubts", MappingProxyType(dict(self.doubts)))
        for name, value in (self.exact or {}).items():
            want = self.outputs.get(name)
            if want is None or want.shape != value.shape:
                found = "there is no such output" if want is None else f"the output has shape {list(want.shape)}"
                raise ValueError(f"exact '{name}' has shape {list(value.shape)}, but {found}")
            if element_of(want.dtype).kind == FLOAT and value.dtype != np.float64:
                raise ValueError(f"exact '{name}' is {value.dtype.name}, but must be float64")

    def only(self, outputs: Collection[str]) -> Samples:
        """The samples with these of their outputs."""

        def kept(arrays: Arrays | None) -> Arrays | None:
            return None if arrays is None else {name: array for name, array in arrays.items() if name in outputs}

        own = {name: array for name, array in self.outputs.items() if name in outputs}
        return replace(self, outputs=own, exact=kept(self.exact), draws=kept(self.draws))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write this one to `path`, whole or not at all."""
        return save_all(path, [self])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Samples:
        """Read a file that holds one. Raises ValueError as `load_all` does, and if it holds several."""
        samples = load_all(path)
        if len(samples) != 1:
            raise ValueError(f"{path}: holds {len(samples)} samples, not one: use load_all")
        return samples[0]


def save_all(path: str | os.PathLike[str], samples: Sequence[Samples]) -> Path:
    """Write several to one .npz, whole or not at all: a JSON header with names and types, and the bytes of each."""
    target = Path(path)
    stored: dict[str, np.ndarray] = {}
    records = [
        {"label": s.label, "inputs": _put(s.inputs, stored), "outputs": _put(s.outputs, stored)}
        | {part: _put(arrays, stored) for part in OPTIONAL if (arrays := getattr(s, part)) is not None}
        | ({"doubts": dict(s.doubts)} if s.doubts else {})
        for s in samples
    ]
    header = json.dumps({"format": FORMAT, "version": VERSION, "samples": records}).encode()
    with written_whole(target) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{HEADER: np.frombuffer(header, np.uint8)}, **stored)
    return target


def load_all(path: str | os.PathLike[str]) -> tuple[Samples, ...]:
    """Read what `save_all` wrote. Raises ValueError, with one line, for anything else; never reads a pickle."""
    try:
        if zipfile.is_zipfile(path):
            require_unpackable(path, ARRAYS)
        # Opened here, because numpy leaves a file open that turns out to be no archive.
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array, not an .npz")
            return _read(archive)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy, zipfile and tokenize each raise their own kinds for a foreign file
        raise ValueError(f"{path}: is no file of samples: {' '.join(str(error).split())}") from error


def _read(archive: Mapping[str, np.ndarray]) -> tuple[Samples, ...]:
    if HEADER not in archive:
        raise ValueError("it has no header")
    header = json.loads(archive[HEADER].tobytes())
    if header["format"] != FORMAT or header["version"] != VERSION:
        raise ValueError(f"its format is '{header['format']}' version {header['version']}")
    return tuple(
        Samples(
            str(record["label"]),
            _get(record["inputs"], archive),
            _get(record["outputs"], archive),
            **{part: _get(record[part], archive) for part in OPTIONAL if part in record},  # type: ignore[arg-type]
            doubts={str(name): str(kind) for name, kind in record.get("doubts", {}).items()},
        )
        for record in header["samples"]
    )


def _put(arrays: Arrays, stored: dict[str, np.ndarray]) -> list[list[str]]:
    """Store the bytes under numbered keys, because names may hold any character; return [name, key, type] of each."""
    rows = []
    for name, array in arrays.items():
        element, key = element_of(array.dtype), f"a{len(stored)}"
        stored[key] = array if element.native else array.view(element.raw)
        rows.append([name, key, element.name])
    return rows


def _get(rows: Sequence[Sequence[str]], archive: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = {}
    for name, key, type_name in rows:
        element, array = BY_NAME[type_name], archive[key]
        if array.dtype != (element.dtype if element.native else element.raw):
            raise ValueError(f"'{name}' should be {type_name}, but is stored as {array.dtype.name}")
        arrays[name] = array.view(element.dtype)
    return arrays


def _native(what: str, array: np.ndarray) -> np.ndarray:
    """The array in the byte order of this machine."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{what} is a {type(array).__name__}, not a numpy array")
    try:
        element = element_of(array.dtype)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    return array if array.dtype == element.dtype else array.astype(element.dtype)
