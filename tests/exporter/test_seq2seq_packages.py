"""Packages of encoder-decoders: the tokens of `generate`, with what its settings forbid and force, and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import package
from fxport.exporter.language_models.generation import NotGenerativeError
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import FILE, PackageError
from fxport.ort_runner.token_rules import FILE as SETTINGS_FILE
from fxport.ort_runner.token_rules import Seen, TokenRules
from tests.cases.language_models import model_of
from tests.cases.seq2seq_models import BART, MODELS, QUICK, SETTINGS, WHISPER, made

transformers = pytest.importorskip("transformers")

NEW = 16
PROMPTS = ([3, 14, 15, 92, 65, 35], [27, 18, 28])
RARE = pytest.mark.slow


def texts(tokens: Any) -> list[list[int]]:
    """The tokens of each text up to its end."""
    return [row[: row.index(99) + 1] if 99 in row else row for row in np.asarray(tokens).tolist()]


def written(folder: Path, prompts: Any = PROMPTS) -> list[list[int]]:
    return texts(np.stack(list(Generator(folder, "cpu").greedy(prompts, NEW)), 1))


def generated(model: Any) -> list[list[int]]:
    """The same by eager PyTorch's `generate`, of prompts that are filled up on the right."""
    longest = max(map(len, PROMPTS))
    ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in PROMPTS])
    found = model.generate(ids, attention_mask=(ids != 0).long(), do_sample=False, num_beams=1, max_new_tokens=NEW)
    return texts(found[:, 1:])


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else RARE) for name in MODELS])
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_a_package_writes_the_tokens_of_generate(name: str, tmp_path: Path) -> None:
    model = made(name)
    found = package(model, tmp_path / "package")
    assert found.verdict is not None
    assert found.verdict.passed
    assert not found.log.findings
    assert {"encoder.onnx", "decoder.onnx", FILE, SETTINGS_FILE} == {path.name for path in found.files}
    if name == "Whisper":
        sounds = torch.randn(2, 8, 40)
        want = texts(model.generate(input_features=sounds, do_sample=False, num_beams=1, max_new_tokens=NEW))
        got = [row[:-1] if row[-1] == 99 else row for row in written(found.folder, sounds.numpy())]
    else:
        want, got = generated(model), written(found.folder)
    assert got == want
    assert len({token for row in got for token in row}) >= NEW // 2


def test_keys_of_the_source_are_computed_once(tmp_path: Path) -> None:
    """The graph of a step has products of the decoder's own tokens alone."""
    import onnx

    folder = package(model_of(*MODELS["BART"]), tmp_path / "package", steps=2).folder
    step, encoder = (onnx.load(folder / name).graph for name in ("decoder.onnx", "encoder.onnx"))
    held = {each.name for each in step.initializer}
    assert not any("encoder_attn.k_proj" in name or ".encoder.layers" in name for name in held)
    names = {each.name for each in encoder.initializer}
    assert not any(
        "lm_head" in name or "decoder.layers.0.fc1" in name or "self_attn.q_proj" in name
        for name in names
        if ".decoder." in name
    )
    assert [port.name for port in encoder.output] == ["cross.0.key", "cross.0.value"]
    generator = Generator(folder, "cpu")
    with pytest.raises(PackageError, match="65 tokens are more than the encoder takes, which is 64"):
        list(generator.greedy([[1] * 65], 2))
    with pytest.raises(PackageError, match="66 tokens are more than the context"):
        list(generator.greedy([[1] * 6], 66))
    for token in (-1, 100):
        with pytest.raises(PackageError, match=f"{token} is no token of this model, whose tokens are 0 to 99"):
            list(generator.greedy([[3, token]], 2))
    with pytest.raises(PackageError, match="-1 is no token of this model"):
        list(generator.greedy([[3, 4]], 2, start=[-1]))
    with pytest.raises(PackageError, match="the encoder takes input_ids, attention_mask, not audio_features"):
        list(generator.greedy(np.zeros((1, 8, 40), np.float32), 2))
    (folder / SETTINGS_FILE).unlink()
    with pytest.raises(PackageError, match="names no token with which texts begin"):
        list(Generator(folder, "cpu").greedy(PROMPTS, 2))


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "guidance_scale": ({"guidance_scale": 2.0}, "'guidance_scale' is 2.0, which fxport generate does not compute"),
    "stop_strings": ({"stop_strings": ["end"]}, "'stop_strings' is"),
    "tokens": ({"suppress_tokens": ["no"]}, "has no such value: 'no' is no number"),
    "penalty": ({"repetition_penalty": -1.0}, "is no number above 0"),
    "words": ({"bad_words_ids": [[]]}, "is no list of lists"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_settings_that_are_not_computed_are_refused(name: str, tmp_path: Path) -> None:
    settings, words = BAD_SETTINGS[name]
    with pytest.raises(PackageError, match=words):
        TokenRules.of(settings)
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings))
    with pytest.raises(PackageError, match=words):
        TokenRules.read(tmp_path)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_n_grams_of_the_source_are_repeated(size: int) -> None:
    """As transformers computes it, of a text that begins with fewer tokens than the rule asks for."""
    rule = transformers.EncoderNoRepeatNGramLogitsProcessor
    generator = np.random.default_rng(size)
    source, ids = generator.integers(0, 4, (2, 9)), generator.integers(0, 4, (2, 6))
    rules = TokenRules.of({"encoder_no_repeat_ngram_size": size})
    for length in range(1, ids.shape[1] + 1):
        scores, part = generator.standard_normal((2, 5)).astype(np.float32), ids[:, :length]
        seen = Seen(part, np.zeros(2, np.int64), 1, 20, frozenset(), source)
        want = rule(size, torch.from_numpy(source))(torch.from_numpy(part), torch.from_numpy(scores))
        np.testing.assert_array_equal(rules.apply(scores, seen), want.numpy())
    assert np.isneginf(rules.apply(scores, seen)).any() or size == 3
    np.testing.assert_array_equal(rules.apply(scores, replace(seen, source=None)), scores)


