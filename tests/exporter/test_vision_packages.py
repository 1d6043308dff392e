"""Packages of vision-language models: the tokens of `generate` about images, the parts one by one, and refusals."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import Package, package
from fxport.diagnostics import Log
from fxport.exporter.language_models.eager_vision import image_token
from fxport.exporter.language_models.generation import NotGenerativeError
from fxport.exporter.language_models.image_features import features_of
from fxport.exporter.language_models.kinds import DECODER, kind_of
from fxport.exporter.language_models.sights import sight_of
from fxport.exporter.language_models.verdict import verdict
from fxport.exporter.language_models.vision_grids import places_of, with_attention
from fxport.ort_runner.generation import Generator, padded
from fxport.ort_runner.package_config import FILE, PackageError
from fxport.ort_runner.vision import Image, Vision, expanded
from tests.cases import language_models
from tests.cases.vision_language_models import IMAGE, KINDS, MODELS, NOTES, QUICK, made

transformers = pytest.importorskip("transformers")

NEW = 12
RARE = pytest.mark.slow


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return package(made("LLaVA"), tmp_path_factory.mktemp("llava") / "package", steps=8)


def prompts_of(images: list[Any]) -> tuple[list[list[int]], list[list[Any]]]:
    """Two prompts, of which the second has all images but one, and the images of each."""
    return [[3, 14, IMAGE, 15, 92, 65], [27, *itertools.chain(*[(IMAGE, 18)] * (len(images) - 1)), 28]], [
        images[:1],
        images[1:],
    ]


def images_of(model: Any) -> list[Any]:
    return list(sight_of(model).images(model))


def arrays(image: Any) -> Image:
    return {name: each.numpy() for name, each in image.items()}


def generated(model: Any, prompts: list[list[int]], images: list[Any]) -> list[list[int]]:
    """The new tokens of `generate`, for prompts that are filled up on the left."""
    ids, mask = map(torch.from_numpy, padded(prompts, 0))
    given = sight_of(model).joined(images)
    given |= {name: kind(ids == IMAGE) for name, kind in KINDS.get(model.config.model_type, {}).items()}
    found = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW, **given)
    return found[:, -NEW:].tolist()


def written(folder: Path, prompts: list[list[int]], images: list[list[Any]]) -> list[list[int]]:
    shown = [[arrays(each) for each in row] for row in images]
    tokens = Generator(folder, "cpu").greedy(prompts, NEW, stop=frozenset(), images=shown)
    return np.stack(list(tokens), 1).tolist()


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else RARE) for name in MODELS])
def test_a_package_writes_the_tokens_of_generate(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model = made(name)
    found = request.getfixturevalue("llava") if name == "LLaVA" else package(model, tmp_path / "package", steps=8)
    assert found.verdict is not None
    assert found.verdict.passed
    assert {each.rule.id for each in found.log.findings} == NOTES.get(name, set())
    images = images_of(model)
    prompts, rows = prompts_of(images)
    sizes = Generator(found.folder, "cpu").look([arrays(each) for each in images])
    whole = [expanded(prompts[0], IMAGE, sizes[:1]), expanded(prompts[1], IMAGE, sizes[1:])]
    got = written(found.folder, prompts, rows)
    assert got == written(found.folder, whole, rows) == generated(model, whole, images)
    assert got != written(found.folder, prompts, [[images[1]], [images[0], *images[2:]]])


@RARE
@pytest.mark.parametrize("name", MODELS)
def test_weights_in_few_bits_pass(name: str, tmp_path: Path) -> None:
    found = package(made(name), tmp_path / "package", weights="int4", steps=8)
    assert found.verdict is not None
    assert found.verdict.error < 1e-4


def test_texts_without_images_are_read_too(llava: Package) -> None:
    """A token of images that has none is a word like others, as in transformers."""
    model, prompts = made("LLaVA"), [[3, 14, 15, 92], [27, 18]]
    ids, mask = map(torch.from_numpy, padded(prompts, 0))
    found = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW)
    assert written(llava.folder, prompts, [[], []]) == found[:, -NEW:].tolist()
    generator, marked = Generator(llava.folder, "cpu"), np.array([[3, IMAGE, 5]])
    with torch.no_grad():
        want = model(torch.from_numpy(marked)).logits.numpy()
    np.testing.assert_allclose(generator.feed(marked), want, rtol=1e-4, atol=1e-5)


def test_another_model_is_told(llava: Package) -> None:
    """The encoder's own weights, which only images show."""
    model, log = made("LLaVA"), Log()
    with torch.no_grad():
        model.model.multi_modal_projector.linear_2.bias.add_(0.5)
    assert not verdict(llava.folder, model, log, "cpu", steps=2, accuracy="exact", weights="float32").passed
    assert "FXP5002" in {each.rule.id for each in log.findings}


