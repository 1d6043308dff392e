"""Places: which frame, which columns; and files that are gone, changed, or no text."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from fxport import diagnostics
from fxport.diagnostics import Frame, Place
from fxport.diagnostics.calls import cut, names_of, span_of_call, utf16_length
from fxport.diagnostics.source import kind_of, place_of_exception, place_of_trace, resolve

SITE = sysconfig.get_paths()["purelib"]
OURS = str(Path(diagnostics.__file__).parent.parent / "exporter" / "pipeline" / "stages.py")
TORCH = f"{SITE}/torch/nn/modules/linear.py"
LIBRARY = f"{SITE}/transformers/models/bert.py"
STDLIB = f"{sysconfig.get_paths()['stdlib']}/contextlib.py"


def trace(*frames: tuple[str, int, str, str]) -> str:
    return "".join(f'  File "{path}", line {line}, in {name}\n    {text}\n' for path, line, name, text in frames)


def test_the_innermost_frame_of_the_users_is_the_place() -> None:
    place = place_of_trace(
        trace(
            ("/u/train.py", 3, "main", "export(model)"),
            (OURS, 9, "export", "x"),
            ("/u/model.py", 7, "forward", "y = self.lin(x)"),
            (LIBRARY, 4, "forward", "z"),
            (TORCH, 134, "forward", "return F.linear(x)"),
        ),
        module="lin",
        node="linear",
        call="aten.linear.default",
    )
    assert place is not None
    assert (place.path, place.line, place.snippet) == ("/u/model.py", 7, "y = self.lin(x)")
    assert (place.module, place.node, place.call) == ("lin", "linear", "aten.linear.default")
    assert place.stack == (
        Frame(LIBRARY, 4, "forward"),
        Frame("/u/model.py", 7, "forward"),
        Frame("/u/train.py", 3, "main"),
    )


def test_a_librarys_frame_stands_in_where_the_user_has_none() -> None:
    place = place_of_trace(trace((LIBRARY, 9, "outer", "a"), (LIBRARY, 4, "inner", "b"), (TORCH, 1, "f", "c")))
    assert place is not None
    assert (place.path, place.line) == (LIBRARY, 4)


@pytest.mark.parametrize("text", [None, "", "no trace at all", trace((TORCH, 1, "f", "x"), (OURS, 2, "g", "y"))])
def test_no_frame_that_helps_is_no_place(text: str | None) -> None:
    assert place_of_trace(text) is None


def test_carets_of_newer_pythons_are_no_source() -> None:
    text = trace(("/u/m.py", 6, "forward", "y = self.l(x)\n        ^^^^^^^^^"), ("/u/n.py", 2, "g", "h(x)"))
    place = place_of_trace(text)
    assert place is not None
    assert (place.path, place.snippet, len(place.stack)) == ("/u/n.py", "h(x)", 2)


def test_the_form_without_indent_and_with_names_that_hold_anything() -> None:
    place = place_of_trace('File "/u/a "b", line 3, in x.py", line 6, in <lambda>\n    y = 1')
    assert place is not None
    assert (place.path, place.line, place.stack[0].function) == ('/u/a "b", line 3, in x.py', 6, "<lambda>")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (TORCH, "hidden"),
        (OURS, "hidden"),
        (STDLIB, "hidden"),
        ("<eval_with_key>.3 from /u/x.py:4", "hidden"),
        ("<frozen importlib._bootstrap>", "hidden"),
        (LIBRARY, "library"),
        (f"{SITE}/torchvision/ops.py", "library"),
        ("/home/u/torch/model.py", "user"),
        (str(Path(diagnostics.__file__).parent.parent / "examples" / "bert.py"), "user"),
        ("<ipython-input-3-abc>", "user"),
        ("/tmp/ipykernel_12/345.py", "user"),
    ],
)
def test_whose_code_a_file_is(path: str, kind: str) -> None:
    assert kind_of(path) == kind


COLUMNS = [
    # text, call, the marked part
    ("y = torch.relu(x) + 1", "aten.relu.default", "torch.relu(x)"),
    ("y = torch.relu(x) + 1", "aten.add.Tensor", "torch.relu(x) + 1"),
    ("y = f(gelu(gelu(x)))", "aten.gelu.default", "gelu(x)"),
    ("    y = x.add_(z)", "aten.add_.Tensor", "x.add_(z)"),
    ("x += y", "aten.add_.Tensor", "x += y"),
    ('s = "é😀"; y = torch.ops.mylib.foo(x)', "mylib.foo.default", "torch.ops.mylib.foo(x)"),
    ('s = "é😀"; y = torch.ops.mylib.foo(x)', "torch.ops.mylib.foo.default", "torch.ops.mylib.foo(x)"),
    ('s = "é😀"; y = torch.ops.mylib.foo(x)', "mylib::foo", "torch.ops.mylib.foo(x)"),
    ("größe = x[:, 1:3].sum()", "aten.slice.Tensor", "x[:, 1:3]"),
    ("z = 1.0 - mask", "aten.rsub.Scalar", "1.0 - mask"),
    ("n = x.sum().item()", "aten._local_scalar_dense.default", "x.sum().item()"),
    ("z = F.scaled_dot_product_attention(q, k, v)", "aten.scaled_dot_product_attention.default", None),
    ("z = -x", "aten.neg.default", "-x"),
    ("m = x > 0", "aten.gt.Scalar", "x > 0"),
    ("y = x.reshape(2, 3)", "aten.view.default", "x.reshape(2, 3)"),
]


@pytest.mark.parametrize(("text", "call", "marked"), COLUMNS)
def test_the_smallest_expression_that_does_the_operator(
    text: str, call: str, marked: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "m.py"
    file.write_text("import torch\nif True:\n    pass\n" + text.strip() + "\n", encoding="utf-8")
    place = resolve(Place(str(file), 4, call=call))
    assert place.column is not None
    expected = marked or text.split("= ", 1)[1]
    assert cut(text.strip(), place.column, place.end_column) == expected
    before = text.strip().index(expected)
    assert place.column == 1 + utf16_length(text.strip()[:before])


def test_columns_count_utf16_units(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text('s = "é😀"; y = relu(x)\n', encoding="utf-8")
    place = resolve(Place(str(file), 1, call="aten.relu.default"))
    assert (place.column, place.end_column) == (16, 23)  # é is one unit, the face is two


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("y = self.act(x)  # a comment", "y = self.act(x)"),
        ("a = 1; y = self.act(x)", "a = 1; y = self.act(x)"),
        ("if x:  # why", "if x:  # why"),
        ("# only a comment", "# only a comment"),
    ],
)
def test_without_a_match_the_statement_is_marked(line: str, marked: str, tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(f"  \n{line}\n" + ("    pass\n" if line.startswith("if") else ""), encoding="utf-8")
    place = resolve(Place(str(file), 2, call="aten.linalg_eig.default"))
    assert place.column is not None
    assert cut(line, place.column, place.end_column) == marked


def test_without_a_match_the_stripped_line_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("if 1:\n\ty = self.act(x)  \n", encoding="utf-8")
    place = resolve(Place(str(file), 2, call="aten.gelu.default"))
    assert (place.column, place.end_column, place.snippet) == (2, 17, "y = self.act(x)")


def test_a_call_over_several_lines_is_cut_to_the_line(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_bytes(b"y = relu(\r\n    x,\r\n)\r\n")
    assert [(p.column, p.end_column) for p in (resolve(Place(str(file), n, call="relu")) for n in (1, 2, 3))] == [
        (5, 10),
        (5, 7),
        (1, 2),
    ]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"\xff\xfe\x00bad",
        b"\x00\x00\n",
        b"",
        b"x = 1\n",
        b"def (:\n  broken(\n" * 3,
        b"# coding: nonsense\nx\n" * 9,
    ],
)
def test_files_that_are_gone_or_no_python_never_crash(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    if content is not None:
        file.write_bytes(content)
    place = resolve(Place(str(file), 5, snippet="y = relu(x)", call="relu"))
    assert (place.line, place.snippet, place.column) == (5, "y = relu(x)", None)


@pytest.mark.parametrize("path", ["\x00", "\ud800.py", "", "/", "<stdin>", "a" * 5000])
@pytest.mark.parametrize("line", [-1, 0, 1, 10**9])
def test_paths_that_no_file_has_never_crash(path: str, line: int) -> None:
    assert resolve(Place(path, line, call="relu")).column is None


@pytest.mark.parametrize("line", [1, 2])
def test_a_blank_line_has_no_columns(line: int, tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("\n  \t\nx = 1\n", encoding="utf-8")
    assert resolve(Place(str(file), line)) == Place(str(file), line)


def test_a_file_that_changed_since_capture_keeps_what_was_captured(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("z = other(x)\n", encoding="utf-8")
    place = resolve(Place(str(file), 1, snippet="y = relu(x)", call="relu"))
    assert (place.column, place.snippet) == (None, "y = relu(x)")


def test_a_deep_expression_is_no_crash() -> None:
    assert span_of_call("x = " + "(" * 5000 + "relu(y)" + ")" * 5000 + "\n", 1, "relu") is None


@pytest.mark.parametrize("call", ["", ".", "aten", "::", "torch.ops", "torch"])
def test_odd_names_of_operators(call: str) -> None:
    assert isinstance(names_of(call), frozenset)


def test_an_exception_in_the_users_code_is_at_the_innermost_line_of_it(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("def f(x):\n    return int(x)\n\ndef g(x):\n    return f(x)\n", encoding="utf-8")
    space: dict[str, object] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
    with pytest.raises(ValueError, match="invalid literal") as raised:
        space["g"]("no")  # type: ignore[operator]
    place = place_of_exception(raised.value)
    assert place is not None
    assert (place.path, place.line, place.stack[0].function) == (str(file), 2, "f")


def test_the_stack_that_a_message_prints_is_closer_than_the_traceback() -> None:
    error = RuntimeError(
        "cannot guard\n\nUser Stack (most recent call last):\n" + trace(("/u/m.py", 4, "forward", "if x:"))
    )
    place = place_of_exception(error)
    assert place is not None
    assert (place.path, place.line, place.snippet) == ("/u/m.py", 4, "if x:")


def test_a_cause_is_asked_where_the_exception_knows_nothing() -> None:
    error = RuntimeError("wrapped")
    error.__cause__ = RuntimeError(trace(("/u/m.py", 4, "forward", "x")))
    error.__cause__.__context__ = error  # a ring
    place = place_of_exception(error)
    assert place is not None
    assert place.path == "/u/m.py"


def test_an_exception_without_any_frame_has_no_place() -> None:
    assert place_of_exception(ValueError("x")) is None
