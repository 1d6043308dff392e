"""Sound files as features for Whisper, without transformers: WAV by Python's own library, the spectrogram by NumPy."""

from __future__ import annotations

import io
import json
import wave
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.diagnostics.messages import error_line
from fxport.ort_runner.json_values import count
from fxport.ort_runner.package_config import PackageError

FILE, FILTERS = "sound_config.json", "mel_filters.npy"
LEAST, DECADES = 1e-10, 8.0
"""The least power, and the range below the largest, in powers of ten: https://arxiv.org/abs/2212.04356 and its code."""

MOST_NUMBERS = 1 << 24
"""Of all frames of a spectrogram, which a few numbers in a configuration can ask for."""

CURE = "convert it: ffmpeg -i FILE -ac 1 -ar {rate} -c:a pcm_s16le out.wav"


@dataclass(frozen=True, slots=True)
class SoundConfig:
    """Sizes of a spectrogram.

    Attributes:
        rate: Samples per second.
        samples: Samples that the model takes; shorter sounds are filled up with silence.
        window: Samples of a frame.
        hop: Samples from a frame to the next.
        bands: Frequency bands; `mel_filters.npy` [frequencies, bands] has their weights.
    """

    rate: int
    samples: int
    window: int
    hop: int
    bands: int

    @classmethod
    def read(cls, folder: Path) -> tuple[SoundConfig, np.ndarray]:
        """Read the files in a folder. Raises PackageError for one that has none, or damaged ones."""
        path = folder / FILE
        if not path.is_file():
            raise PackageError(
                f"'{folder}' has no {FILE}, so it takes no sound files; package the model from a folder with "
                "preprocessor_config.json, or give --features."
            )
        try:
            config = cls.of(json_of(read_bounded(path, CONFIG), CONFIG))
            filters = _filters(folder / FILTERS)
            if filters.shape != (config.window // 2 + 1, config.bands) or filters.dtype.kind != "f":
                raise ValueError(f"filters {filters.shape} of {filters.dtype} do not fit")
        except (KeyError, TypeError, ValueError, OSError, EOFError, UnicodeDecodeError) as error:
            raise PackageError(
                f"'{path}' does not say how sounds are read: {type(error).__name__}: {error}; package the model again."
            ) from error
        return config, filters

    @classmethod
    def of(cls, held: Any) -> SoundConfig:
        """The sizes that a table has. Raises KeyError, TypeError or ValueError for values that are none."""
        found = cls(**{name: count(held[name]) for name in cls.__dataclass_fields__})
        if not found.rate or not 0 < found.hop <= found.samples or not 1 < found.window < 2 * found.samples:
            raise ValueError("a size is 0, or a frame is longer than a sound")
        if found.samples // found.hop * found.window > MOST_NUMBERS:
            raise ValueError("a sound has too many frames")
        return found

    def write(self, folder: Path, filters: np.ndarray) -> list[Path]:
        """Write the files into a folder."""
        path = folder / FILE
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        np.save(folder / FILTERS, filters)
        return [path, folder / FILTERS]


def _filters(path: Path) -> np.ndarray:
    """The weights of a file. Raises ValueError or OSError for one that has none."""
    content = read_bounded(path, CONFIG)
    try:
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # a header is Python's text, of which its parser raises what it likes
        raise ValueError(f"'{path}' holds no array: {error_line(error)}") from error


def read_sound(path: Path, config: SoundConfig) -> np.ndarray:
    """The samples of a WAV file of one channel, float32 from -1 to 1. Raises PackageError for another one."""
    cure = CURE.format(rate=config.rate)
    try:
        with wave.open(str(path), "rb") as file:
            channels, rate, width = file.getnchannels(), file.getframerate(), file.getsampwidth()
            length = file.getnframes()
            if channels == 1 and rate == config.rate and width == 2 and length <= config.samples:
                held = np.frombuffer(file.readframes(length), "<i2")
                if not 0 < len(held) == length:
                    raise ValueError(f"it has {len(held)} samples of {length}")
                return held.astype(np.float32) / 32768
    except (wave.Error, EOFError, RuntimeError, ValueError) as error:  # RuntimeError: a seek beyond a chunk
        raise PackageError(f"'{path}' is no WAV file that is read here: {error or 'it ends early'}; {cure}.") from error
    if (channels, rate, width) != (1, config.rate, 2):
        raise PackageError(f"'{path}' has {channels} channels of {8 * width} bits at {rate} Hz; {cure}.")
    most = config.samples / config.rate
    raise PackageError(f"'{path}' lasts {length / rate:.1f} s, and the model takes {most:g} s; cut it into pieces.")


def features_of(samples: np.ndarray, config: SoundConfig, filters: np.ndarray) -> np.ndarray:
    """The logarithmic spectrogram [bands, frames] of samples [time], as the feature extractor of Whisper makes it."""
    whole = np.zeros(config.samples)
    whole[: len(samples)] = samples
    around = np.pad(whole, config.window // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(around, config.window)[:: config.hop][:-1]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(config.window) / config.window)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    found = np.log10(np.maximum(power @ filters, LEAST)).T
    return ((np.maximum(found, found.max() - DECADES) + 4) / 4).astype(np.float32)
