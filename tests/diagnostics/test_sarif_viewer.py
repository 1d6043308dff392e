"""Microsoft's SARIF viewer, the one of Azure DevOps, shows our log: rule, message, module path, the marked part.

The picture is kept in FXPORT_ARTIFACTS, if that is set; docs/sarif-viewer.png is one.
"""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from fxport import ExportError, export
from fxport.diagnostics import Log, Place, rules
from fxport.diagnostics.sarif import About, as_text, to_sarif
from tests.node import BROWSER, HEADLESS, module, needs_browser, requires

COMPONENT, BUNDLER = "@microsoft/sarif-web-component/dist/index.js", ".bin/esbuild"
pytestmark = [needs_browser, requires(COMPONENT, BUNDLER)]

MODEL = """\
import torch


class Whitening(torch.nn.Module):
    def forward(self, x):
        graph = x.relu().to_sparse()
        return torch.mm(graph, x)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.whitening = Whitening()

    def forward(self, x, mask):
        return self.whitening(x * mask) + torch.rand_like(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x, mask):
        return self.encoder(x, mask)
"""
ENTRY = """\
import * as React from "react";
import * as ReactDOM from "react-dom";
import { Viewer } from "@microsoft/sarif-web-component";
const log = JSON.parse(document.getElementById("log").textContent);
ReactDOM.render(React.createElement(Viewer, { logs: [log] }), document.getElementById("viewer"));
"""
UNFOLD = """
setInterval(() => document.querySelector("tr[aria-expanded=false]")?.click(), 200);
"""
PAGE = """\
<!doctype html>
<meta http-equiv="content-type" content="text/html; charset=utf-8">
<div id="viewer"></div>
<script type="application/json" id="log">{}</script>
<script>{}</script>
<script>{}</script>
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "entry.js").write_text(ENTRY, encoding="utf-8")
    subprocess.run(
        [
            *(str(module(BUNDLER)), "entry.js", "--bundle", "--minify", "--format=iife", "--outfile=bundle.js"),
            '--define:process.env.NODE_ENV="production"',
        ],
        cwd=folder,
        env={**os.environ, "NODE_PATH": os.environ["FXPORT_NODE_MODULES"]},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return (folder / "bundle.js").read_text(encoding="utf-8")


@pytest.fixture
def sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The log of a real export that failed."""
    (tmp_path / ".git").mkdir()
    file = tmp_path / "model.py"
    file.write_text(MODEL, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("viewed_model", file)
    assert spec is not None
    assert spec.loader is not None
    held = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "viewed_model", held)
    spec.loader.exec_module(held)
    log = Log()
    with pytest.raises(ExportError):
        export(held.Model(), (torch.randn(4, 4), torch.ones(4, 4, dtype=torch.int64)), log=log)
    return as_text(to_sarif(log, about=About("model.py:Model", "export", root=tmp_path)))


def browser(page: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [str(BROWSER), *HEADLESS, profile, "--window-size=1100,640", *arguments, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def viewed(sarif: str, bundle: str, folder: Path) -> tuple[Path, str]:
    """The page that shows a log, and what is in it once all its rows are unfolded."""
    page = folder / "page.html"
    page.write_text(
        PAGE.format(*(text.replace("</script", r"<\/script") for text in (sarif, bundle, UNFOLD))), encoding="utf-8"
    )
    done = browser(page, "--dump-dom")
    assert "Uncaught" not in done.stderr, done.stderr
    return page, done.stdout[done.stdout.index('id="viewer"') : done.stdout.index('type="application/json"')]


class Regions(HTMLParser):
    """What the viewer colours as the regions of results: the texts of the elements of its class `swcRegion`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._depth == 0 and ("class", "swcRegion") in attrs:
            self.texts.append("")
            self._depth = 1
        elif self._depth:
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        self._depth = max(0, self._depth - 1)

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.texts[-1] += data


def test_the_viewer_shows_rule_message_module_and_the_marked_part(sarif: str, bundle: str, tmp_path: Path) -> None:
    page, shown = viewed(sarif, bundle, tmp_path)
    text = html.unescape(re.sub(r"<[^>]+>", "", shown))
    regions = Regions(shown).texts
    for result in json.loads(sarif)["runs"][0]["results"]:
        assert f"{result['ruleId']}: " in text
        assert result["message"]["text"] in text
        assert result["locations"][0]["physicalLocation"]["region"]["snippet"]["text"] in regions
    assert {"x.relu().to_sparse()", "x * mask", "torch.rand_like(x)"} == set(regions)
    assert "encoder.whitening" in text
    picture = tmp_path / "sarif-viewer.png"
    browser(page, f"--screenshot={picture}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    if folder := os.environ.get("FXPORT_ARTIFACTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, folder)


HOSTILE = "<img src=x onerror=alert(1)> [here](1) \u202e"


def test_a_long_and_a_hostile_message_are_shown_as_text(bundle: str, tmp_path: Path) -> None:
    """A cause in twelve layers with two thousand characters to say, and one whose names would be HTML and a link."""
    file = tmp_path / "model.py"
    file.write_text("def forward(x):\n    return op0(x)\n    return op1(x)\n", encoding="utf-8")
    log, error = Log(), " ".join(f"word{number}" for number in range(300))
    for layer in range(12):
        at = Place(str(file), 2, module=f"decoder.layers.{layer}.mlp", call="op0")
        log.report(rules.LOWERING_RAISED, at=at, op="mylib.op0.default", error=error)
    log.report(rules.CAPTURE_FAILED, at=Place(str(file), 3, module=HOSTILE, call="op1"), error=HOSTILE)
    document = to_sarif(log, about=About("model.py:Model", "export", root=tmp_path))
    _, shown = viewed(as_text(document), bundle, tmp_path)
    text = html.unescape(re.sub(r"<[^>]+>", "", shown))
    said = [finding.message for finding in log.findings]
    assert said[0][:1500] in text
    assert "decoder.layers.0.mlp" in text
    assert said[1].replace("\u202e", r"\u202e").replace("](", "] (") in text, "it is no link"
    assert "<img src=x" not in shown
    assert "\u202e" not in shown
