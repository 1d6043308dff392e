"""Every parser of files, on files that are almost right: a value, or an error that is meant, and nothing else.

What a parser may raise is what the command line turns into a sentence; anything else would be exit code 3. The usual
run takes a few hundred examples of each; `--fuzz-seconds 1800` goes on for so long with new ones.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from fxport.diagnostics.sarif import read_sarif
from fxport.exporter.checks import lock, manifest
from fxport.exporter.sources.inputs import parse_input, stored_inputs
from fxport.exporter.sources.pretrained import PretrainedError, configured
from fxport.exporter.sources.settings import load as settings_of
from fxport.exporter.sources.source import init_of, load_program
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.model_file import model_of
from fxport.exporter.weights import CheckpointError, open_checkpoint
from fxport.ort_runner.model_file import missing_external_data, read_model_file
from fxport.ort_runner.package_config import PackageConfig, PackageError
from fxport.ort_runner.provenance import rows_of
from fxport.ort_runner.samples import Samples, load_all, save_all
from fxport.ort_runner.structure import NoStructure, restored
from fxport.ort_runner.text_config import TextConfig
from fxport.ort_runner.token_rules import TokenRules
from fxport.ort_runner.train_checkpoint import read_checkpoint
from fxport.ort_runner.train_inputs import RefusedInput
from tests.cases.seq2seq_models import SETTINGS
from tests.hostile import models, tensors, texts

EXAMPLES = 150
"""Of each parser in the usual run."""


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser of a file, the name that its file has, files to begin with, and what it may raise."""

    name: str
    parse: Callable[[Path], object]
    file: str
    seeds: Callable[[], list[bytes]]
    raises: tuple[type[Exception], ...]


def samples_file() -> bytes:
    buffer = Path("samples.npz")
    save_all(buffer, [Samples("a", {"x": np.ones((2, 3), np.float32)}, {"y": np.ones(2, np.float32)})])
    return buffer.read_bytes()


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def arrays() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.ones((2, 3), np.float32), y=np.ones(2, np.int64))
    return buffer.getvalue()


def external() -> bytes:
    made = models.sound()
    models.located("a.data")(made)
    models.places(json.dumps([["a.py", 1, "m", "n"]]))(made)
    return made.SerializeToString()


def weights_and_files(path: Path) -> object:
    return list(missing_external_data(read_model_file(path)))


def folder_config(path: Path) -> object:
    return configured(path.parent)


def sound_log() -> bytes:
    related = [texts.result("b.py")["locations"][0]]  # type: ignore[index]
    return texts.sarif([texts.result("a.py", relatedLocations=related, properties={"op": "x"})]).encode()


TRAINED = tensors.safetensors(
    {"param/weight": tensors.ENTRY, "__metadata__": {"steps": "3", "seed": "1", "rates": '{"lr": 0.1}'}}
)
LOCKED = {"version": 1, "models": {"net": {"nodes": 3, "weights": 4, "inputs": {"x": "a"}, "error": {"s": 0.5}}}}
PACKAGE = {
    "model": {
        "decoder": {
            "filename": "model.onnx",
            "num_hidden_layers": 2,
            "inputs": dict.fromkeys(("input_ids", "attention_mask", "past_key_names", "past_value_names"), "a%d"),
            "outputs": dict.fromkeys(("logits", "present_key_names", "present_value_names"), "b%d"),
        },
        "context_length": 8,
        "eos_token_id": [1],
        "pad_token_id": 0,
    },
    "search": {"past_present_share_buffer": False},
}
CROSSED = ("cross_present_key_names", "cross_present_value_names")
SPOKEN = json.loads(json.dumps(PACKAGE))
SPOKEN["model"]["encoder"] = {
    "filename": "encoder.onnx",
    "inputs": {"audio_features": "a"},
    "outputs": dict.fromkeys(CROSSED, "c%d"),
}
SPOKEN["model"]["decoder"]["inputs"] |= dict.fromkeys(("cross_past_key_names", "cross_past_value_names"), "c%d")
STRUCTURE = {"results": {"dict": [["a", {"value": "y"}], ["b", {"list": [{"value": "y"}]}]]}}
MANIFEST = (
    'select = ["FXP4"]\nfail_on = "warning"\n[severity]\nFXP4001 = "error"\n[defaults]\nopset = [18, 20]\n[[model]]\n'
    'name = "net"\nsource = "net.py:net"\ninputs = { x = "2x3", y = 1.5 }\nbudget = { nodes = 3, bytes = "1 MB" }\n'
    'depends = ["a/*.py"]\nsamples = "a.npz"\nmemory = "2 GB"\n'
)


def restored_from(path: Path) -> object:
    text = path.read_bytes().decode(errors="replace")
    return restored({"y": 1}, {"fxport.structure": text})


