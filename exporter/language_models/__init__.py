"""Language models: calls of prompt and steps, and packages that generate text."""

from fxport.exporter.language_models.packaging import Package, package

__all__ = ["Package", "package"]
