"""A folder that peft has saved, LoRA beside a model of another folder: merged into its weights."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.diagnostics.messages import error_text
from fxport.exporter.language_models.decode import is_encoder_decoder
from fxport.exporter.language_models.few_bits import is_factor
from fxport.exporter.language_models.generation import IDS, token_ids
from fxport.exporter.language_models.own_error import error_of
from fxport.exporter.language_models.seq2seq import source_example
from fxport.exporter.sources.pretrained import PretrainedError

FILE = "adapter_config.json"
LORA = "LORA"
BASE = ".base_layer."
"""Part of the names of a model's own weights under an adapter, which need not lie beside it."""

LENGTH, CLOSE = 7, 1e-4
"""Tokens of a text on which a sum is tried, and the largest error, in parts of the largest number."""


def is_adapter(folder: Path) -> bool:
    """Return True for a folder with the configuration of an adapter and no model of its own."""
    return (folder / FILE).is_file() and not (folder / "config.json").is_file()


def base_of(adapter: Path) -> Path:
    """The folder of the model that an adapter is for.

    Raises PretrainedError for a configuration that is damaged, an adapter of another kind than LoRA, and a model that
    is not in a folder here.
    """
    path = adapter / FILE
    try:
        settings = json_of(read_bounded(path, CONFIG), CONFIG)
        kind, base = settings["peft_type"], settings["base_model_name_or_path"]
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise PretrainedError(
            f"'{path}' describes no adapter: {error_text(error)}; save it with peft again."
        ) from error
    if kind != LORA:
        raise PretrainedError(
            f"'{path}': adapters of type '{kind}' are not merged, only {LORA}; merge it with peft first."
        )
    folders = [Path(base), adapter / base] if isinstance(base, str) and base else []
    found = next((folder for folder in folders if (folder / "config.json").is_file()), None)
    if found is None:
        raise PretrainedError(
            f"'{path}': its model '{base}' is no folder here; write that of the model as 'base_model_name_or_path'."
        )
    return found


def merged(model: Any, adapter: Path) -> Any:
    """The model with the adapter added to its weights, by peft, and held against the two side by side.

    Raises PretrainedError where the two do not fit, or where the sum computes something else: where a weight is shared
    with another layer, or an adapter is not always active.
    """
    both, _ = _together(model, adapter)
    want = _computed(both)
    try:
        whole: Any = both.merge_and_unload(safe_merge=True)
    except Exception as error:  # as above
        raise PretrainedError(f"'{adapter}' cannot be merged: {error_text(error)}.") from error
    if (error := error_of(want, _computed(whole))) > CLOSE:
        raise PretrainedError(
            f"'{adapter}' merged into its model computes something else than beside it, by {error:.2g} of the largest "
            "number: adapt no weight that two layers share, and use no adapter that waits for tokens."
        )
    return whole


def beside(model: Any, adapter: Path) -> Any:
    """The model whose linear layers have the two factors of the adapter beside their weights.

    Raises PretrainedError where the two do not fit, or the adapter has more than such factors.
    """
    both, given = _together(model, adapter)
    if others := [name for name in given if not is_factor(name)]:
        raise PretrainedError(f"'{adapter}' has '{others[0]}', which is no factor of LoRA; merge it: --adapter merged.")
    return both.get_base_model().eval()


def switch(model: torch.nn.Module, *, on: bool) -> None:
    """Let the adapter beside the weights of a model take part, or not."""
    from peft.tuners.tuners_utils import BaseTunerLayer  # pyright: ignore[reportMissingImports] - it is optional

    tuned: list[Any] = [each for each in model.modules() if isinstance(each, BaseTunerLayer)]
    for layer in tuned:
        layer.enable_adapters(on)


def _together(model: Any, adapter: Path) -> tuple[Any, Collection[str]]:
    """The model with the adapter beside it, by peft, and the names that the adapter has; PretrainedError as above."""
    try:
        from peft import PeftModel, get_peft_model_state_dict  # pyright: ignore[reportMissingImports] - it is optional
        from peft.utils import load_peft_weights  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise PretrainedError(f"'{adapter}' needs the library peft: pip install peft.") from error
    try:
        both = PeftModel.from_pretrained(model, str(adapter)).eval()
        given = load_peft_weights(str(adapter), device="cpu")
        taken = get_peft_model_state_dict(both)
    except Exception as error:  # an adapter is anybody's files, and peft raises what it likes
        raise PretrainedError(f"'{adapter}' does not fit its model: {error_text(error)}.") from error
    own = {name for name in taken if BASE not in name or name in given}
    if missing := sorted(given.keys() ^ own):
        raise PretrainedError(
            f"'{adapter}' and its model differ in '{missing[0]}' and {len(missing) - 1} others; save the adapter again."
        )
    return both, given


def _computed(model: Any) -> np.ndarray:
    """The first result of a model for two short texts, or sounds."""
    ids = token_ids(model, 2, LENGTH)
    if is_encoder_decoder(model):
        given = {**source_example(model, 2, LENGTH), "decoder_input_ids": ids.flip(1)}
    else:
        given = {IDS: ids}
    with torch.no_grad():
        result = model(**given, return_dict=True)
    return next(iter(result.values())).float().numpy()
