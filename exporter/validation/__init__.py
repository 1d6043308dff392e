"""Comparison of ONNX Runtime with eager PyTorch, and attribution of differences."""
