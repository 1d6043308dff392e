"""Image files as inputs of a package, without transformers: read and resized by Pillow, then NumPy."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.ort_runner.json_values import count, counts, number, numbers
from fxport.ort_runner.package_config import GRID, PIXELS, PackageError
from fxport.ort_runner.vision import Image

FILE = "picture_config.json"
THINNEST = 200
"""The largest ratio of sides for images on grids, as in transformers."""

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are read, by Pillow's names: it starts other programs for some of the rest, such as Ghostscript."""

MOST_PIXELS = 1 << 26
"""Of an image after it was resized, and repeated, which a few numbers in a configuration can ask for."""

CHANNELS, FILTERS = 3, 6
"""Of an image; and Pillow's filters, which are numbers below that."""


@dataclass(frozen=True, slots=True)
class PictureConfig:
    """Steps from an image to numbers, in this order.

    Attributes:
        shortest: The shorter side after resizing, the longer one in proportion; None for another rule.
        exact: Height and width after resizing; empty for another rule.
        pixels: The fewest and most pixels after resizing to whole squares of a grid; empty for another rule.
        resample: Number of Pillow's filter.
        crop: Height and width that are cut out of the middle; empty for none.
        scale: What each number is multiplied by.
        mean: What is subtracted from each channel.
        std: What each channel is then divided by.
        patch: Side of a patch of a grid; 0 for an image that is no grid.
        merge: Rows and columns of patches in a square.
        frames: How often each patch is repeated, as if in time.
    """

    shortest: int | None
    exact: tuple[int, ...]
    pixels: tuple[int, ...]
    resample: int
    crop: tuple[int, ...]
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    patch: int = 0
    merge: int = 1
    frames: int = 1

    @classmethod
    def read(cls, folder: Path) -> PictureConfig:
        """Read the file in a folder. Raises PackageError for one that has none, or a damaged one."""
        path = folder / FILE
        if not path.is_file():
            raise PackageError(
                f"'{folder}' has no {FILE}, so it takes no image files; package the model from a folder with "
                "preprocessor_config.json, or give arrays from Python."
            )
        try:
            return cls.of(json_of(read_bounded(path, CONFIG), CONFIG))
        except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
            raise PackageError(
                f"'{path}' does not say how images are read: {type(error).__name__}: {error}; package the model again."
            ) from error

    @classmethod
    def of(cls, held: Any) -> PictureConfig:
        """The steps that a table has. Raises KeyError, TypeError or ValueError for values that are none."""
        found = cls(**{name: read(held[name]) for name, read in READERS.items()})
        found._require_sound()
        return found

    def _require_sound(self) -> None:
        """Raise ValueError for numbers that fit no image."""
        lengths = {
            "mean": (len(self.mean), (CHANNELS,)),
            "std": (len(self.std), (CHANNELS,)),
            **{name: (len(getattr(self, name)), (0, 2)) for name in ("exact", "pixels", "crop")},
        }
        for name, (found, wanted) in lengths.items():
            if found not in wanted:
                raise ValueError(f"'{name}' has {found} numbers")
        grid = (self.merge, self.frames, *self.pixels) if self.patch else (1,)
        if not all((*self.std, *self.exact, *self.crop, *grid, self.shortest is None or self.shortest)):
            raise ValueError("a size is 0")
        if self.resample >= FILTERS:
            raise ValueError(f"'resample' is {self.resample}")
        if self.pixels and not self.patch:
            raise ValueError("'pixels' are those of a grid, and 'patch' is 0")
        if sum(map(bool, (self.shortest, self.exact, self.pixels))) > 1:
            raise ValueError("it has two of 'shortest', 'exact' and 'pixels'")

    def write(self, folder: Path) -> Path:
        """Write the file into a folder."""
        path = folder / FILE
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        return path


def _side(value: Any) -> int | None:
    return None if value is None else count(value)


READERS: Mapping[str, Any] = {
    "shortest": _side,
    **dict.fromkeys(("exact", "pixels", "crop"), counts),
    **dict.fromkeys(("resample", "patch", "merge", "frames"), count),
    "scale": number,
    **dict.fromkeys(("mean", "std"), numbers),
}


