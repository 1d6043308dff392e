"""Weights from checkpoints: the bytes of the model's own export in every format; and what is said of differences."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import safetensors.torch
import torch
from torch import nn

from diagnostics import Level
from exporter import ExportError, OnnxProgram, export
from exporter.capture.fake import without_memory
from exporter.weights import CheckpointError, open_checkpoint
from exporter.weights.names import AmbiguousPrefix, Renaming, names_of

Tensors = dict[str, torch.Tensor]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.up(self.norm(x))


class Small(nn.Module):
    """Tied weights, a buffer that checkpoints hold, one that they do not, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.rand(8))
        self.register_buffer("frequencies", torch.arange(8) / 8, persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * self.scale + self.frequencies
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


IDS = torch.arange(6).reshape(2, 3)


def small(seed: int = 0) -> Small:
    torch.manual_seed(seed)
    return Small().eval()


def fake() -> Small:
    with without_memory():
        return Small().eval()


def weights(program: OnnxProgram) -> dict[str, bytes]:
    """The bytes of every initializer, by name."""
    held = program.model.graph.initializers
    return {name: value.const_value.tobytes() for name, value in held.items() if value.const_value is not None}


def said(program: OnnxProgram | ExportError) -> list[str]:
    return [finding.rule.name for finding in program.log.findings]


def untied(model: nn.Module) -> Tensors:
    """The state dict as safetensors can hold it: tied weights once."""
    return {name: value.clone() for name, value in model.state_dict().items() if name != "head.weight"}


def to_safetensors(model: nn.Module, folder: Path) -> Path:
    safetensors.torch.save_file(untied(model), folder / "model.safetensors")
    return folder / "model.safetensors"


def to_shards(model: nn.Module, folder: Path) -> Path:
    state = untied(model)
    index = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(state)}
    for shard in set(index.values()):
        safetensors.torch.save_file({name: state[name] for name in state if index[name] == shard}, folder / shard)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}), encoding="utf-8")
    return path


def to_folder(model: nn.Module, folder: Path) -> Path:
    return to_shards(model, folder).parent


def to_shards_alone(model: nn.Module, folder: Path) -> Path:
    to_shards(model, folder).unlink()
    return folder


def to_torch(model: nn.Module, folder: Path) -> Path:
    torch.save(model.state_dict(), folder / "model.pt")
    return folder / "model.pt"


def to_torch_of_a_script(model: nn.Module, folder: Path) -> Path:
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.save({"epoch": 3, "model": state, "optimizer": {"state": {}}}, folder / "last.ckpt")
    return folder / "last.ckpt"


def to_torch_before_zip(model: nn.Module, folder: Path) -> Path:
    torch.save(model.state_dict(), folder / "old.pth", _use_new_zipfile_serialization=False)
    return folder / "old.pth"


def to_strided(model: nn.Module, folder: Path) -> Path:
    """Weights that are views: transposed, and a part of another tensor."""
    state: dict[str, Any] = dict(model.state_dict())
    state["layers.0.up.weight"] = state["layers.0.up.weight"].t().contiguous().t()
    state["layers.1.up.bias"] = torch.cat([torch.zeros(3), state["layers.1.up.bias"]])[3:]
    torch.save(state, folder / "views.pt")
    return folder / "views.pt"


SAVERS = (
    to_safetensors,
    to_shards,
    to_folder,
    to_shards_alone,
    to_torch,
    to_torch_of_a_script,
    to_torch_before_zip,
    to_strided,
)


@pytest.mark.parametrize("save", SAVERS, ids=lambda save: save.__name__)
def test_the_bytes_are_those_of_the_model_itself(save: Callable[[nn.Module, Path], Path], tmp_path: Path) -> None:
    model = small()
    program = export(fake(), (IDS,), weights=save(model, tmp_path))
    assert weights(program) == weights(export(model, (IDS,)))
    renamed = ["WeightsRenamed"] if save is to_torch_of_a_script else []
    assert said(program) == renamed


def test_the_weights_of_a_model_with_memory_are_replaced(tmp_path: Path) -> None:
    path = to_safetensors(small(), tmp_path)
    assert weights(export(small(seed=1), (IDS,), weights=path)) == weights(export(small(), (IDS,)))


def test_buffers_keep_their_values_and_parameters_stay_tied_without_memory() -> None:
    model = fake()
    assert model.embed.weight is model.head.weight
    assert all(parameter.is_meta for parameter in model.parameters())
    assert torch.equal(dict(model.named_buffers())["frequencies"], torch.arange(8) / 8)


def test_a_model_without_memory_is_as_it_was_after_its_export(tmp_path: Path) -> None:
    model = fake()
    before = dict(model.named_parameters())
    export(model, (IDS,), weights=to_torch(small(), tmp_path))
    assert all(before[name] is parameter for name, parameter in model.named_parameters())