def test_images_and_their_places_have_to_agree(llava: Package) -> None:
    generator = Generator(llava.folder, "cpu")
    image = {"pixel_values": np.zeros((1, 3, 16, 16), np.float32)}
    cases: list[tuple[list[int], list[Any], str]] = [
        ([3, 4], [image], "the text has 0 tokens 98, which stand for images, and there are 1"),
        ([3, IMAGE], [], "the text has 1 tokens 98, which stand for images, and there are 0"),
        ([3, IMAGE, IMAGE], [image], "has 2 tokens 98"),
        ([3, IMAGE], [{"pixels": image["pixel_values"]}], "an image is pixel_values, not pixels"),
    ]
    for prompt, images, words in cases:
        with pytest.raises(PackageError, match=words):
            list(generator.greedy([prompt], 2, images=[images]))
    with pytest.raises(PackageError, match="there are 1 prompts, and images of 2"):
        list(generator.greedy([[3]], 2, images=[[], []]))
    generator.reset()
    generator.look([image])
    with pytest.raises(PackageError, match="the images have 4 parts, and the texts 1 tokens 98"):
        generator.feed(np.array([[3, IMAGE]]))


def test_what_the_files_say_has_to_be_in_the_graphs(llava: Package, tmp_path: Path) -> None:
    held = json.loads((llava.folder / FILE).read_text())
    changes: list[tuple[Any, str]] = [
        (lambda model: model["vision"]["inputs"].update(image_grid_thw="grid"), "differ in"),
        (lambda model: model["vision"]["inputs"].update(sounds="sounds"), "none of those that are known"),
        (lambda model: model["decoder"]["inputs"].update(token_type_ids="kinds"), "'token_kinds' has 0 numbers"),
        (lambda model: model.pop("embedding"), "does not describe a decoder"),
    ]
    for change, words in changes:
        model = json.loads(json.dumps(held))
        change(model["model"])
        for path in llava.files:
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / FILE).write_text(json.dumps(model))
        with pytest.raises(PackageError, match=words):
            Generator(tmp_path, "cpu")


GRID = torch.tensor([[1, 4, 6], [3, 2, 10], [1, 12, 2]])


@pytest.mark.parametrize("name", ["Qwen2-VL", "Qwen2.5-VL", "Qwen3-VL"])
def test_encoders_of_grids_compute_what_transformers_computes(name: str) -> None:
    """Also of several frames, windows that are not full, and rows longer than columns."""
    model = made(name)
    visual = model.model.visual
    pixels = torch.randn(int(GRID.prod(1).sum()), 96)
    with torch.no_grad():
        want = features_of(visual(pixels, grid_thw=GRID))
        places = places_of(GRID, len(pixels), visual)
        got = features_of(with_attention(visual)(pixels, grid_thw=GRID, **places))
    torch.testing.assert_close(got, want)
    assert model.model.visual.blocks[0].attn.forward.__func__ is type(visual.blocks[0].attn).forward


