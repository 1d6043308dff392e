"""ONNX Runtime, without which some subcommands have nothing to do."""

from __future__ import annotations

from importlib.util import find_spec

from fxport.exporter.sources.usage import UsageError

MODULE = "onnxruntime"


def require_runtime(command: str) -> None:
    """Refuse a subcommand that runs models where ONNX Runtime is not installed."""
    if find_spec(MODULE) is None:
        raise UsageError(
            f"'fxport {command}' runs models in ONNX Runtime, which is not installed: pip install {MODULE}."
        )
