"""`--input`, `--inputs`, `--dynamic`: what they mean, and one line for every mistake in them."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import onnxruntime
import pytest
import torch

from fxport.exporter.cli import main
from fxport.exporter.sources.dynamic import Asked, parse_dynamic, with_dynamic
from fxport.exporter.sources.inputs import Drawn, Word, drawn_inputs, parse_input, takes_strings, with_inputs
from fxport.exporter.sources.source import Source, load
from fxport.exporter.sources.usage import UsageError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("x=2x16:int64", Drawn((2, 16), "int64", 0, 1)),
        ("x=2x16", Drawn((2, 16), "float32", 0, 1)),
        ("x=2x16:int64:-5..999", Drawn((2, 16), "int64", -5, 999)),
        ("x=8:half", Drawn((8,), "half", 0, 1)),
        ("x=0x3:bool", Drawn((0, 3), "bool", 0, 1)),
        ("x=scalar:float64", Drawn((), "float64", 0, 1)),
        ("x=scalar", Drawn((), "float32", 0, 1)),
        ("x=1.5", 1.5),
        ("x=-2e-3", -2e-3),
        ("x=3", 3),
        ("x=true", True),
        ("x=None", None),
        ("x='fast'", "fast"),
        ('x="2x3"', "2x3"),
        ("x=fast", Word("fast")),
    ],
)
def test_one_input(text: str, meant: object) -> None:
    assert parse_input(text) == ("x", meant)
    assert type(parse_input(text)[1]) is type(meant)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "half", "bfloat16", "float8_e4m3fn", "complex64", "int64", "int8", "uint8", "bool"]
)
def test_every_dtype_is_drawn_the_same_each_time(dtype: str) -> None:
    first, second = (drawn_inputs([f"x=2x3:{dtype}"])["x"] for _ in range(2))
    assert isinstance(first, torch.Tensor)
    assert isinstance(second, torch.Tensor)
    assert first.dtype is getattr(torch, dtype)
    assert torch.equal(first.to(torch.complex64), second.to(torch.complex64))


def test_whole_numbers_keep_to_their_range() -> None:
    values = drawn_inputs(["default=1000:int64", "wide=1000:int32:3..7"])
    assert {int(value) for value in values["default"]} == {0, 1}  # type: ignore[attr-defined]
    assert {int(value) for value in values["wide"]} == {3, 4, 5, 6, 7}  # type: ignore[attr-defined]


BAD_INPUTS = [
    ("2x16:int64", "no NAME="),
    ("a b=2", "no NAME="),
    ("x=", "no shape"),
    ("x=2xx3", "no shape"),
    ("x=fast", """if 'x' is the string 'fast', write --input "x='fast'"; else write NAME=2x16"""),
    ("x=2x-3:int64", "no shape"),
    ("x=2x3:int64:0..9:7", "no shape"),
    ("x=2x3:int64:9..0", "no range"),
    ("x=2x3:int64:a..b", "no range"),
    ("x=2x3:int46", "unknown dtype 'int46'. Did you mean"),
    ("x=2x3:nn", "unknown dtype 'nn'"),
    ("x=2x3:uint8:0..256", "uint8 holds 0 to 255 only"),
    ("x=2x3:bool:0..2", "bool holds 0 to 1 only"),
    ("x=2x3:int64:0..99999999999999999999", "int64 holds"),
    ("x=9999999999x9999999999", "cannot be made"),
]


@pytest.mark.parametrize(("text", "said"), BAD_INPUTS)
def test_a_bad_input_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        drawn_inputs([text])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def given(name: str, *texts: str, stored: Path | None = None) -> Source:
    return with_inputs(load(f"models.py:{name}"), texts, [stored] if stored else [])


def kinds(values: Sequence[object]) -> list[object]:
    return [tuple(value.shape) if isinstance(value, torch.Tensor) else value for value in values]


@pytest.mark.parametrize(
    ("parameter", "meant"),
    [
        ("mode='a'", True),
        ("mode: str", True),
        ("mode: 'str | None' = None", True),
        ("mode: 'Optional[str]' = None", True),
        ("mode: \"Literal['a', 'b']\"", True),
        ("mode: str | None = None", True),
        ("mode: Literal['a', 'b']", True),
        ("mode", False),
        ("mode: 'list[str]'", False),
        ("mode: list[str]", False),
        ("mode=1", False),
        ("mode: Literal[1, 2]", False),
        ("mode: 'Tensor'", False),
    ],
)
def test_arguments_that_take_strings(parameter: str, meant: bool) -> None:
    scope: dict[str, Any] = {}
    exec(f"from typing import Literal\ndef forward({parameter}): pass", scope)
    assert takes_strings(inspect.signature(scope["forward"]).parameters["mode"]) is meant


@pytest.mark.parametrize("text", ["kind=double", "kind='double'"])
def test_a_string_is_given_as_it_is_typed(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("by_kind.py").write_text(
        "import torch\n\n\n"
        "class ByKind(torch.nn.Module):\n"
        "    def forward(self, x, kind='plain'):\n"
        "        return x * 2 if kind == 'double' else x\n"
    )
    assert main(["export", "by_kind.py:ByKind", "--input", "x=2x3", "--input", text]) == 0
    assert "Its value is 'double'" in capsys.readouterr().out
    x = numpy.ones((2, 3), numpy.float32)
    (got,) = onnxruntime.InferenceSession("ByKind.onnx").run(None, {"x": x})
    assert (got == 2 * x).all()


def test_inputs_take_their_places(folder: Path) -> None:
    both = given("Adder", "scale=0.5", "x=2x3", "y=3")
    assert kinds(both.args or ()) == [(2, 3), 3]
    assert both.kwargs == {"scale": 0.5}
    gap = given("Adder", "x=2x3", "scale=0.5")
    assert kinds(gap.args or ()) == [(2, 3)]
    assert gap.kwargs == {"scale": 0.5}


def test_the_command_line_goes_over_the_source(folder: Path) -> None:
    source = given("with_all", "x=5x3")
    assert kinds(source.args or ()) == [(5, 3)]
    assert source.kwargs == {"scale": 2.0}


def test_a_forward_that_takes_any_name(folder: Path) -> None:
    source = given("Anything", "x=2", "first=2x1", "second=2x1")
    assert kinds(tuple(source.kwargs.values())) == [(2, 1), (2, 1)]
    dims = with_dynamic(source, ["second:0=rows"]).dynamic_shapes
    assert dims["second"] == {0: "rows"}


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_stored_inputs(folder: Path, suffix: str) -> None:
    path = folder / f"inputs{suffix}"
    if suffix == ".npz":
        numpy.savez(path, x=numpy.ones((2, 3), numpy.float32), y=numpy.ones(3, numpy.float32))
    else:
        torch.save({"x": torch.ones(2, 3), "y": torch.ones(3)}, path)
    source = given("Adder", "scale=3.0", stored=path)
    assert kinds(source.args or ()) == [(2, 3), (3,)]
    assert source.kwargs == {"scale": 3.0}


class Payload:
    """Something that a safe loader must not construct."""


def test_bad_stored_inputs_are_one_line(folder: Path) -> None:
    (folder / "text.npz").write_text("no archive")
    (folder / "inputs.json").write_text("{}")
    torch.save(torch.ones(2), folder / "lone.pt")
    torch.save({"x": Payload()}, folder / "pickle.pt")
    with (folder / "single.npz").open("wb") as file:
        numpy.save(file, numpy.ones(3))
    numpy.savez(folder / "object.npz", x=numpy.array([None]))
    said = {
        "text.npz": "cannot be read",
        "inputs.json": "neither .npz nor .pt",
        "lone.pt": "holds a Tensor",
        "pickle.pt": "cannot be read",
        "object.npz": "cannot be read",
        "single.npz": "holds a ndarray",
        "missing.npz": "no file",
    }
    for name, part in said.items():
        with pytest.raises(UsageError, match=part) as caught:
            given("Adder", stored=folder / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "texts", "said"),
    [
        ("Adder", (), "comes without example inputs; give them with --input or --inputs for forward(x, y=None"),
        ("Adder", ("y=2",), "do not fit forward(x, y=None, *, scale=1.0) of 'Adder': missing a required argument: 'x'"),
        ("Adder", ("xx=2x3",), "forward has no argument 'xx'"),
        ("Adder", ("x=2x3", "x=2x3"), "gives 'x' twice"),
        ("with_all", ("scal=2.0",), "Did you mean 'scale'?"),
    ],
)
def test_inputs_that_do_not_fit(folder: Path, name: str, texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        given(name, *texts)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_dims_are_named_by_input(folder: Path) -> None:
    assert parse_dynamic("x:0=batch,-1=seq") == ("x", {0: Asked("batch"), -1: Asked("seq")})
    source = with_dynamic(given("Adder", "x=2x3", "y=3x1"), ["x:-1=width"])
    assert source.dynamic_shapes == {"x": {1: "width"}}
    both = with_dynamic(given("with_all"), ["x:1=width"])
    assert both.dynamic_shapes == {"x": {0: "rows", 1: "width"}}
    auto = with_dynamic(given("with_all"), ["auto", "x:1=width"])
    assert auto.dynamic_shapes == {"x": {0: "rows", 1: "width"}}
    assert with_dynamic(given("Adder", "x=2x3", "y=3x1"), ["auto"]).dynamic_shapes == {
        name: {0: "auto", 1: "auto"} for name in ("x", "y")
    }
    assert with_dynamic(given("Adder", "x=2x3", "y=3x1"), ["y:auto"]).dynamic_shapes == {"y": {0: "auto", 1: "auto"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "no NAME:INDEX=DIM"),
        ("x:", "no NAME:INDEX=DIM"),
        ("x:0", "'0' is no INDEX=DIM"),
        ("x:batch=0", "'batch=0' is no INDEX=DIM"),
        ("x:0=a-b", "'a-b' is no name of a dim"),
        ("x:0=", "'' is no name of a dim"),
        ("x:0=batch[..0]", "the upper bound 0 leaves no size"),
        (f"x:0=batch[1..{'9' * 5000}]", "is no name of a dim"),
        (f"x:{'9' * 5000}=batch", "is no INDEX=DIM"),
        ("x:2=batch", "'x' has 2 dims, so there is no dim 2"),
        ("x:--1=batch", "is no INDEX=DIM"),
        ("z:0=batch", "forward has no argument 'z'. Known: x, y."),
        ("y:0=batch", ", and only a tensor has dims"),
    ],
)
def test_a_bad_dim_is_one_line(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_dynamic(given("Adder", "x=2x3", "y=3"), [text])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_exported_program_is_already_decided(folder: Path) -> None:
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(2, 4),)), "linear.pt2")
    source = load("linear.pt2")
    assert with_inputs(source, (), ()) is source
    with pytest.raises(UsageError, match="already captured"):
        with_inputs(source, ["input=2x4"], ())
    with pytest.raises(UsageError, match="already captured"):
        with_dynamic(source, ["input:0=batch"])


PARTS = """
from torch import nn


