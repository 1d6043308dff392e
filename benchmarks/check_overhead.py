"""What `fxport check` costs beyond the exports: the same models, by it and by plain processes, in turns.

    python benchmarks/check_overhead.py --models 200 --runs 3

Plainly: as many processes as `--jobs`, each of which imports everything once, as a worker of `fxport check` does, and
then exports, saves and validates its share of the models, one after the other, with the same functions; nothing is
isolated, timed, traced, cached or reported.
The time of a side is that of the whole command; its CPU seconds, of all its processes, tell more where the machine is
not quiet. At the end `fxport check` runs once more, with all results cached.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

FAMILIES = {
    "mlp": "nn.Sequential(nn.Linear({n}, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)), (torch.randn(2, {n}),)",
    "conv": "nn.Sequential(nn.Conv2d(3, {n}, 3), nn.BatchNorm2d({n}), nn.SiLU(), nn.AdaptiveAvgPool2d(1)), "
    "(torch.randn(2, 3, 16, 16),)",
    "encoder": "nn.TransformerEncoderLayer(2 * {n}, 2, 64, batch_first=True), (torch.randn(2, 5, 2 * {n}),)",
    "lstm": "nn.Sequential(nn.LSTM({n}, 8, batch_first=True)), (torch.randn(2, 6, {n}),)",
}
MODEL = """
def {name}():
    model, args = {made}
    return model.eval(), args, {{}}, ({{0: "batch"}},)
"""


def write_project(folder: Path, models: int, a_file: int) -> list[str]:
    """A project of small models, of four families in turn and of other sizes each, `a_file` of them in a file."""
    sources, manifest = [], ["[defaults]", 'provider = "cpu"']
    for start in range(0, models, a_file):
        text = "import torch\nfrom torch import nn\n"
        for number in range(start, min(start + a_file, models)):
            family = list(FAMILIES)[number % len(FAMILIES)]
            name = f"{family}_{number}"
            text += MODEL.format(name=name, made=FAMILIES[family].format(n=4 + number % 29))
            sources.append(f"models_{start}.py:{name}")
            manifest += ["", "[[model]]", f'name = "{name}"', f'source = "{sources[-1]}"']
        (folder / f"models_{start}.py").write_text(text, encoding="utf-8")
    (folder / "fxport.toml").write_text("\n".join(manifest) + "\n", encoding="utf-8")
    return sources


def plainly(sources: Sequence[str]) -> None:
    """Export, save and validate each, in this process."""
    import torch

    from fxport.diagnostics import Log
    from fxport.exporter.checks import worker
    from fxport.exporter.pipeline.options import Options
    from fxport.exporter.sources.source import import_file, made_from, named
    from fxport.exporter.validation.one import check_one

    worker.warm()
    modules: dict[str, ModuleType] = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            torch.manual_seed(0)
            file, _, name = source.partition(":")
            if file not in modules:
                modules[file] = import_file(Path(file))
            model = made_from(named(modules[file], name, file), name, source)
            checked = check_one(model, Options(), Path(folder) / "model.onnx", "cpu", Log(), isolate=False)
            assert checked.validation is not None
            assert checked.validation.passed, source


def seconds_of(commands: Sequence[Sequence[str]], folder: Path) -> tuple[float, float]:
    """The time until all of the commands have ended, which start together, and the CPU seconds that they took."""
    start, before = time.perf_counter(), cpu_of_children()
    quiet = subprocess.DEVNULL
    processes = [
        # A session each, as the workers of `fxport check` have: Linux shares the time of the cores among sessions.
        subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet, start_new_session=True)
        for command in commands
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"a command failed: {commands[0]}")
    return time.perf_counter() - start, cpu_of_children() - before


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--a-file", type=int, default=10, help="models in a file")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3, help="runs of each side, in turns")
    parser.add_argument("--plainly", nargs="+", metavar="SOURCE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plainly:
        plainly(options.plainly)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = write_project(folder, options.models, options.a_file)
        shares = [sources[start :: options.jobs] for start in range(options.jobs)]
        plain = [[sys.executable, str(Path(__file__).resolve()), "--plainly", *share] for share in shares]
        check = [sys.executable, "-m", "fxport", "check", "--jobs", str(options.jobs)]
        ratios: list[tuple[float, float]] = []
        for _ in range(options.runs):
            one, other = seconds_of(plain, folder), seconds_of([[*check, "--no-cache"]], folder)
            ratios.append((other[0] / one[0], other[1] / one[1]))
            print(f"plainly {one[0]:.1f} s ({one[1]:.1f} CPU), fxport check {other[0]:.1f} s ({other[1]:.1f} CPU)")
        cached = seconds_of([check], folder)
    time_ratio, cpu_ratio = (statistics.median(each) for each in zip(*ratios, strict=True))
    print(f"{options.models} models, --jobs {options.jobs}: {time_ratio:.3f} of the time, {cpu_ratio:.3f} of the CPU")
    print(f"a cached run: {cached[0]:.1f} s ({cached[1]:.1f} CPU)")


if __name__ == "__main__":
    main()
