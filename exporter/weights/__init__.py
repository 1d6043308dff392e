"""Weights from files: checkpoints are opened, matched with a model by name, and read when the model is saved."""

from exporter.private import WEIGHTS
from exporter.weights.formats import open_checkpoint
from exporter.weights.stored import Checkpoint, CheckpointError, Region, Stored
from fx_passes.private import verify

verify(WEIGHTS)

__all__ = ["Checkpoint", "CheckpointError", "Region", "Stored", "open_checkpoint"]
