"""torch.fx in, torch.fx out: the passes that turn a captured graph into one that can be lowered."""

from fx_passes.base import FxPass, fx_pass, run_passes
from fx_passes.pipeline import normalize
from fx_passes.program import Input, InputKind, Output, OutputKind, Program

__all__ = ["FxPass", "Input", "InputKind", "Output", "OutputKind", "Program", "fx_pass", "normalize", "run_passes"]
