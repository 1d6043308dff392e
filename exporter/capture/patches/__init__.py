"""What stands in for parts of Python, PyTorch and other libraries while a model is traced: a file for each."""