PARSERS = (
    Parser("onnx, nodes and weights", weights_and_files, "m.onnx", lambda: [external()], (ValueError, OSError)),
    Parser("onnx, model", model_of, "m.onnx", lambda: [external(), models.nested(5)], (UsageError,)),
    Parser(
        *("places", lambda path: rows_of(path.read_bytes().decode(errors="replace")), "places"),
        *(lambda: [b'[["a.py", 1, "m", null], [null, 2, null, "n"]]'], (ValueError,)),
    ),
    Parser("structure", restored_from, "s.json", lambda: [json.dumps(STRUCTURE).encode()], (NoStructure, KeyError)),
    Parser("samples", load_all, "s.npz", lambda: [samples_file()], (ValueError,)),
    Parser("npz", stored_inputs, "i.npz", lambda: [arrays()], (UsageError,)),
    Parser("pt", stored_inputs, "i.pt", lambda: [saved({"x": torch.ones(2)})], (UsageError,)),
    Parser(
        "safetensors", open_checkpoint, "w.safetensors", lambda: [tensors.with_entry(), TRAINED], (CheckpointError,)
    ),
    Parser(
        "index",
        open_checkpoint,
        "w.json",
        lambda: [b'{"weight_map": {"a": "b.bin", "c": "d.bin"}}'],
        (CheckpointError,),
    ),
    Parser(
        *("torch.save", open_checkpoint, "w.pt"),
        *(lambda: [saved({"a": torch.ones(2)}), pickle.dumps({"a": [1]}, 2)], (CheckpointError,)),
    ),
    Parser("pt2", lambda path: load_program(path), "p.pt2", lambda: [tensors.program()], (UsageError,)),
    Parser("checkpoint of training", read_checkpoint, "c.safetensors", lambda: [TRAINED], (RefusedInput, OSError)),
    Parser("manifest", manifest.load, "fxport.toml", lambda: [MANIFEST.encode()], (UsageError,)),
    Parser("settings", settings_of, "fxport.toml", lambda: [MANIFEST.encode()], (UsageError,)),
    Parser("lock", lock.read, "fxport.lock", lambda: [json.dumps(LOCKED).encode()], (UsageError,)),
    Parser("sarif", read_sarif, "l.sarif", lambda: [sound_log()], (ValueError, OSError)),
    Parser("config.json", folder_config, "config.json", lambda: [json.dumps(texts.BERT).encode()], (PretrainedError,)),
    Parser(
        *("genai_config.json", lambda path: PackageConfig.read(path.parent), "genai_config.json"),
        *(lambda: [json.dumps(PACKAGE).encode(), json.dumps(SPOKEN).encode()], (PackageError,)),
    ),
    Parser(
        *("text_config.json", lambda path: TextConfig.read(path.parent), "text_config.json"),
        *(lambda: [json.dumps(asdict(TextConfig(("input_ids",), "scores", 9))).encode()], (PackageError,)),
    ),
    Parser(
        *("generation_config.json", lambda path: TokenRules.read(path.parent), "generation_config.json"),
        *(lambda: [json.dumps(SETTINGS).encode()], (PackageError,)),
    ),
    Parser(
        *("--input", lambda path: parse_input(path.read_bytes().decode(errors="replace")), "t"),
        *(lambda: [b"ids=2x16:int64:0..999", b"scale=1.5", b"x=scalar:float32"], (UsageError,)),
    ),
    Parser(
        *("--init", lambda path: init_of([path.read_bytes().decode(errors="replace")]), "t"),
        *(lambda: [b"hidden=[1, {2: 3}]", b"act=relu", b"x=(1,)", b"x={{}}"], (UsageError,)),
    ),
)
TOKENS = (
    *(b"[", b"]", b"{", b"}", b'"', b"null", b"-1", b"1e999", b"9" * 40, b"\x00", b"\xff", b"[" * 200, b"../", b"/"),
    *(b"true", b"NaN", b"::", b"=", b".", b",", b"\n", b"'", b"\\u0000", b"{}", b"[]", b'""', b"a" * 5000),
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bytes with a few changes: bits, parts that go, come twice or change places, words that mean something."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(made) + 1)
        end = min(len(made), at + chance.choice((1, 1, 2, 4, 16, 64)))
        match chance.randrange(6):
            case 0:
                made[at:end] = chance.randbytes(end - at)
            case 1:
                del made[at:end]
            case 2:
                made[at:at] = made[at:end]
            case 3:
                made[at:end] = chance.choice(TOKENS)
            case 4:
                made[at:at] = chance.choice(TOKENS)
            case 5:
                made = made[: max(1, at)] if chance.random() < 0.2 else made
    return bytes(made)


def in_archive(data: bytes, chance: random.Random) -> bytes:
    """A zip archive with a change of one of its entries, whose checksum is right; other bytes as `mutated` has them."""
    if not data.startswith(b"PK\x03\x04") or chance.random() < 0.3:
        return mutated(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as held:
        entries = {name: held.read(name) for name in held.namelist()}
    name = chance.choice(sorted(entries))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for each, content in entries.items():
            if each != name or chance.random() < 0.95:
                made.writestr(each, mutated(content, chance) if each == name else content)
    return buffer.getvalue()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
@pytest.mark.filterwarnings("ignore")
def test_a_value_or_an_error_that_is_meant(
    parser: Parser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    seeds, path = parser.seeds(), tmp_path / parser.file
    long = request.config.getoption("--fuzz-seconds")
    chance = random.Random(parser.name if long is None else None)
    until, done, sound = time.monotonic() + (long or 0), 0, 0
    for seed in seeds:
        path.write_bytes(seed)
        try:
            parser.parse(path)
        except parser.raises:
            continue
        sound += 1
    assert sound or parser.name in REFUSED_SEEDS, "none of the files to begin with is one"
    while time.monotonic() < until if long else done < EXAMPLES:
        content = in_archive(chance.choice(seeds), chance)
        path.write_bytes(content)
        done += 1
        try:
            parser.parse(path)
        except parser.raises:
            continue
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error} for {content[:2000]!r}") from error
    assert done


REFUSED_SEEDS = frozenset({"index"})
"""Parsers that need further files."""
