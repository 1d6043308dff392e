"""Encoder-decoders as two graphs: the encoder with the keys and values that each step reads, and prompt and steps."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ShapesCollection

from fxport.diagnostics.messages import error_line
from fxport.exporter.capture.arguments.caches import MODULE, register_caches
from fxport.exporter.language_models.decode import BATCH, PAST, SEQUENCE, SOURCE, Example
from fxport.exporter.language_models.generation import (
    CACHE,
    IDS,
    LOGITS,
    MASK,
    PRESENT,
    UNFIT,
    NotGenerativeError,
    require_full,
    token_ids,
    with_forward,
)
from fxport.exporter.language_models.package_files import config_of, context_of
from fxport.exporter.language_models.spoken import spoken_start
from fxport.ort_runner.package_config import AUDIO, PackageError
from fxport.ort_runner.package_config import MASK as ENCODER_MASK

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
CROSS = "cross"
"""Keys and values of the encoder's result: outputs of the encoder, and inputs of each step, by the same names."""

HIDDEN = "encoder_hidden_states"
"""The encoder's result, which onnxruntime-genai asks for of sounds."""

TEXT, SOUND = IDS, "input_features"
"""Inputs of encoders, as transformers calls them."""

OF_ONE_LENGTH = ("whisper",)
"""Types of models whose sounds all have one length, so that they take no mask."""

SOURCE_CONTEXTS = ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions")
GENAI_TYPES = {"whisper": "whisper"}
"""Types of models for which onnxruntime-genai has a place, and its name for them."""

OWN_TYPE = "encoder-decoder"
SIZES = ("hidden_size", "head_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads")


def seq2seq_parts(model: torch.nn.Module) -> dict[str, Example]:
    """The calls of an encoder-decoder by the files that they become.

    The encoder takes `input_ids` and `attention_mask` int64 [batch, source], or `audio_features` float32
    [batch, bands, frames], and gives `cross.N.key` and `.value` [batch, heads, source, size]. Prompt and steps take
    these, `encoder_attention_mask`, `input_ids` int64 [batch, sequence] and `past_key_values.N.key` and `.value`
    [batch, heads, past, size]; they give `logits` [batch, sequence, vocabulary] and `present.N.key` and `.value`.

    Args:
        model: An encoder-decoder of transformers, whose caches hold keys and values only.

    Raises:
        NotGenerativeError: The model has other caches, or an encoder of other inputs.
    """
    register_caches()
    require_source(model)
    return {ENCODER: _encoder(model), DECODER: _decoder(model)}


def require_source(model: Any) -> None:
    """Raise NotGenerativeError for a model whose encoder takes neither tokens nor sounds of one length."""
    name = model.main_input_name
    if name != TEXT and not (name == SOUND and model.config.model_type in OF_ONE_LENGTH):
        raise NotGenerativeError(
            f"'{type(model).__name__}' takes '{name}', of which no package is made; use encode, prefill and "
            "decode_step."
        )


def has_place(model: Any) -> bool:
    """Return True for an encoder-decoder that onnxruntime-genai runs."""
    return model.config.model_type in GENAI_TYPES


def source_example(model: Any, batch: int, source: int) -> dict[str, torch.Tensor]:
    """Inputs of the encoder: a text of `source` tokens, or a sound."""
    if model.main_input_name == TEXT:
        return {IDS: token_ids(model, batch, source), MASK: torch.ones(batch, source, dtype=torch.int64)}
    config = model.config
    generator = torch.Generator().manual_seed(0)
    return {SOUND: torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions, generator=generator)}


def start_of(model: Any) -> list[int]:
    """The tokens with which the decoder begins. Raises PackageError where there are none."""
    settings = getattr(model, "generation_config", None) or model.config
    found = [getattr(settings, name, None) for name in ("decoder_start_token_id", "bos_token_id")]
    token = next((each for each in found if each is not None), None)
    if not isinstance(token, int):
        raise PackageError(
            f"'decoder_start_token_id' is {token!r}, no token with which all texts begin; set one in "
            "generation_config.json."
        )
    return spoken_start(settings, token) if model.config.model_type in OF_ONE_LENGTH else [token]


def empty_pair() -> Any:
    """A cache without tokens of an encoder-decoder."""
    caches = importlib.import_module(MODULE)
    return caches.EncoderDecoderCache(caches.DynamicCache(), caches.DynamicCache())


def _encoded(model: Any, given: Mapping[str, torch.Tensor]) -> Any:
    """The result of the encoder, called as `generate` calls it: without what is for the decoder alone."""
    encoder = model.get_encoder()
    parameters = inspect.signature(type(encoder).forward).parameters
    return encoder(**{name: each for name, each in given.items() if name in parameters}, return_dict=True)