def test_an_exported_program_takes_weights_too(tmp_path: Path) -> None:
    captured = torch.export.export(small(seed=1), (IDS,))
    assert weights(export(captured, weights=to_torch(small(), tmp_path))) == weights(
        export(torch.export.export(small(), (IDS,)))
    )


def test_no_initializer_without_values_is_emitted() -> None:
    with pytest.raises(ExportError) as raised:
        export(fake(), (IDS,))
    findings = [each for each in raised.value.log.findings if each.rule.name == "WeightWithoutValues"]
    assert "layers.*.up.weight" in [finding.facts["name"] for finding in findings]
    assert all(finding.place is not None and finding.place.path == __file__ for finding in findings)


def test_a_buffer_without_values_that_is_in_no_checkpoint(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = Small().eval()
    with pytest.raises(ExportError) as raised:
        export(model, (IDS,), weights=to_torch(small(), tmp_path))
    assert [finding.facts["name"] for finding in raised.value.log.findings] == ["frequencies"]


def changed(model: nn.Module, changes: Mapping[str, torch.Tensor | None], folder: Path) -> Path:
    state = {**model.state_dict(), **changes}
    torch.save({name: value for name, value in state.items() if value is not None}, folder / "changed.pt")
    return folder / "changed.pt"


def test_a_missing_weight_is_named_with_the_nearest_one_there(tmp_path: Path) -> None:
    state = small().state_dict()
    lost = {f"layers.{i}.up.weight": None for i in range(3)}
    named = {f"layers.{i}.upp.weight": state[f"layers.{i}.up.weight"] for i in range(3)}
    with pytest.raises(ExportError) as raised:
        export(fake(), (IDS,), weights=changed(small(), lost | named, tmp_path))
    missing, unused = raised.value.log.findings
    assert (missing.rule.name, missing.facts["name"], missing.count) == ("WeightMissing", "layers.*.up.weight", 3)
    assert missing.facts["nearest"] == "layers.0.upp.weight"
    assert missing.place is not None
    assert missing.place.path == __file__
    assert (unused.rule.name, unused.level, unused.count) == ("WeightUnused", Level.WARNING, 3)


def test_a_missing_buffer_with_a_value_of_its_own_is_a_warning(tmp_path: Path) -> None:
    model = fake()
    program = export(model, (IDS,), weights=changed(small(), {"scale": None}, tmp_path))
    assert [(f.rule.name, f.level) for f in program.log.findings] == [("WeightMissing", Level.WARNING)]
    assert weights(program)["scale"] == dict(model.named_buffers())["scale"].numpy().tobytes()


@pytest.mark.parametrize("other", [torch.zeros(9), torch.zeros(8, dtype=torch.int8)], ids=["shape", "type"])
def test_another_shape_or_a_type_that_means_something_else(other: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(ExportError) as raised:
        export(fake(), (IDS,), weights=changed(small(), {"layers.1.norm.bias": other}, tmp_path))
    (finding,) = raised.value.log.findings
    assert (finding.rule.name, finding.facts["name"]) == ("WeightMismatch", "layers.*.norm.bias")
    assert "float32 [8]" in finding.message


def test_the_type_is_the_models_and_the_change_is_told(tmp_path: Path) -> None:
    model = small()
    program = export(fake(), (IDS,), weights=to_torch(model.bfloat16(), tmp_path))
    assert said(program) == ["WeightsConverted"]
    assert "'bfloat16' to 'float32'" in program.log.findings[0].message
    assert weights(program) == weights(export(model.float(), (IDS,)))


def test_a_part_of_what_was_saved(tmp_path: Path) -> None:
    model = small()
    with without_memory():
        part = Block().eval()
    program = export(part, (torch.ones(2, 8),), weights=to_torch(nn.Sequential(nn.ReLU(), model.layers[1]), tmp_path))
    assert weights(program) == weights(export(model.layers[1], (torch.ones(2, 8),)))
    assert said(program) == ["WeightsRenamed"]


def test_two_parts_that_fit_as_well_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'layers\.0\.', 'layers\.1\.'"):
        export(Block(), (torch.ones(2, 8),), weights=to_torch(small(), tmp_path))


@pytest.mark.parametrize(
    ("wanted", "stored", "renaming"),
    [
        (["a.w", "b.w"], ["a.w", "b.w", "model.a.w"], Renaming()),
        (["a.w", "b.w"], ["_orig_mod.a.w", "_orig_mod.b._checkpoint_wrapped_module.w"], Renaming()),
        (["a.w", "b.w"], ["model.a.w", "model.b.w", "ema.a.w", "ema.b.w"], Renaming("", "model.")),
        (["model.a.w", "model.b.w"], ["a.w", "b.w"], Renaming("model.", "")),
        (["roberta.a.w", "roberta.b.w"], ["bert.a.w", "bert.b.w"], Renaming("roberta.", "bert.")),
        (["a.w", "b.w", "c.w"], ["x.a.w", "y.z"], Renaming()),
    ],
)
def test_prefixes(wanted: list[str], stored: list[str], renaming: Renaming) -> None:
    assert names_of(wanted, stored).renaming == renaming


def test_prefixes_of_two_models() -> None:
    with pytest.raises(AmbiguousPrefix, match=r"'student\.', 'teacher\.'"):
        names_of(["a.w", "b.w"], ["student.a.w", "student.b.w", "teacher.a.w", "teacher.b.w"])


# Faults: each is one clear line --------------------------------------------------------------------------------------


def cut(folder: Path) -> Path:
    path = to_safetensors(small(), folder)
    path.write_bytes(path.read_bytes()[:-10])
    return path


def cut_in_the_header(folder: Path) -> Path:
    path = to_safetensors(small(), folder)
    path.write_bytes(path.read_bytes()[:100])
    return path


def cut_zip(folder: Path) -> Path:
    path = to_torch(small(), folder)
    path.write_bytes(path.read_bytes()[:-2000])
    return path


def lying_index(folder: Path) -> Path:
    path = to_shards(small(), folder)
    index = json.loads(path.read_text(encoding="utf-8"))
    index["weight_map"]["embed.weight"] = "part-0.safetensors"
    path.write_text(json.dumps(index), encoding="utf-8")
    return path


def lost_shard(folder: Path) -> Path:
    path = to_shards(small(), folder)
    (folder / "part-1.safetensors").unlink()
    return path


def index_that_leads_away(folder: Path) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "../../secret.safetensors"}}), encoding="utf-8")
    return path


