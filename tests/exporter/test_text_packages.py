"""Packages of embedding and reranking models: their vectors and scores beside eager PyTorch, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models.folders import model_of
from fxport.exporter.language_models.text_verdict import text_verdict
from fxport.exporter.sources.pretrained import PretrainedError
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.text_config import FILE
from fxport.ort_runner.text_model import TextModel
from tests.cases.text_models import MODELS, OURS, POOLED, QUICK, SIZES, listed, saved, tokenizer

pytest.importorskip("transformers")

RARE = pytest.mark.slow
TEXTS = ["w5 W6", "w7 w8 w9 nothing w10", "w3 " * 40]
"""Two of different lengths, and one that is cut."""


def hidden(model: Any, text: str) -> np.ndarray:
    """The hidden states [tokens, size] of one text alone, by eager PyTorch and the tokenizer of transformers."""
    inputs = tokenizer(types=False)(text, truncation=True, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).last_hidden_state[0].numpy()


BY_HAND = {
    "cls": lambda x: x[0],
    "max": lambda x: x.max(0),
    "mean": lambda x: x.mean(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / np.sqrt(len(x)),
    "weightedmean": lambda x: np.average(x, axis=0, weights=np.arange(1, len(x) + 1)),
    "lasttoken": lambda x: x[-1],
}
"""Poolings of the hidden states of one text."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else RARE) for name in MODELS])
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_a_package_gives_the_vectors_of_the_model(name: str, tmp_path: Path) -> None:
    """All poolings, joined; texts that are filled up on the side of the tokenizer, against each text alone."""
    kind, settings, side = MODELS[name]
    model = saved(tmp_path / "source", kind, settings, side)
    pooling = ("1", "1_Pooling", f"{OURS}sentence_transformer.modules.pooling.Pooling", {"pooling_mode": [*BY_HAND]})
    listed(tmp_path / "source", [POOLED[0], pooling])
    found = package(tmp_path / "source", tmp_path / "package")
    assert found.verdict is not None
    assert found.verdict.error < 1e-5
    want = [np.concatenate([pool(hidden(model, text)) for pool in BY_HAND.values()]) for text in TEXTS]
    np.testing.assert_allclose(TextModel(found.folder, "cpu").embed(TEXTS), want, rtol=1e-4, atol=1e-4)


def test_modules_after_the_pooling_are_in_the_graph(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    source = tmp_path / "source"
    model = saved(source, "BertModel", SIZES)
    dense = {"in_features": 32, "out_features": 8, "activation_function": "torch.nn.modules.activation.Tanh"}
    listed(
        source, [*POOLED, ("2", "2_Dense", f"{OURS}models.Dense", dense), ("3", "3_N", f"{OURS}models.Normalize", {})]
    )
    linear = torch.nn.Linear(32, 8)
    save_file(
        {f"linear.{name}": value for name, value in linear.state_dict().items()}, source / "2_Dense/model.safetensors"
    )
    (source / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "w1 w2 "}, "default_prompt_name": null}'
    )
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": true}')
    made = TextModel(package(source, tmp_path / "package").folder, "cpu")
    mean = torch.from_numpy(np.stack([hidden(model, f"w1 w2 {text}").mean(0) for text in TEXTS[:2]]))
    with torch.no_grad():
        want = torch.nn.functional.normalize(linear(mean).tanh(), dim=-1).numpy()
    np.testing.assert_allclose(made.embed(TEXTS[:2], "query"), want, rtol=1e-4, atol=1e-5)
    assert made.config.max_length == 12
    with pytest.raises(PackageError, match="has no prompt 'passage'; it has query"):
        made.embed(TEXTS, "passage")


