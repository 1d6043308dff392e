"""The manifest: what it takes, how it says no, its schema, the items it becomes, and `--init`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from fxport.exporter.checks import init, manifest
from fxport.exporter.checks.items import TIMED_RUNS, tasks_of
from fxport.exporter.checks.manifest import Manifest, ProviderName, RuntimeName, find, load
from fxport.exporter.sources.toml_lines import line_of
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.providers import AUTO, PROVIDERS
from fxport.ort_runner.runtimes import RUNTIMES

SCHEMA = Path(manifest.__file__).with_name("fxport.schema.json")

GOOD = """\
[defaults]
opset = [18, 23]
time_limit = 60
budget = { error = 0.5, nodes = 1000 }
expect = ["FXP1005"]

[[model]]
name = "bert"
source = "models/bert.py:model"
inputs = { ids = "2x16:int64:0..999", scale = 1.5, causal = true }
dynamic = { ids = "0=batch,1=sequence" }
provider = ["cpu", "cuda"]
runtime = "reference"
budget = { nodes = 500, bytes = "100 MB", latency = 2 }

[[model]]
name = "resnet"
source = "models.resnet:model"
opset = 20
expect = ["OutputDrift"]
"""


def written(folder: Path, text: str, name: str = "fxport.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_items_are_models_by_opsets_by_providers(tmp_path: Path) -> None:
    tasks = tasks_of(load(written(tmp_path, GOOD)))
    assert [task.item.id for task in tasks] == [
        *(f"bert-opset{opset}-{provider}" for opset in (18, 23) for provider in ("cpu", "cuda")),
        "resnet",
    ]
    bert, resnet = tasks[0], tasks[-1]
    assert bert.item.inputs == ("ids=2x16:int64:0..999", "scale=1.5", "causal=true")
    assert bert.item.dynamic == ("ids:0=batch,1=sequence",)
    assert (bert.item.runs, resnet.item.runs) == (TIMED_RUNS, 0)
    assert (bert.terms.budget.nodes, bert.terms.budget.error, bert.terms.budget.bytes) == (500, 0.5, 100_000_000)
    assert (resnet.terms.budget.nodes, resnet.terms.expect, bert.terms.expect) == (1000, ("FXP5002",), ("FXP1005",))
    assert (bert.item.runtimes, resnet.item.runtimes) == (("reference",), ())
    assert (resnet.item.opset, resnet.item.provider, resnet.terms.time_limit) == (20, "auto", 60)


def test_models_are_chosen_by_name(tmp_path: Path) -> None:
    read = load(written(tmp_path, GOOD))
    assert [task.item.id for task in tasks_of(read, ["resnet"])] == ["resnet"]
    with pytest.raises(UsageError, match=r"no model 'resnt'.*Did you mean 'resnet'"):
        tasks_of(read, ["resnt"])


@pytest.mark.parametrize("text", ["tool = 3", 'tool = "fxport"', "[[tool]]", "[tool]", ""])
def test_a_pyproject_without_a_table_of_ours_is_no_manifest(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=r"nor \[tool.fxport\] in pyproject.toml"):
        manifest.find(tmp_path)


def test_pyproject_is_a_manifest_too(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n\n[tool.fxport.defaults]\nopset = 20\n\n'
    text += '[[tool.fxport.model]]\nname = "a"\nsorce = "b"\n'
    path = written(tmp_path, text, "pyproject.toml")
    assert find(tmp_path) == path
    with pytest.raises(UsageError) as raised:
        load(path)
    assert str(raised.value).splitlines() == [
        "pyproject.toml:7: 'source' is missing.",
        "pyproject.toml:9: unknown key 'sorce'. Did you mean 'source'?",
    ]
    path.write_text('[project]\nname = "x"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="check --init"):
        find(tmp_path)
    with pytest.raises(UsageError, match=r"has no \[tool.fxport\]"):
        load(path)
    assert find(written(tmp_path, GOOD).parent).name == "fxport.toml"


HEAD = '[[model]]\nname = "a"\nsource = "a.py:a"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "opsett = 18\n", "fxport.toml:4: unknown key 'opsett'. Did you mean 'opset'?"),
        (HEAD + "[model.budget]\n\nnodse = 1\n", "fxport.toml:6: unknown key 'nodse'. Did you mean 'nodes'?"),
        (HEAD + "budget = { byte = 1 }\n", "fxport.toml:4: unknown key 'byte'. Did you mean 'bytes'?"),
        (HEAD + "[[models]]\n", "fxport.toml:4: unknown key 'models'. Did you mean 'model'?"),
        (HEAD + "[default]\n", "fxport.toml:4: unknown key 'default'. Did you mean 'defaults'?"),
        (HEAD + "opset = 99\n", "fxport.toml:4: 'model.0.opset' is 99; it should be less than or equal to 26, or"),
        (HEAD + 'provider = ["gpu"]\n', "fxport.toml:4: 'model.0.provider.0' is 'gpu'; it should be 'auto', 'cpu'"),
        (HEAD + 'memory = "much"\n', "fxport.toml:4: 'model.0.memory' is 'much'"),
        (
            HEAD + 'expect = ["FXP3O01"]\n',
            "fxport.toml:4: there is no rule 'FXP3O01'. Did you mean 'FXP3010' or 'FXP3001'?",
        ),
        (HEAD + HEAD, "fxport.toml:5: there is a model 'a' above"),
        (HEAD.replace('"a"', '"../a"', 1), "fxport.toml:2: 'model.0.name' is '../a'"),
        ("[defaults]\n", "fxport.toml:1: 'model' is missing."),
        ("model = [\n", "fxport.toml:1: no TOML: Invalid value; correct it."),
        (HEAD + "opset = = 20\n", "fxport.toml:4: no TOML: Invalid value; correct it."),
        (HEAD + "opset = " + "9" * 5000 + "\n", "fxport.toml: no TOML: Exceeds the limit"),
        (HEAD + "expect = " + "[" * 3000, "fxport.toml: no TOML: "),
        ("\ufeff" + HEAD + "opsett = 20\n", "fxport.toml:4: unknown key 'opsett'. Did you mean 'opset'?"),
        (
            HEAD + '[model.budget]\nbytes = "10 XB"\n',
            "'model.0.budget.bytes' is '10 XB': could not interpret byte unit",
        ),
        ('[[model]]\nname = "m"\nsource = ""\n', "fxport.toml:3: 'model.0.source' is ''; it should have at least 1"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        load(written(tmp_path, text))
    assert said in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_all_mistakes_are_told_in_the_order_of_their_lines(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        load(written(tmp_path, HEAD + "rtoll = 1\n" + "\n[[model]]\nnam = 1\n"))
    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == [
        "fxport.toml:4",
        "fxport.toml:6",
        "fxport.toml:6",
        "fxport.toml:7",
    ]


def test_the_shipped_schema_is_that_of_the_classes_and_fits() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == manifest.schema(), (
        "write it: python -m fxport.exporter.checks.manifest"
    )
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads(GOOD), schema)
    with pytest.raises(jsonschema.ValidationError, match="opsett"):
        jsonschema.validate(tomllib.loads(HEAD + "opsett = 18\n"), schema)


def test_every_key_is_explained_and_every_provider_known() -> None:
    schema = json.loads(manifest.schema())
    tables = [schema, *schema["$defs"].values()]
    assert all("description" in key for table in tables for key in table.get("properties", {}).values())
    assert set(get_args(ProviderName)) == {AUTO, *PROVIDERS}
    assert get_args(RuntimeName) == tuple(RUNTIMES)


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (("model", 0, "name"), 3),
        (("model", 1, "a.b"), 10),
        (("model", 1, "budget", "nodes"), 12),
        (("model", 1, "budget", "error"), 11),
        (("model", 7), 1),
        (("model",), 2),
    ],
)
def test_lines_of_keys(where: tuple[str | int, ...], line: int) -> None:
    text = '# a = 1\n[[model]]\nname = """\n"""\n\n# [[model]]\n\n[[model]]\nname = 1\n"a.b" = 2\n'
    text += "[model.budget]\nnodes = 3\n"
    assert line_of(text, where) == line


PROJECT = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()


class Small(Base):
    def __init__(self, width=3):
        super().__init__(width)

    def forward(self, ids, scale=1.0, *, image):
        return ids


class Used(nn.Module):
    def forward(self, x):
        return x


def model():
    made = Used()
    return made, (torch.ones(2),)


def sized(width):
    return Used()


def annotated() -> nn.Module:
    return torch.compile(nn.ReLU())


def number():
    return 3
"""


def test_init_writes_what_it_finds(tmp_path: Path) -> None:
    for folder in ("net", "tests", ".venv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "parts.py").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "net" / "more.py").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "net" / "template.py").write_text("def {{ name }}", encoding="utf-8")
    path, _ = init.write(tmp_path)
    read: Manifest = load(path)
    assert [(model.name, model.source) for model in read.model] == [
        ("more", "net/more.py:model"),
        ("more-annotated", "net/more.py:annotated"),
        ("more-Small", "net/more.py:Small"),
        ("parts", "net/parts.py:model"),
        ("parts-annotated", "net/parts.py:annotated"),
        ("parts-Small", "net/parts.py:Small"),
    ]
    assert read.model[2].inputs == {"ids": "2x16:int64", "image": "1x3"}
    with pytest.raises(UsageError, match="already"):
        init.write(tmp_path)


def test_init_of_nothing_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="returns \\(model, args\\)"):
        init.write(tmp_path)


def test_text_that_is_not_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD)
    path.write_bytes(path.read_bytes() + b"# caf\xe9\n")
    with pytest.raises(UsageError, match=r"^fxport.toml:4: byte 0xe9 is not UTF-8; save the file as UTF-8.$"):
        load(path)
