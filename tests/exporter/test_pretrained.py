"""A folder as transformers saves models: made without memory where its names are the model's, else loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from fxport import export
from fxport.exporter.cli import main
from fxport.exporter.sources.pretrained import PretrainedError, load
from fxport.exporter.weights import CheckpointError

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 99,
}


def llama() -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=True)).eval()


def test_a_model_in_bfloat16_is_validated_with_the_weights_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    llama().bfloat16().save_pretrained("my-llama")
    assert main(["export", "./my-llama"]) == 0
    said = capsys.readouterr().out
    assert said.count("equal to PyTorch on cpu") == 1
    assert "int64 [batch, sequence]" in said
    assert Path("my-llama.onnx").is_file()
    assert main(["validate", "my-llama.onnx", "--against", "my-llama"]) == 0
    assert "equal to PyTorch on cpu" in capsys.readouterr().out


def test_the_weights_are_those_of_the_folder(tmp_path: Path) -> None:
    model = llama()
    model.save_pretrained(tmp_path)
    found = load(tmp_path)
    assert found.weights == tmp_path
    assert all(parameter.is_meta for parameter in found.model.parameters())
    got = export(found.model, (), found.inputs, weights=found.weights).model.graph.initializers
    model.config.use_cache = False
    want = export(model, (), found.inputs).model.graph.initializers
    assert {name: value.const_value.tobytes() for name, value in got.items() if value.const_value is not None} == {
        name: value.const_value.tobytes() for name, value in want.items() if value.const_value is not None
    }


def test_weights_that_are_saved_under_other_names_are_loaded_by_transformers(tmp_path: Path) -> None:
    model = MixtralForCausalLM(MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=2)).eval()
    model.save_pretrained(tmp_path)
    found = load(tmp_path)
    assert found.weights is None
    torch.testing.assert_close(dict(found.model.named_parameters()), dict(model.named_parameters()))


def test_examples_of_two_inputs_and_of_a_model_without_a_head(tmp_path: Path) -> None:
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4))
    t5.save_pretrained(tmp_path / "t5")
    assert set(load(tmp_path / "t5").inputs) == {"input_ids", "attention_mask", "decoder_input_ids"}
    BertForSequenceClassification(BertConfig(**SIZES)).save_pretrained(tmp_path / "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "bert" / "config.json").write_text(json.dumps({**config, "architectures": None}), encoding="utf-8")
    found = load(tmp_path / "bert")
    assert isinstance(found.model, BertModel)
    dims = {0: "batch", 1: "sequence"}
    assert found.dynamic == {"input_ids": dims, "attention_mask": dims}


def test_a_model_that_reads_both_ways_gets_the_mask_of_its_padding(tmp_path: Path) -> None:
    BertForSequenceClassification(BertConfig(**SIZES)).eval().save_pretrained(tmp_path / "bert")
    found = load(tmp_path / "bert")
    assert found.masks == {"attention_mask": "input_ids"}
    assert found.inputs["attention_mask"].tolist() == [[1] * 8, [1] * 6 + [0] * 2]
    llama().save_pretrained(tmp_path / "llama")
    assert set(load(tmp_path / "llama").inputs) == {"input_ids"}


ODD = [
    {"architectures": [["LlamaForCausalLM"]]},
    {"architectures": "LlamaForCausalLM"},
    {"architectures": [{}]},
    {"architectures": 5},
    {"architectures": ["pipeline"]},
    {"architectures": ["LlamaConfig"]},
    {"architectures": ["__path__"]},
    {"hidden_size": -1},
    {"hidden_size": "wide"},
    {"hidden_size": None},
    {"num_attention_heads": 0},
    {"num_hidden_layers": 10**9},
    {"model_type": ["llama"]},
    {"model_type": {}},
    {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}, "model_type": "evil"},
    {"rope_scaling": [1]},
]


@pytest.mark.parametrize("change", ODD, ids=str)
def test_odd_configurations_are_told_and_run_no_code(change: dict[str, object], tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass\nclass Model: pass\n")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises((PretrainedError, CheckpointError), match=r"config\.json"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_configuration_of_great_depth(tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(PretrainedError, match=r"config\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "none-such"}, "names no model of transformers"),
        ({"model_type": "bert", "architectures": ["MyBert"]}, "names the class MyBert, which this transformers lacks"),
    ],
)
def test_a_configuration_of_no_known_model(config: dict[str, object], words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(PretrainedError, match=words):
        load(tmp_path)


def test_a_folder_without_weights_and_one_without_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LlamaConfig(**SIZES, num_key_value_heads=2, architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="has no checkpoint in it"):
        load(tmp_path)
    (tmp_path / "empty").mkdir()
    for folder, words in ((tmp_path, "has no checkpoint in it"), (tmp_path / "empty", "is a folder without")):
        assert main(["export", str(folder)]) == 2
        assert words in capsys.readouterr().err
