"""Hostile files of tensors: safetensors, indexes of shards, torch.save, torch.export.save, arrays of numpy."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.hostile.cases import Case, Code, Make, archive, code_pickle, in_memory, sparse, writes

WEIGHTS = ("export", "net.py:net", "--no-validate", "--weights")
INPUTS = ("export", "net.py:net", "--no-validate", "--inputs")
ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
GLOBAL = b"\x80\x02cos\nsystem\nX\x08\x00\x00\x00touch ran\x85R."
EVAL = b"\x80\x02cbuiltins\neval\nX\x10\x00\x00\x00open('ran', 'w')\x85R."


def safetensors(header: object, values: bytes = bytes(24), length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + values


def with_entry(**changed: object) -> bytes:
    return safetensors({"weight": ENTRY | changed})


SAFETENSORS: dict[str, bytes] = {
    "empty": b"",
    "short": b"\x08\0\0",
    "header of 2^63 bytes": safetensors({}, length=1 << 63),
    "header beyond the end": safetensors({}, length=5000),
    "header no JSON": safetensors(b"{weight}"),
    "header deep": safetensors(b'{"weight":' + b"[" * 100_000),
    "header deep and whole": safetensors(b'{"weight":' * 40 + b"1" + b"}" * 40),
    "header a list": safetensors(b"[]      "),
    "header not UTF-8": safetensors(b'{"\xff\xfe": 1}'),
    "unknown type": with_entry(dtype="os.system"),
    "type of a list": with_entry(dtype=["F32"]),
    "negative offsets": with_entry(data_offsets=[-24, 0]),
    "offsets turned": with_entry(data_offsets=[24, 0]),
    "beyond the end": with_entry(shape=[1 << 20, 3], data_offsets=[0, 12 << 20]),
    "petabytes": with_entry(shape=[1 << 48, 1], data_offsets=[0, 1 << 50]),
    "shape of texts": with_entry(shape=["a", "b"]),
    "shape of infinity": safetensors(b'{"weight": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 24]}}'),
    "number of 9,999 digits": safetensors(b'{"weight": {"dtype": "F32", "shape": [' + b"9" * 9999 + b"]}}"),
    "entry a number": safetensors({"weight": 3}),
    "other names": safetensors({"\x1b[2J::error::forged": ENTRY}),
    "no tensors": safetensors({"__metadata__": {"format": "pt"}}, b""),
}
INDEXES: dict[str, object] = {
    "upwards": {"weight_map": {"weight": "../outside/secret.safetensors"}},
    "absolute": {"weight_map": {"weight": "/etc/passwd"}},
    "no such shard": {"weight_map": {"weight": "a.safetensors"}},
    "of itself": {"weight_map": {"weight": "bad.json"}},
    "of nothing": {"weight_map": {}},
    "no map": {"weight_map": ["weight"]},
    "shard of null": {"weight_map": {"weight": "a\0b.safetensors"}},
}


def doubled(levels: int) -> bytes:
    """A pickle of a list that holds a list twice, which holds a list twice …: 2^levels of them, in a few bytes."""
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value, value]
    return pickle.dumps({"weight": value}, 2)


def deep(levels: int) -> bytes:
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


def huge_tensor() -> bytes:
    """A state dict whose tensor says that it has 2^50 elements, in a storage of 4."""
    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(4)}, buffer)
    with zipfile.ZipFile(buffer) as held:
        entries = {name: held.read(name) for name in held.namelist()}
    name = next(name for name in entries if name.endswith("data.pkl"))
    entries[name] = entries[name].replace(b"K\x04\x85", b"\x8a\x07" + (1 << 50).to_bytes(7, "little") + b"\x85")
    return in_memory(lambda made: _stored(made, entries))


def _stored(target: io.BytesIO, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w") as made:
        for name, content in entries.items():
            made.writestr(name, content)


def zipped(pickled: bytes) -> bytes:
    records = {"archive/data.pkl": pickled, "archive/version": b"3\n", "archive/byteorder": b"little"}
    return in_memory(lambda made: _stored(made, records))


HASHED: dict[str, bytes] = {
    "tuples in tuples as a key": b"\x80\x02}" + b")" + b"2\x86" * 60 + b"K\x01s.",
    "tuples in tuples as a key, by notes": b"\x80\x02})"
    + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60))
    + b"K\x01s.",
    "tuples in tuples as a key, cut": b"\x80\x02}(" + b")" + b"2\x86" * 60 + b"K\x01u",
}
"""Pickles of which a hash never ends."""

PICKLES: dict[str, bytes] = {
    **HASHED,
    "runs os.system": GLOBAL,
    "runs eval": EVAL,
    "runs open": code_pickle(),
    "lists in lists": doubled(50),
    "lists 100,000 deep": deep(100_000),
    "no end": b"\x80\x02" + b"]" * 1000,
    "a number": b"\x80\x02K\x01.",
    "memo of nothing": b"\x80\x02h\x05.",
    "persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
}
TRAVERSAL = {"../../evil": b"x", "archive/data.pkl": b"\x80\x02}."}


@cache
def program() -> bytes:
    """A file of torch.export.save with a dynamic dim."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) + x.shape[0]

    exported = torch.export.export(
        Net(), (torch.ones(4, 3),), dynamic_shapes=({0: 2 * torch.export.Dim("b", min=1, max=9)},)
    )
    return in_memory(lambda made: torch.export.save(exported, made))


