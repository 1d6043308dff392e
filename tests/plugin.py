"""How a test has pytest load fxport's plugin: an environment that fxport is installed in does so by itself."""

from importlib import metadata

INSTALLED = any(
    entry.value == "fxport.exporter.checks.pytest_plugin" for entry in metadata.entry_points(group="pytest11")
)
PLUGIN = () if INSTALLED else ("-p", "fxport.exporter.checks.pytest_plugin")
