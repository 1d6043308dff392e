"""Samples: every type of the table survives the file, and nothing but samples is read from one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fxport.ort_runner import Samples, load_all, save_all
from fxport.ort_runner.dtypes import ELEMENTS, Element, pack, unpack
from tests.ort_runner.models import relu_samples


def some(element: Element, shape: tuple[int, ...]) -> np.ndarray:
    """0, 1, 2, 3, 0, … in that type: values that all types have."""
    return (np.arange(int(np.prod(shape))) % 4).astype(element.dtype).reshape(shape)


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (5,)], ids=str)
def test_every_type_and_shape_survives(tmp_path: Path, element: Element, shape: tuple[int, ...]) -> None:
    x = some(element, shape)
    Samples("sample", {"x": x}, {"y": x}).save(tmp_path / "s.npz")
    back = Samples.load(tmp_path / "s.npz")
    for array in (back.inputs["x"], back.outputs["y"]):
        assert array.dtype == element.dtype
        assert array.shape == shape
        assert array.tobytes() == x.tobytes()
    assert back.exact is None


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=st.integers(0, 15)))
def test_four_bit_elements_are_packed_and_unpacked(nibbles: np.ndarray) -> None:
    for element in ELEMENTS:
        if element.bits == 4:
            array = unpack(pack(nibbles), element, nibbles.shape)
            assert array.dtype == element.dtype
            assert pack(array).size == (nibbles.size + 1) // 2
            np.testing.assert_array_equal(array.view(np.uint8) & 15, nibbles)


def test_several_samples_keep_names_and_order(tmp_path: Path) -> None:
    names = ["z", "a/../b", "header", "a0", "ä:\\"]
    one = Samples("one", {name: np.full(2, i) for i, name in enumerate(names)}, {"y": np.zeros(1)})
    two = Samples("two", {}, {"y": np.zeros(1, np.float32)}, {"y": np.ones(1)})
    assert save_all(tmp_path / "s.npz", [one, two]) == tmp_path / "s.npz"
    back = load_all(tmp_path / "s.npz")
    assert [s.label for s in back] == ["one", "two"]
    assert list(back[0].inputs) == names
    assert [array[0] for array in back[0].inputs.values()] == [0, 1, 2, 3, 4]
    assert back[1].exact is not None
    assert back[1].exact["y"][0] == 1
    with pytest.raises(ValueError, match="holds 2 samples"):
        Samples.load(tmp_path / "s.npz")


def test_foreign_byte_order_and_strides_are_accepted(tmp_path: Path) -> None:
    x = np.arange(6, dtype=">f4").reshape(2, 3).T
    Samples("sample", {"x": x}, {}).save(tmp_path / "s.npz")
    np.testing.assert_array_equal(Samples.load(tmp_path / "s.npz").inputs["x"], x)


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "s.npz").write_bytes(b"old")
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        relu_samples().save(tmp_path / "s.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]
    assert (tmp_path / "s.npz").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(2, np.complex64), "complex64"),
        (np.array(["a"]), "str"),
        (np.array([None]), "object"),
        ([1.0], "list"),
    ],
)
def test_values_without_an_onnx_tensor_are_refused(array: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Samples("sample", {"x": array}, {})
    assert "inputs['x']" in str(caught.value)


@pytest.mark.parametrize(
    ("exact", "words"),
    [
        ({"y": np.zeros(3)}, r"has shape \[3\]"),
        ({"z": np.zeros(2)}, "no such output"),
        ({"y": np.zeros(2, np.float32)}, "must be float64"),
    ],
)
def test_exact_must_fit_the_outputs(exact: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Samples("sample", {}, {"y": np.zeros(2, np.float32)}, exact)


def bad_files(folder: Path) -> dict[str, Path]:
    """Files that are no samples, by what is wrong with them."""
    header = {"format": "fxport-samples", "version": 1, "samples": []}
    row = {"label": "x", "inputs": [["x", "a0", "float32"]], "outputs": []}

    def written(name: str, **arrays: object) -> Path:
        with (folder / f"{name}.npz").open("wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
        return folder / f"{name}.npz"

    def headed(name: str, value: object, **arrays: object) -> Path:
        return written(name, header=np.frombuffer(json.dumps(value).encode(), np.uint8), **arrays)

    def raw(name: str, data: bytes) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    good = headed("good", header).read_bytes()
    return {
        "pickle": written("pickle", header=np.array([{"a": 1}], object)),
        "pickled array": headed("parray", header | {"samples": [row]}, a0=np.array([None], object)),
        "plain npz": written("plain", x=np.zeros(2)),
        "missing array": headed("missing", header | {"samples": [row]}),
        "wrong type": headed("wrong", header | {"samples": [row]}, a0=np.zeros(2, np.int64)),
        "unknown type": headed(
            "unknown", header | {"samples": [row | {"inputs": [["x", "a0", "float7"]]}]}, a0=np.zeros(2)
        ),
        "other version": headed("version", header | {"version": 2}),
        "list": headed("list", [1, 2]),
        "truncated": raw("truncated", good[: len(good) // 2]),
        "empty": raw("empty", b""),
        "text": raw("text", b"hello"),
        "raw pickle": raw("rawpickle", b"\x80\x04N."),
        "absent": folder / "absent.npz",
        "directory": folder,
    }


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    for kind, path in bad_files(tmp_path).items():
        with pytest.raises(ValueError, match=r"cannot be read|is no file of samples") as caught:
            load_all(path)
        assert str(caught.value).startswith(f"{path}: "), kind
        assert "\n" not in str(caught.value), kind
