"""A folder that peft has saved, LoRA beside a model of another folder: merged into its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.diagnostics.messages import error_text
from fxport.exporter.sources.pretrained import PretrainedError

FILE = "adapter_config.json"
LORA = "LORA"


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
    """The model with the adapter added to its weights, by peft. Raises PretrainedError where the two do not fit."""
    try:
        from peft import PeftModel, get_peft_model_state_dict  # pyright: ignore[reportMissingImports] - it is optional
        from peft.utils import load_peft_weights  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise PretrainedError(f"'{adapter}' needs the library peft: pip install peft.") from error
    try:
        both = PeftModel.from_pretrained(model, str(adapter))
        given = load_peft_weights(str(adapter), device="cpu")
        taken = get_peft_model_state_dict(both)
    except Exception as error:  # an adapter is anybody's files, and peft raises what it likes
        raise PretrainedError(f"'{adapter}' does not fit its model: {error_text(error)}.") from error
    if missing := sorted(given.keys() ^ taken.keys()):
        raise PretrainedError(
            f"'{adapter}' and its model differ in '{missing[0]}' and {len(missing) - 1} others; save the adapter again."
        )
    whole: Any = both.merge_and_unload(safe_merge=True)
    return whole
