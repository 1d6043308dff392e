"""Hostile images, and packages whose settings for images and sounds ask for more than there is."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import PIL.Image

from tests.hostile.cases import Case, Make, in_memory, writes
from tests.hostile.packages import TOKENIZER, config, scoring
from tests.hostile.places import all_of, in_folder

PICTURE = {
    **dict.fromkeys(("shortest", "scale", "patch", "merge", "frames"), 1),
    **dict.fromkeys(("exact", "pixels", "crop"), None),
    "mean": [0.0] * 3,
    "std": [1.0] * 3,
    "resample": 3,
}
PICTURES: dict[str, Any] = {
    "a list": [],
    "side 10^9": PICTURE | {"shortest": 10**9},
    "height and width 10^9": PICTURE | {"shortest": None, "exact": [10**9, 10**9]},
    "pixels 10^18": PICTURE | {"shortest": None, "pixels": [10**18, 10**18], "patch": 2},
    "patches of 0": PICTURE | {"shortest": None, "pixels": [4, 16], "patch": 2, "merge": 0},
    "frames 10^9": PICTURE | {"shortest": 16, "patch": 4, "frames": 10**9},
    "a filter of nobody": PICTURE | {"resample": 99},
    "one mean": PICTURE | {"mean": [0.0]},
    "a number of 400 digits": PICTURE | {"scale": 10**400},
}
SOUND = {"rate": 16000, "samples": 16000, "window": 400, "hop": 160, "bands": 4}
SOUNDS: dict[str, Any] = {
    "samples 10^15": SOUND | {"samples": 10**15},
    "a hop of 0": SOUND | {"hop": 0},
    "a hop of 1": SOUND | {"hop": 1, "samples": 10**9},
    "a window of 10^9": SOUND | {"window": 10**9},
}
POSTSCRIPT = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(ran) (w) file closefile showpage
"""
IMAGES: dict[str, bytes] = {
    "PostScript": POSTSCRIPT,
    "a PNG of 10^9 by 10^9": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    + struct.pack(">II", 10**9, 10**9)
    + b"\x08\x02\0\0\0"
    + bytes(99),
    "a BMP of 2^31": b"BM"
    + struct.pack("<IIIIiiHHIIiiII", 10**6, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0),
    "a GIF that is cut": b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + b",",
    "text of a terminal": b"\x1b[2J\n::error::forged",
}
SEE = ("embed", "folder", "--image", "i.png")
HEAR = ("generate", "folder", "--audio", "s.wav")


def small_png() -> bytes:
    return in_memory(lambda buffer: PIL.Image.new("RGB", (8, 8), 7).save(buffer, "PNG"))


def seeing(settings: object, image: bytes | None = None) -> Make:
    """A package that reads images, with such settings, and an image."""
    return all_of(
        scoring("last = Identity(start)"),
        lambda project: (project / "folder" / "picture_config.json").write_text(json.dumps(settings)),
        writes("i.png", small_png() if image is None else image),
    )


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for name, settings in PICTURES.items():
        yield Case(f"pictures, {name}", seeing(settings), SEE)
    for name, content in IMAGES.items():
        yield Case(f"image, {name}", seeing(PICTURE, content), SEE)
    for name, settings in SOUNDS.items():
        files = {
            "sound_config.json": json.dumps(settings),
            "genai_config.json": config(),
            "tokenizer.json": json.dumps(TOKENIZER),
        }
        yield Case(f"sounds, {name}", all_of(in_folder("folder", files), writes("s.wav", b"RIFF")), HEAR)
