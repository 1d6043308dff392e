"""Training steps: forward, loss, backward and optimizer as one ONNX graph. Names are imported on use."""

from exporter.training.export import TrainingProgram, export_training_step
from exporter.training.restore import load_into, state_from
from exporter.training.step import TrainingError

__all__ = ["TrainingError", "TrainingProgram", "export_training_step", "load_into", "state_from"]
