"""The pytest plugin: `def test_model(onnx_check): onnx_check(model, args)`.

It is loaded in every pytest run of an environment that has fxport, so it imports nothing of ours before a test asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from fxport.diagnostics import Finding, Log
    from fxport.exporter.checks.in_test import Checked

MARK = "onnx_check"
MARK_HELP = (
    "onnx_check(opsets=(18, 23), atol=…, rtol=…): the opsets that `onnx_check` exports with, a test for each, and the "
    "tolerances that replace its error budget."
)
LOGS = pytest.StashKey[list["Log"]]()
SENT = "fxport_sarif"
"""The attribute of a test's report that carries its findings, also from a worker of pytest-xdist to the controller."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Arguments of `@pytest.mark.onnx_check(…)`."""

    opsets: Sequence[int] = ()
    atol: float | None = None
    rtol: float | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fxport", "PyTorch models to ONNX, with `onnx_check`")
    group.addoption(
        "--fxport-sarif", metavar="PATH", type=Path, help="Write the findings of all `onnx_check` calls as SARIF."
    )
    group.addoption(
        "--fxport", metavar="MANIFEST", type=Path, help="Also check the models of an fxport.toml, a test for each."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK_HELP)
    manifest = manifest_of(config)
    if manifest is not None and str(manifest) not in config.args:
        config.args.append(str(manifest))
    path = config.getoption("--fxport-sarif")
    if path is not None and not hasattr(config, "workerinput"):  # pytest-xdist's workers send theirs to the controller
        config.pluginmanager.register(SarifFile(config.invocation_params.dir / path), "fxport-sarif")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The manifest that `--fxport` names is a file of tests."""
    if file_path != manifest_of(parent.config):
        return None
    from fxport.exporter.checks.in_pytest import ManifestFile

    return ManifestFile.from_parent(parent, path=file_path)


def manifest_of(config: pytest.Config) -> Path | None:
    """The path that `--fxport` names, from where pytest was called."""
    given: Path | None = config.getoption("--fxport")
    return None if given is None else (config.invocation_params.dir / given).resolve()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each opset of the mark."""
    if "onnx_opset" in metafunc.fixturenames and (opsets := mark_of(metafunc.definition).opsets):
        metafunc.parametrize("onnx_opset", opsets, indirect=True, ids=[f"opset{opset}" for opset in opsets])


@pytest.fixture
def onnx_opset(request: pytest.FixtureRequest) -> int | None:
    """The opset of this test; None for fxport's own choice."""
    return getattr(request, "param", None)


@pytest.fixture
def onnx_check(request: pytest.FixtureRequest, tmp_path: Path, onnx_opset: int | None) -> Callable[..., Checked]:
    """Exports a model, runs it in ONNX Runtime, and fails the test unless it gives what eager PyTorch gives.

    `onnx_check(model, args, kwargs, dynamic_shapes=…, provider=…, …)`, as in `fxport.exporter.checks.in_test.check`.
    The model and a SARIF log of each call stay in `tmp_path`.
    """
    mark = mark_of(request.node)
    logs = request.node.stash.setdefault(LOGS, [])

    def check(
        model: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None, **choices: Any
    ) -> Checked:  # Any: as in torch.export
        __tracebackhide__ = True
        from fxport.exporter.checks.in_test import Failed, check

        said = {"opset": onnx_opset, "atol": mark.atol, "rtol": mark.rtol}
        wanted = {name: value for name, value in said.items() if value is not None}
        try:
            return check(model, args, kwargs, folder=tmp_path, logs=logs, at=line_of(request.node), **wanted | choices)
        except Failed as failed:
            text = str(failed)
        pytest.fail(text, pytrace=False)  # out here, or pytest would show the other exception above it

    return check


def mark_of(node: pytest.Item | pytest.Collector) -> Mark:
    """The mark of a test, those of its class and module under it. Fails the test for what it cannot say."""
    said: dict[str, Any] = {}
    for mark in node.iter_markers(MARK):  # the closest first
        if mark.args:
            _refuse(node, "takes keywords only: opsets, atol, rtol")
        said = {**mark.kwargs, **said}
    if unknown := ", ".join(name for name in said if name not in Mark.__slots__):
        _refuse(node, f"knows opsets, atol and rtol, not {unknown}")
    opsets = said.get("opsets", ())
    is_text = isinstance(opsets, (str, bytes))
    if is_text or not isinstance(opsets, Collection) or not all(isinstance(each, int) for each in opsets):
        _refuse(node, f"has opsets={opsets!r}; give a tuple of numbers, such as opsets=(18, 23)")
    said["opsets"] = sorted(opsets) if isinstance(opsets, Set) else tuple(opsets)
    return Mark(**said)


def _refuse(node: pytest.Item | pytest.Collector, what: str) -> NoReturn:
    """Fail without a traceback, which would show code of pytest and of ours."""
    pytest.fail(f"{node.nodeid}: @pytest.mark.{MARK} {what}.", pytrace=False)


def line_of(item: pytest.Item) -> tuple[str, int]:
    """File and line of a test: the place of findings that have no better one."""
    return str(item.path), (item.location[1] or 0) + 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Findings travel with the report of their test."""
    report = yield
    logs = item.stash.get(LOGS, [])
    if logs and call.when == "call":
        from fxport.exporter.checks.in_test import remarks, sarif_text

        if text := remarks(logs):
            report.sections.append(("fxport", text))
        if item.config.getoption("--fxport-sarif") is not None:
            setattr(report, SENT, sarif_text(logs, line_of(item)))
    return report


class SarifFile:
    """Gathers what the tests' reports carry, and writes it at the end, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: dict[str, str] = {}  # by test, so that one that is run again is told once
        self._said = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (text := getattr(report, SENT, None)) is not None:
            self._texts[report.nodeid] = text

    def pytest_sessionfinish(self) -> None:
        found = write(self._path, list(self._texts.values()))
        self._said = f"{len(found)} finding{'' if len(found) == 1 else 's'} in {self._path}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_sep("-", f"fxport: {self._said}")


def write(path: Path, texts: Sequence[str]) -> Sequence[Finding]:
    """The SARIF of all tests to one file; returns what is in it."""
    from fxport.exporter.checks.in_test import write_merged

    return write_merged(path, texts)
