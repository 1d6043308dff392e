"""The folders of this repository as packages within `fxport`: what pyproject.toml and the links in .ci/packages say."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import fxport

ROOT = Path(__file__).resolve().parent.parent
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
LINKS = ROOT / ".ci" / "packages" / "fxport"


def test_every_package_is_installed() -> None:
    """By name; the folder of `fxport` itself lies in that of another package."""
    folders = {name: ROOT / folder for name, folder in SETUP["package-dir"].items()}
    public = folders["fxport"]
    found = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in folders.items()
        for path in folder.rglob("__init__.py")
        if folder == public or not path.is_relative_to(public)
    }
    assert sorted(SETUP["packages"]) == sorted(found)


def test_the_links_show_the_packages_as_they_are_installed() -> None:
    public = [path for path in (ROOT / SETUP["package-dir"]["fxport"]).iterdir() if path.name != "__pycache__"]
    wanted = {path.name: path for path in public}
    wanted |= {name.partition(".")[2]: ROOT / folder for name, folder in SETUP["package-dir"].items() if "." in name}
    assert {path.name: path.resolve() for path in LINKS.iterdir() if path.name != "__pycache__"} == wanted


def test_the_face_is_whole_and_waits_for_nothing() -> None:
    assert all(hasattr(fxport, name) for name in fxport.__all__)
    assert set(fxport.__all__) <= set(dir(fxport))
    assert {"Any", "TYPE_CHECKING", "annotations", "import_module"}.isdisjoint(dir(fxport))
    heavy = "{'torch', 'onnx', 'onnxruntime', 'numpy', 'sympy', 'rich', 'typer'}"
    code = f"import sys, fxport; sys.exit(bool(sys.modules.keys() & {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_another_exporter_is_not_ours(tmp_path: Path) -> None:
    """A project may have modules of these names: its own are found, and the plugin of pytest works beside them."""
    for name in ("exporter", "diagnostics", "fx_passes", "ort_runner"):
        (tmp_path / f"{name}.py").write_text(f"MINE = '{name}'\n", encoding="utf-8")
    (tmp_path / "test_mine.py").write_text(
        "import diagnostics, exporter, torch\n\n\n"
        "def test_mine(onnx_check):\n"
        "    assert (exporter.MINE, diagnostics.MINE) == ('exporter', 'diagnostics')\n"
        "    onnx_check(torch.nn.Linear(3, 2), (torch.ones(2, 3),))\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wheel_holds_nothing_but_fxport(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    copied = tmp_path / "project"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, files.split("\0")):
        source, target = ROOT / name, copied / name
        if source.is_file() and not source.is_symlink() and not name.startswith(("tests/", "docs/", "examples/")):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(copied)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"fxport"}
    data = {"pages/FXP1001-capture-failed.md", "report.html", "py.typed"}
    assert {f"fxport/diagnostics/{name}" for name in data} <= names
    assert {
        "fxport/exporter/lowering/kernels/cpu.tsv",
        "fxport/exporter/checks/fxport.schema.json",
        "fxport/ort_runner/web_session.cjs",
        "fxport/py.typed",
    } <= names