def _mask_of(given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The mask among the inputs of an encoder, which the decoder takes too."""
    return {name: mask for name, mask in given.items() if name == MASK}


def _encoder(model: Any) -> Example:
    cls, start = type(model), start_of(model)[0]

    def read(self: Any, given: Mapping[str, torch.Tensor]) -> Any:
        batch = next(iter(given.values())).shape[0]
        first = torch.full((batch, 1), start, dtype=torch.int64)
        return cls.forward(
            self,
            **_mask_of(given),
            encoder_outputs=_encoded(self, given),
            decoder_input_ids=first,
            past_key_values=empty_pair(),
            use_cache=True,
        )

    def of_text(self: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, Any]:
        return {CROSS: read(self, {IDS: input_ids, MASK: attention_mask}).past_key_values.cross_attention_cache}

    def of_sound(self: Any, audio_features: torch.Tensor) -> dict[str, Any]:
        result = read(self, {SOUND: audio_features})
        return {HIDDEN: result.encoder_last_hidden_state, CROSS: result.past_key_values.cross_attention_cache}

    kwargs = source_example(model, 2, 5)
    shapes = ShapesCollection()
    if SOUND in kwargs:
        shapes[kwargs[SOUND]] = {0: BATCH}
        return Example(with_forward(model, of_sound), (), {AUDIO: kwargs[SOUND]}, shapes)
    for tensor in kwargs.values():
        shapes[tensor] = {0: BATCH, 1: SOURCE}
    return Example(with_forward(model, of_text), (), kwargs, shapes)


def _decoder(model: Any) -> Example:
    cls = type(model)

    def step(
        self: Any,
        input_ids: torch.Tensor,
        past_key_values: Any,
        cross: Any,
        encoder_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, Any]:
        kind = importlib.import_module(MODULE).EncoderDecoderCache
        source = cross.layers[0].keys.shape[2]
        hidden = torch.zeros(input_ids.shape[0], source, size)  # never read: its keys and values are there
        given = {} if encoder_attention_mask is None else {MASK: encoder_attention_mask}
        result = cls.forward(
            self,
            **given,
            encoder_outputs=output(last_hidden_state=hidden),  # of the encoder's own class, which may hold more
            decoder_input_ids=input_ids,
            past_key_values=kind(past_key_values, cross),
            use_cache=True,
        )
        return {LOGITS: result.logits, PRESENT: result.past_key_values.self_attention_cache}

    batch, source, past, sequence = 2, 5, 4, 3
    given = source_example(model, batch, source)
    pair = empty_pair()
    try:
        with torch.no_grad():
            encoded = _encoded(model, given)
            read = {**_mask_of(given), "encoder_outputs": encoded}
            model(**read, decoder_input_ids=token_ids(model, batch, past), past_key_values=pair, use_cache=True)
    except UNFIT as error:
        raise NotGenerativeError(
            f"'{type(model).__name__}' does not run on {past} tokens in eager PyTorch: {error_line(error)}; correct "
            "its configuration."
        ) from error
    size, output = encoded.last_hidden_state.shape[-1], type(encoded)
    require_full(model, pair.self_attention_cache, batch, past)
    require_full(model, pair.cross_attention_cache, batch, pair.cross_attention_cache.layers[0].keys.shape[2])
    kwargs: dict[str, Any] = {
        IDS: token_ids(model, batch, sequence),
        CACHE: pair.self_attention_cache,
        CROSS: pair.cross_attention_cache,
    }
    shapes = ShapesCollection()
    shapes[kwargs[IDS]] = {0: BATCH, 1: SEQUENCE}
    if MASK in given:
        kwargs[ENCODER_MASK] = given[MASK]
        shapes[given[MASK]] = {0: BATCH, 1: SOURCE}
    for name, axis in ((CACHE, PAST), (CROSS, SOURCE)):
        for layer in kwargs[name].layers:
            for tensor in (layer.keys, layer.values):
                shapes[tensor] = {0: BATCH} if name == CROSS and MASK not in given else {0: BATCH, 2: axis}
    return Example(with_forward(model, step), (), kwargs, shapes)


def seq2seq_config(model: Any, graphs: Mapping[str, ir.Graph]) -> dict[str, Any]:
    """The configuration of a package, in the terms of onnxruntime-genai."""
    described = config_of(model, graphs[DECODER], uniform=False)
    found = described["model"]
    decoder = found["decoder"]
    by_text = model.main_input_name == TEXT
    names = {kind: f"{CROSS}.%d.{kind}" for kind in ("key", "value")}
    decoder["filename"] = DECODER
    del decoder["inputs"][MASK]
    decoder["inputs"] |= {f"cross_past_{kind}_names": name for kind, name in names.items()}
    decoder["inputs"] |= {ENCODER_MASK: ENCODER_MASK} if by_text else {}
    found["encoder"] = {
        "filename": ENCODER,
        "inputs": {IDS: IDS, MASK: MASK} if by_text else {AUDIO: AUDIO},
        "outputs": {f"cross_present_{kind}_names": name for kind, name in names.items()},
    }
    found["type"] = GENAI_TYPES.get(model.config.model_type, OWN_TYPE)
    if by_text:
        found["encoder"]["context_length"] = context_of(getattr(model.config, "encoder", model.config), SOURCE_CONTEXTS)
    else:
        found["encoder"]["outputs"][HIDDEN] = HIDDEN
        found["encoder"] |= {name: decoder[name] for name in SIZES}
    return described


class EagerSeq2Seq:
    """The model in PyTorch, taking tokens as `Generator` does, after a source.

    Args:
        model: An encoder-decoder in eval mode.
        source: Inputs of its encoder.
    """

    def __init__(self, model: Any, source: Mapping[str, torch.Tensor]) -> None:
        self._model, self._cache = model, empty_pair()
        self._mask = _mask_of(source)
        with torch.no_grad():
            self._outputs = _encoded(model, source)

    def feed(self, ids: Any, mask: Any = None) -> Any:
        """The logits [batch, sequence, vocabulary] of further tokens [batch, sequence], none of which only fills up."""
        with torch.no_grad():
            result = self._model(
                **self._mask,
                encoder_outputs=self._outputs,
                decoder_input_ids=torch.from_numpy(ids),
                past_key_values=self._cache,
                use_cache=True,
            )
        return result.logits.float().numpy()
