"""Node packages: other tools of SARIF, and ONNX Runtime for browsers, which is found by NODE_PATH as Node does.

`.ci/run` installs them; without them the tests that ask are skipped.

npm i --no-audit --no-fund --ignore-scripts --prefix DIR $(cat tests/node-packages.txt)
FXPORT_NODE_MODULES=DIR/node_modules NODE_PATH=DIR/node_modules pytest tests/diagnostics tests/ort_runner
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

MODULES = os.environ.get("FXPORT_NODE_MODULES", "")
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
HEADLESS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000")


def module(path: str) -> Path | None:
    """A file of the installed packages; None where it is not there."""
    found = Path(MODULES) / path
    return found if MODULES and found.exists() else None


def requires(*paths: str) -> pytest.MarkDecorator:
    """Skips a test without these files of the packages, and says which is missing."""
    missing = [path for path in paths if module(path) is None]
    reason = f"FXPORT_NODE_MODULES has no {', '.join(missing)}" if MODULES else "FXPORT_NODE_MODULES is not set"
    return pytest.mark.skipif(bool(missing), reason=reason)


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt-get install chromium")
