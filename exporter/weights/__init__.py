"""Weights from files: checkpoints are opened, matched with a model by name, and read when the model is saved."""

from fxport.exporter.pipeline.private import WEIGHTS
from fxport.exporter.weights.formats import open_checkpoint
from fxport.exporter.weights.stored import Checkpoint, CheckpointError, Region, Stored
from fxport.fx_passes.private import verify

verify(WEIGHTS)

__all__ = ["Checkpoint", "CheckpointError", "Region", "Stored", "open_checkpoint"]
