"""Training steps: forward, loss, backward and optimizer as one ONNX graph. Names are imported on use."""

from exporter.private import TRAINING
from fx_passes.private import verify

verify(TRAINING)

from exporter.training.export import TrainingProgram, export_training_step  # noqa: E402  # after the check above
from exporter.training.restore import load_into, state_from  # noqa: E402
from exporter.training.step import TrainingError  # noqa: E402

__all__ = ["TrainingError", "TrainingProgram", "export_training_step", "load_into", "state_from"]
