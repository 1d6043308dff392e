"""The key-value caches of transformers as containers of tensors, which torch.export takes as inputs and outputs."""

from __future__ import annotations

import importlib
import sys

REGISTRATION = ("transformers.integrations.executorch", "register_dynamic_cache_export_support")
"""transformers' own declaration of its DynamicCache to PyTorch: module and function. It may be called repeatedly."""


def register_caches() -> None:
    """Declares DynamicCache to PyTorch's pytrees where transformers is in use; elsewhere nothing is imported.

    The declaration stays: the reference run and the user's next call need it as well. Its leaves are
    `key_cache.<layer>` and `value_cache.<layer>`. A release of transformers without the function declares its caches
    by itself.
    """
    if "transformers" not in sys.modules:
        return
    module, function = REGISTRATION
    try:
        register = getattr(importlib.import_module(module), function, None)
    except ImportError:
        return
    if register is not None:
        register()
