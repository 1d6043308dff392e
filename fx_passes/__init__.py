"""torch.fx in, torch.fx out: the passes that turn a captured graph into one that can be lowered."""

from fxport.fx_passes.private import FX_PASSES, SHARED, verify

verify((*SHARED, *FX_PASSES))

from fxport.fx_passes.base import FxPass, fx_pass, run_passes  # noqa: E402  # imports fail one by one where PyTorch is another
from fxport.fx_passes.pipeline import normalize  # noqa: E402
from fxport.fx_passes.program import Input, InputKind, Output, OutputKind, Program  # noqa: E402

__all__ = ["FxPass", "Input", "InputKind", "Output", "OutputKind", "Program", "fx_pass", "normalize", "run_passes"]