def test_positions_of_grids_are_those_of_transformers() -> None:
    """At once, and in two calls of which the second has an image of its own."""
    model = made("Qwen2-VL")
    merged = [(t, h // 2, w // 2) for t, h, w in GRID.tolist()]
    one, two, three = ([IMAGE] * int(np.prod(each)) for each in merged)
    prompts = [[5, *one, 6, 7, *two], [8, *three, 9]]
    ids, mask = padded(prompts, 0)
    given = {"mm_token_type_ids": (torch.from_numpy(ids) == IMAGE).int(), "image_grid_thw": GRID}
    want, shift = model.model.get_rope_index(torch.from_numpy(ids), attention_mask=torch.from_numpy(mask), **given)
    vision = Vision.__new__(Vision)
    vision._config = type("Config", (), {"token": IMAGE})  # type: ignore[assignment]
    vision._none = np.zeros((0, 4), np.float32)
    cut = ids.shape[1] - len(two) - 1
    for ends in ([ids.shape[1]], [cut, ids.shape[1]]):
        vision.reset()
        vision._waiting = np.zeros((1, 4), np.float32)
        vision._grids = list(merged)
        parts = [slice(begin, end) for begin, end in itertools.pairwise([0, *ends])]
        rows = slice(None) if len(ends) == 1 else slice(0, 1)
        got = np.concatenate([vision._positions(ids[rows, part], mask[rows, part]) for part in parts], 2)
        np.testing.assert_array_equal(got, want.numpy()[:, rows])
        after = vision._positions(np.array([[4]] * len(got[0])), np.ones((len(got[0]), 1), np.int64))
        assert after[0, :, 0].tolist() == (mask[rows].sum(1) + shift[rows, 0].numpy()).tolist()


def test_decoders_alone_are_no_readers_of_images() -> None:
    """Though their class says that it reads images: that of Gemma3."""
    text = language_models.made("Gemma3")
    assert "image" in type(text).input_modalities
    assert kind_of(text) is DECODER
    assert kind_of(made("Qwen2-VL")) is not DECODER


def changed(name: str, **methods: Any) -> Any:
    """The model of a row with other methods."""
    model = made(name)
    model.__class__ = type(type(model).__name__, (type(model),), methods)
    return model


def other_image(self: Any, pixel_values: torch.Tensor, image_position_ids: torch.Tensor) -> Any:
    return self.model.get_image_features(pixel_values)


def other_call(self: Any, input_ids: Any = None, attention_mask: Any = None, sounds: Any = None) -> Any:
    return self.model(input_ids, attention_mask=attention_mask)


def other_positions(self: Any, *args: Any, **kwargs: Any) -> Any:
    """As `generate` would have them, and the forward has not."""
    found = transformers.LlavaForConditionalGeneration.prepare_inputs_for_generation(self, *args, **kwargs)
    return {**found, "position_ids": found["position_ids"] * 2}


OTHERS: dict[str, tuple[Any, str]] = {
    "another image": (lambda: changed("LLaVA", get_image_features=other_image), "as pixel_values, image_position_ids"),
    "another call": (lambda: changed("LLaVA", forward=other_call), "asks for sounds, which no package gives"),
    "another generate": (
        lambda: changed("LLaVA", prepare_inputs_for_generation=other_positions),
        "generate of 'LlavaForConditionalGeneration' has other logits for token 0",
    ),
    "an encoder of any size": (
        lambda: named("LLaVA", "vision_config", "pixtral"),
        "its encoder 'pixtral' those of any",
    ),
    "other kinds of tokens": (lambda: named("Gemma3", "", "gemma5"), "its type 'gemma5' is none of gemma3, paligemma"),
    "other blocks": (lambda: without_attention("Qwen2-VL"), "other blocks than the Qwen-VL family"),
    "other positions": (lambda: resampling("Qwen3-VL", "bicubic"), "by 'bicubic', not 'bilinear'"),
}


def named(name: str, part: str, kind: str) -> Any:
    """The model of a row with another type, or a part of another type."""
    model = made(name)
    (getattr(model.config, part) if part else model.config).model_type = kind
    return model


def without_attention(name: str) -> Any:
    model = made(name)
    for block in model.model.visual.blocks:
        block.attention = block.attn
        del block.attn
        block.__class__ = type("Block", (type(block),), {"attn": property(lambda self: self.attention.forward)})
    return model


def resampling(name: str, mode: str) -> Any:
    model = made(name)
    model.model.visual.interpolation_mode = mode
    return model


@pytest.mark.parametrize("name", OTHERS)
def test_models_that_read_images_otherwise_are_refused(name: str, tmp_path: Path) -> None:
    make, words = OTHERS[name]
    with pytest.raises(NotGenerativeError, match=words):
        package(make(), tmp_path / "package")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "words"), [({"cache": "shared"}, "decoders of text alone"), ({"runtime": "genai"}, "no place for this")]
)
def test_choices_that_models_of_images_do_not_have(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=words):
        package(made("LLaVA"), tmp_path / "package", **given)


@RARE
@pytest.mark.parametrize("name", ["Qwen2-VL", "Qwen2.5-VL"])
def test_onnxruntime_genai_writes_the_same_of_an_image(name: str, tmp_path: Path) -> None:
    og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    model = made(name)
    folder = package(model, tmp_path / "package", runtime="genai", steps=2).folder
    image = arrays(images_of(model)[0])
    (size,) = Generator(folder, "cpu").look([image])
    prompt = [3, 95, *[image_token(model)] * size, 96, 15, 92]
    loaded = og.Model(str(folder))
    settings = og.GeneratorParams(loaded)
    settings.set_search_options(max_length=len(prompt) + NEW, do_sample=False)
    generator, given = og.Generator(loaded, settings), og.NamedTensors()
    given["input_ids"] = og.Tensor(np.array([prompt], np.int32))
    given["num_image_tokens"] = og.Tensor(np.array([size], np.int64))
    for part, value in image.items():
        given[part] = og.Tensor(value)
    generator.set_inputs(given)
    while not generator.is_done():
        generator.generate_next_token()
    shown = Generator(folder, "cpu").greedy([prompt], NEW, stop=frozenset(), images=[[image]])
    assert list(generator.get_sequence(0))[-NEW:] == [int(each[0]) for each in shown]
