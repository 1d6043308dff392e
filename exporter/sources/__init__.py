"""What a user names: a model with its example inputs, sizes that vary, files. Each mistake is a UsageError."""
