"""Sound files as features for Whisper, without transformers: WAV by Python's own library, the spectrogram by NumPy."""

from __future__ import annotations

import json
import wave
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.ort_runner.json_values import count
from fxport.ort_runner.package_config import PackageError

FILE, FILTERS = "sound_config.json", "mel_filters.npy"
LEAST, DECADES = 1e-10, 8.0
"""The least power, and the range below the largest, in powers of ten: https://arxiv.org/abs/2212.04356 and its code."""

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
            held = json_of(read_bounded(path, CONFIG), CONFIG)
            config = cls(**{name: count(held[name]) for name in cls.__dataclass_fields__})
            filters = np.load(folder / FILTERS, allow_pickle=False)
            if filters.shape != (config.window // 2 + 1, config.bands) or 0 in (config.hop, config.rate):
                raise ValueError(f"filters {filters.shape} do not fit")
        except (KeyError, TypeError, ValueError, OSError, EOFError, UnicodeDecodeError) as error:
            raise PackageError(
                f"'{path}' does not say how sounds are read: {type(error).__name__}: {error}; package the model again."
            ) from error
        return config, filters

    def write(self, folder: Path, filters: np.ndarray) -> list[Path]:
        """Write the files into a folder."""
        path = folder / FILE
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        np.save(folder / FILTERS, filters)
        return [path, folder / FILTERS]


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
    except (wave.Error, EOFError, ValueError) as error:
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
