"""The export: capture, FX passes, lowering, ONNX passes, and what stands around them.

What users import is in `fxport`; this package holds where it is made.
"""
