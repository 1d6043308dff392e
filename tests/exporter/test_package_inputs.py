"""Image and sound files as inputs of a package: those of transformers' processors, from folder to command line."""

from __future__ import annotations

import copy
import json
import re
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import Package, package
from fxport.diagnostics import Log
from fxport.exporter.checks.vectors import Wanted
from fxport.exporter.cli.embed import embedded
from fxport.exporter.cli.generate import generated
from fxport.exporter.language_models.processors import write_pictures, write_sounds
from fxport.exporter.language_models.towers import TowerModel, tower_verdict
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.package_config import GRID, PIXELS, PackageError
from fxport.ort_runner.pictures import FILE, PictureConfig, inputs_of, read_picture
from fxport.ort_runner.prompts import Asked
from fxport.ort_runner.sounds import FILE as SOUNDS
from fxport.ort_runner.sounds import SoundConfig, features_of, read_sound
from fxport.ort_runner.text_model import TextModel
from tests.cases.seq2seq_models import made as made_of_text
from tests.cases.vision_language_models import IMAGE, made

transformers = pytest.importorskip("transformers")
PIL = pytest.importorskip("PIL.Image")

SETTINGS = "preprocessor_config.json"
CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 16},
    "crop_size": {"height": 16, "width": 16},
}
QWEN = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "size": {"shortest_edge": 1024, "longest_edge": 8192},
    "patch_size": 4,
}
WHISPER = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 8, "chunk_length": 1, "n_fft": 400}


def folder_of(settings: dict[str, Any], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / SETTINGS).write_text(json.dumps(settings))
    return folder


def picture(path: Path, height: int, width: int) -> Path:
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    PIL.fromarray(pixels).save(path)
    return path


PICTURES: dict[str, dict[str, Any]] = {
    "cut": CLIP,
    "squeezed": {"image_processor_type": "SiglipImageProcessor", "size": {"height": 24, "width": 16}, "resample": 2},
    "grid": QWEN,
    "as it is": {**CLIP, "do_resize": False, "do_center_crop": False, "do_normalize": False},
}


@pytest.mark.parametrize("name", PICTURES)
def test_pixels_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """Of sizes that packaging does not try, from a file, which is turned as it says."""
    source = folder_of(PICTURES[name], tmp_path / "source")
    assert [path.name for path in write_pictures(source, tmp_path)] == [FILE]
    config = PictureConfig.read(tmp_path)
    processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil")
    for height, width in ((51, 47), (20, 130)):
        read = read_picture(picture(tmp_path / "one.png", height, width))
        got, want = inputs_of(read, config), processor(images=read, return_tensors="np")
        assert got.keys() == ({PIXELS, GRID} if name == "grid" else {PIXELS})
        for part, array in got.items():
            np.testing.assert_allclose(array, want[part], atol=1e-6)
    turned = PIL.open(tmp_path / "one.png")
    turned.getexif()[0x0112] = 6
    turned.save(tmp_path / "turned.png", exif=turned.getexif())
    assert read_picture(tmp_path / "turned.png").size == (20, 130)


BAD_PICTURES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "cut out of less": ({**CLIP, "crop_size": {"height": 32, "width": 32}}, PackageError, "does not read images as"),
    "filled up": ({"image_processor_type": "LlavaNextImageProcessor"}, PackageError, "does not read images as"),
    "a side without measure": ({**CLIP, "size": {"shortest_edge": 1 << 31}}, PackageError, "would become 3758096384"),
    "a number that is none": ({**CLIP, "image_mean": [0.5]}, PackageError, "'mean' has 1 numbers"),
    "code of the folder": (
        *({"image_processor_type": "Own", "auto_map": {"AutoImageProcessor": "code.Own"}}, PretrainedError),
        "does not say how images",
    ),
    "unknown": ({"image_processor_type": "OwnImageProcessor"}, PretrainedError, "does not say how images"),
}


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_processors_that_read_otherwise_are_refused(name: str, tmp_path: Path) -> None:
    settings, error, words = BAD_PICTURES[name]
    with pytest.raises(error, match=words):
        write_pictures(folder_of(settings, tmp_path / "source"), tmp_path)
    assert not (tmp_path / FILE).exists()


