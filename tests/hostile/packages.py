"""Hostile packages, tokenizers, GGUF files, adapters, and checkpoints of training sessions."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx.parser

from tests.hostile import models, tensors, texts
from tests.hostile.cases import Case, Make, sparse, writes
from tests.hostile.places import NOT_CUT, all_of, in_folder, link, pipe

GENERATE = ("generate", "folder", "--ids", "1,2")
SPEAK = ("generate", "folder", "--prompt", "a" * 64 + "!")
SCORE = ("embed", "folder", "a", "--query", "b")
EMBED = ("embed", "folder", "a")
PACKAGE = ("package", "folder", "-o", "made")
DECODER = {
    "filename": "model.onnx",
    "num_hidden_layers": 1,
    "inputs": dict.fromkeys(("input_ids", "attention_mask", "past_key_names", "past_value_names"), "a%d"),
    "outputs": dict.fromkeys(("logits", "present_key_names", "present_value_names"), "b%d"),
}
NEVER_ENDING = """ n = Constant<value = int64 {9223372036854775807}>() c = Constant<value = bool {1}>()
    last = Loop(n, c, start) <body = b (int64 i, bool ci, float v) => (bool co, float w) {
        co = Identity(ci) w = Exp(v) }> """
WITHOUT_MEASURE = """ many = Constant<value = int64[2] {60000, 20000}>() e = ConstantOfShape(many) m = Exp(e)
    last = ReduceMax<keepdims = 0>(m) """
BODIES = {"never ends": NEVER_ENDING, "takes memory without measure": WITHOUT_MEASURE}
TEXTS_MODEL = """graph (int64[N, S] input_ids) => (float[N, 1] scores) {
    start = Constant<value = float {0}>() %s
    f = Cast<to = 1>(input_ids) axis = Constant<value = int64[1] {1}>() g = ReduceSum(f, axis)
    scores = Add(g, last) }"""
STEPS_MODEL = """graph (int64[N, S] input_ids, int64[N, T] attention_mask, float[N, 1, P, 2] k0, float[N, 1, P, 2] v0)
    => (float[N, S, 4] logits, float[N, 1, P, 2] l0, float[N, 1, P, 2] w0) {
    start = Constant<value = float {0}>() %s
    d = Constant<value = int64 {4}>() o = Constant<value = float[2] {0, 1}>() h = OneHot(input_ids, d, o)
    logits = Add(h, last) l0 = Identity(k0) w0 = Identity(v0) }"""
STEPS_NAMES = {
    "inputs": {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "past_key_names": "k%d",
        "past_value_names": "v%d",
    },
    "outputs": {"logits": "logits", "present_key_names": "l%d", "present_value_names": "w%d"},
}
WORDS = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [],
    **dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")),
    "model": WORDS,
}


def config(**changed: object) -> str:
    tokens = {"eos_token_id": 1, "pad_token_id": 0, "vocab_size": 3}
    whole = {"decoder": DECODER | changed, "context_length": 8, **tokens}
    return json.dumps({"model": whole, "search": {"past_present_share_buffer": False}})


def text_config(**changed: object) -> str:
    from dataclasses import asdict

    from fxport.ort_runner.text_config import TextConfig

    return json.dumps(asdict(TextConfig(("input_ids",), "scores", 9)) | changed)


def package(**files: str | bytes) -> Make:
    """A folder with a configuration and the sound model that is none of a package."""
    whole: dict[str, str | bytes] = {"genai_config.json": config(), "model.onnx": models.sound().SerializeToString()}
    return in_folder("folder", whole | {name.replace("__", "."): content for name, content in files.items()})


def tokenized(**changed: object) -> Make:
    return package(tokenizer__json=json.dumps(TOKENIZER | changed))


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


TOKENIZERS: dict[str, Make] = {
    "a regex without an end": tokenized(normalizer=replace("(a+)+$", "b")),
    "another regex without an end": tokenized(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Removed", "invert": False}
    ),
    "a text that grows": tokenized(normalizer={"type": "Sequence", "normalizers": [replace("a", "aaaa")] * 20}),
    "a text that grows by nothing": tokenized(normalizer={"type": "Sequence", "normalizers": [replace("", "aa")] * 40}),
    "a text that grows in front": tokenized(
        normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "a" * 10_000_000}] * 3}
    ),
    "parts in parts": package(
        tokenizer__json=json.dumps(TOKENIZER).replace(
            '"normalizer": null',
            '"normalizer": ' + '{"type": "Sequence", "normalizers": [' * 5000 + '{"type": "NFC"}' + "]}" * 5000,
        )
    ),
    "tokens beyond 2^32": tokenized(model=WORDS | {"vocab": {"a": 1 << 40}}),
    "merges of nobody": tokenized(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}),
    "code": tokenized(pre_tokenizer={"type": "Custom", "module": "os", "function": "system"}),
    "text of a terminal": tokenized(model=WORDS | {"type": "\x1b[2J\n::error::forged"}),
    "no model": tokenized(model=None),
}
LINKED = ("genai_config.json", "model.onnx", "generation_config.json", "tokenizer.json")


def with_link(name: str) -> Make:
    def make(project: Path) -> None:
        package()(project)
        (project / "folder" / name).unlink(missing_ok=True)
        link(f"folder/{name}", "../../outside/secret.onnx")(project)

    return make


def with_pipe(name: str) -> Make:
    def make(project: Path) -> None:
        package()(project)
        (project / "folder" / name).unlink(missing_ok=True)
        pipe(f"folder/{name}")(project)

    return make


def external(location: str) -> bytes:
    made = models.sound()
    models.located(location)(made)
    return made.SerializeToString()


def gguf(entries: bytes = b"", count: int = 0, tensors_: bytes = b"", tensor_count: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, count) + entries + tensors_


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def generating(body: str) -> Make:
    """A package that generates, whose model has this body beside its work."""
    model = onnx.parser.parse_model(models.HEADER + STEPS_MODEL % body).SerializeToString()
    return package(genai_config__json=config(**STEPS_NAMES), model__onnx=model)


def scoring(body: str) -> Make:
    """A package that scores texts, likewise."""
    model = onnx.parser.parse_model(models.HEADER + TEXTS_MODEL % body).SerializeToString()
    files = {"text_config.json": text_config(), "tokenizer.json": json.dumps(TOKENIZER), "model.onnx": model}
    return in_folder("folder", files)


def entry(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


TEXT, LIST, UINT8, UINT32 = 8, 9, 0, 4
ARCHITECTURE = entry(b"general.architecture", TEXT, text(b"llama"))


def tensor(dims: tuple[int, ...], kind: int = 0, offset: int = 0, name: bytes = b"token_embd.weight") -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


NESTED = entry(b"a", LIST, struct.pack("<IQ", LIST, 1) * 20_000)
GGUFS: dict[str, bytes] = {
    "empty": b"",
    "a header alone": gguf(),
    "2^60 entries": gguf(ARCHITECTURE, 1 << 60),
    "2^60 tensors": gguf(ARCHITECTURE, 1, b"", 1 << 60),
    "a text of 2^62": gguf(struct.pack("<Q", 1 << 62), 1),
    "a list of 2^60": gguf(entry(b"a", LIST, struct.pack("<IQ", UINT8, 1 << 60)), 1),
    "lists in lists": gguf(NESTED, 1),
    "an unknown type": gguf(entry(b"a", 99, b"\0" * 8), 1),
    "an unknown version": gguf(ARCHITECTURE, 1, version=1 << 31),
    "alignment of 0": gguf(
        ARCHITECTURE + entry(b"general.alignment", UINT32, struct.pack("<I", 0)), 2, tensor((4,)), 1
    ),
    "architecture of a path": gguf(entry(b"general.architecture", TEXT, text(b"../../outside")), 1),
    "architecture of a terminal": gguf(entry(b"general.architecture", TEXT, text(b"\x1b[2J\n::error::forged")), 1),
    "names twice": gguf(ARCHITECTURE * 2, 2),
    "a tensor of 2^62": gguf(ARCHITECTURE, 1, tensor((1 << 31, 1 << 31)), 1),
    "a tensor beyond the end": gguf(ARCHITECTURE, 1, tensor((4, 4), offset=1 << 40), 1),
    "a tensor of 2^32 axes": gguf(ARCHITECTURE, 1, text(b"a") + struct.pack("<I", (1 << 32) - 1), 1),
}
STEP = """
import torch

