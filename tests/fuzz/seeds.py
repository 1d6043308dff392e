"""Files that the fuzzing of parsers begins with: sound ones, small, each with all that its parser looks at."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx.parser
import pytest
import torch

from fxport.ort_runner.samples import Samples, save_all
from tests.exporter.test_packaged_adapters import WORDS
from tests.hostile import models, tensors, texts

SIZE = 16
"""Bytes for which a small model's matrices are enough."""


def samples_file() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npz"
        save_all(path, [Samples("a", {"x": np.ones((2, 3), np.float32)}, {"y": np.ones(2, np.float32)})])
        return path.read_bytes()


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def arrays() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.ones((2, 3), np.float32), y=np.ones(2, np.int64))
    return buffer.getvalue()


def array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ones((2, 3), np.float32))
    return buffer.getvalue()


def external() -> bytes:
    made = models.sound()
    models.located("a.data")(made)
    models.places(json.dumps([["a.py", 1, "m", "n"]]))(made)
    return made.SerializeToString()


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
        "vocab_size": 4,
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
PYTHON = (
    b"import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\ndef f() -> Net: ...\n"
)
GIT = b'[core]\n\tbare = false\n[remote "origin"]\n\turl = git@github.com:a/b.git\n\tfetch = +refs/heads/*:refs/*\n'
COMMIT = b"0123456789abcdef0123456789abcdef01234567"
PACKED = b"# pack-refs with: peeled fully-peeled sorted \n%b refs/heads/main\n%b refs/tags/v1\n^%b\n" % (
    *(COMMIT, COMMIT),
    COMMIT[::-1],
)
PYPROJECTS = [
    b'[project]\nname = "a"\nversion = "1"\n[tool.ruff]\nline-length = 120\n[tool.fxport]\nselect = ["FXP4"]\n'
    b'fail_on = "warning"\n[tool.fxport.severity]\nFXP4001 = "error"\n[[tool.fxport.model]]\nname = "net"\n'
    b'source = "net.py:net"\ninputs = { x = "2x3" }\n[tool.fxport.model.budget]\nnodes = 3\n',
    b"tool = 3  # fxport\n",
    b'[tool]\nfxport = "a"\n',
]
LISTED = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    {"idx": 3, "name": "3", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"},
]
POOLING = {"word_embedding_dimension": SIZE, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
DENSE = {
    "in_features": SIZE,
    "out_features": 4,
    "bias": False,
    "activation_function": "torch.nn.modules.linear.Identity",
}
WHOLE = {"prompts": {"query": "q: ", "document": None}, "default_prompt_name": "query", "activation_fn": None}
TRANSFORMER = {"max_seq_length": 8, "do_lower_case": False, "transformer_task": "feature-extraction"}
ADAPTER = {"peft_type": "LORA", "base_model_name_or_path": "base", "r": 2, "target_modules": ["q_proj"]}
STEP = {
    "state": {"param/w": "new/param/w"},
    "constant": [],
    "steps": 1,
    "accumulate": 1,
    "clip_grad_norm": None,
    "rates": {"lr/0": 0.1},
    "model": {"w": "param/w"},
    "groups": [{"params": ["w"], "settings": {"lr": 0.1, "betas": [0.9, 0.99]}}],
    "numbers": [],
}
STEP_MODEL = """<ir_version: 10, opset_import: ["" : 20]>
g (float[2] "param/w", float "lr/0", float[2] "batch/x") => (float[2] "new/param/w", float loss) {
    d = Mul("lr/0", "batch/x")
    "new/param/w" = Sub("param/w", d)
    loss = ReduceSum<keepdims = 0>(d)
}"""


def with_metadata(text: str, key: str, value: str) -> bytes:
    """A model of a text, with an entry in its metadata."""
    made = onnx.parser.parse_model(text)
    made.metadata_props.add(key=key, value=value)
    return made.SerializeToString()


def tokenizer() -> bytes:
    """A tokenizer of a hundred words, with every part that a tokenizer has."""
    split = {"type": "Split", "pattern": {"Regex": "\\s+|w"}, "behavior": "Removed", "invert": False}
    template = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": []}
    whole = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "w1"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {"type": "Whitespace"}]},
        "post_processor": {**template, "special_tokens": {}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": WORDS,
    }
    return json.dumps(whole).encode()


@cache
def folder_of(make: Callable[[Path], object]) -> Mapping[str, bytes]:
    """The files that a function writes into an empty folder, by their paths in it."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder)
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def put(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def distributed(folder: Path) -> None:
    """A checkpoint of torch.distributed, of one process."""
    import torch.distributed.checkpoint as dcp

    dcp.save({"model": {"weight": torch.ones(2, 3)}}, checkpoint_id=str(folder), no_dist=True)


def embedding(folder: Path) -> None:
    """A folder of sentence-transformers with every file that is read of one."""
    from safetensors.torch import save_file

    from tests.cases import text_models

    sizes = {**text_models.SIZES, "hidden_size": SIZE, "num_hidden_layers": 1, "intermediate_size": SIZE}
    text_models.saved(folder, "BertModel", sizes)
    for name, value in (
        *(("modules.json", LISTED), ("config_sentence_transformers.json", WHOLE), ("1_Pooling/config.json", POOLING)),
        *(("2_Dense/config.json", DENSE), ("sentence_bert_config.json", TRANSFORMER)),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    save_file({"linear.weight": torch.ones(4, SIZE)}, folder / "2_Dense" / "model.safetensors")


def quantized(name: str) -> Callable[[Path], object]:
    from tests.exporter.test_quantized_checkpoints import checkpoint

    def make(folder: Path) -> None:
        checkpoint(folder / "q", name)

    return make


gptq, awq, compressed = map(quantized, ("gptq", "awq", "compressed-tensors"))


def gguf(folder: Path) -> None:
    from tests.exporter.test_quantized_checkpoints import gguf_file

    gguf_file(folder / "tiny.gguf")


def adapted(folder: Path) -> None:
    """A model and an adapter for it."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from tests.exporter.test_language_packages import small

    model = small(eos_token_id=None)
    model.save_pretrained(folder / "base")
    peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(folder / "adapter")
    path = folder / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": "../base"}))
