"""Inputs that mean harm, made by a script; `python -m tests.hostile` makes them, runs fxport on each and judges it."""
