"""From a captured Program to an ONNX model: walk, lowerings, ONNX passes, kernels of ONNX Runtime."""
