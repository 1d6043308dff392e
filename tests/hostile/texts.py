"""Hostile texts: manifests, lock files, SARIF logs, folders of transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.hostile.cases import Case, Make, code_pickle, sparse, writes

MODEL = '[[model]]\nname = "net"\nsource = "net.py:net"\n'
TOML: dict[str, str | bytes] = {
    "empty": "",
    "deep arrays": MODEL + "opset = " + "[" * 50_000,
    "deep arrays and whole": MODEL + "opset = " + "[" * 40 + "]" * 40,
    "deep tables": MODEL + "budget = " + "{a = " * 10_000,
    "long key": MODEL + ".".join("a" * 20_000) + " = 1",
    "large": MODEL + "#" * 2_000_000,
    "number of 9,999 digits": MODEL + "opset = " + "9" * 9999,
    "no number": MODEL + "time_limit = nan",
    "memory of 10^400": MODEL + 'memory = "1e400 GB"',
    "not UTF-8": MODEL.encode() + b'weights = "\xff"',
    "null": MODEL + 'weights = "a\\u0000b"',
    "name of a path": MODEL.replace('"net"', '"../../net"'),
    "name of a command": MODEL.replace('"net"', '"a\\n::error::forged"'),
    "source of nothing": MODEL.replace("net.py:net", ":"),
    "source of a device": MODEL.replace("net.py:net", "/dev/zero"),
    "source of null": MODEL.replace("net.py:net", "a\\u0000.py:net"),
    "pattern of the whole disk": MODEL + 'depends = ["/**/*"]',
    "no table": "model = 3",
    "unknown keys": MODEL + "\x7f = 1",
}
LOCK: dict[str, str | bytes] = {
    "empty": "",
    "deep": "[" * 100_000,
    "deep and whole": '{"version": 1, "models": ' + "[" * 40 + "]" * 40 + "}",
    "a list": "[]",
    "other version": '{"version": {"a": 1}, "models": {}}',
    "models a text": '{"version": 1, "models": "net"}',
    "entry a number": '{"version": 1, "models": {"net": 3}}',
    "unknown key": '{"version": 1, "models": {"net": {"__class__": {}}}}',
    "text as a number": '{"version": 1, "models": {"net": {"nodes": "a"}}}',
    "error of texts": '{"version": 1, "models": {"net": {"error": {"sample": "a"}}}}',
    "findings of lists": '{"version": 1, "models": {"net": {"findings": {"a": [1]}}}}',
    "not UTF-8": b'{"version": 1, "models": {"\xff": {}}}',
    "number of 9,999 digits": '{"version": 1, "models": {"net": {"nodes": ' + "9" * 9999 + "}}}",
}


def sarif(results: object = (), driver: Mapping[str, object] | None = None, **run: object) -> str:
    tool = {"driver": {"name": "fxport", **(driver or {})}}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": results, **run}]})


def result(uri: str, **more: object) -> dict[str, object]:
    region = {"startLine": 1}
    place = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
    return {"ruleId": "FXP3001", "level": "error", "message": {"text": "m"}, "locations": [place], **more}


LOGS: dict[str, str | bytes] = {
    "empty": "",
    "deep": "[" * 100_000,
    "deep and whole": sarif([result("a.py", properties={"a": json.loads("[" * 90 + "]" * 90)})]),
    "NaN": '{"version": NaN}',
    "a list": "[]",
    "other version": '{"version": "9", "runs": []}',
    "other tool": sarif(driver={"name": "pylint"}),
    "runs a number": '{"version": "2.1.0", "runs": 3}',
    "results a text": sarif("abc"),
    "level unknown": sarif([result("a.py", level="\x1b[2J")]),
    "locations empty": sarif([result("a.py") | {"locations": [{}]}]),
    "line a text": sarif([result("a.py") | {"occurrenceCount": "many"}]),
    "suggestions of numbers": sarif([result("a.py", properties={"suggestions": [1]})]),
    "not UTF-8": b'{"version": "\xff"}',
    "500,000 results": sarif([{"ruleId": "FXP3001", "message": {"text": "m"}}] * 500_000),
}
OUTSIDE = ("../outside/secret.py", "file:///etc/passwd", "file:///proc/self/environ", "/dev/zero", "link.py")
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>"

BERT = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1}
BERT |= {"num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 16}
CODE = "from pathlib import Path\nPath('ran').touch()\nclass Net: pass\nclass Config: pass\n"
CONFIGS: dict[str, object] = {
    "a list": [],
    "code for the model": {"auto_map": {"AutoModel": "code.Net", "AutoConfig": "code.Config"}, "model_type": "own"},
    "code that says it is trusted": {"auto_map": {"AutoConfig": "code.Config"}, "trust_remote_code": True},
    "code elsewhere": {"auto_map": {"AutoConfig": "stranger/repository--code.Config"}},
    "architecture a number": BERT | {"architectures": 3},
    "architecture of os": BERT | {"architectures": ["os.system"]},
    "architecture no model": BERT | {"architectures": ["pipeline"]},
    "architecture of private names": BERT | {"architectures": ["__builtins__"]},
    "model type unknown": BERT | {"model_type": "../../own"},
    "model type a list": BERT | {"model_type": ["bert"]},
    "10^9 layers": BERT | {"num_hidden_layers": 10**9},
    "layers a text": BERT | {"num_hidden_layers": "many"},
    "no heads": BERT | {"num_attention_heads": 0},
    "sizes that do not fit": BERT | {"num_attention_heads": 3},
    "size of 10^18": BERT | {"hidden_size": 10**18},
    "size of -1": BERT | {"hidden_size": -8},
    "activation of os": BERT | {"hidden_act": "os.system"},
    "type of os": BERT | {"dtype": "os.system"},
    "quantized by nobody": BERT | {"quantization_config": {"quant_method": "os.system"}},
    "no weights": BERT,
}


def folder(config: object, **files: bytes | str) -> Make:
    def make(project: Path) -> None:
        (project / "folder").mkdir()
        text = config if isinstance(config, str) else json.dumps(config)
        (project / "folder" / "config.json").write_text(text)
        (project / "folder" / "code.py").write_text(CODE)
        for name, content in files.items():
            path = project / "folder" / name.replace("__", ".")
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def with_lock(lock: str | bytes) -> Make:
    def make(project: Path) -> None:
        (project / "fxport.toml").write_text(MODEL)
        writes("fxport.lock", lock)(project)

    return make


def linked(log: str) -> Make:
    def make(project: Path) -> None:
        (project / "link.py").symlink_to("../outside/secret.py")
        (project / "bad.sarif").write_text(log)

    return make


VIEW = ("view", "bad.sarif", "--no-browser", "-o", "page.html")
FOLDER = ("export", "folder", "--no-validate", "-o", "made.onnx")


def cases() -> Iterator[Case]:
    """All of them, each with the command that opens it."""
    for name, text in TOML.items():
        yield Case(f"toml, {name}", writes("fxport.toml", text), ("check",))
    yield Case(
        "toml, settings of the source", writes("pyproject.toml", "[tool.fxport]\nselect = 3"), ("export", "net.py:net")
    )
    yield Case("toml, of 5 GB", sparse("fxport.toml", 5 << 30), ("check",))
    for name, text in LOCK.items():
        yield Case(f"lock, {name}", with_lock(text), ("check",))
    for name, text in LOGS.items():
        yield Case(f"sarif, {name}", writes("bad.sarif", text), VIEW)
    yield Case("sarif, of 5 GB", sparse("bad.sarif", 5 << 30), VIEW)
    yield Case(
        "sarif, deep, as a baseline",
        writes("bad.sarif", LOGS["deep"]),
        ("export", "net.py:net", "--baseline", "bad.sarif"),
    )
    for uri in OUTSIDE:
        yield Case(f"sarif, place in {uri}", linked(sarif([result(uri)])), VIEW, frozenset((0,)))
    marked = sarif([result(f"{MARKUP}.py", message={"text": f"]]>{MARKUP}\n::error::forged"})])
    yield Case("sarif, markup", linked(marked), VIEW, frozenset((0, 2)))
    for name, config in CONFIGS.items():
        yield Case(f"transformers, {name}", folder(config), FOLDER)
    yield Case("transformers, deep", folder("[" * 100_000), FOLDER)
    yield Case("transformers, weights that run code", folder(BERT, pytorch_model__bin=code_pickle()), FOLDER)
    yield Case(
        "transformers, adapter of another folder",
        folder(BERT, adapter_config__json='{"base_model_name_or_path": "../outside"}'),
        FOLDER,
    )
    index = json.dumps({"weight_map": {"a": "../outside/secret.safetensors"}})
    yield Case("transformers, weights outside", folder(BERT, model__safetensors__index__json=index), FOLDER)
    yield Case("transformers, weights behind a link", folder_with_link("model.safetensors"), FOLDER)
    yield Case("transformers, tokenizer behind a link", folder_with_link("tokenizer.json"), PACKAGED)
    yield Case("package, configuration deep", package("[" * 100_000), GENERATE)
    yield Case("package, tokenizer of 5 GB", with_tokenizer, (*GENERATE[:2], "--prompt", "x"))
    yield Case("package, settings of texts deep", folder({}, text_config__json="[" * 100_000), ("embed", "folder", "x"))
    yield Case("package, model outside", package(json.dumps(PACKAGE)), GENERATE)


PACKAGE = {"model": {"decoder": {"filename": "../../outside/secret.onnx"}, "eos_token_id": None}}
PACKAGED = ("package", "folder", "-o", "made")


def folder_with_link(name: str) -> Make:
    def make(project: Path) -> None:
        folder(BERT)(project)
        (project / "folder" / name).symlink_to("../../outside/secret.py")

    return make


def with_tokenizer(project: Path) -> None:
    folder({}, genai_config__json=json.dumps(PACKAGE))(project)
    sparse("folder/tokenizer.json", 5 << 30)(project)


GENERATE = ("generate", "folder", "--ids", "1,2")


def package(config: str) -> Make:
    return folder({}, genai_config__json=config)
