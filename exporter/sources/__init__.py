"""Inputs named by the user: a model with its example inputs, sizes that vary, files. Each mistake is a UsageError."""
