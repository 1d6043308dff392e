"""Scripts that call `torch.onnx.export`, as users write them; the line `from torch import onnx` is all that changes.

Each leaves `written`, a path or the bytes of the model, `feeds` with inputs by their names, and `expected`, what eager
PyTorch gives for them.
"""