def test_models_of_other_settings_are_refused(tmp_path: Path) -> None:
    model = model_of("BartForConditionalGeneration", {**BART, "decoder_start_token_id": None, "bos_token_id": None})
    with pytest.raises(PackageError, match="'decoder_start_token_id' is None"):
        package(model, tmp_path / "package")
    for given, words in (({"cache": "shared"}, "for decoders alone"), ({"runtime": "genai"}, "no place for this")):
        with pytest.raises(PackageError, match=words):
            package(made("BART"), tmp_path / "package", **given)


def test_encoders_of_other_inputs_are_refused(tmp_path: Path) -> None:
    config = transformers.Speech2TextConfig(vocab_size=100, d_model=32, encoder_layers=1, decoder_layers=1)
    with pytest.raises(NotGenerativeError, match="takes 'input_features', of which no package is made"):
        package(transformers.Speech2TextForConditionalGeneration(config).eval(), tmp_path / "package")


SPEECH: dict[str, tuple[dict[str, Any], str]] = {
    "no language": ({"language": None}, "name no language of <|en|>, <|de|> …, but None"),
    "timestamps": ({"return_timestamps": True}, "'return_timestamps' of the settings"),
    "another task": ({"task": "sing"}, "the task 'sing' is none of transcribe, translate"),
}


@pytest.mark.parametrize("name", SPEECH)
def test_speech_without_language_is_refused(name: str, tmp_path: Path) -> None:
    changes, words = SPEECH[name]
    model = made("Whisper")
    for key, value in changes.items():
        setattr(model.generation_config, key, value)
    with pytest.raises(PackageError, match=re.escape(words)):
        package(model, tmp_path / "package")


def test_the_search_of_the_folder_is_told() -> None:
    assert TokenRules.of({"num_beams": 4, "do_sample": True}).search == "4 beams"
    assert TokenRules.of({"do_sample": True}).search == "samples"
    assert not TokenRules.of({"num_beams": 1, "guidance_scale": 1.0}).search


def test_onnxruntime_genai_writes_the_same_of_a_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    monkeypatch.setitem(MODELS, "Whisper", (MODELS["Whisper"][0], {**WHISPER, "max_source_positions": 1500}))
    model = made("Whisper", **dict.fromkeys(SETTINGS))
    folder = package(model, tmp_path / "package", runtime="genai").folder
    sounds = torch.randn(1, 8, 3000).numpy()
    loaded = og.Model(str(folder))
    settings = og.GeneratorParams(loaded)
    settings.set_search_options(max_length=4 + NEW, do_sample=False)
    generator = og.Generator(loaded, settings)
    inputs = og.NamedTensors()
    inputs["audio_features"] = og.Tensor(sounds)
    generator.set_inputs(inputs)
    generator.append_tokens(np.array([[2, 20, 22, 24]], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    assert texts([generator.get_sequence(0)[-NEW:]]) == written(folder, sounds)
