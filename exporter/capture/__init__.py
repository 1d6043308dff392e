"""From a model and its example inputs to a Program. PyTorch's private capture API is used in this room only."""

from exporter.capture.driver import capture

__all__ = ["capture"]
