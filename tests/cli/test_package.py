"""`fxport package` and `fxport generate`: what they write and print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxport.exporter.cli import main
from fxport.ort_runner.prompts import speed
from tests.cases.text_models import POOLED, SIZES, listed, saved

pytest.importorskip("transformers")

Output = pytest.CaptureFixture[str]

SOURCE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def model():
    config = LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config).eval()


def translator():
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0,
            eos_token_id=None,
        )
    )
    model.generation_config.num_beams = 4
    return model.eval()


def linear():
    return torch.nn.Linear(2, 2).eval()
"""

WORDS = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {f"w{index}": index for index in range(100)}, "unk_token": "w0"},
}
"""A tokenizer of a hundred words."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "tokenizer.json").write_text(json.dumps(WORDS))
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tokenizer.json").symlink_to(tmp_path / "words" / "tokenizer.json")
    return tmp_path / "net.py"


def test_a_package_is_written_and_speaks(source: Path, capsys: Output) -> None:
    folder = source.parent / "package"
    asked = ["package", f"{source}:model", "-o", str(folder), "--tokenizer", str(source.parent / "words")]
    (source.parent / "text.txt").write_text("w1 w2 w3")
    assert main([*asked, "--weights", "int4", "--tokens", "4", "--text", str(source.parent / "text.txt")]) == 0
    out = capsys.readouterr().out
    assert "2 tokens of the text: perplexity" in out
    assert f"{folder}: 4 files, " in out
    assert "8 tokens compared with eager PyTorch: 0 differ; largest error of a logit " in out
    assert main(["generate", str(folder), "--prompt", "w5 w7", "--max-new-tokens", "3"]) == 0
    text, _, told = capsys.readouterr().out.strip().splitlines()
    words = text.split()
    assert len(words) == 3
    assert told.startswith("prompt of 2 tokens: ")
    assert main(["generate", str(folder), "--ids", "5,7", "--max-new-tokens", "3"]) == 0
    ids = capsys.readouterr().out.splitlines()[0].split(",")
    assert words == [f"w{each}" for each in ids]
    assert main(["generate", str(folder), "--ids", "5," * 70]) == 2
    assert "more than the context" in capsys.readouterr().err


def test_vectors_are_printed(tmp_path: Path, capsys: Output) -> None:
    saved(tmp_path / "source", "BertModel", {**SIZES, "num_hidden_layers": 1})
    listed(tmp_path / "source", POOLED)
    folder = str(tmp_path / "package")
    assert main(["package", str(tmp_path / "source"), "-o", folder]) == 0
    assert "texts compared with eager PyTorch; largest error " in capsys.readouterr().out
    assert main(["embed", folder, "w5 w7", "w5 W7"]) == 0
    one, other = map(json.loads, capsys.readouterr().out.strip().splitlines())
    assert len(one) == 32
    assert one == pytest.approx(other)
    assert main(["embed", folder, "w5", "--query", "w7"]) == 2
    assert "gives 'sentence_embedding' and no scores" in capsys.readouterr().err
    assert main(["generate", folder, "--prompt", "w7"]) == 2
    assert "is no package that generates: run it with fxport embed" in capsys.readouterr().err


def test_an_encoder_reads_the_prompt(source: Path, capsys: Output) -> None:
    """And the search that the folder asks for is told where it is another one."""
    folder = source.parent / "package"
    asked = ["package", f"{source}:translator", "-o", str(folder), "--tokenizer", str(source.parent / "words")]
    assert main([*asked, "--tokens", "2"]) == 0
    assert f"{folder}: 5 files, " in capsys.readouterr().out
    assert main(["generate", str(folder), "--prompt", "w5 w7", "--max-new-tokens", "3"]) == 0
    text, _, told = capsys.readouterr().out.strip().splitlines()
    assert len(text.split()) == 3
    assert told.endswith("; the folder asks for another search: 4 beams")


BAD = {
    "no model": (["package", "{source}:linear", "-o", "out"], "is no language model of transformers"),
    "no folder": (["package", "{source}:model", "-o", "{source}"], "is a file; name a folder"),
    "no tokenizer": (["package", "{source}:model", "-o", "out", "--tokenizer", "{folder}"], "has no tokenizer"),
    "link": (
        ["package", "{source}:model", "-o", "out", "--tokenizer", "{folder}/links"],
        "is a link out of its folder",
    ),
    "no configuration": (
        ["package", "{folder}", "-o", "out", "--tokenizer", "{folder}/words"],
        "has no config.json, which names the model",
    ),
    "no vectors": (["embed", "{folder}", "text"], "is no package of an embedding or reranking model"),
    "no package": (["generate", "{folder}", "--ids", "1"], "is no package"),
    "nothing there": (["generate", "nowhere", "--prompt", "text"], "There is no folder 'nowhere'"),
    "nothing to embed": (["embed", "nowhere", "text"], "There is no folder 'nowhere'"),
    "no half precision": (
        ["package", "{source}:model", "-o", "out", "--dtype", "float16"],
        "has weights of float32, and the package is to compute in float16: load it with dtype=torch.float16.",
    ),
    "no features": (["generate", "{folder}/words", "--features", "{source}"], "holds no array"),
    "no words": (["generate", "{folder}", "--features", "{source}"], "has no tokenizer.json"),
    "no tokens": (["generate", "{folder}", "--ids", "one"], "are no token ids"),
    "neither": (["generate", "{folder}"], "Give either --prompt TEXT, --ids"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told_in_one_line(name: str, source: Path, capsys: Output) -> None:
    arguments, words = BAD[name]
    assert main([each.format(source=source, folder=source.parent) for each in arguments]) == 2
    err = capsys.readouterr().err.strip()
    assert words in err
    assert len(err.splitlines()) == 1


def test_the_speed_of_the_prompt_is_told_apart() -> None:
    assert speed(4, "tokens", [0.5]) == "prompt of 4 tokens: 8.0 tokens/s"
    assert speed(4, "tokens", [0.5, 0.1, 0.1]) == "prompt of 4 tokens: 8.0 tokens/s; 2 further tokens: 10.0 tokens/s"
