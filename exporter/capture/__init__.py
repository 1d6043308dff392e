"""From a model and its example inputs to a Program, by torch.export."""

from fxport.exporter.capture.private import CAPTURE
from fxport.fx_passes.private import SHARED, verify

verify((*SHARED, *CAPTURE))

from fxport.exporter.capture.driver import capture  # noqa: E402  # its imports fail one by one where PyTorch is another

__all__ = ["capture"]
