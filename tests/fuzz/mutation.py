"""Files that are almost right: changes of bytes, of values in JSON, of headers and of entries in archives."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import zipfile
from typing import Any

TOKENS = (
    *(b"[", b"]", b"{", b"}", b'"', b"null", b"-1", b"1e999", b"9" * 40, b"\x00", b"\xff", b"[" * 200, b"../", b"/"),
    *(b"true", b"NaN", b"::", b"=", b".", b",", b"\n", b"'", b"\\u0000", b"{}", b"[]", b'""', b"a" * 5000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**40, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "a", "../x", "/dev/zero", "a\0b", "\ud800", "x" * 300, "\x1b[2J\n::error::", "(a+)+$"),
    *([], {}, [[]], [None], {"": {}}, [1, "a"], {"a": 1}),
)
"""Values of every kind that JSON has."""

HEADER = struct.Struct("<Q")


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Data with a change of what it is made of, as far as that is known, or of its bytes."""
    for form in (_in_archive, _in_json, _in_header):
        if chance.random() < 0.6 and (made := form(data, chance)) is not None:
            return made
    return _in_bytes(data, chance)


def _in_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bytes with a few changes: bits, parts that go, come twice or change places, words that mean something."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(made) + 1)
        end = min(len(made), at + chance.choice((1, 1, 2, 4, 16, 64)))
        match chance.randrange(6):
            case 0:
                made[at:end] = chance.randbytes(end - at)
            case 1:
                del made[at:end]
            case 2:
                made[at:at] = made[at:end]
            case 3:
                made[at:end] = chance.choice(TOKENS)
            case 4:
                made[at:at] = chance.choice(TOKENS)
            case 5:
                made = made[: max(1, at)] if chance.random() < 0.2 else made
    return bytes(made)


def _in_archive(data: bytes, chance: random.Random) -> bytes | None:
    """A zip archive with a change of one of its entries, whose checksum is right."""
    if not data.startswith(b"PK\x03\x04"):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as held:
            entries = {name: held.read(name) for name in held.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, RuntimeError):  # changed before
        return None
    if not entries:
        return None
    name = chance.choice(sorted(entries))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for each, content in entries.items():
            if each != name or chance.random() < 0.95:
                made.writestr(each, mutated(content, chance) if each == name else content)
    return buffer.getvalue()


def _in_json(data: bytes, chance: random.Random) -> bytes | None:
    """JSON with values of other kinds, and with entries that go or come twice."""
    if data[:1] not in (b"{", b"["):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        value = _value_changed(value, chance)
    return json.dumps(value).encode()


def _value_changed(value: Any, chance: random.Random) -> Any:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not keys or chance.random() < 0.1:
        return copy.deepcopy(chance.choice(VALUES))
    key = chance.choice(keys)
    match chance.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[chance.choice(("", "a", *map(str, keys)))] = copy.deepcopy(value[key])
        case 1:
            value.append(copy.deepcopy(value[key]))
        case 2:
            value[key] = copy.deepcopy(chance.choice(VALUES))
        case _:
            value[key] = _value_changed(value[key], chance)
    return value


def _in_header(data: bytes, chance: random.Random) -> bytes | None:
    """A safetensors file with a change of its header, whose length is right."""
    if len(data) < HEADER.size or not 0 < (length := HEADER.unpack_from(data)[0]) <= len(data) - HEADER.size:
        return None
    end = HEADER.size + length
    header = mutated(data[HEADER.size : end], chance)
    return HEADER.pack(len(header)) + header + data[end:]
