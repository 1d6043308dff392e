"""The manifest: which models a project keeps convertible, and what each may cost. `fxport.toml`, or `[tool.fxport]`.

`fxport.schema.json` beside this file is made from these classes, for editors to complete by:
`python -m fxport.exporter.checks.manifest > exporter/checks/fxport.schema.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field

from fxport.diagnostics.rules import RULES
from fxport.exporter.pipeline.options import MAX_OPSET, MIN_OPSET
from fxport.exporter.sources.settings import Settings, refuse_unfit
from fxport.exporter.sources.toml_lines import Path as KeyPath
from fxport.exporter.sources.toml_tables import NAME, PYPROJECT, TABLE, Keys, line_in, parsed, read, validated
from fxport.exporter.sources.usage import UsageError, did_you_mean

Opset = Annotated[int, Field(ge=MIN_OPSET, le=MAX_OPSET)]
ProviderName = Literal["auto", "cpu", "cuda", "tensorrt"]
RuntimeName = Literal["onnxruntime", "reference", "openvino", "web"]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


def relative(pattern: str) -> str:
    """Return a pattern of files below a folder. Raises ValueError for what is none."""
    parts = Path(pattern).parts
    if not parts or Path(pattern).is_absolute():
        raise ValueError("it should be relative to this file")
    if any("**" in part and part != "**" for part in parts):
        raise ValueError("** stands for folders, between slashes")
    return pattern


Pattern = Annotated[str, AfterValidator(relative)]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Budget(Keys):
    """Upper limits on the cost of a model; more is a finding."""

    bytes: ByteSize | None = None
    """Size of the model with its weights: a number, or "100 MB"."""
    nodes: Annotated[int, Field(gt=0)] | None = None
    """Nodes of the graph with those of its functions and subgraphs."""
    latency: Positive | None = None
    """Time of a run in ONNX Runtime, in parts of eager PyTorch's."""
    error: Positive | None = None
    """Largest error, in parts of the error budget of its type; 1 is what fxport itself allows."""


class Choices(Keys):
    """Keys of one model, and in `[defaults]` of all."""

    opset: Opset | list[Opset] | None = None
    """The opset of the model, or several: each is a check of its own."""
    provider: ProviderName | list[ProviderName] | None = None
    """The provider of ONNX Runtime, or several: each is a check of its own."""
    runtime: RuntimeName | list[RuntimeName] | None = None
    """Other implementations of ONNX that run the same samples, besides ONNX Runtime."""
    plugin: list[str] | None = None
    """Modules with `LOWERINGS` of your own."""
    allow_specialization: bool | None = None
    """A dynamic dim that became a constant is only a warning."""
    adversarial: bool | None = None
    """Also validate at hard sizes and on zeros, denormal and large numbers, NaN."""
    atol: NotNegative | None = None
    """Absolute tolerance; with rtol, it replaces the error budget."""
    rtol: NotNegative | None = None
    """Relative tolerance; with atol, it replaces the error budget."""
    time_limit: Positive | None = None
    """Seconds that one check may take; 600 by default."""
    memory: ByteSize | None = None
    """Memory that one check may take: a number, or "8 GB"; not bounded by default."""
    runs: Annotated[int, Field(ge=0)] | None = None
    """Timed runs in PyTorch and in ONNX Runtime; 0 by default, 20 where there is a budget for latency."""
    budget: Budget | None = None
    """Upper limits on the cost of the model."""
    expect: list[str] | None = None
    """Rules whose findings are known and wanted; one that is not found is itself a finding."""


