"""The file that tells a runtime of language models what a package holds: `genai_config.json` of onnxruntime-genai."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.ort_runner.json_values import count, counts, named_texts, text, texts

FILE = "genai_config.json"
TEXTS_FILE = "text_config.json"
"""The same file of a package that embeds texts or scores them."""

TOKENIZER = "tokenizer.json"
PIXELS, GRID, FEATURES, EMBEDS, POSITIONS = (
    "pixel_values",
    "image_grid_thw",
    "image_features",
    "inputs_embeds",
    "position_ids",
)
"""Inputs and outputs of the parts of a vision-language model."""

TOKEN_TYPES, KINDS = "token_type_ids", "token_kinds"
"""The kind of each token [batch, past + sequence], for decoders that see images or prompts as a whole; and the kinds of
a prompt's words, of images, and of what is generated."""

CAPACITY = "capacity"
"""Dimension of a cache that is written in place: the tokens for which it has room."""

FILLED, ON_RIGHT = "fxport.filled", "right"
"""Key and value in the metadata of a model whose texts are filled up on the right."""

READ_ANEW = "fxport.read_anew_after"
"""Key in the metadata of a model for a number of tokens: a text that becomes longer is read anew, without its cache."""


def require_folder(folder: Path) -> None:
    """Raise PackageError where there is no folder."""
    if not folder.is_dir():
        raise PackageError(f"There is no folder '{folder}'; name one that fxport package has written.")


