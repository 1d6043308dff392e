"""Patches of Python, PyTorch and other libraries that are active while a model is traced: a file for each."""
