"""A folder of transformers as a language model in memory, with a finding for each weight that is missing or extra."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from fxport.diagnostics import Log, Stop, rules
from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.diagnostics.messages import error_text
from fxport.exporter.language_models.adapters import base_of, beside, is_adapter, merged
from fxport.exporter.language_models.from_table import Packed
from fxport.exporter.language_models.gguf_file import load_gguf
from fxport.exporter.language_models.mapped_weights import mapped_weights, outgrows_memory
from fxport.exporter.language_models.quantized import quantized_weights
from fxport.exporter.language_models.text_models import INNER, plan_of
from fxport.exporter.language_models.towers import TowerModel, has_towers
from fxport.exporter.sources.pretrained import CONFIG as CONFIG_FILE
from fxport.exporter.sources.pretrained import PretrainedError, configured
from fxport.exporter.weights import open_checkpoint
from fxport.exporter.weights.names import starred
from fxport.ort_runner.token_rules import FILE as GENERATION

Adapter = Literal["merged", "input"]
JOINED: Mapping[Adapter, Callable[[Any, Path], Any]] = {"merged": merged, "input": beside}
"""Functions that put a model and its adapter together."""

CONVERTED = frozenset({"float16", "bfloat16", "float32"})
"""Types of weights that become that of the package (FXP7013)."""

POOLER = "pooler."
"""Beginning of the names of weights that only a head reads."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in eval mode with weights in float32, and those that its checkpoint has in few bits, by their names."""

    model: Any
    packed: Mapping[str, Packed]


def model_of(
    folder: Path, log: Log, *, adapter: Adapter = "merged", dtype: str = "float32", near: Path | None = None
) -> Loaded:
    """The model of a folder, in a type but for what transformers keeps in float32.

    Weights in float32 that do not fit in memory are mapped from a file in the folder of `near`.

    That of an adapter has its weights merged into those of its model, or beside these where it is to be an input; that
    of sentence-transformers has the modules after it, and one that classifies texts has the function that makes scores
    of its logits. Raises PretrainedError or CheckpointError for a folder that has no such model, and Stop where weights
    are missing.
    """
    if (plan := plan_of(folder)) is not None:
        loaded = _loaded(plan.transformer, log, dtype, headless=not plan.is_classifier)
        whole = plan.completed(loaded.model)
        return Loaded(whole.eval(), {f"{INNER}.{name}": weight for name, weight in loaded.packed.items()})
    if is_adapter(folder):
        base = model_of(base_of(folder), log, dtype=dtype)
        if base.packed:
            raise PretrainedError(
                f"'{folder}': its model has weights in few bits, to which none are added; give others."
            )
        return Loaded(JOINED[adapter](base.model, folder).eval(), {})
    if adapter != "merged":
        raise PretrainedError(
            f"'{folder}' is no folder of an adapter, of which an input could be made; omit --adapter."
        )
    loaded = _loaded(folder, log, dtype, near=near)
    if has_towers(loaded.model):
        whole = TowerModel(loaded.model, folder)
        return Loaded(whole.eval(), {f"{INNER}.{name}": weight for name, weight in loaded.packed.items()})
    return loaded


