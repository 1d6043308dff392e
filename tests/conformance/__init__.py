"""PyTorch's operator database against an exporter and ONNX Runtime; see README.md."""
