"""`--repro DIR`: a failure as a folder that stands on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics.amounts import plural
from fxport.diagnostics.messages import error_line
from fxport.exporter.validation.attribution import Attribution

if TYPE_CHECKING:
    from fxport.ort_runner import Samples
    from fxport.ort_runner.parts import Part


def repro_of(folder: Path, path: Path, provider: str, lines: list[str]) -> Callable[[Attribution], None]:
    """Writes the smallest model that shows a difference, and adds to `lines` what became of it.

    That is the operation that brings the difference, with PyTorch's operands; the whole file where there is none. Of
    several differences it is the first for which there is such a model.
    """
    written: list[Path] = []

    def write(found: Attribution) -> None:
        from fxport.ort_runner.failures import Failure
        from fxport.ort_runner.repro import write_repro
        from fxport.ort_runner.session import Runtime

        if written:
            return
        assert found.samples is not None  # they are what was searched with
        part = found.divergence.part if found.divergence else None
        runtime = Runtime(provider, found.optimize if part is not None else True)
        try:
            part = part or whole(path, found.samples)
            made = write_repro(folder, part, runtime, f"Cause of a difference: {found.text}.")
        except (OSError, ValueError, Failure) as error:
            lines.append(f"repro: not written, because {error_line(error)}")
            return
        if made is None:
            lines.append("repro: not written, because what is left of the model gives what PyTorch gives")
        else:
            written.append(folder)
            lines.append(f"repro: {plural(made.nodes, 'node')} in {folder}, seen to fail with {made.rule.id}")

    return write


def whole(path: Path, samples: Samples) -> Part:
    """The file as it is, with its inputs and PyTorch's outputs."""
    import onnx

    from fxport.ort_runner.parts import part_of

    return part_of(onnx.load(path, load_external_data=False), samples, path.parent)
