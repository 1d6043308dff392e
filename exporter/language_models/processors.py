"""Settings by which a folder reads images and sounds, written for the runner and held against transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.diagnostics.messages import error_text
from fxport.exporter.sources.pretrained import PretrainedError, processor_of
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.pictures import PictureConfig, inputs_of
from fxport.ort_runner.sounds import SoundConfig, features_of

SETTINGS = ("preprocessor_config.json", "processor_config.json")
"""Files of which a folder that says how images and sounds are read has one."""

SIZES = ((40, 70), (90, 33), (300, 200), (64, 64))
"""Heights and widths of images of which both have to make the same."""

SIZES_OF_SOUNDS = {
    "rate": "sampling_rate",
    "samples": "n_samples",
    "window": "n_fft",
    "hop": "hop_length",
    "bands": "feature_size",
}
"""Sizes of a spectrogram, and what transformers calls them."""

MOST = {"n_fft": 1 << 16, "feature_size": 1 << 12, "sampling_rate": 1 << 20, "chunk_length": 1 << 12}
"""Settings of sounds, by which transformers makes tables when it opens them, and the most that they may be."""

UNFIT = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Errors of transformers and Pillow for settings that fit no image or sound, and ours for those that differ."""

CLOSE = 1e-6
"""Numbers of an image that differ by more are other ones: both are computed in float32 from the same bytes."""

CLOSE_IN_SOUND = 1e-3
"""The same for a spectrogram, whose logarithm makes rounding in transformers' float32 of faint bands that large."""


def write_pictures(folder: Path | None, target: Path) -> list[Path]:
    """Write how images are read, where a folder says so.

    Raises PretrainedError for a folder whose processor is unknown, and PackageError where the runner would make other
    pixels.
    """
    if (processor := _processor(folder, "AutoImageProcessor", backend="pil")) is None:
        return []
    import PIL.Image

    try:
        config = _pictures(processor)
        generator = np.random.default_rng(0)
        for height, width in SIZES:
            picture = PIL.Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8))
            got = inputs_of(picture, config)  # first: it refuses sizes that no image has
            want = processor(images=picture, return_tensors="np")
            for name, array in got.items():
                if want[name].shape != array.shape or not np.abs(want[name] - array).max() <= CLOSE:
                    raise ValueError(f"other '{name}' of an image of {width} by {height}")
    except UNFIT as error:
        raise PackageError(
            f"'{folder}': fxport generate does not read images as {type(processor).__name__} does: {error_text(error)};"
            " remove preprocessor_config.json, and give arrays from Python."
        ) from error
    return [config.write(target)]


def _pictures(processor: Any) -> PictureConfig:
    size = dict(processor.size) if processor.do_resize else {}
    grid = hasattr(processor, "merge_size")
    crop = getattr(processor, "crop_size", None) if getattr(processor, "do_center_crop", False) else None
    steps = {
        "shortest": None if grid else size.get("shortest_edge"),
        "exact": [size[name] for name in ("height", "width") if size.get(name)],
        "pixels": [size["shortest_edge"], size["longest_edge"]] if grid and size else [],
        "resample": int(processor.resample),
        "crop": [] if crop is None else [crop["height"], crop["width"]],
        "scale": processor.rescale_factor if processor.do_rescale else 1.0,
        "mean": list(processor.image_mean) if processor.do_normalize else [0.0] * 3,
        "std": list(processor.image_std) if processor.do_normalize else [1.0] * 3,
        "patch": processor.patch_size if grid else 0,
        "merge": processor.merge_size if grid else 1,
        "frames": processor.temporal_patch_size if grid else 1,
    }
    return PictureConfig.of(steps)


def write_sounds(folder: Path | None, target: Path) -> list[Path]:
    """Write how sounds are read, where a folder says so. Raises what `write_pictures` raises."""
    _require_small(folder)
    if (extractor := _processor(folder, "AutoFeatureExtractor")) is None:
        return []
    try:
        sizes = {name: getattr(extractor, theirs) for name, theirs in SIZES_OF_SOUNDS.items()}
        config = SoundConfig.of(sizes)
        filters = np.asarray(extractor.mel_filters, np.float64)
        time = np.arange(config.samples // 2) / config.rate
        noise = np.random.default_rng(0).standard_normal(len(time)) * 0.1
        for samples in (noise, np.sin(2 * np.pi * 440 * time) * np.exp(-time)):
            given = samples.astype(np.float32)
            want = extractor(given, sampling_rate=config.rate, return_tensors="np").input_features[0]
            got = features_of(given, config, filters)
            if want.shape != got.shape or not np.abs(want - got).max() <= CLOSE_IN_SOUND:
                raise ValueError("other features of a sound")
    except UNFIT as error:
        raise PackageError(
            f"'{folder}': fxport generate does not read sounds as {type(extractor).__name__} does: {error_text(error)};"
            " remove preprocessor_config.json, and give --features."
        ) from error
    return config.write(target, filters)


def _require_small(folder: Path | None) -> None:
    """Refuse settings of sounds that would take memory without measure when they are opened."""
    for path in [folder / name for name in SETTINGS] if folder is not None else []:
        if not path.is_file():
            continue
        try:
            held = json_of(read_bounded(path, CONFIG), CONFIG)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise PretrainedError(f"'{path}' does not say how images and sounds are read: {error}.") from error
        for name, most in MOST.items():
            if isinstance(held, Mapping) and isinstance(value := held.get(name), int | float) and value > most:
                raise PretrainedError(f"'{path}': '{name}' is {value:.3g}, and at most {most}; correct it.")


def _processor(folder: Path | None, kind: str, **given: Any) -> Any:
    """The processor of a folder, by transformers; None for one without settings."""
    if folder is None or not any((folder / name).is_file() for name in SETTINGS):
        return None
    try:
        return processor_of(folder, kind, **given)
    except ImportError as error:
        raise PretrainedError(f"'{folder}': its images need the library Pillow: pip install pillow.") from error
