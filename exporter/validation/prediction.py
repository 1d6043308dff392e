"""`--predict PROVIDER`: what a provider that is not on this machine would leave to the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxport.exporter.sources.users_code import shown

if TYPE_CHECKING:
    import onnx_ir as ir


def prediction_of(model: ir.Model, provider: str) -> str:
    """`predicted on cuda: 210 of 214 nodes; left to the CPU: NonZero (net.py:12)`"""
    from fxport.exporter.lowering.kernels.placement import predicted

    found = predicted(model, provider)
    said = f"predicted on {provider}: {found.nodes - len(found.elsewhere)} of {found.nodes} nodes"
    if not found.elsewhere:
        return said
    texts = [f"{op} ({shown(place.path)}:{place.line})" if place else op for op, place in found.elsewhere]
    return f"{said}; left to the CPU: {', '.join(dict.fromkeys(texts))}; {found.copies} values copied there or back"
