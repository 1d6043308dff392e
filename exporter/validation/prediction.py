"""`--predict PROVIDER`: what a provider that is not on this machine would leave to the CPU."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from fxport.exporter.sources.usage import UsageError, did_you_mean
from fxport.exporter.sources.users_code import shown

if TYPE_CHECKING:
    import onnx_ir as ir


def require_table(name: str) -> None:
    """Refuse a provider that there is no table of kernels for, by the names of the tables: nothing is imported."""
    files = resources.files("fxport.exporter").joinpath("lowering", "kernels").iterdir()
    known = sorted(file.name.removesuffix(".tsv") for file in files if file.name.endswith(".tsv"))
    if name not in known:
        raise UsageError(f"--predict '{name}' is unknown. {did_you_mean(name, known)}")


def prediction_of(model: ir.Model, provider: str) -> str:
    """`predicted on cuda: 210 of 214 nodes; left to the CPU: NonZero (net.py:12)`"""
    from fxport.exporter.lowering.kernels.placement import predicted

    found = predicted(model, provider)
    said = f"predicted on {provider}: {found.nodes - len(found.elsewhere)} of {found.nodes} nodes"
    if not found.elsewhere:
        return said
    texts = [f"{op} ({shown(place.path)}:{place.line})" if place else op for op, place in found.elsewhere]
    return f"{said}; left to the CPU: {', '.join(dict.fromkeys(texts))}; {found.copies} values copied there or back"
