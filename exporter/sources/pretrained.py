"""A folder as transformers saves models: `config.json` says which one, the weights are beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.limits import CONFIG as CONFIG_LIMIT
from fxport.diagnostics.limits import json_of, read_bounded
from fxport.diagnostics.messages import error_text
from fxport.diagnostics.strangers import link_out_of
from fxport.exporter.capture.fake import without_memory
from fxport.exporter.sources.masks import IDS, MASK, padded, takes, with_masks
from fxport.exporter.weights import open_checkpoint
from fxport.exporter.weights.assign import names_in, owner_of

CONFIG = "config.json"
QUANTIZED = "quantization_config"
LONGEST_SHOWN = 60  # characters of a value that is not what it should be
MOST_LAYERS = 10_000
INSTEAD = "write a function that makes the model with its weights, and name it as FILE.py:NAME"
"""The way out for a folder whose model transformers does not know by itself."""

SAMPLES = 16_000
"""Of an example of sound: one second at the usual rate."""


class PretrainedError(FxportError, ValueError):
    """A folder whose model cannot be made. The text names the folder, says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A model in eval mode with an example call. `weights` is the checkpoint whose values it is still without.

    `masks` are inputs in the sizes of another input, by name: ones, and zeros for padding.
    """

    model: torch.nn.Module
    inputs: Mapping[str, torch.Tensor]
    dynamic: Mapping[str, Mapping[int, str]]
    weights: Path | None = None
    masks: Mapping[str, str] = field(default_factory=dict)  # a mask, and the input that it is of


@dataclass(frozen=True, slots=True)
class Example:
    """An input by its name in transformers: how it is made from a configuration, and which of its dims may vary."""

    make: Callable[[Any], torch.Tensor]
    dims: Mapping[int, str] = field(default_factory=lambda: {0: "batch"})


def load(folder: Path, *, in_memory: bool = False) -> Pretrained:
    """The model of a folder, from its files alone: made without memory, unless its weights are named otherwise there.

    With `in_memory` it is loaded in any case. Its cache is off. Raises PretrainedError or CheckpointError for a folder
    that has no such model.
    """
    kind, config = configured(folder)
    if getattr(config, "use_cache", False):
        config.use_cache = False  # without a cache there is one graph; fxport.exporter.decode_step makes the other
    try:
        with without_memory():
            model = kind._from_config(config).eval()
    except Exception as error:  # sizes that do not fit each other, from a stranger's configuration
        reason = error_text(error)
        raise PretrainedError(f"'{folder / CONFIG}' makes no {kind.__name__}: {reason}.") from error
    checkpoint = open_checkpoint(folder)
    owner = owner_of(model)
    names = names_in(owner, checkpoint)
    inputs, dynamic = _example(model, config)
    masks = {MASK: IDS} if IDS in inputs and _reads_both_ways(kind, config) and takes(model, MASK) else {}
    inputs |= {mask: padded(with_masks(inputs, masks)[mask]) for mask in masks}
    dynamic |= {mask: dynamic[of] for mask, of in masks.items()}
    if not in_memory and all(names.key_of(name, owner.others) for name, _ in model.named_parameters()):
        return Pretrained(model, inputs, dynamic, folder, masks)
    loaded = kind.from_pretrained(folder, config=config, local_files_only=True, dtype=config.dtype)
    return Pretrained(loaded.eval(), inputs, dynamic, masks=masks)


def configured(folder: Path, *, headless: bool = False) -> tuple[Any, Any]:
    """The class and the configuration of a folder's model, of transformers alone. Raises PretrainedError.

    With `headless` it is the class without a head, whatever the configuration names; of an encoder-decoder the encoder.
    """
    transformers = _transformers(folder)
    if (link := link_out_of(folder)) is not None:
        raise PretrainedError(
            f"'{link}' is a link out of its folder, which is not followed; put the file itself there."
        )
    if not (folder / CONFIG).exists():
        raise PretrainedError(
            f"'{folder}' has no {CONFIG}, which names the model; save the model there with save_pretrained, or "
            f"{INSTEAD}."
        )
    try:
        _require_table(json_of(read_bounded(folder / CONFIG, CONFIG_LIMIT), CONFIG_LIMIT), folder)
        # Without code of the folder's own: `auto_map` is refused, not asked about.
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except PretrainedError:
        raise
    except Exception as error:  # a configuration is anybody's JSON, and transformers raises what it likes
        reason = error_text(error)
        raise PretrainedError(f"'{folder / CONFIG}' names no model of transformers: {reason}; {INSTEAD}.") from error
    kind = (_headless if headless else _class_of)(transformers, config, folder)
    _require_finite(config, folder)
    return kind, config


def from_gguf(path: Path) -> tuple[Any, dict[str, Any]]:
    """The causal language model of a GGUF file in float32, and the names of missing and extra weights, by transformers.

    Raises PretrainedError for a file whose model it does not know.
    """
    kind = _transformers(path).AutoModelForCausalLM
    try:
        model, found = kind.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # a stranger's file, of which transformers raises what it likes
        raise PretrainedError(f"'{path}' makes no model of transformers: {error_text(error)}.") from error
    return model, found


def _transformers(folder: Path) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise PretrainedError(
            f"'{folder}' needs transformers, which is not installed: pip install transformers."
        ) from error
    return transformers


def _class_of(transformers: Any, config: Any, folder: Path) -> Any:
    """The class that the configuration names; the model without a head where it names none."""
    names = config.architectures or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PretrainedError(f"'{folder / CONFIG}': 'architectures' is {repr(names)[:LONGEST_SHOWN]}, no list.")
    kind = getattr(transformers, names[0], None) if names else transformers.MODEL_MAPPING.get(type(config), None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        name = names[0][:LONGEST_SHOWN] if names else "of no model"
        raise PretrainedError(f"'{folder / CONFIG}' names the class {name}, which this transformers lacks; {INSTEAD}.")
    return kind


def _headless(transformers: Any, config: Any, folder: Path) -> Any:
    """The class of a configuration without a head; of an encoder-decoder its encoder."""
    tables = (transformers.MODEL_FOR_TEXT_ENCODING_MAPPING, transformers.MODEL_MAPPING)
    kind = next((table[type(config)] for table in tables if type(config) in table), None)
    if not isinstance(kind, type):
        raise PretrainedError(
            f"'{folder / CONFIG}' names the type '{config.model_type}', which has no single model of hidden states in "
            "transformers; write a function that makes the model, and name it as FILE.py:NAME."
        )
    return kind


def tokenizer_of(folder: Path) -> Any:
    """The tokenizer of a folder, by transformers. Raises PretrainedError for one that it does not know by itself."""
    try:
        return _transformers(folder).AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except PretrainedError:
        raise
    except Exception as error:  # anybody's files, and transformers raises what it likes
        raise PretrainedError(
            f"'{folder}' has no tokenizer that transformers knows: {error_text(error)}; save it there with "
            "tokenizer.save_pretrained."
        ) from error


def processor_of(folder: Path, kind: str, **given: Any) -> Any:
    """The processor of a folder for images or sounds, by a class of transformers. Raises PretrainedError."""
    try:
        return getattr(_transformers(folder), kind).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **given
        )
    except (PretrainedError, ImportError):
        raise
    except Exception as error:  # anybody's files, and transformers raises what it likes
        raise PretrainedError(
            f"'{folder}' does not say how images and sounds are read: {error_text(error)}; save its processor again, "
            "or remove preprocessor_config.json."
        ) from error


def _require_table(held: Any, folder: Path) -> None:
    """Refuse a quantization that transformers would fail on with words of its own."""
    found = held.get(QUANTIZED) if isinstance(held, dict) else None
    if found is not None and not isinstance(found, dict):
        raise PretrainedError(
            f"'{folder / CONFIG}': '{QUANTIZED}' is {repr(found)[:LONGEST_SHOWN]}, no table that names a scheme; save "
            "the model again."
        )


def _require_finite(config: Any, folder: Path) -> None:
    """Refuse a number of layers that no model has, which would be made one after the other without an end."""
    for name, value in vars(config).items():
        if isinstance(value, int) and value > MOST_LAYERS and ("layers" in name or "blocks" in name):
            raise PretrainedError(f"'{folder / CONFIG}': '{name}' is {value}; models have up to {MOST_LAYERS}.")


def _ids(config: Any) -> torch.Tensor:
    text = config.get_text_config()
    return torch.randint(0, text.vocab_size, (2, 8), generator=torch.Generator().manual_seed(0))


def _pixels(config: Any) -> torch.Tensor:
    size = config.image_size
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return torch.rand(2, getattr(config, "num_channels", 3), height, width, generator=torch.Generator().manual_seed(0))


def _sound(config: Any) -> torch.Tensor:
    return torch.rand(2, SAMPLES, generator=torch.Generator().manual_seed(0))


def _spectrum(config: Any) -> torch.Tensor:
    frames = 2 * config.max_source_positions
    return torch.rand(2, config.num_mel_bins, frames, generator=torch.Generator().manual_seed(0))


TEXT: Mapping[int, str] = {0: "batch", 1: "sequence"}
EXAMPLES: Mapping[str, Example] = {
    "input_ids": Example(_ids, TEXT),
    "pixel_values": Example(_pixels),
    "input_values": Example(_sound, {0: "batch", 1: "samples"}),
    "input_features": Example(_spectrum),
    "decoder_input_ids": Example(_ids, {0: "batch", 1: "target"}),
}


def _reads_both_ways(kind: Any, config: Any) -> bool:
    """Return True if a token of a model of text reads those after it: what is padded changes the others.

    A causal model reads no padding behind a text, and packages give it the mask of its cache.
    """
    import transformers

    causal, masked = transformers.MODEL_FOR_CAUSAL_LM_MAPPING, transformers.MODEL_FOR_MASKED_LM_MAPPING
    known = type(config)
    if config.is_encoder_decoder or known not in causal:
        return True
    return known in masked and kind is not causal[known] and not getattr(config, "is_decoder", False)


def _example(model: Any, config: Any) -> tuple[dict[str, torch.Tensor], dict[str, Mapping[int, str]]]:
    names = [model.main_input_name, *(["decoder_input_ids"] if config.is_encoder_decoder else [])]
    try:
        inputs = {name: EXAMPLES[name].make(config) for name in names}
    except (KeyError, AttributeError, TypeError):  # an input of its own, or a configuration of its own
        return {}, {}
    floats = {name: value.to(model.dtype) for name, value in inputs.items() if value.is_floating_point()}
    return inputs | floats, {name: EXAMPLES[name].dims for name in names}