class Model(Choices):
    """One model."""

    name: ModelName
    """Name of the model in reports, and in `fxport check NAME`."""
    source: Annotated[str, Field(min_length=1)]
    """FILE.py:NAME, package.module:NAME, a .pt2 file, or a folder of transformers, as for `fxport export`."""
    inputs: dict[str, str | int | float | bool] = {}
    """Example inputs by argument: ids = "2x16:int64:0..999", image = "1x3x32x32", scale = 1.5."""
    samples: str | Annotated[list[str], Field(min_length=1)] | None = None
    """Example inputs: .npz, or .pt with a dict of tensors, by argument; of several files, each is validated with."""
    dynamic: dict[str, str] = {}
    """Dims that may vary, by argument: ids = "0=batch,1=sequence"."""
    weights: str | None = None
    """A checkpoint with the weights: safetensors, an index of shards, torch.save, or a folder of them."""
    trust: bool = False
    """Load a .pt2 file that has pickles or other code in it, too: loading it runs that code."""
    fake: bool = False
    """Make the model without memory for its weights; `weights` has them."""
    ranks: Annotated[int, Field(ge=1)] = 1
    """Processes that hold the model together, each of which calls `source`; such a model is not timed."""
    input_names: list[str] | None = None
    """Names of the flattened inputs."""
    output_names: list[str] | None = None
    """Names of the flattened outputs."""
    depends: list[Pattern] = []
    """Further files that the model is made from, as patterns: "weights/*.safetensors"."""


class Manifest(Settings):
    """Models that `fxport check` checks, and the reporting of their findings."""

    defaults: Choices = Choices()
    """Holds for each model that does not say otherwise."""
    model: Annotated[list[Model], Field(min_length=1)]
    """The models."""


def find(folder: Path) -> Path:
    """The manifest of a folder. Raises UsageError where there is none."""
    own, project = folder / NAME, folder / PYPROJECT
    if own.is_file():
        return own
    tools = parsed(project).get(TABLE[0]) if project.is_file() else None
    if isinstance(tools, Mapping) and TABLE[1] in tools:
        return project
    raise UsageError(f"There is no {NAME} here, nor [tool.fxport] in {PYPROJECT}; `fxport check --init` writes one.")


def load(path: Path) -> Manifest:
    """Reads and checks a manifest. Raises UsageError with a line for each mistake: file, line, what, what is right."""
    table = read(path)
    if not table and path.name == PYPROJECT:
        raise UsageError(f"'{path}' has no [tool.fxport]; name another manifest: `fxport check --init` writes one.")
    manifest = validated(Manifest, table, path, fields_at)
    refuse_unfit(manifest, path)
    refuse_twins(manifest, path)
    refuse_unknown_rules(manifest, path)
    return manifest


def line_of_model(path: Path, name: str, key: str) -> int:
    """The line of a key of a model's table, where it has it, else of the table."""
    names = [model.name for model in validated(Manifest, read(path), path, fields_at).model]
    return line_in(path, ("model", names.index(name), key))


TABLES: Mapping[str, type[Keys]] = {"defaults": Choices, "model": Model, "budget": Budget}


def fields_at(where: KeyPath) -> list[str]:
    """The keys of a table of the manifest."""
    table = next((TABLES[part] for part in reversed(where) if isinstance(part, str) and part in TABLES), Manifest)
    return list(table.model_fields)


def refuse_twins(manifest: Manifest, path: Path) -> None:
    names = [model.name for model in manifest.model]
    for number, name in enumerate(names):
        if name in names[:number]:
            line = line_in(path, ("model", number, "name"))
            raise UsageError(f"{path.name}:{line}: there is a model '{name}' above; give each a name of its own.")


def refuse_unknown_rules(manifest: Manifest, path: Path) -> None:
    known = {word: rule.id for rule in RULES.values() for word in (rule.id, rule.name)}
    tables: list[tuple[KeyPath, Choices]] = [(("defaults",), manifest.defaults)]
    tables += [(("model", number), model) for number, model in enumerate(manifest.model)]
    for where, table in tables:
        for name in table.expect or ():
            if name not in known:
                line = line_in(path, (*where, "expect"))
                text = f"{path.name}:{line}: there is no rule '{name}'. {did_you_mean(name, known)}"
                raise UsageError(text.rstrip())


def schema() -> str:
    """The JSON Schema of fxport.toml."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": ""}  # these two come first
    return json.dumps(document | Manifest.model_json_schema() | {"title": "fxport.toml"}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema())
