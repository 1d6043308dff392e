"""Checks of models: in a test, and of all models of a manifest."""