class PackageError(FxportError, ValueError):
    """A folder that is no package, or what it was asked for and cannot do. The text says what to do."""


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The part of the file that running an encoder takes.

    Attributes:
        model: The ONNX file.
        context_length: Tokens that a text may have; None for sounds.
        inputs: Names of its inputs: of `input_ids` and `attention_mask`, or of `audio_features`.
        outputs: Names of its outputs, keys and values that each step reads, with `%d` for the layer.
    """

    model: Path
    context_length: int | None
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VisionConfig:
    """The part of the file that reading images takes.

    Attributes:
        encoder: The ONNX file of the encoder.
        embedding: That of the embedding, which puts features of images among those of tokens.
        token: The token that stands for a part of an image.
        merge: Rows and columns of patches that are one token, where images have grids.
        inputs: Names of the encoder's inputs: of `pixel_values`, and `image_grid_thw` where images have grids.
        outputs: Names of its outputs: of `image_features`.
        taken: Names of the embedding's inputs: of `input_ids` and `image_features`.
        given: Names of its outputs: of `inputs_embeds`.
        kinds: Those of a prompt's words, of images, and of what is generated, where the decoder takes them.
    """

    encoder: Path
    embedding: Path
    token: int
    merge: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    taken: Mapping[str, str]
    given: Mapping[str, str]
    kinds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PackageConfig:
    """The part of the file that running a decoder takes.

    Attributes:
        model: The ONNX file.
        layers: Layers of the cache.
        context_length: Tokens that a prompt and what is generated may have together.
        stop: Tokens of which each ends a text.
        pad: The token that fills up shorter prompts.
        vocabulary: Tokens that a text may have: 0 to one less; of an encoder-decoder, those of what is read.
        inputs: Names of inputs in the file by their part; those of the cache have `%d` for the layer.
        outputs: Names of outputs, likewise.
        states: Tensors of a cache that holds states too, such as "0.conv_states.0"; none for keys and values alone.
        prompt: The ONNX file that takes the prompt, where the other takes single steps; None where one takes both.
        in_place: Whether a step writes new keys and values into the memory of the cache, which has room for more.
        encoder: That of an encoder-decoder; None for a decoder alone.
        vision: That which reads images; None where nothing does.
    """

    model: Path
    layers: int
    context_length: int
    stop: frozenset[int]
    pad: int
    vocabulary: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    states: tuple[str, ...] = ()
    prompt: Path | None = None
    in_place: bool = False
    encoder: EncoderConfig | None = None
    vision: VisionConfig | None = None

    @classmethod
    def read(cls, folder: Path) -> PackageConfig:
        """Read the file in a folder. Raises PackageError for a folder that is no package, or one of other parts."""
        require_folder(folder)
        path = folder / FILE
        if (folder / TEXTS_FILE).is_file():
            raise PackageError(f"'{folder}' is no package that generates: run it with fxport embed.")
        if not path.is_file():
            raise PackageError(f"'{folder}' is no package: it has no {FILE}; make one with fxport package.")
        try:
            whole = json_of(read_bounded(path, CONFIG), CONFIG)
            model = whole["model"]
            decoder, ends = model["decoder"], model["eos_token_id"]
            encoder = _encoder(folder, model) if "encoder" in model else None
            vision = _vision(folder, model) if "vision" in model else None
            states = texts(decoder[STATES]) if STATES in decoder else ()
            wanted, optional = (
                (VISION_INPUTS, {POSITIONS, TOKEN_TYPES})
                if vision is not None
                else (CROSS_INPUTS, {MASK})
                if encoder is not None
                else (STATE_INPUTS, {MASK_OF_TEXT})
                if states
                else (INPUTS, set[str]())
            )
            inputs = {part: text(decoder["inputs"][part]) for part in wanted}
            inputs |= {part: text(decoder["inputs"][part]) for part in optional & decoder["inputs"].keys()}
            outputs = {part: text(decoder["outputs"][part]) for part in (STATE_OUTPUTS if states else OUTPUTS)}
            return cls(
                model=folder / Path(text(decoder["filename"])).name,
                layers=count(decoder["num_hidden_layers"]),
                context_length=count(model["context_length"]),
                stop=frozenset(counts(ends)),
                pad=count(model["pad_token_id"]),
                vocabulary=count(model["vocab_size"]),
                inputs=inputs,
                outputs=outputs,
                states=states,
                prompt=folder / Path(text(model["prompt"]["filename"])).name if states else None,
                in_place=whole["search"]["past_present_share_buffer"] is True,
                encoder=encoder,
                vision=vision,
            )
        except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
            raise PackageError(
                f"'{path}' does not describe a decoder of ids, mask and cache: {type(error).__name__}: {error}; make "
                "the package with fxport package."
            ) from error


def _encoder(folder: Path, model: Mapping[str, Any]) -> EncoderConfig:
    found = model["encoder"]
    inputs = named_texts(found["inputs"])
    if {*inputs} not in ENCODER_INPUTS:
        raise ValueError(f"inputs {sorted(inputs)} of the encoder are none of those that are known")
    return EncoderConfig(
        model=folder / Path(text(found["filename"])).name,
        context_length=None if AUDIO in inputs else count(found["context_length"]),
        inputs=inputs,
        outputs={part: text(found["outputs"][part]) for part in CROSS_OUTPUTS},
    )


def _vision(folder: Path, model: Mapping[str, Any]) -> VisionConfig:
    vision, embedding = model["vision"], model["embedding"]
    inputs = named_texts(vision["inputs"])
    if {*inputs} not in IMAGE_INPUTS:
        raise ValueError(f"inputs {sorted(inputs)} of the encoder of images are none of those that are known")
    kinds = counts(model.get(KINDS, []))
    if len(kinds) != (len(PARTS_OF_TEXT) if TOKEN_TYPES in model["decoder"]["inputs"] else 0):
        raise ValueError(f"'{KINDS}' has {len(kinds)} numbers")
    return VisionConfig(
        encoder=folder / Path(text(vision["filename"])).name,
        embedding=folder / Path(text(embedding["filename"])).name,
        token=count(model["image_token_id"]),
        merge=max(1, count(vision["spatial_merge_size"])) if GRID in inputs else 1,
        inputs=inputs,
        outputs={FEATURES: text(vision["outputs"][FEATURES])},
        taken={part: text(embedding["inputs"][part]) for part in (IDS, FEATURES)},
        given={EMBEDS: text(embedding["outputs"][EMBEDS])},
        kinds=kinds,
    )


PARTS_OF_TEXT = ("words", "images", "generated")
IDS, MASK_OF_TEXT = "input_ids", "attention_mask"
INPUTS = (IDS, MASK_OF_TEXT, "past_key_names", "past_value_names")
VISION_INPUTS = (EMBEDS, *INPUTS[1:])
IMAGE_INPUTS = ({PIXELS}, {PIXELS, GRID})
CROSS_INPUTS = ("input_ids", "past_key_names", "past_value_names", "cross_past_key_names", "cross_past_value_names")
CROSS_OUTPUTS = ("cross_present_key_names", "cross_present_value_names")
AUDIO, MASK = "audio_features", "encoder_attention_mask"
ENCODER_INPUTS = ({"input_ids", "attention_mask"}, {AUDIO})
OUTPUTS = ("logits", "present_key_names", "present_value_names")
STATES, STATE_INPUTS, STATE_OUTPUTS = "cache", (IDS, "past_names"), ("logits", "present_names")
"""The list of the tensors of a cache with states, and the parts of a decoder that takes one."""