def test_files_that_are_no_images_are_refused(tmp_path: Path) -> None:
    cut = picture(tmp_path / "cut.png", 40, 40)
    cut.write_bytes(cut.read_bytes()[:300])
    (tmp_path / "text.png").write_text("no image")
    for name in ("cut.png", "text.png", "none.png"):
        with pytest.raises(PackageError, match="is no image that Pillow reads"):
            read_picture(tmp_path / name)
    config = PictureConfig(None, (), (64, 512), 3, (), 1.0, (0.0,) * 3, (1.0,) * 3, 4, 2, 1)
    with pytest.raises(PackageError, match="too thin"):
        inputs_of(PIL.new("RGB", (1, 300)), config)
    for damaged in ("[]", '{"shortest": "no"}', "{"):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(PackageError, match="does not say how images are read"):
            PictureConfig.read(tmp_path)


def words(folder: Path, *more: str) -> Path:
    """A folder with a tokenizer of words, of which `<image>` is one."""
    import tokenizers

    vocabulary = {f"w{index}": index for index in range(IMAGE)} | {"<image>": IMAGE, "<end>": 99}
    made_of = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))
    made_of.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made_of.add_special_tokens(["<end>"])
    folder.mkdir(exist_ok=True)
    made_of.save(str(folder / "tokenizer.json"))
    return folder


def asked(folder: Path, **given: Any) -> str:
    fields: dict[str, Any] = {
        "prompt": None,
        "ids": None,
        "features": None,
        "images": (),
        "audio": None,
        "adapter": None,
    }
    return generated(Asked(folder, **{**fields, **given}, new=12, provider="cpu", threads=1), Log())


def test_a_folder_is_asked_about_an_image_file(tmp_path: Path) -> None:
    """The command line writes what eager PyTorch writes of transformers' own pixels."""
    source = words(folder_of(CLIP, tmp_path / "source"))
    model = made("LLaVA")
    model.save_pretrained(source)
    folder = package(source, tmp_path / "package", steps=2).folder
    path = picture(tmp_path / "one.jpg", 60, 45)
    processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil")
    pixels = processor(images=read_picture(path), return_tensors="pt").pixel_values
    ids = torch.tensor([[3, *[IMAGE] * 4, 5, 7]])
    found = model.generate(ids, attention_mask=ids * 0 + 1, pixel_values=pixels, do_sample=False, max_new_tokens=12)
    text = asked(folder, prompt="w3 <image> w5 w7", images=(path,)).splitlines()[0]
    assert text.split() == [f"w{each}" for each in found[0, 7:].tolist()]
    with pytest.raises(UsageError, match="needs '<image>' in the place of each image, 1 times"):
        asked(folder, prompt="w3", images=(path,))
    (folder / FILE).unlink()
    with pytest.raises(UsageError, match=f"has no {FILE}"):
        asked(folder, prompt="w3 <image>", images=(path,))


def sound(path: Path, samples: np.ndarray, rate: int = 16_000, channels: int = 1, width: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def test_a_folder_is_asked_about_a_sound_file(tmp_path: Path) -> None:
    """The command line writes what eager PyTorch writes of transformers' own features."""
    source = words(folder_of({**WHISPER, "chunk_length": 1, "hop_length": 400}, tmp_path / "source"))
    model = made_of_text("Whisper")
    model.generation_config._from_model_config = False  # else the folder's settings are not those that count
    model.generation_config.no_timestamps_token_id = 96  # else `generate` takes words for times
    model.save_pretrained(source)
    folder = package(source, tmp_path / "package", steps=2).folder
    samples = np.sin(np.arange(9_000) / 20) * np.linspace(0, 0.9, 9_000)
    path = sound(tmp_path / "one.wav", samples)
    extractor = transformers.AutoFeatureExtractor.from_pretrained(source)
    config, filters = SoundConfig.read(folder)
    features = extractor(read_sound(path, config), sampling_rate=16_000, return_tensors="pt").input_features
    np.testing.assert_allclose(features_of(read_sound(path, config), config, filters), features[0], atol=1e-4)
    found = model.generate(input_features=features, do_sample=False, num_beams=1, max_new_tokens=12)[0].tolist()
    text = asked(folder, audio=path).splitlines()[0]
    assert text.split() == [f"w{each}" for each in found if each < IMAGE]
    bad: dict[str, tuple[Callable[[], Path], str]] = {
        "rate": (lambda: sound(path, samples, rate=8_000), "1 channels of 16 bits at 8000 Hz; convert it: ffmpeg"),
        "channels": (lambda: sound(path, samples, channels=2), "2 channels of 16 bits"),
        "too long": (lambda: sound(path, np.zeros(20_000)), "lasts 1.2 s, and the model takes 1 s"),
        "cut": (lambda: cut(sound(path, samples)), "is no WAV file that is read here"),
        "text": (lambda: text_file(path), "is no WAV file that is read here"),
    }
    for make, told in bad.values():
        make()
        with pytest.raises(UsageError, match=re.escape(told)):
            asked(folder, audio=path)
    (folder / SOUNDS).unlink()
    with pytest.raises(UsageError, match=f"has no {SOUNDS}"):
        asked(folder, audio=path)


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:5_001])
    return path


