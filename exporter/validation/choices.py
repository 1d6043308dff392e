"""Names that a caller chooses from: providers, runtimes, tables of kernels. Checked before PyTorch is imported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from importlib.util import find_spec

from fxport.exporter.sources.usage import UsageError, did_you_mean
from fxport.ort_runner.providers import AUTO, PROVIDERS
from fxport.ort_runner.runtimes import RUNTIMES


def require_provider(name: str) -> None:
    """Refuse a provider that fxport has no row for."""
    require_known("provider", name, (AUTO, *PROVIDERS))


def require_runtimes(names: Sequence[str]) -> None:
    """Refuse a runtime that fxport has no row for, and one that is not installed."""
    for name in names:
        require_known("runtime", name, RUNTIMES)
        if (reason := RUNTIMES[name].why_not) is not None:
            raise UsageError(f"runtime '{name}' is not installed: {reason}.")


def require_table(name: str) -> None:
    """Refuse a provider without a table of kernels, by the names of the tables."""
    files = resources.files("fxport.exporter").joinpath("lowering", "kernels").iterdir()
    require_known("--predict", name, sorted(file.name.removesuffix(".tsv") for file in files if ".tsv" in file.name))


def require_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not among the known ones, with the nearest of them."""
    known = tuple(known)
    if name not in known:
        raise UsageError(f"{kind} '{name}' is unknown. {did_you_mean(name, known)}")


def require_runtime(command: str) -> None:
    """Refuse a subcommand that runs models where ONNX Runtime is not installed."""
    if find_spec("onnxruntime") is None:
        raise UsageError(
            f"'fxport {command}' runs models in ONNX Runtime, which is not installed: pip install onnxruntime."
        )
