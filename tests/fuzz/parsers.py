"""Table of the parsers of files that are fuzzed: how each is called, and what it may raise.

What a parser may raise is what the command line turns into a sentence; anything else would be exit code 3. Of
the rest, errors of the system that name a file are sentences too.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from fxport.diagnostics import Log, Stop
from fxport.diagnostics.sarif import read_sarif
from fxport.diagnostics.sarif.provenance import provenance_of
from fxport.exporter.checks import init, lock, manifest
from fxport.exporter.checks.cache import Cache
from fxport.exporter.checks.items import Item
from fxport.exporter.language_models.folders import model_of, model_of_gguf
from fxport.exporter.language_models.text_models import plan_of
from fxport.exporter.onnx_program.in_place import saving
from fxport.exporter.sources.files import described
from fxport.exporter.sources.inputs import parse_input, stored_inputs
from fxport.exporter.sources.pretrained import PretrainedError, configured, tokenizer_of
from fxport.exporter.sources.settings import load as settings_of
from fxport.exporter.sources.source import init_of, load_program
from fxport.exporter.sources.toml_tables import PYPROJECT
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.model_file import model_of as onnx_model_of
from fxport.exporter.weights import CheckpointError, open_checkpoint
from fxport.ort_runner.device import DeviceSession
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import missing_external_data, read_model_file
from fxport.ort_runner.package_config import PackageConfig, PackageError
from fxport.ort_runner.pictures import FILE as PICTURES
from fxport.ort_runner.prompts import Asked, prompt_of
from fxport.ort_runner.provenance import rows_of
from fxport.ort_runner.samples import load_all
from fxport.ort_runner.sounds import FILE as SOUNDS
from fxport.ort_runner.sounds import FILTERS
from fxport.ort_runner.structure import NoStructure, restored
from fxport.ort_runner.text_config import TextConfig
from fxport.ort_runner.token_rules import TokenRules
from fxport.ort_runner.tokenizer import Tokenizer
from fxport.ort_runner.train import TrainingSession
from fxport.ort_runner.train_checkpoint import read_checkpoint
from fxport.ort_runner.train_description import NotATrainingStep
from fxport.ort_runner.train_inputs import RefusedInput
from fxport.ort_runner.train_log import reporters
from tests.cases.seq2seq_models import SETTINGS
from tests.fuzz import answers, media, seeds
from tests.hostile import models, tensors, texts


def nothing(folder: Path) -> None:
    """No file beside the one that is changed."""


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser of a file.

    Attributes:
        name: Its name.
        parse: The parser.
        file: The path of the file in its folder.
        seeds: Files to begin with; at least one of them is sound.
        raises: What it may raise.
        beside: Writes the other files of the folder.
        slow: Whether it takes more than a hundredth of a second or so.
    """

    name: str
    parse: Callable[[Path], object]
    file: str
    seeds: Callable[[], list[bytes]]
    raises: tuple[type[Exception], ...]
    beside: Callable[[Path], None] = nothing
    slow: bool = False


