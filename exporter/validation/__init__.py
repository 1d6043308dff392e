"""What ONNX Runtime gives beside what eager PyTorch gives, and where a difference comes from."""
