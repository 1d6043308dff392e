"""Weights from checkpoints: the bytes of the model's own export in every format; and what is said of differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

from fxport import ExportError, OnnxProgram, Options, export
from fxport.diagnostics import Level
from fxport.exporter.capture.fake import without_memory
from fxport.exporter.weights import CheckpointError, open_checkpoint
from fxport.exporter.weights.names import AmbiguousPrefix, Renaming, names_of
from tests.exporter import checkpoints
from tests.exporter.checkpoints import (
    IDS,
    Block,
    Small,
    fake,
    small,
    to_dcp,
    to_dcp_in_pieces,
    to_folder,
    to_safetensors,
    to_shards,
    to_shards_alone,
    to_strided,
    to_torch,
    to_torch_before_zip,
    to_torch_of_a_script,
)


def weights(program: OnnxProgram) -> dict[str, bytes]:
    """The bytes of every initializer, by name."""
    held = program.model.graph.initializers
    return {name: value.const_value.tobytes() for name, value in held.items() if value.const_value is not None}


def said(program: OnnxProgram | ExportError) -> list[str]:
    return [finding.rule.name for finding in program.log.findings]


SAVERS = (
    to_dcp,
    to_dcp_in_pieces,
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
    renamed = ["WeightsRenamed"] if save in (to_torch_of_a_script, to_dcp) else []
    assert said(program) == renamed


def test_large_tensors_of_a_distributed_checkpoint_are_found_in_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxport.exporter.weights.dcp_folders.COPIED", 0)
    path = to_dcp(small(), tmp_path)
    assert all(stored.region is not None for stored in open_checkpoint(path).tensors.values())
    assert weights(export(fake(), (IDS,), weights=path)) == weights(export(small(), (IDS,)))


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
    (finding,) = (each for each in raised.value.log.findings if each.rule.name == "WeightWithoutValues")
    assert finding.facts["name"].startswith("layers.*.")
    assert "layers.*.up.weight" in finding.message
    assert {place.path for place in (finding.place, *finding.related) if place} == {checkpoints.__file__}


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
    assert missing.place.path == checkpoints.__file__
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


IN_PLACE = (to_safetensors, to_shards, to_torch)
ASKED = Options(weights_in_place=True)


@pytest.mark.parametrize("save", IN_PLACE, ids=lambda save: save.__name__)
def test_weights_stay_in_the_files_of_the_checkpoint(
    save: Callable[[nn.Module, Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxport.exporter.onnx_program.save.EXTERNAL_THRESHOLD", 100)
    path = save(small(), tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    program = export(fake(), (IDS,), weights=path, options=ASKED)
    model, *used = program.save(tmp_path / "m.onnx", external_data=True)
    assert set(used) <= set(before)
    assert {file: file.read_bytes() for file in before} == before
    notes = [finding.facts["name"] for finding in program.log.findings if finding.rule.name == "ExternalDataWritten"]
    assert notes == [file.relative_to(tmp_path).as_posix() for file in used]
    want, got = small()(IDS).detach(), session(model).run(None, {"ids": IDS.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(got), want)
    names = {name for name, value in ir.load(model).graph.initializers.items() if is_in(value.const_value, used)}
    assert names == {"head.weight", *(f"layers.{i}.up.weight" for i in range(3))}


def is_in(tensor: ir.TensorProtocol | None, files: Sequence[Path]) -> bool:
    return isinstance(tensor, ir.ExternalTensor) and Path(tensor.path) in files


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_weights_of_another_type_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxport.exporter.onnx_program.save.EXTERNAL_THRESHOLD", 100)
    path = to_safetensors(small().bfloat16(), tmp_path)
    files = export(fake(), (IDS,), weights=path, options=ASKED).save(tmp_path / "m.onnx")
    assert files == [tmp_path / "m.onnx"]


def test_weights_outside_of_the_models_folder_cannot_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxport.exporter.onnx_program.save.EXTERNAL_THRESHOLD", 100)
    (tmp_path / "out").mkdir()
    linked = tmp_path / "out" / "linked.safetensors"
    linked.symlink_to(to_safetensors(small(), tmp_path))
    program = export(fake(), (IDS,), weights=linked, options=ASKED)
    with pytest.raises(CheckpointError, match="write the model beside the checkpoint"):
        program.save(tmp_path / "out" / "m.onnx")
    assert list((tmp_path / "out").iterdir()) == [linked]
