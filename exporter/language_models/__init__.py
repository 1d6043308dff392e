"""Language models: calls of prompt and steps, and packages that generate text."""
