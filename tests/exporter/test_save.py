"""What is on disk after a save: everything, or what was there before."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

from fxport import OnnxProgram, export
from fxport.diagnostics.drafts import DRAFT, PREFIX
from fxport.exporter.onnx_program.save import save
from fxport.ort_runner.cuts import scratch


class Scaled(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(size, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


def program(size: int = 4096) -> OnnxProgram:
    return export(Scaled(size), (torch.zeros(size),))


def run(path: Path, size: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.ones(size, np.float32)})[0]


def test_one_file_below_the_limit(tmp_path: Path) -> None:
    assert program().save(tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", 4096), np.arange(4096) + 1)


def test_weights_beside_the_model_on_demand(tmp_path: Path) -> None:
    made = program()
    written = made.save(tmp_path / "m.onnx", external_data=True)
    assert [finding.rule.name for finding in made.log.findings] == ["ExternalDataWritten"]
    data = written[1].name
    assert re.fullmatch(r"m\.onnx\.[0-9a-f]{16}\.data", data)
    assert {path.name for path in tmp_path.iterdir()} == {"m.onnx", data}
    assert written[0].stat().st_size < 2000
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", 4096), np.arange(4096) + 1)
    (weight,) = [t for t in onnx.load(written[0], load_external_data=False).graph.initializer if t.external_data]
    assert {entry.key: entry.value for entry in weight.external_data}["location"] == data
    assert [path.name for path in made.save(tmp_path / "m.onnx", external_data=True)] == ["m.onnx", data]


def test_weights_beside_the_model_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxport.exporter.onnx_program.save.SINGLE_FILE_LIMIT", 1000)
    assert len(program().save(tmp_path / "m.onnx")) == 2


def test_data_of_an_earlier_model_goes(tmp_path: Path) -> None:
    program().save(tmp_path / "m.onnx", external_data=True)
    program().save(tmp_path / "m.onnx", external_data=False)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_failing_save_leaves_what_was_there(tmp_path: Path) -> None:
    made = program()
    made.save(tmp_path / "m.onnx", external_data=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    weight = made.model.graph.initializers["weight"]

    def disk_is_full() -> ir.TensorProtocol:
        raise OSError(28, "No space left on device")

    weight.const_value = ir.LazyTensor(disk_is_full, dtype=ir.DataType.FLOAT, shape=ir.Shape([4096]), name="weight")
    with pytest.raises(OSError, match="No space left"):
        save(made.model, tmp_path / "m.onnx", True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_killed_save_leaves_no_model(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time
        import onnx_ir as ir
        from fxport.exporter.onnx_program.save import save
        from tests.exporter.test_save import program
        made = program()
        def hang():
            print("writing", flush=True)
            time.sleep(60)
        made.model.graph.initializers["weight"].const_value = ir.LazyTensor(
            hang, dtype=ir.DataType.FLOAT, shape=ir.Shape([4096]), name="weight")
        save(made.model, sys.argv[1], True)
        """
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "m.onnx")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "writing\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGKILL)
    assert [path.suffix for path in tmp_path.iterdir()] == [".save"]
    program(8).save(tmp_path / "other.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["other.onnx"]


def test_nothing_is_read_before_save() -> None:
    tensor = program().model.graph.initializers["weight"].const_value
    assert isinstance(tensor, ir.LazyTensor)
    assert tensor._tensor is None


def changed_to_old_form(model: Path, data: Path) -> Path:
    """The model as earlier versions wrote it, with its weights in `<name>.data`."""
    proto = onnx.load(model, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            entry.value = "m.onnx.data" if entry.key == "location" else entry.value
    model.write_bytes(proto.SerializeToString())
    return data.rename(model.with_name("m.onnx.data"))


def test_data_in_the_old_form_goes_with_its_model(tmp_path: Path) -> None:
    old = changed_to_old_form(*program().save(tmp_path / "m.onnx", external_data=True))
    run(tmp_path / "m.onnx", 4096)
    program().save(tmp_path / "m.onnx", external_data=False)
    assert not old.exists()


@pytest.mark.parametrize("name", ["m.onnx.data", "m.onnx.0123456789abcdef.data"])
def test_data_that_the_old_model_does_not_refer_to_stays(name: str, tmp_path: Path) -> None:
    program().save(tmp_path / "m.onnx", external_data=True)
    (tmp_path / name).write_text("unrelated")
    program().save(tmp_path / "m.onnx", external_data=False)
    assert (tmp_path / name).read_text() == "unrelated"


def test_data_that_a_copy_of_the_model_refers_to_stays(tmp_path: Path) -> None:
    program().save(tmp_path / "m.onnx", external_data=True)
    (tmp_path / "copy.onnx").write_bytes((tmp_path / "m.onnx").read_bytes())
    program(2048).save(tmp_path / "m.onnx", external_data=True)
    np.testing.assert_array_equal(run(tmp_path / "copy.onnx", 4096), np.arange(4096) + 1)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", 2048), np.arange(2048) + 1)


def test_a_link_stays_one_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, there = tmp_path / "link.onnx", tmp_path / "there" / "m.onnx"
    link.symlink_to(there)
    written = program().save(link, external_data=True)
    assert link.is_symlink()
    assert sorted(written) == sorted((tmp_path / "there").iterdir())
    np.testing.assert_array_equal(run(there, 4096), np.arange(4096) + 1)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_modes_are_kept_and_new_ones_are_the_users(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        written = program().save(tmp_path / "m.onnx", external_data=True)
        assert [oct(path.stat().st_mode & 0o777) for path in written] == ["0o640", "0o640"]
        (tmp_path / "m.onnx").chmod(0o600)
        written = program(2048).save(tmp_path / "m.onnx", external_data=True)
        assert [oct(path.stat().st_mode & 0o777) for path in written] == ["0o600", "0o600"]
    finally:
        os.umask(before)


@pytest.mark.parametrize("external", [False, True])
def test_the_longest_names_that_the_system_takes(external: bool, tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 125 + ".onnx")
    assert len(os.fsencode(path.name)) == 255
    written = program().save(path, external_data=external)
    np.testing.assert_array_equal(run(written[0], 4096), np.arange(4096) + 1)


def test_links_that_lead_nowhere_do_not_hinder_a_save(tmp_path: Path) -> None:
    for name in ("loop.onnx", "m.onnx.old.data"):
        (tmp_path / name).symlink_to(name)
    made = program()
    made.save(tmp_path / "m.onnx", external_data=True)
    made.save(tmp_path / "m.onnx")
    assert sorted(os.listdir(tmp_path)) == ["loop.onnx", "m.onnx", "m.onnx.old.data"]


def test_parts_of_a_model_are_written_where_a_later_save_removes_them(tmp_path: Path) -> None:
    """The folder of `scratch` is one of drafts; files of weights in it may have any name."""
    path = program().save(tmp_path / "m.onnx")[0]
    (tmp_path / "lock").write_bytes(b"weights")
    with scratch(path, ["lock"]) as folder:
        assert (folder / "lock").read_bytes() == b"weights"
        (made,) = (each for each in tmp_path.iterdir() if each.is_dir())
        assert made.name.startswith(PREFIX)
        assert made.name.endswith(DRAFT)
    assert sorted(os.listdir(tmp_path)) == ["lock", "m.onnx"]


@pytest.mark.slow
def test_more_than_two_gigabytes(tmp_path: Path) -> None:
    size = 600_000_000
    written = program(size).save(tmp_path / "m.onnx")
    assert written[1].stat().st_size >= 4 * size
    assert run(tmp_path / "m.onnx", size)[-1] == np.float32(size - 1) + 1


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = program()
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(OSError, match=r"the weights need 16,384 bytes, 1,000 are free") as raised:
        made.save(tmp_path / "m.onnx", external_data=True)
    assert raised.value.filename == str(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ['["secret.data"]', '["../secret.data"]', "[1]", "3", "[" * 100_000, '{"a": 1}'])
def test_a_draft_of_a_stranger_removes_no_file_of_yours(left: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / ".fxport-a.save").mkdir(parents=True)
    (folder / ".fxport-a.save" / "left").write_text(left)
    (folder / ".fxport-a.save" / "lock").touch()
    for path in (tmp_path / "secret.data", folder / "secret.data"):
        path.write_text("kept")
    program(8).save(folder / "m.onnx")
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "secret.data"]
    assert (tmp_path / "secret.data").exists()
