"""Python that fixes what should stay open, rewritten before it is traced: loops, branches and calls of a model."""