def read_picture(path: Path) -> Any:
    """The image of a file, turned as it says and in red, green and blue. Raises PackageError for one that is none."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise PackageError("images need the library Pillow: pip install pillow.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
            with PIL.Image.open(path, formats=FORMATS) as image:
                return PIL.ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:  # anybody's file, of which Pillow raises what it likes
        raise PackageError(f"'{path}' is no image that Pillow reads: {error}; save it as PNG or JPEG.") from error


def inputs_of(picture: Any, config: PictureConfig) -> Image:
    """The inputs of the encoder for an image of Pillow in RGB.

    Returns:
        `pixel_values` float32 [1, 3, height, width], or of a grid [patches, 3 * frames * patch * patch] and
        `image_grid_thw` int64 [1, 3].

    Raises:
        PackageError: The image is too thin for a grid, or becomes too large, or too small for what is cut out of it.
    """
    height, width = _size(picture.height, picture.width, config)
    if not 0 < height * width * config.frames <= MOST_PIXELS:
        times = f"{config.frames} times " * (config.frames > 1)
        raise PackageError(
            f"an image of {picture.width} by {picture.height} would become {times}{width} by {height}, beyond "
            f"{MOST_PIXELS} pixels; correct {FILE}."
        )
    if (height, width) != (picture.height, picture.width) or config.shortest or config.exact or config.pixels:
        picture = picture.resize((width, height), resample=config.resample)
    array = np.asarray(picture)
    if config.crop:
        if config.crop[0] > height or config.crop[1] > width:
            raise PackageError(
                f"an image of {width} by {height} is too small to cut {config.crop} out of it; take a larger one."
            )
        top, left = ((side - wanted) // 2 for side, wanted in zip(array.shape, config.crop, strict=False))
        array = array[top : top + config.crop[0], left : left + config.crop[1]]
    scaled = (array.astype(np.float64) * config.scale).astype(np.float32)
    found = ((scaled - np.array(config.mean, np.float32)) / np.array(config.std, np.float32)).transpose(2, 0, 1)
    return _patches(found, config) if config.patch else {PIXELS: np.ascontiguousarray(found[None])}


def _size(height: int, width: int, config: PictureConfig) -> tuple[int, int]:
    """The height and width to which an image is resized."""
    if config.shortest is not None:
        short, long = sorted((height, width))
        longer = int(config.shortest * long / short)
        return (longer, config.shortest) if width <= height else (config.shortest, longer)
    if config.pixels:
        return _whole_squares(height, width, config.patch * config.merge, config.pixels)
    return (config.exact[0], config.exact[1]) if config.exact else (height, width)


def _whole_squares(height: int, width: int, side: int, pixels: tuple[int, ...]) -> tuple[int, int]:
    """The multiples of a side nearest to a height and a width, with the pixels between the fewest and the most."""
    if max(height, width) > THINNEST * min(height, width):
        raise PackageError(f"an image of {width} by {height} is too thin; cut it to at most {THINNEST} to 1.")
    fewest, most = pixels
    near = round(height / side) * side, round(width / side) * side
    if near[0] * near[1] > most:
        factor = math.sqrt(height * width / most)
        return (
            max(side, math.floor(height / factor / side) * side),
            max(side, math.floor(width / factor / side) * side),
        )
    if near[0] * near[1] < fewest:
        factor = math.sqrt(fewest / (height * width))
        return math.ceil(height * factor / side) * side, math.ceil(width * factor / side) * side
    return near


def _patches(image: np.ndarray, config: PictureConfig) -> Image:
    """The patches of an image [3, height, width], square after square."""
    channels, height, width = image.shape
    if height % (config.patch * config.merge) or width % (config.patch * config.merge):
        raise PackageError(f"an image of {width} by {height} is no grid of patches of {config.patch}; correct {FILE}.")
    rows, columns, merge, side = height // config.patch, width // config.patch, config.merge, config.patch
    squares = image.reshape(channels, rows // merge, merge, side, columns // merge, merge, side)
    ordered = squares.transpose(1, 4, 2, 5, 0, 3, 6).reshape(rows * columns, channels, 1, side * side)
    repeated = np.repeat(ordered, config.frames, 2).reshape(rows * columns, -1)
    return {PIXELS: repeated, GRID: np.array([[1, rows, columns]], np.int64)}
