"""Adapters of peft, merged; and the score of a text."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models.adapters import switch
from fxport.exporter.language_models.few_bits import rounded
from fxport.exporter.language_models.folders import model_of
from fxport.exporter.language_models.seq2seq import source_example
from fxport.exporter.language_models.verdict import Verdict
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.ort_runner.adapter_file import FILE as ADAPTER
from fxport.ort_runner.adapter_file import write_adapter
from fxport.ort_runner.generation import Generator
from fxport.ort_runner.package_config import PackageError
from tests.cases.seq2seq_models import made
from tests.exporter.test_language_packages import NEW, PROMPTS, generated, small, written

WORDS = {"type": "WordLevel", "vocab": {f"w{index}": index for index in range(100)} | {"w200": 100}, "unk_token": "w0"}


def with_words(folder: Path) -> None:
    """A tokenizer of a hundred words."""
    others = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": WORDS, **others}
    (folder / "tokenizer.json").write_text(json.dumps(whole))


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """A folder of LoRA beside that of its model, and the sum of both in `sum.pt`."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = small(eos_token_id=None)
    model.save_pretrained(tmp_path / "base")
    torch.manual_seed(1)
    both = peft.get_peft_model(
        model, peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    )
    both.save_pretrained(tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": str(tmp_path / "base")}))
    with_words(tmp_path / "adapter")
    torch.save({name: value + 0 for name, value in both.merge_and_unload().state_dict().items()}, tmp_path / "sum.pt")
    return tmp_path / "adapter"


def test_an_adapter_is_merged(adapter: Path, tmp_path: Path) -> None:
    found = package(adapter, tmp_path / "package", steps=8)
    alone, whole = small(eos_token_id=None), small(eos_token_id=None)
    whole.load_state_dict(torch.load(tmp_path / "sum.pt"))
    assert written(found.folder) == generated(whole)
    assert generated(whole) != generated(alone)


@pytest.mark.parametrize(("weights", "cache"), [("float32", "dynamic"), ("int4", "shared")])
def test_an_adapter_is_an_input(weights: Any, cache: Any, adapter: Path, tmp_path: Path) -> None:
    """The package without it is the model alone, with it what the two are; onnxruntime-genai writes the same."""
    found = package(adapter, tmp_path / "package", weights=weights, cache=cache, steps=8, adapter="input", block=16)
    assert isinstance(found.verdict, Verdict)
    assert (found.verdict.tokens, found.verdict.flips) == (32, 0)
    loaded = model_of(adapter, Log(), adapter="input").model
    file = found.folder / ADAPTER
    with rounded(loaded, 4, 16) if weights == "int4" else nullcontext():
        want = generated(loaded)
        switch(loaded, on=False)
        alone = generated(loaded)
    assert want != alone
    both = Generator(found.folder, "cpu", adapter=file)
    assert np.stack([*both.greedy(PROMPTS, NEW, stop=frozenset())], 1).tolist() == want
    assert written(found.folder) == alone
    assert of_genai(found.folder, file) == want[0]


def of_genai(folder: Path, file: Path) -> list[int]:
    og = pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is not installed")
    model = og.Model(str(folder))
    adapters = og.Adapters(model)
    adapters.load(str(file), "lora")
    settings = og.GeneratorParams(model)
    length = len(PROMPTS[0]) + NEW
    settings.set_search_options(max_length=length, min_length=length, do_sample=False)
    generator = og.Generator(model, settings)
    generator.set_active_adapter(adapters, "lora")
    generator.append_tokens(np.array([PROMPTS[0]], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return generator.get_sequence(0)[-NEW:].tolist()


def test_adapters_that_are_no_input_are_refused(adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(PretrainedError, match="is no folder of an adapter"):
        package(tmp_path / "base", tmp_path / "package", tokenizer=adapter, adapter="input")
    with pytest.raises(PackageError, match="is that of a folder of peft, and is compared"):
        package(adapter, tmp_path / "package", adapter="input", steps=0)
    edit(adapter, use_dora=True)
    with pytest.raises(PretrainedError, match=r"does not fit its model: .*magnitude"):
        package(adapter, tmp_path / "package", adapter="input")
    assert not (tmp_path / "package").exists()


def test_files_that_are_no_adapter_are_refused(tmp_path: Path) -> None:
    folder = package(small(), tmp_path / "package", steps=1).folder
    (tmp_path / "other").write_bytes(b"none")
    for name, words in (("other", "is no adapter of ONNX Runtime"), ("nothing", "There is no file")):
        with pytest.raises(PackageError, match=words):
            Generator(folder, "cpu", adapter=tmp_path / name)
    write_adapter(tmp_path / "own", {"a.lora_A.weight": np.zeros((2, 3), np.float32)})
    with pytest.raises(PackageError, match="is an adapter for another model"):
        Generator(folder, "cpu", adapter=tmp_path / "own")


def edit(folder: Path, **settings: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


BAD = {
    "another kind": ({"peft_type": "PREFIX_TUNING"}, "adapters of type 'PREFIX_TUNING' are not merged"),
    "no model": ({"base_model_name_or_path": "somebody/model"}, "its model 'somebody/model' is no folder here"),
    "other layers": ({"target_modules": ["q_proj"]}, "and its model differ in '.*down_proj"),
    "another rank": ({"r": 3}, "does not fit its model"),
}


@pytest.mark.parametrize("name", BAD)
def test_adapters_that_do_not_fit_are_refused(name: str, adapter: Path) -> None:
    settings, words = BAD[name]
    edit(adapter, **settings)
    with pytest.raises(PretrainedError, match=words):
        model_of(adapter, Log())


KINDS: dict[str, dict[str, Any]] = {
    "alpha": {"lora_alpha": 5, "alpha_pattern": {"down_proj": 3}},
    "ranks": {"rank_pattern": {"down_proj": 4}},
    "magnitudes": {"use_dora": True},
    "roots of ranks": {"use_rslora": True, "r": 4},
    "a layer of its own": {"modules_to_save": ["lm_head"]},
    "some layers": {"layers_to_transform": [0]},
    "tokens": {"trainable_token_indices": [3, 4]},
    "a table": {"target_modules": ["embed_tokens", "v_proj"]},
}


def beside(folder: Path, **settings: Any) -> tuple[Path, torch.Tensor]:
    """An adapter of a kind, and the logits of its model with it, not merged."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = small(tie_word_embeddings="tied" in folder.name)
    model.save_pretrained(folder / "base")
    given = {"r": 2, "target_modules": ["q_proj", "down_proj"], "init_lora_weights": False, **settings}
    both = peft.get_peft_model(model, peft.LoraConfig(**given)).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in both.named_parameters():
            if parameter.requires_grad and "base_layer" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    both.save_pretrained(folder / "adapter", save_embedding_layers=False)
    edit(folder / "adapter", base_model_name_or_path=str(folder / "base"))
    with torch.no_grad():
        return folder / "adapter", both(torch.arange(24).reshape(2, 12)).logits


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")  # of peft
def test_a_merged_adapter_computes_what_it_does_beside_its_model(name: str, tmp_path: Path) -> None:
    adapter, want = beside(tmp_path, **KINDS[name])
    model = model_of(adapter, Log()).model
    with torch.no_grad():
        torch.testing.assert_close(model(torch.arange(24).reshape(2, 12)).logits, want, rtol=1e-4, atol=1e-4)
        alone = small()(torch.arange(24).reshape(2, 12)).logits
    assert (want - alone).abs().max() > 0.1


@pytest.mark.parametrize("name", ["T5", "Whisper"])
def test_adapters_of_encoder_decoders_are_merged(name: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = made(name)
    model.save_pretrained(tmp_path / "base")
    targets = ["q"] if name == "T5" else ["q_proj"]
    both = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=targets, init_lora_weights=False)).eval()
    both.save_pretrained(tmp_path / "adapter")
    edit(tmp_path / "adapter", base_model_name_or_path=str(tmp_path / "base"))
    given = {**source_example(model, 1, 5), "decoder_input_ids": torch.tensor([[2, 5, 7]])}
    with torch.no_grad():
        want, got = both(**given).logits, model_of(tmp_path / "adapter", Log()).model(**given).logits
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "tied": ({"target_modules": ["lm_head"]}, "computes something else"),
    "biases": ({"lora_bias": True}, "cannot be merged: .* the base layer has no bias"),
    "waits for tokens": ({"alora_invocation_tokens": [5, 6], "task_type": "CAUSAL_LM"}, "merge"),
}


@pytest.mark.parametrize("name", OTHERWISE)
@pytest.mark.filterwarnings("ignore")  # of peft
def test_adapters_that_are_no_sum_are_refused(name: str, tmp_path: Path) -> None:
    settings, words = OTHERWISE[name]
    folder = tmp_path / name
    folder.mkdir()
    adapter, _ = beside(folder, **settings)
    with pytest.raises(PretrainedError, match=words):
        model_of(adapter, Log())


def test_a_text_is_scored(tmp_path: Path) -> None:
    """By the values before rounding: a package in 4 bits finds a text that its model wrote less likely."""
    model = small()
    with_words(tmp_path)
    ids = model.generate(torch.tensor([[5, 6]]), do_sample=True, max_new_tokens=60, min_new_tokens=60)[0].tolist()
    (tmp_path / "text.txt").write_text(" ".join(f"w{each}" for each in ids))
    found = package(model, tmp_path / "few", weights="int4", tokenizer=tmp_path, text=tmp_path / "text.txt", steps=1)
    assert found.text is not None
    with torch.no_grad():
        loss = float(model(torch.tensor([ids]), labels=torch.tensor([ids])).loss)
    assert found.text.tokens == len(ids) - 1
    assert found.text.eager_perplexity == pytest.approx(torch.tensor(loss).exp().item(), rel=1e-4)
    assert found.text.divergence > 1e-4
    assert found.text.perplexity > found.text.eager_perplexity
    assert "nats a token" in str(found.text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read as text"),
        (b"\xff\xfe\x00", "cannot be read as text"),
        (b"w1", "fewer than two tokens"),
        (b"w1 w200", "gives token 100"),
    ],
)
def test_texts_that_cannot_be_scored_are_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    with_words(tmp_path)
    if content is not None:
        (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(PackageError, match=words):
        package(small(), tmp_path / "package", tokenizer=tmp_path, text=tmp_path / "text.txt")
    assert not (tmp_path / "package").exists()


def test_a_text_takes_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("w1 w2")
    with pytest.raises(PackageError, match="--tokenizer"):
        package(small(), tmp_path / "package", text=tmp_path / "text.txt")
