"""Ordinary but awkward PyTorch programs, written at random as source text, and a judge of what becomes of each.

`python -m tests.fuzz.programs --seeds 0:2000` runs many, and writes those that fail into a folder.
"""
