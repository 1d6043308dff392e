"""Generated chains of operators, so that the optimizations of ONNX Runtime see each beside each.

What a chain gives must be that of eager PyTorch: integers, truth values, places of NaN and signs of infinity exactly,
other numbers within a tolerance.
"""