def step():
    model = torch.nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), 0.1), lambda model, x: model(x).sum(), (torch.ones(4, 3),)
"""
STEPPED = ("train-step", "step.py:step", "--no-validate", "-o", "step.onnx", "--weights", "bad.safetensors")
SESSION = {"param/weight": tensors.ENTRY, "param/bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]}}


def session(**changed: object) -> bytes:
    return tensors.safetensors(SESSION | changed, bytes(32))


SESSIONS: dict[str, bytes] = {
    "another shape": session(**{"param/bias": {"dtype": "F32", "shape": [1, 2], "data_offsets": [24, 32]}}),
    "another name": tensors.safetensors({"param/weight": tensors.ENTRY, "param/x": SESSION["param/bias"]}, bytes(32)),
    "a name upwards": tensors.safetensors({"param/../../weight": tensors.ENTRY}),
    "a name of a terminal": tensors.safetensors({"param/\x1b[2J\n::error::forged": tensors.ENTRY}),
    "state of nobody": session(**{"opt/x/momentum_buffer": SESSION["param/bias"]}),
    "metadata a list": session(__metadata__=["steps"]),
    "metadata of numbers": session(__metadata__={"steps": 3}),
}
LORA = {"peft_type": "LORA", "base_model_name_or_path": "base", "r": 2, "target_modules": ["q_proj"]}
ADAPTERS: dict[str, object] = {
    "a list": [],
    "no base": LORA | {"base_model_name_or_path": None},
    "a base of null": LORA | {"base_model_name_or_path": "a\0b"},
    "a base of 5,000 characters": LORA | {"base_model_name_or_path": "x" * 5000},
    "a base elsewhere": LORA | {"base_model_name_or_path": "stranger/model"},
    "itself": LORA | {"base_model_name_or_path": "folder"},
    "another kind": LORA | {"peft_type": "os.system"},
    "code": LORA | {"auto_mapping": {"base_model_class": "Net", "parent_library": "code"}},
}


def of_texts(**changed: object) -> Make:
    return in_folder("folder", {"text_config.json": text_config(**changed), "tokenizer.json": json.dumps(TOKENIZER)})


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for name in ("/etc/passwd", "..", "", "a\0b", "x" * 5000, "\x1b[2J"):
        yield Case(f"package, model {name[:20]!r}", package(genai_config__json=config(filename=name)), GENERATE)
    for name in LINKED:
        yield Case(f"package, {name} is a link", with_link(name), SPEAK)
        yield Case(f"package, {name} is a pipe", with_pipe(name), SPEAK)
    for location in ("../outside/secret.data", "/dev/zero", "../../outside/secret.data"):
        yield Case(f"package, weights in {location}", package(model__onnx=external(location)), GENERATE)
    yield Case("package, layers 10^9", package(genai_config__json=config(num_hidden_layers=10**9)), GENERATE)
    for name, body in BODIES.items():
        yield Case(f"package, model that {name}", generating(body), (*GENERATE, "--max-new-tokens", "4"))
        yield Case(f"embedding, model that {name}", scoring(body), SCORE)
    yield Case("package, model of none", package(), GENERATE)
    yield Case("package, rules of texts", package(generation_config__json='{"suppress_tokens": ["a"]}'), GENERATE)
    yield Case(
        "package, rules of no number", package(generation_config__json='{"repetition_penalty": 1e999}'), GENERATE
    )
    for name, make in TOKENIZERS.items():
        yield Case(f"tokenizer, {name}", make, SPEAK)
    yield Case("embedding, model outside", of_texts(model="../../outside/secret.onnx"), EMBED)
    yield Case("embedding, length 0", of_texts(max_length=0), EMBED)
    yield Case("embedding, prompt of nobody", of_texts(default_prompt="\x1b[2J\n::error::forged"), EMBED)
    yield Case(
        "embedding, modules of os",
        in_folder(
            "folder", {"modules.json": '[{"name": "0", "type": "os.system", "path": ""}]', "tokenizer.json": "{}"}
        ),
        PACKAGE,
    )
    listed = '[{"name": "0", "type": "sentence_transformers.models.Transformer", "path": "../outside"}]'
    yield Case(
        "embedding, module outside", in_folder("folder", {"modules.json": listed, "tokenizer.json": "{}"}), PACKAGE
    )
    yield Case("embedding, no modules", in_folder("folder", {"modules.json": "{}", "tokenizer.json": "{}"}), PACKAGE)
    for name, content in GGUFS.items():
        make = all_of(writes("bad.gguf", content), writes("tokenizer.json", "{}"))
        yield Case(f"gguf, {name}", make, ("package", "bad.gguf", "-o", "made"))
    long = gguf(entry(b"a", LIST, struct.pack("<IQ", UINT8, 400_000_000)), 1)
    yield Case(
        "gguf, a list of 400 MB",
        all_of(sparse("bad.gguf", 500_000_000, long), writes("tokenizer.json", "{}")),
        ("package", "bad.gguf", "-o", "made"),
    )
    for name, content in SESSIONS.items():
        make = all_of(writes("bad.safetensors", content), writes("step.py", STEP))
        yield Case(f"session, {name}", make, STEPPED, NOT_CUT)
    for name, settings in ADAPTERS.items():
        files = {"adapter_config.json": json.dumps(settings), "code.py": texts.CODE, "tokenizer.json": "{}"}
        yield Case(f"adapter, {name}", in_folder("folder", files), PACKAGE)
