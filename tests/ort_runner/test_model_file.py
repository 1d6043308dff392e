"""Model files read without their weights: provenance, external data, and files that are none."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fxport.ort_runner.model_file import missing_external_data, read_model_file, read_shapes
from fxport.ort_runner.session import LocalSession
from fxport.ort_runner.sums import allowance
from tests.ort_runner.models import RELU, external, save

LAYERS = """g (float[N] x) => (float[N] y) { [first] a = my.Layer (x) [second] y = my.Layer (a) }
<domain: "my", opset_import: ["" : 21]> Layer (x) => (y) { [mm] t = Neg (x) [exp_mm] y = Exp (t) }"""


def test_a_node_is_at_the_users_line(tmp_path: Path) -> None:
    path = save(tmp_path, RELU, places={"relu": ["net.py", 12, "encoder.0", "relu_1"]})
    place = read_model_file(path).place_of_node("relu")
    assert (place.path, place.line, place.module, place.node) == ("net.py", 12, "encoder.0", "relu_1")
    assert place.onnx_node == "relu"
    assert read_model_file(path).place_of_value("y").line == 12


@pytest.mark.parametrize("name", ["_inlfunc_Layer_exp_mm", "_inlfunc_Layer_token_0_exp_mm", "exp_mm"])
def test_a_node_of_an_inlined_function_is_found(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, LAYERS, places={"mm": ["/n.py", 1, None, None], "exp_mm": ["/n.py", 2, None, None]})
    assert read_model_file(path).place_of_node(name).line == 2


def test_nodes_without_a_line_are_at_the_model(tmp_path: Path) -> None:
    path = save(tmp_path, RELU)
    for name in ("relu", "no such node", ""):
        place = read_model_file(path).place_of_node(name)
        assert (place.path, place.line, place.column) == (str(path), 1, 1)
    path = save(tmp_path, RELU, places={"relu": [None, 0, "encoder", "relu_1"]})
    place = read_model_file(path).place_of_node("relu")
    assert (place.path, place.module) == (str(path), "encoder")


def test_nodes_of_branches_are_read(tmp_path: Path) -> None:
    text = """g (float[N] x, bool c) => (float[K] y) { [branch] y = If (c) <
        then_branch = t () => (float[L] o) { [inner] o = Exp (x) },
        else_branch = e () => (float[L] o) { [neg] o = Neg (x) }
    > }"""
    assert [node.name for node in read_model_file(save(tmp_path, text)).nodes] == ["branch", "inner", "neg"]


@pytest.mark.parametrize("table", ["{", "[1]", "[[1, 2]]", '[["a", "b", "c", "d"]]', "null"])
def test_a_broken_provenance_table_is_told(tmp_path: Path, table: str) -> None:
    model = onnx.load(save(tmp_path, RELU))
    model.metadata_props.add(key="fxport.places", value=table)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"fxport\.places"):
        read_model_file(tmp_path / "model.onnx")


def test_weights_are_not_read(tmp_path: Path) -> None:
    model = onnx.load(save(tmp_path, "g (float[N, 2000] x) => (float[N, 2000] y) { y = MatMul (x, w) }"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((2000, 2000), np.float32), "w"))
    onnx.save(model, tmp_path / "model.onnx")
    del model
    tracemalloc.start()
    try:
        read_model_file(tmp_path / "model.onnx")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # the weight has 16 MB


def test_external_data_beside_the_model_is_fine(tmp_path: Path) -> None:
    (tmp_path / "model.onnx.data").write_bytes(bytes(16))
    assert not list(missing_external_data(read_model_file(external(tmp_path, "model.onnx.data"))))


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("../secret.bin", "outside the model's folder"),
        ("sub/../../secret.bin", "outside the model's folder"),
        ("link.bin", "outside the model's folder"),
        ("ABSOLUTE", "outside the model's folder"),
        ("absent.bin", "no such file"),
        ("", "no such file"),
        ("short.bin", "has 8 bytes, but the model needs 16"),
    ],
)
def test_external_data_elsewhere_is_refused(tmp_path: Path, location: str, reason: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(secret)
    (folder / "short.bin").write_bytes(bytes(8))
    location = str(secret) if location == "ABSOLUTE" else location
    ((name, said),) = missing_external_data(read_model_file(external(folder, location)))
    assert name == location
    assert reason in said


def test_negative_offsets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no proper offset"):
        read_model_file(external(tmp_path, "x", offset=-5))


def test_external_data_of_constants_in_branches_is_seen(tmp_path: Path) -> None:
    text = """g (float[N] x, bool c) => (float[K] y) { y = If (c) <
        then_branch = t () => (float[L] o) { o = Constant <value = float[1] v {0}> () },
        else_branch = e () => (float[L] o) { o = Neg (x) }
    > }"""
    model = onnx.load(save(tmp_path, text))
    branch = next(a for a in model.graph.node[0].attribute if a.name == "then_branch")
    tensor = branch.g.node[0].attribute[0].t
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert [name for name, _ in missing_external_data(read_model_file(tmp_path / "model.onnx"))] == ["/etc/passwd"]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_damage_is_a_value_error_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    whole = save(tmp_path, LAYERS, places={"mm": ["/n.py", 1, None, None]}).read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    damaged = bytearray(whole[:cut])
    for index in data.draw(st.lists(st.integers(0, max(cut - 1, 0)), max_size=4)):
        if damaged:
            damaged[index] = data.draw(st.integers(0, 255))
    (tmp_path / "damaged.onnx").write_bytes(bytes(damaged))
    with suppress(ValueError):
        read_model_file(tmp_path / "damaged.onnx").place_of_node("_inlfunc_mm")


ROWS = """g (float[N, 3, H, W] x, {scale} scale) => (float[A, {row}] y) <float[A, {row}] rows> {{
    size = Constant <value = int64[2] {{0, -1}}> () rows = Reshape (x, size) y = LayerNormalization (rows, scale)
}}"""
POOL = "g (float[N, 3, {size}] x) => (float[N, 3, 1, 1] y) {{ y = GlobalAveragePool (x) }}"


@pytest.mark.parametrize(
    ("text", "units"),
    [
        (RELU, 0.0),
        (POOL.format(size="8, 8"), 0.0),  # short sums need no allowance
        (POOL.format(size="64, 64"), 0.5 * 64),
        (POOL.format(size="H, W"), 0.5 * 64),
        ("g (float[N, 3, H, W] x) => (float[N, 3, A, A] y) { y = GlobalAveragePool (x) }", 0.5 * (2 * 3) ** 0.5 * 64),
    ],
)
def test_long_sums_are_counted(tmp_path: Path, text: str, units: float) -> None:
    path = save(tmp_path, text)
    ports = LocalSession(path, "cpu").open().inputs
    shape = (2, 3) if text == RELU else (2, 3, 64, 64)
    if "8, 8" in text:
        shape = (2, 3, 8, 8)
    inputs = {"x": np.zeros(shape, np.float32)}
    assert allowance(read_model_file(path), ports, inputs) == pytest.approx(units)
    assert read_shapes(path)["y"][0] == "N"


@pytest.mark.parametrize(
    ("row", "scale", "units"),
    [
        ("12288", "float[12288]", 0.5 * 12288**0.5),
        ("64", "float[64]", 0.0),
        ("B", "float[12288]", 0.5 * 12288**0.5),
        ("B", "float[64]", 0.0),
        ("B", "float[C]", 0.0),  # and not the size of the largest input
    ],
)
def test_rows_of_norms_are_as_long_as_they_are_declared(tmp_path: Path, row: str, scale: str, units: float) -> None:
    """Other dimensions may be computed, as the number of patches of an image is."""
    path = save(tmp_path, ROWS.format(row=row, scale=scale))
    ports = LocalSession(path, "cpu").open().inputs
    inputs = {"x": np.zeros((2, 3, 64, 64), np.float32)}
    assert allowance(read_model_file(path), ports, inputs) == pytest.approx(units)