def text_of(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def weights_and_files(path: Path) -> object:
    return list(missing_external_data(read_model_file(path)))


def restored_from(path: Path) -> object:
    return restored({"y": 1}, {"fxport.structure": text_of(path)})


def tokens_of(path: Path) -> object:
    tokenizer = Tokenizer(path.parent)
    return tokenizer.decode(tokenizer.encode("w1 w22, aaaaaaaaab Größe\n w3 unknown"))


def cached(path: Path) -> object:
    """An entry of the cache of checks, by whatever name the file has."""

    class Named(Cache):
        def _file(self, item: Item) -> Path:
            return path

    return Named(path.parent, path.parent, "e").get(Item("a", "a", "a.py:a", 20, "cpu"))


def draft_left(path: Path) -> None:
    with saving(path.parents[1] / "m.onnx"):
        pass
    path.parent.mkdir(exist_ok=True)  # it is removed with what it names


def stepped(path: Path) -> object:
    import numpy as np

    model = path.with_name("step.onnx")
    model.write_bytes(seeds.with_metadata(seeds.STEP_MODEL, "fxport.training", text_of(path)))
    session = TrainingSession(model, {"param/w": np.ones(2, np.float32)})
    return session.state_dict()


def on_device(path: Path) -> object:
    model = path.with_name("net.onnx")
    model.write_bytes(
        seeds.with_metadata(models.HEADER + models.PORTS + "{ output = Relu(x) }", "fxport.state", text_of(path))
    )
    return DeviceSession(model)


def logged(path: Path) -> None:
    with reporters(path, ["loss", "seconds"], 1, progress=False, total=None):
        pass


def features(path: Path) -> object:
    return prompt_of(Asked(path.parent, None, None, path, (), None, None, 1, "cpu", 1), None)


@cache
def bert() -> Any:
    """The model that the folder of an embedding model has."""
    import transformers

    from tests.cases import text_models

    sizes = {**text_models.SIZES, "hidden_size": seeds.SIZE, "num_hidden_layers": 1, "intermediate_size": seeds.SIZE}
    return transformers.BertModel(transformers.BertConfig(**sizes)).eval()


def planned(path: Path) -> object:
    """A folder of sentence-transformers, whichever of its files was changed."""
    folder = next(each for each in path.parents if (each / "tokenizer.json").exists())
    plan = plan_of(folder)
    return plan if plan is None else plan.completed(bert())


def packaged(depth: int) -> Callable[[Path], object]:
    """A folder as `fxport package` loads it: that of the file, or one above it."""
    return lambda path: model_of(path.parents[depth], Log())


def put(make: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: seeds.put(seeds.folder_of(make), folder)


def file_of(make: Callable[[Path], object], name: str) -> Callable[[], list[bytes]]:
    return lambda: [seeds.folder_of(make)[name]]


FOLDER = (PretrainedError, CheckpointError, PackageError, Stop)
"""Types of errors that are meant for a folder with a model."""


def in_folder(
    name: str, make: Callable[[Path], object], file: str, parse: Callable[[Path], object], *, slow: bool = True
) -> Parser:
    """A parser of one file of a folder with a model."""
    return Parser(name, parse, file, file_of(make, file), FOLDER, put(make), slow)


PARSERS = (
    Parser("onnx, nodes and weights", weights_and_files, "m.onnx", lambda: [seeds.external()], (ValueError, OSError)),
    Parser("onnx, model", onnx_model_of, "m.onnx", lambda: [seeds.external(), models.nested(5)], (UsageError,)),
    Parser(
        *("places", lambda path: rows_of(text_of(path)), "places"),
        *(lambda: [b'[["a.py", 1, "m", null], [null, 2, null, "n"]]'], (ValueError,)),
    ),
    Parser(
        "structure", restored_from, "s.json", lambda: [json.dumps(seeds.STRUCTURE).encode()], (NoStructure, KeyError)
    ),
    Parser("samples", load_all, "s.npz", lambda: [seeds.samples_file()], (ValueError,)),
    Parser("npz", stored_inputs, "i.npz", lambda: [seeds.arrays()], (UsageError,)),
    Parser("pt", stored_inputs, "i.pt", lambda: [seeds.saved({"x": torch.ones(2)})], (UsageError,)),
    Parser(
        "safetensors",
        open_checkpoint,
        "w.safetensors",
        lambda: [tensors.with_entry(), seeds.TRAINED],
        (CheckpointError,),
    ),
    Parser(
        "index",
        open_checkpoint,
        "w.json",
        lambda: [b'{"weight_map": {"weight": "b.safetensors"}}'],
        (CheckpointError,),
        lambda folder: seeds.put({"b.safetensors": tensors.with_entry()}, folder),
    ),
    Parser(
        *("torch.save", open_checkpoint, "w.pt"),
        *(lambda: [seeds.saved({"a": torch.ones(2)}), pickle.dumps({"a": [1]}, 2)], (CheckpointError,)),
    ),
    Parser("pt2", lambda path: load_program(path), "p.pt2", lambda: [tensors.program()], (UsageError,)),
    Parser(
        "checkpoint of training", read_checkpoint, "c.safetensors", lambda: [seeds.TRAINED], (RefusedInput, OSError)
    ),
    Parser("manifest", manifest.load, "fxport.toml", lambda: [seeds.MANIFEST.encode()], (UsageError,)),
    Parser("settings", settings_of, "fxport.toml", lambda: [seeds.MANIFEST.encode()], (UsageError,)),
    Parser("lock", lock.read, "fxport.lock", lambda: [json.dumps(seeds.LOCKED).encode()], (UsageError,)),
    Parser("sarif", read_sarif, "l.sarif", lambda: [seeds.sound_log()], (ValueError, OSError)),
    Parser(
        "config.json",
        lambda path: configured(path.parent),
        "config.json",
        lambda: [json.dumps(texts.BERT).encode()],
        (PretrainedError,),
    ),
    Parser(
        *("genai_config.json", lambda path: PackageConfig.read(path.parent), "genai_config.json"),
        *(lambda: [json.dumps(seeds.PACKAGE).encode(), json.dumps(seeds.SPOKEN).encode()], (PackageError,)),
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
        *("--input", lambda path: parse_input(text_of(path)), "t"),
        *(lambda: [b"ids=2x16:int64:0..999", b"scale=1.5", b"x=scalar:float32"], (UsageError,)),
    ),
    Parser(
        *("--init", lambda path: init_of([text_of(path)]), "t"),
        *(lambda: [b"hidden=[1, {2: 3}]", b"act=relu", b"x=(1,)", b"x={{}}"], (UsageError,)),
    ),
    Parser(
        "pickle of shards",
        lambda path: open_checkpoint(path.parent),
        ".metadata",
        file_of(seeds.distributed, ".metadata"),
        (CheckpointError,),
        put(seeds.distributed),
    ),
    Parser("picture_config.json", media.pictured, PICTURES, media.settings_of_pictures, (PackageError,)),
    Parser("sound_config.json", media.heard, SOUNDS, media.settings_of_sounds, (PackageError,), media.with_filters),
    Parser("mel_filters.npy", media.heard, FILTERS, media.filters, (PackageError,), media.with_filters),
    Parser("image", media.image, "i", media.images, (PackageError,)),
    Parser("sound", media.sound, "s.wav", media.waves, (PackageError,)),
    Parser(
        *("preprocessor_config.json of images", media.processed_pictures, "preprocessor_config.json"),
        *(lambda: media.texts(media.CLIP, media.QWEN), FOLDER, nothing, True),
    ),
    Parser(
        *("preprocessor_config.json of sounds", media.processed_sounds, "preprocessor_config.json"),
        *(lambda: media.texts(media.WHISPER), FOLDER, nothing, True),
    ),
    Parser(
        *("--dynamic", answers.dynamic, "t", lambda: [b"x:0=batch,1=seq[2..64]", b"past.0.key:auto", b"x:-1=n[..9]"]),
        (UsageError,),
    ),
    Parser(*("--severity", answers.levels, "t", lambda: [b"FXP4001=error", b"FXP4", b"OutputDrift"], (UsageError,))),
    Parser(*("--ids", answers.prompted, "t", lambda: [b"1,2,3"], (PackageError,))),
    Parser("conditions on sizes", answers.allowed, "t", lambda: answers.CONDITIONED, ()),
    Parser("log in every format", answers.shown, "l.sarif", lambda: [seeds.sound_log()], (ValueError, OSError)),
    Parser("--baseline", answers.compared, "l.sarif", lambda: [seeds.sound_log()], (UsageError,)),
    Parser("lines of source", answers.looked_up, "a.py", lambda: [answers.PYTHON, seeds.PYTHON], ()),
    Parser("onnx, cut apart", answers.cut, "m.onnx", answers.marked, (ValueError, OSError)),
    Parser("onnx, differences", answers.differences, "m.onnx", answers.marked, (UsageError, OSError, ValueError)),
    Parser("features.npy", features, "f.npy", lambda: [seeds.array()], (PackageError,)),
    Parser("source.py", lambda path: described(str(path)), "a.py", lambda: [seeds.PYTHON], ()),
    Parser("models in a file", lambda path: list(init.models_in(path, "a.py")), "a.py", lambda: [seeds.PYTHON], ()),
    Parser(
        "source of torch.save",
        lambda path: described(str(path)),
        "a.pt",
        lambda: [seeds.saved({"a": torch.ones(2)}), pickle.dumps({"a": [1]}, 2)],
        (),
    ),
    Parser(
        ".git/config",
        lambda path: provenance_of(path.parents[1]),
        ".git/config",
        lambda: [seeds.GIT],
        (),
        lambda folder: seeds.put({".git/HEAD": b"ref: refs/heads/main"}, folder),
    ),
    Parser(
        ".git/HEAD",
        lambda path: provenance_of(path.parents[1]),
        ".git/HEAD",
        lambda: [b"ref: refs/heads/main", b"0123abc"],
        (),
        lambda folder: seeds.put({".git/config": seeds.GIT}, folder),
    ),
    Parser(
        ".git/packed-refs",
        lambda path: provenance_of(path.parents[1]),
        ".git/packed-refs",
        lambda: [seeds.PACKED],
        (),
        lambda folder: seeds.put({".git/HEAD": b"ref: refs/heads/main", ".git/config": seeds.GIT}, folder),
    ),
    Parser(
        ".git/refs/heads/main",
        lambda path: provenance_of(path.parents[3]),
        ".git/refs/heads/main",
        lambda: [seeds.COMMIT + b"\n"],
        (),
        lambda folder: seeds.put({".git/HEAD": b"ref: refs/heads/main", ".git/config": seeds.GIT}, folder),
    ),
    Parser("pyproject.toml, manifest", manifest.load, PYPROJECT, lambda: seeds.PYPROJECTS, (UsageError,)),
    Parser("pyproject.toml, settings", settings_of, PYPROJECT, lambda: seeds.PYPROJECTS, (UsageError,)),
    Parser("pyproject.toml, found", answers.found, PYPROJECT, lambda: seeds.PYPROJECTS, (UsageError,)),
    Parser(
        "cache of checks",
        cached,
        "c.json",
        lambda: [b'{"version": 1, "environment": "e", "depends": [], "files": {"/x": [1, 2, "a"]}, "result": {}}'],
        (),
    ),
    Parser(
        "draft of a save",
        draft_left,
        ".fxport-a.save/left",
        lambda: [b'["m.onnx.0123456789abcdef.data"]'],
        (),
        lambda folder: seeds.put({".fxport-a.save/lock": b""}, folder),
    ),
    Parser("tokenizer.json", tokens_of, "tokenizer.json", lambda: [seeds.tokenizer()], (PackageError,)),
    Parser(
        "training metadata",
        stepped,
        "step.json",
        lambda: [json.dumps(seeds.STEP).encode()],
        (NotATrainingStep, RefusedInput),
    ),
    Parser("device metadata", on_device, "net.json", lambda: [b'{"output": "x"}'], (Failure, ValueError)),
    Parser(
        "log of training", logged, "log.csv", lambda: [b"step,loss,seconds\n1,0.5,0.1\n2,0.4,0.1\n"], (RefusedInput,)
    ),
    *(
        in_folder(f"embedding, {file}", seeds.embedding, file, planned)
        for file in (
            *("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "tokenizer.json"),
            *("1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "tokenizer_config.json"),
        )
    ),
    in_folder(
        "tokenizer of transformers", seeds.embedding, "tokenizer_config.json", lambda path: tokenizer_of(path.parent)
    ),
    in_folder("weights of GPTQ", seeds.gptq, "q/model.safetensors", packaged(0)),
    in_folder("weights of AWQ", seeds.awq, "q/model.safetensors", packaged(0)),
    in_folder("weights of compressed-tensors", seeds.compressed, "q/model.safetensors", packaged(0)),
    in_folder("settings of GPTQ", seeds.gptq, "q/config.json", packaged(0)),
    in_folder("settings of compressed-tensors", seeds.compressed, "q/config.json", packaged(0)),
    in_folder("generation_config.json of a folder", seeds.gptq, "q/generation_config.json", packaged(0)),
    in_folder("adapter_config.json", seeds.adapted, "adapter/adapter_config.json", packaged(0)),
    in_folder("weights of an adapter", seeds.adapted, "adapter/adapter_model.safetensors", packaged(0)),
    in_folder("gguf", seeds.gguf, "tiny.gguf", lambda path: model_of_gguf(path, Log())),
)