def changed(change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> Make:
    """The program with other contents of its records, and more of them."""

    def make(project: Path) -> None:
        with zipfile.ZipFile(io.BytesIO(program())) as held:
            entries = {name: change(name, held.read(name)) for name in held.namelist()}
        root = next(iter(entries)).partition("/")[0]
        (project / "bad.pt2").write_bytes(
            in_memory(
                lambda made: _stored(made, entries | {f"{root}/{name}": each for name, each in (more or {}).items()})
            )
        )

    return make


def same(_name: str, content: bytes) -> bytes:
    return content


def in_model(old: bytes, new: bytes) -> Callable[[str, bytes], bytes]:
    return lambda name, content: content.replace(old, new) if "models/" in name else content


def in_inputs(_name: str, content: bytes) -> bytes:
    return in_memory(lambda made: torch.save(((Code(),), {}), made)) if "sample_inputs" in _name else content


def size_of(text: str) -> Callable[[str, bytes], bytes]:
    """Every symbol of a size is this text instead."""

    def change(name: str, content: bytes) -> bytes:
        if "models/" not in name:
            return content
        held = json.loads(content)
        waiting: list[Any] = [held]
        while waiting:
            now = waiting.pop()
            if isinstance(now, dict):
                if isinstance(now.get("expr_str"), str):
                    now["expr_str"] = text
                waiting += now.values()
            elif isinstance(now, list):
                waiting += now
        return json.dumps(held).encode()

    return change


PROGRAMS: dict[str, Make] = {
    "pickle of inputs": changed(in_inputs),
    "size runs code": changed(size_of("Symbol(open('ran', 'w').name)")),
    "size by attributes": changed(size_of("().__class__.__base__.__subclasses__()")),
    "size of a tower": changed(size_of("9**9**9**9")),
    "size of a tower of classes": changed(size_of("Pow(Integer(9), Pow(Integer(9), Integer(99999)))")),
    "size shifted": changed(size_of("LShift(Integer(1), Integer(999999999999))")),
    "size of a long number": changed(size_of("9" * 100_000)),
    "size deep": changed(size_of("(" * 5000 + "s0" + ")" * 5000)),
    "target os.system": changed(in_model(b"torch.ops.aten.relu.default", b"os.system")),
    "target of builtins": changed(in_model(b"torch.ops.aten.relu.default", b"builtins.exec")),
    "no such operator": changed(in_model(b"torch.ops.aten.relu.default", b"torch.ops.evil.run.default")),
    "library": changed(same, {"data/aotinductor/net/net.wrapper.so": b"\x7fELF"}),
    "object": changed(same, {"data/constants/custom_obj_0": code_pickle()}),
    "model no JSON": changed(lambda name, content: b"{" if "models/" in name else content),
    "model deep": changed(lambda name, content: b"[" * 100_000 if "models/" in name else content),
    "model a list": changed(lambda name, content: b"[]" if "models/" in name else content),
    "unpacks to 2 GB": archive("bad.pt2", {"a/version": b"0"}, {"a/models/model.json": 2 << 30}),
    "empty archive": archive("bad.pt2", {}),
    "no archive": writes("bad.pt2", b"PK\x03\x04" + bytes(1000)),
    "names upwards": archive("bad.pt2", {"a/../../evil": b"", "a/archive_format": b"pt2"}),
}


def npy(header: bytes, values: bytes = b"") -> bytes:
    padded = header.ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + values


def described(descr: str, shape: str) -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".encode(), bytes(24))


ARRAYS: dict[str, dict[str, bytes]] = {
    "objects": {"x.npy": in_memory(lambda made: np.save(made, np.array([Code()], object), allow_pickle=True))},
    "2^60 elements": {"x.npy": described("'<f4'", f"({1 << 60},)")},
    "negative shape": {"x.npy": described("'<f4'", "(-1, 3)")},
    "header runs code": {"x.npy": npy(b"__import__('os').system('touch ran')")},
    "header deep": {"x.npy": npy(b"(" * 5000)},
    "type of objects": {"x.npy": described("'|O'", "(2, 3)")},
    "type of nested fields": {"x.npy": described("[('a', '<f4')]", "(2, 3)")},
    "other names": {"../x.npy": in_memory(lambda made: np.save(made, np.ones((2, 3), np.float32)))},
    "no array": {"x.npy": b"not an array"},
}


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for name, content in SAFETENSORS.items():
        yield Case(f"safetensors, {name}", writes("bad.safetensors", content), (*WEIGHTS, "bad.safetensors"))
    yield Case(
        "safetensors, header of 200 MB",
        sparse("bad.safetensors", 300_000_000, struct.pack("<Q", 200_000_000) + b"{"),
        (*WEIGHTS, "bad.safetensors"),
    )
    for name, index in INDEXES.items():
        yield Case(f"index, {name}", writes("bad.json", json.dumps(index)), (*WEIGHTS, "bad.json"))
    yield Case("index, deep", writes("bad.json", "[" * 100_000), (*WEIGHTS, "bad.json"))
    for name, pickled in PICKLES.items():
        yield Case(f"pt, {name}", writes("bad.pt", zipped(pickled)), (*WEIGHTS, "bad.pt"))
        yield Case(f"pt before 1.6, {name}", writes("bad.pt", pickled), (*INPUTS, "bad.pt"))
    for name in ("runs os.system", "lists in lists", "tuples in tuples as a key"):
        yield Case(f"pt, {name}, as SOURCE", writes("bad.pt", PICKLES[name]), ("export", "bad.pt"))
        yield Case(f"metadata of shards, {name}", writes(".metadata", PICKLES[name]), (*WEIGHTS, "."))
    yield Case("pt, cut", writes("bad.pt", zipped(PICKLES["a number"])[:-30]), (*WEIGHTS, "bad.pt"))
    yield Case("pt, 2^50 elements", writes("bad.pt", huge_tensor()), (*WEIGHTS, "bad.pt"))
    yield Case("pt, names upwards", archive("bad.pt", TRAVERSAL), (*WEIGHTS, "bad.pt"))
    yield Case("pt, TorchScript", archive("bad.pt", {"a/code/x.py": b"", "a/data.pkl": GLOBAL}), ("export", "bad.pt"))
    bomb = archive("bad.pt", {"archive/version": b"3\n"}, {"archive/data.pkl": 2 << 30})
    yield Case("pt, pickle unpacks to 2 GB", bomb, (*WEIGHTS, "bad.pt"))
    for name, make in PROGRAMS.items():
        yield Case(f"pt2, {name}", make, ("export", "bad.pt2", "--no-validate"))
    for name, entries in ARRAYS.items():
        yield Case(f"npz, {name}", archive("bad.npz", entries), (*INPUTS, "bad.npz"))
    start = npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({3 << 30},)}}".encode())
    many = archive("bad.npz", {"y.npy": start}, {"x.npy": 3 << 30})
    yield Case("npz, unpacks to 3 GB", many, (*INPUTS, "bad.npz"))
    yield Case("npz, no archive", writes("bad.npz", b"PK\x03\x04" + bytes(100)), (*INPUTS, "bad.npz"))
    yield Case("npz, a pickle", writes("bad.npz", code_pickle()), (*INPUTS, "bad.npz"))
    yield Case("npz, a single array of objects", writes("bad.npz", ARRAYS["objects"]["x.npy"]), (*INPUTS, "bad.npz"))
