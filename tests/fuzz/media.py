"""Files of images and sounds, and the settings by which they are read: parsers and what their fuzzing begins with."""

from __future__ import annotations

import io
import json
import wave
from dataclasses import asdict
from pathlib import Path

import numpy as np
import PIL.Image

from fxport.exporter.language_models.processors import write_pictures, write_sounds
from fxport.ort_runner.pictures import PictureConfig, inputs_of, read_picture
from fxport.ort_runner.sounds import SoundConfig, features_of, read_sound

SIZES = ((40, 30), (3, 200))
"""Widths and heights of images that settings are used on."""

PICTURE = PictureConfig(20, (), (), 3, (16, 16), 1 / 255, (0.4, 0.5, 0.6), (0.2, 0.2, 0.3))
GRID = PictureConfig(None, (), (1024, 8192), 3, (), 1 / 255, (0.4, 0.5, 0.6), (0.2, 0.2, 0.3), 4, 2, 2)
SOUND = SoundConfig(rate=1000, samples=4000, window=40, hop=20, bands=4)
CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 16},
    "crop_size": {"height": 16, "width": 16},
    "do_rescale": True,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.2, 0.3],
}
QWEN = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "size": {"shortest_edge": 1024, "longest_edge": 8192},
    "patch_size": 4,
    "merge_size": 2,
}
WHISPER = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 8,
    "chunk_length": 1,
    "n_fft": 400,
    "hop_length": 160,
    "sampling_rate": 16000,
}


def texts(*values: object) -> list[bytes]:
    return [json.dumps(each).encode() for each in values]


def settings_of_pictures() -> list[bytes]:
    return texts(asdict(PICTURE), asdict(GRID))


def settings_of_sounds() -> list[bytes]:
    return texts(asdict(SOUND))


def with_filters(folder: Path) -> None:
    SOUND.write(folder, np.full((SOUND.window // 2 + 1, SOUND.bands), 0.5))


def filters() -> list[bytes]:
    buffer = io.BytesIO()
    np.save(buffer, np.full((SOUND.window // 2 + 1, SOUND.bands), 0.5))
    return [buffer.getvalue()]


def images() -> list[bytes]:
    """A small image in each of the usual formats, one of them turned by what it says."""
    made, found = PIL.Image.effect_noise((12, 9), 40).convert("RGB"), []
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        buffer = io.BytesIO()
        exif = made.getexif()
        exif[0x0112] = 6
        made.save(buffer, kind, exif=exif)
        found.append(buffer.getvalue())
    return found


def waves() -> list[bytes]:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SOUND.rate)
        file.writeframes(np.arange(-50, 50, dtype="<i2").tobytes())
    return [buffer.getvalue()]


def pictured(path: Path) -> object:
    """The settings of a package for images, and what they make of some."""
    config = PictureConfig.read(path.parent)
    return [inputs_of(PIL.Image.new("RGB", size, 7), config) for size in SIZES]


def heard(path: Path) -> object:
    """The settings of a package for sounds, and what they make of one."""
    config, weights = SoundConfig.read(path.parent)
    return features_of(np.full(min(config.samples, 100), 0.1, np.float32), config, weights)


def image(path: Path) -> object:
    return read_picture(path)


def sound(path: Path) -> object:
    return read_sound(path, SOUND)


def processed_pictures(path: Path) -> object:
    return write_pictures(path.parent, path.parent)


def processed_sounds(path: Path) -> object:
    return write_sounds(path.parent, path.parent)