def text_file(path: Path) -> Path:
    path.write_text("no sound")
    return path


def test_extractors_of_other_sounds_are_refused(tmp_path: Path) -> None:
    settings = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1}
    with pytest.raises(PackageError, match="does not read sounds as Wav2Vec2FeatureExtractor does"):
        write_sounds(folder_of(settings, tmp_path / "source"), tmp_path)


TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A CLIP in a folder, with a tokenizer that ends each text."""
    import tokenizers

    source = words(folder_of(CLIP, tmp_path_factory.mktemp("clip") / "source"))
    backend = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    backend.post_processor = tokenizers.processors.TemplateProcessing(single="$A <end>", special_tokens=[("<end>", 99)])
    special = {"pad_token": "<end>", "eos_token": "<end>", "model_max_length": 12}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(source)
    torch.manual_seed(0)
    text = {**TOWER, "vocab_size": 100, "eos_token_id": 99, "pad_token_id": 99, "max_position_embeddings": 12}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**TOWER, "image_size": 16, "patch_size": 8}, projection_dim=8
    )
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(source)
    return model, source


@pytest.fixture(scope="module")
def packaged_clip(clip: tuple[Any, Path], tmp_path_factory: pytest.TempPathFactory) -> Package:
    """Its package, which no test changes."""
    return package(clip[1], tmp_path_factory.mktemp("packaged") / "package")


def test_texts_and_images_become_vectors_of_one_space(
    clip: tuple[Any, Path], packaged_clip: Package, tmp_path: Path
) -> None:
    """Vectors equal those of transformers, normalized; shorter texts of a batch are padded with the end token."""
    (model, source), made_of = clip, packaged_clip
    assert made_of.verdict is not None
    assert made_of.verdict.error < 1e-5
    assert [each.facts["range"] for each in made_of.log.findings] == ["at most 12"]
    texts = ("w3 w7 w50 w2", "w5")
    paths = (picture(tmp_path / "one.png", 40, 30), picture(tmp_path / "two.png", 20, 90))
    processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil")
    given = transformers.AutoTokenizer.from_pretrained(source)(list(texts), padding=True, return_tensors="pt")
    pixels = processor(images=[read_picture(path) for path in paths], return_tensors="pt").pixel_values
    with torch.no_grad():
        want = model(**given, pixel_values=pixels)
    asked_for = Wanted(made_of.folder, texts, None, None, paths, "cpu", 1)
    rows = [json.loads(line) for line in embedded(asked_for, Log()).splitlines()]
    np.testing.assert_allclose(rows, torch.cat([want.text_embeds, want.image_embeds]), atol=1e-6)
    with pytest.raises(PackageError, match="images have the shapes"):
        TextModel(made_of.folder).embed_images([{PIXELS: np.zeros((1, 3, 8, 8), np.float32)}])


def test_another_tower_is_told(clip: tuple[Any, Path], packaged_clip: Package, tmp_path: Path) -> None:
    model, source = clip
    folder, log = packaged_clip.folder, Log()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.visual_projection.weight[0].mul_(2)
    found = tower_verdict(folder, TowerModel(other, source), log, "cpu", steps=1, accuracy="exact", weights="")
    assert not found.passed
    assert [each.facts["output"] for each in log.findings] == ["image_embedding"]
    with pytest.raises(PackageError, match="is packaged from its folder"):
        package(model, tmp_path / "other")