@pytest.mark.parametrize("weights", ["float32", pytest.param("int4", marks=RARE)])
def test_a_reranker_gives_the_scores_of_the_model(weights: Any, tmp_path: Path) -> None:
    """Of pairs of texts, with the types of their tokens; one label is a probability."""
    model = saved(tmp_path / "source", "BertForSequenceClassification", {**SIZES, "num_labels": 1})
    found = package(tmp_path / "source", tmp_path / "package", weights=weights)
    assert found.verdict is not None
    assert found.verdict.passed
    inputs = tokenizer()([TEXTS[0]] * 3, TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        want = model(**inputs).logits.sigmoid().numpy()
    made = TextModel(found.folder, "cpu")
    np.testing.assert_allclose(made.score(TEXTS[0], TEXTS), want, rtol=0.2 if weights == "int4" else 1e-5)
    with pytest.raises(PackageError, match=r"gives 'scores' and no vectors; it scores texts .*--query"):
        made.embed(TEXTS)


def test_another_model_is_told(tmp_path: Path) -> None:
    saved(tmp_path / "source", "BertModel", {**SIZES, "num_hidden_layers": 1})
    listed(tmp_path / "source", POOLED)
    folder = package(tmp_path / "source", tmp_path / "package", steps=0).folder
    log = Log()
    other = model_of(tmp_path / "source", log).model
    with torch.no_grad():
        other.transformer.embeddings.word_embeddings.weight.mul_(2)
    assert not text_verdict(folder, other, log, "cpu", steps=1, accuracy="exact", weights="float32").passed
    assert [each.rule.id for each in log.findings] == ["FXP5002"]


def test_a_folder_without_pooler_is_taken(tmp_path: Path) -> None:
    """No module reads it, so it is no missing weight."""
    from safetensors.torch import load_file, save_file

    saved(tmp_path / "source", "BertModel", {**SIZES, "num_hidden_layers": 1})
    path = tmp_path / "source/model.safetensors"
    save_file({name: each for name, each in load_file(path).items() if "pooler" not in name}, path, {"format": "pt"})
    listed(tmp_path / "source", POOLED)
    assert not model_of(tmp_path / "source", log := Log()).packed
    assert not log.findings


BAD: dict[str, tuple[list[Any], str]] = {
    "a class of its own": (
        [*POOLED, ("2", "2_Own", "my.models.Own", {})],
        "module '2' is of 'my.models.Own', which is none of Transformer, Pooling",
    ),
    "a module that is unknown": ([*POOLED, ("2", "2_CNN", f"{OURS}models.CNN", {})], r"module '2' is of '.*CNN'"),
    "a pooling that is unknown": (
        [POOLED[0], ("1", "1_P", f"{OURS}models.Pooling", {"pooling_mode": "median"})],
        "module '1', a Pooling: its pooling 'median'",
    ),
    "a prompt that is left out": (
        [POOLED[0], ("1", "1_P", f"{OURS}models.Pooling", {"include_prompt": False})],
        "module '1', a Pooling: its setting 'include_prompt' is False",
    ),
    "a setting that is unknown": (
        [*POOLED, ("2", "2_N", f"{OURS}models.Normalize", {"order": 1})],
        "module '2', a Normalize: its setting 'order' is unknown",
    ),
    "weights that do not fit": (
        [*POOLED, ("2", "2_Norm", f"{OURS}models.LayerNorm", {"dimension": "32"})],
        "module '2', a LayerNorm: its settings and weights do not fit",
    ),
    "no pooling": (POOLED[:1], "a Pooling is needed"),
    "two poolings": ([*POOLED, ("2", "1_Pooling", POOLED[1][2], POOLED[1][3])], "module '2' is a second Pooling"),
    "nothing at first": (POOLED[1:], "the first module, and no other"),
    "a path out of it": ([POOLED[0], ("1", "../x", POOLED[1][2], {})], "'../x' is no folder in it"),
    "another task": (
        [("0", "", f"{OURS}models.Transformer", {"transformer_task": "fill-mask"}), POOLED[1]],
        "the Transformer's setting 'transformer_task' is 'fill-mask'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_folders_that_are_not_understood_are_refused(name: str, tmp_path: Path) -> None:
    modules, words = BAD[name]
    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.json").write_text("{}")
    listed(source, modules)
    with pytest.raises(PretrainedError, match=words):
        package(source, tmp_path / "package")
    assert not (tmp_path / "package").exists()


CHOICES: dict[str, tuple[dict[str, Any], str]] = {
    "runtime": ({"runtime": "genai"}, "onnxruntime-genai runs no embedding"),
    "cache": ({"cache": "shared"}, "has no cache"),
    "tokenizer": ({"tokenizer": "source"}, "the tokenizer of an embedding or reranking model is that of its folder"),
    "text": ({"text": "text.txt"}, "a text is scored by models that generate"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_of_other_models_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, words = CHOICES[name]
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "source", "BertModel", {**SIZES, "num_hidden_layers": 1})
    listed(tmp_path / "source", POOLED)
    with pytest.raises(PackageError, match=words):
        package(tmp_path / "source", tmp_path / "package", **given)


def test_texts_that_the_model_cannot_take_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "source", "BertModel", {**SIZES, "num_hidden_layers": 1})
    listed(tmp_path / "source", POOLED)
    (tmp_path / "source/sentence_bert_config.json").write_text('{"max_seq_length": 65}')
    with pytest.raises(PackageError, match="fails for a text of 65 tokens, which its folder allows"):
        package(tmp_path / "source", tmp_path / "package")


def test_a_tokenizer_that_gives_other_tokens_is_refused(tmp_path: Path) -> None:
    """The library tokenizers reads the file alone; transformers reads its settings too."""
    source = tmp_path / "source"
    saved(source, "BertModel", {**SIZES, "num_hidden_layers": 1})
    listed(source, POOLED)
    given = json.loads((source / "tokenizer_config.json").read_text())
    (source / "tokenizer_config.json").write_text(json.dumps({**given, "extra_special_tokens": {"x_token": "brown"}}))
    with pytest.raises(PackageError, match="gives other 'input_ids' than transformers"):
        package(source, tmp_path / "package")


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="is no package of an embedding"):
        TextModel(tmp_path)
    (tmp_path / FILE).write_text('{"model": ' + "[" * 100 + "]" * 100 + "}")
    with pytest.raises(PackageError, match="nests more than 64 levels"):
        TextModel(tmp_path)
