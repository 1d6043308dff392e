"""The Python in README.md and docs is run, and the site builds without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if BLOCK.search(path.read_text()))
NOT_RUN = {
    "check.md": "a test, which tests/cli/test_plugin.py runs",
    "distributed.md": "a program of several ranks: tests/distributed",
    "first-model.md": "a model in steps: tests/cli/test_first_model.py",
    "weights.md": "a model with a checkpoint: tests/exporter/test_weights.py",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.filterwarnings("ignore")  # what other libraries warn about is no part of a page
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page one after the other, in an empty folder."""
    if page.name in NOT_RUN:
        pytest.skip(NOT_RUN[page.name])
    monkeypatch.chdir(tmp_path)
    script = tmp_path / f"{page.stem}_of_docs.py"  # a file, since findings and kept operators look for their lines
    script.write_text("\n\n".join(BLOCK.findall(page.read_text(encoding="utf-8"))), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: docs/requirements.txt")
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert (tmp_path / "rules" / "FXP3001" / "index.html").exists()