class Parts(nn.Module):
    def forward(self, batch, more=()):
        return batch["ids"] + batch["mask"] + sum(more)


class Sorted(nn.Module):
    def forward(self, scores):
        return scores.argsort()


def with_batch():
    import torch
    return Parts(), ({"ids": torch.ones(2, 6), "mask": torch.ones(2, 6)},)
"""


def in_parts(folder: Path, name: str, *texts: str, stored: Path | None = None) -> Source:
    (folder / "parts_given.py").write_text(PARTS)
    return with_inputs(load(f"parts_given.py:{name}"), texts, [stored] if stored else [])


def test_values_of_dicts_and_lists_are_given_by_their_paths(folder: Path) -> None:
    source = in_parts(folder, "Parts", "batch.ids=2x6:int64:0..9", "batch.mask=2x6", "more.1=6:float32", "more.0=2x1")
    batch, more = [*(source.args or ())]
    assert isinstance(batch, dict)
    assert isinstance(more, list)
    assert list(batch) == ["ids", "mask"]
    assert kinds(more) == [(2, 1), (6,)]
    assert with_dynamic(source, ["batch.ids:0=B"]).dynamic_shapes["batch.ids"] == {0: "B"}
    (own,) = [*(in_parts(folder, "with_batch", "batch.mask=2x1").args or ())]
    assert isinstance(own, dict)
    assert kinds(list(own.values())) == [(2, 6), (2, 1)]
    torch.save({"batch.ids": torch.ones(2, 6), "batch.mask": torch.ones(6)}, folder / "flat.pt")
    (flat,) = [*(in_parts(folder, "Parts", stored=folder / "flat.pt").args or ())]
    assert isinstance(flat, dict)
    assert kinds(list(flat.values())) == [(2, 6), (6,)]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("batch=2x6", "batch.ids=2x6"), "'batch' is given as a whole and in parts"),
        (("batch.ids=2x6", "batch.ids.low=2x6"), "'batch.ids.low' is within a value that is given"),
        (("batch.ids.low=2x6", "batch.ids=2x6"), "'batch.ids' is given as a whole and in parts"),
        (("batch.ids=2x6", "more.1=2"), "'more' has the parts 1; give one for each index from 0 on"),
        (("bath.ids=2x6",), "forward has no argument 'bath.ids'"),
    ],
)
def test_parts_that_do_not_fit_are_one_line(folder: Path, texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        in_parts(folder, "Parts", *texts)
    assert said in str(caught.value)


def test_a_number_that_was_meant_as_a_vector(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "parts_given.py").write_text(PARTS)
    assert main(["export", "parts_given.py:Sorted", "--input", "scores=6"]) == 1
    said = "help: 'scores' is the number 6; write --input scores=6:float32 for a vector of 6."
    assert said in capsys.readouterr().out
