"""From a model and its example inputs to a Program, by torch.export."""

from exporter.capture.private import CAPTURE
from fx_passes.private import SHARED, verify

verify((*SHARED, *CAPTURE))

from exporter.capture.driver import capture  # noqa: E402  # its imports fail one by one where PyTorch is another

__all__ = ["capture"]
