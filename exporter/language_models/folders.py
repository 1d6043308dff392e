"""A folder of transformers as a language model in memory, with a finding for each weight that is missing or extra."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from fxport.diagnostics import Log, Stop, rules
from fxport.diagnostics.messages import error_text
from fxport.exporter.sources.pretrained import CONFIG, PretrainedError, configured
from fxport.exporter.weights import open_checkpoint
from fxport.exporter.weights.names import starred


def model_of(folder: Path, log: Log) -> Any:
    """The model of a folder in eval mode, its weights in float32.

    Raises PretrainedError or CheckpointError for a folder that has no such model, and Stop where weights are missing.
    """
    kind, config = configured(folder)
    if scheme := getattr(config, "quantization_config", None):
        method = scheme.get("quant_method") if isinstance(scheme, dict) else getattr(scheme, "quant_method", None)
        raise PretrainedError(
            f"'{folder / CONFIG}': the weights are quantized already, by '{method}', which packages cannot take; give "
            "the folder of the weights before, and --weights."
        )
    checkpoint = open_checkpoint(folder)
    types = {str(stored.dtype).removeprefix("torch.") for stored in checkpoint.tensors.values()}
    try:
        model, found = kind.from_pretrained(
            folder, config=config, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # weights are anybody's files, and transformers raises what it likes
        raise PretrainedError(f"'{folder}' makes no {kind.__name__}: {error_text(error)}.") from error
    for source in sorted(types & {"float16", "bfloat16"}):
        count = sum(str(each.dtype) == f"torch.{source}" for each in checkpoint.tensors.values())
        both = f"{source} to float32"
        log.report(rules.WEIGHTS_CONVERTED, name=both, source=source, target="float32", weights=count)
    for name in _once(found["missing_keys"]):
        nearest = difflib.get_close_matches(name, checkpoint.tensors, 1, 0)
        told = nearest[0] if nearest else "none"
        log.report(rules.WEIGHT_MISSING, name=starred(name), path=str(folder), nearest=told)
    for name in _once(found["unexpected_keys"]):
        log.report(rules.WEIGHT_UNUSED, name=starred(name), path=str(folder))
    if found["missing_keys"]:
        raise Stop(log, "load")
    return model.eval()


def _once(names: Iterable[str]) -> list[str]:
    """One name of those that differ by the number of their layer."""
    return list({starred(name): name for name in sorted(names)}.values())