def _loaded(folder: Path, log: Log, dtype: str, *, headless: bool = False, near: Path | None = None) -> Loaded:
    """The model that a configuration names, or the one without a head, whose pooler is not needed."""
    kind, config = configured(folder, headless=headless)
    _require_settings(folder)
    checkpoint = open_checkpoint(folder)
    packed: dict[str, Packed] = {}
    given: dict[str, Any] = {"pretrained_model_name_or_path": folder}
    if settings := getattr(config, "quantization_config", None):
        weights, packed = quantized_weights(folder, checkpoint, _plain(settings))
        del config.quantization_config
        given = {"pretrained_model_name_or_path": None, "state_dict": weights}
    elif near is not None and dtype == "float32" and outgrows_memory(checkpoint):
        given = {"pretrained_model_name_or_path": None, "state_dict": mapped_weights(checkpoint, near)}
    types = {str(stored.dtype).removeprefix("torch.") for stored in checkpoint.tensors.values()}
    try:
        model, found = kind.from_pretrained(
            **given,
            config=config,
            local_files_only=True,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are told below, each with its name
        )
        if "state_dict" in given and model.can_generate():
            model.generation_config = _settings(folder, type(model.generation_config))
    except Exception as error:  # weights are anybody's files, and transformers raises what it likes
        raise PretrainedError(f"'{folder}' makes no {kind.__name__}: {error_text(error)}.") from error
    for source in sorted(types & CONVERTED - {dtype}):
        count = sum(str(each.dtype) == f"torch.{source}" for each in checkpoint.tensors.values())
        both = f"{source} to {dtype}"
        log.report(rules.WEIGHTS_CONVERTED, name=both, source=source, target=dtype, weights=count)
    missing = [name for name in found["missing_keys"] if not (headless and name.startswith(POOLER))]
    for name in _once(missing):
        nearest = difflib.get_close_matches(name, checkpoint.tensors, 1, 0)
        told = nearest[0] if nearest else "none"
        log.report(rules.WEIGHT_MISSING, name=starred(name), path=str(folder), nearest=told)
    for name in _once(found["unexpected_keys"]):
        log.report(rules.WEIGHT_UNUSED, name=starred(name), path=str(folder))
    mismatched = {name: sizes for name, *sizes in found["mismatched_keys"]}
    for name in _once(mismatched):
        held, expected = (str(list(each)) for each in mismatched[name])
        log.report(rules.WEIGHT_MISMATCH, name=starred(name), expected=expected, found=held, key=name)
    if missing or mismatched:
        raise Stop(log, "load")
    _require_same(model, packed, folder)
    return Loaded(model.eval(), packed)


def _settings(folder: Path, kind: Any) -> Any:
    """The settings for generation of a folder, as transformers reads them where it reads the weights too."""
    told = {} if (folder / GENERATION).is_file() else {"config_file_name": CONFIG_FILE, "_from_model_config": True}
    return kind.from_pretrained(folder, local_files_only=True, **told)


def model_of_gguf(path: Path, log: Log) -> Loaded:
    """The model of a GGUF file. Raises PretrainedError, and Stop where weights are missing."""
    model, found, packed = load_gguf(path)
    for name in _once(found["missing_keys"]):
        log.report(rules.WEIGHT_MISSING, name=starred(name), path=str(path), nearest="none")
    if found["missing_keys"]:
        raise Stop(log, "load")
    _require_same(model, packed, path)
    return Loaded(model.eval(), packed)


def _require_settings(folder: Path) -> None:
    """Raise PretrainedError for damaged settings for generation, for which transformers takes others in silence."""
    path = folder / GENERATION
    if not path.is_file():
        return
    try:
        held = json_of(read_bounded(path, CONFIG), CONFIG)
    except (OSError, ValueError) as error:
        raise PretrainedError(f"'{path}' cannot be read: {error_text(error)}; save the model again.") from error
    if not isinstance(held, dict):
        raise PretrainedError(f"'{path}' holds no table of settings; save the model again.")


def _plain(settings: Any) -> Mapping[str, Any]:
    """The settings of a quantization as a mapping."""
    found: Any = settings if isinstance(settings, Mapping) else settings.to_dict()
    return found


def _require_same(model: Any, packed: Mapping[str, Packed], folder: Path) -> None:
    """Raise PretrainedError where a model has a weight in few bits under another name, or with other values."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, weight in packed.items():
        if name not in parameters or not weight.stands_for(parameters[name].detach().numpy()):
            raise PretrainedError(
                f"'{folder}': transformers puts '{name}' together with other weights, so its few bits cannot be kept; "
                "give the folder of the weights before, and --weights."
            )


def _once(names: Iterable[str]) -> list[str]:
    """One name of those that differ by the number of their layer."""
    return list({starred(name): name for name in sorted(names)}.values())
