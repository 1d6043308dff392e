"""Fixes that are tried: the same export as the user's, of patched sources, in processes of their own."""

from fxport.exporter.validation.fixes.search import Fixed, Verified, fixed, verified

__all__ = ["Fixed", "Verified", "fixed", "verified"]