def whole_model(folder: Path) -> Path:
    torch.save(small(), folder / "model.pt")
    return folder / "model.pt"


def no_state_dict(folder: Path) -> Path:
    torch.save({"epoch": 3, "config": {"width": 8}}, folder / "model.pt")
    return folder / "model.pt"


def text_file(folder: Path) -> Path:
    (folder / "notes.txt").write_text("not a checkpoint", encoding="utf-8")
    return folder / "notes.txt"


def lying_header(folder: Path) -> Path:
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (folder / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    return folder / "m.safetensors"


def two_files(folder: Path) -> Path:
    to_torch(small(), folder)
    torch.save({}, folder / "other.pt")
    return folder


FAULTS: tuple[tuple[Callable[[Path], Path], str], ...] = (
    (cut, "is truncated: '.+' ends at byte"),
    (cut_in_the_header, "its header is incomplete"),
    (cut_zip, "cannot be read by torch.load"),
    (lying_index, "names 'embed.weight' in 'part-0.safetensors', which has no such tensor"),
    (lost_shard, "'part-1.safetensors', which is not there"),
    (index_that_leads_away, "outside of its folder"),
    (whole_model, "needs the code of '.*Small'"),
    (no_state_dict, "has no state dict; it has 'epoch', 'config'"),
    (text_file, "is no checkpoint"),
    (lying_header, "is damaged: 'a' is F32 .4., but 8 bytes long"),
    (two_files, "more than one checkpoint: model.pt, other.pt"),
    (lambda folder: folder / "none", "There is no"),
    (lambda folder: folder, "has no checkpoint in it"),
)


@pytest.mark.parametrize(("make", "words"), FAULTS, ids=[make.__name__ for make, _ in FAULTS])
def test_a_checkpoint_that_cannot_be_read(make: Callable[[Path], Path], words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=words) as raised:
        open_checkpoint(make(tmp_path))
    assert len(str(raised.value).splitlines()) == 1


def test_a_file_that_becomes_shorter_after_it_was_opened(tmp_path: Path) -> None:
    path = to_safetensors(small(), tmp_path)
    program = export(fake(), (IDS,), weights=path)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(CheckpointError, match="become shorter"):
        program.save(tmp_path / "m.onnx", external_data=True)
    assert not list(tmp_path.glob("m.onnx*"))


@pytest.mark.parametrize("external", [True, False])
def test_the_saved_bytes_are_those_of_the_model_itself(external: bool, tmp_path: Path) -> None:
    program = export(fake(), (IDS,), weights=to_shards(small(), tmp_path))
    program.save(tmp_path / "m.onnx", external_data=external)
    held = ir.load(tmp_path / "m.onnx").graph.initializers
    saved = {name: value.const_value.tobytes() for name, value in held.items() if value.const_value is not None}
    assert saved == weights(export(small(), (IDS,)))
