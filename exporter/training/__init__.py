"""Training steps: forward, loss, backward and optimizer as one ONNX graph. Names are imported on use."""

from fxport.exporter.pipeline.private import TRAINING
from fxport.fx_passes.private import verify

verify(TRAINING)

from fxport.exporter.training.export import TrainingProgram, export_training_step  # noqa: E402  # after the check above
from fxport.exporter.training.optimizers import OptimizerError  # noqa: E402
from fxport.exporter.training.restore import load_into, state_from  # noqa: E402
from fxport.exporter.training.seeded import UnseededError  # noqa: E402
from fxport.exporter.training.step import TrainingError  # noqa: E402
from fxport.exporter.weights.arrays import as_tensor  # noqa: E402

__all__ = [
    "OptimizerError",
    "TrainingError",
    "TrainingProgram",
    "UnseededError",
    "as_tensor",
    "export_training_step",
    "load_into",
    "state_from",
]
