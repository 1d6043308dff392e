"""Provenance of a model: assumptions of its export, the parts of its modules, the path of each line to its nodes."""
