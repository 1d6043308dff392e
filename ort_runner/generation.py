"""Text generation with a package in ONNX Runtime, without torch: greedy, in batches, with a cache that stays there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fxport.ort_runner.adapter_file import read_adapter
from fxport.ort_runner.cache_tensors import cache_tensors_of, without_tokens
from fxport.ort_runner.encoder import Encoder
from fxport.ort_runner.failures import RUN, Failure, failure_of
from fxport.ort_runner.filling import Filled
from fxport.ort_runner.package_config import (
    AUDIO,
    FILLED,
    IDS,
    MASK_OF_TEXT,
    ON_RIGHT,
    READ_ANEW,
    PackageConfig,
    PackageError,
)
from fxport.ort_runner.session import from_ort, session_on, to_ort
from fxport.ort_runner.token_rules import FILE, Seen, TokenRules
from fxport.ort_runner.vision import Image, Vision, expanded

if TYPE_CHECKING:
    import onnxruntime

ROOM = 256
"""Tokens for which a cache that is written in place has room at first."""


class Generator:
    """A package that is open: it takes tokens and gives logits, and remembers what it has taken.

    Args:
        folder: What `fxport package` has written.
        provider: A provider of ONNX Runtime; "auto" is CUDA where it works, else the CPU.
        threads: Threads of ONNX Runtime; 0 leaves their number to it.
        adapter: A file of an adapter, such as `adapter.onnx_adapter` of the folder; without it the model is alone.

    Raises:
        PackageError: The folder is no package, or its model has other inputs than its configuration says.
        Failure: ONNX Runtime cannot open the model.
        ValueError: The provider is unknown or does not work here.
    """

    def __init__(
        self, folder: str | Path, provider: str = "auto", threads: int = 0, adapter: str | Path | None = None
    ) -> None:
        self.folder = Path(folder)
        self.config = PackageConfig.read(self.folder)
        self._session, used = session_on(provider, self.config.model, threads=threads)
        self.provider = used.name
        told = self._session.get_modelmeta().custom_metadata_map
        self._on_right = told.get(FILLED) == ON_RIGHT
        self._anew = _read_anew(told.get(READ_ANEW), self.folder)
        self._adapter = {} if adapter is None else read_adapter(Path(adapter), self._session)
        self.rules = TokenRules.read(self.folder)
        self._layers = cache_tensors_of(self.config, self._session)
        self._prompt = session_on(provider, self.config.prompt, threads=threads)[0] if self.config.prompt else None
        self._encoder = (
            Encoder(self.config.encoder, self.config.layers, provider, threads) if self.config.encoder else None
        )
        self._vision = Vision(self.config.vision, provider, threads) if self.config.vision else None
        self._encoded: dict[str, onnxruntime.OrtValue] = {}
        self._outputs = [self.config.outputs["logits"], *(layer.present for layer in self._layers)]
        self._cache: list[onnxruntime.OrtValue] = []
        self._room = 0
        self._mask = np.zeros((0, 0), np.int64)
        self._ids = np.zeros((0, 0), np.int64)

    def reset(self) -> None:
        """Forget all tokens."""
        self._cache, self._mask = [], np.zeros((0, 0), np.int64)
        self._ids = np.zeros((0, 0), np.int64)
        if self._vision is not None:
            self._vision.reset()

    def encode(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Read texts or sounds by the encoder, and forget all tokens: the steps that follow are about these.

        Args:
            inputs: `input_ids` and `attention_mask` [batch, source], or `audio_features` [batch, bands, frames].

        Raises:
            PackageError: The package has no encoder, or one that takes other inputs, or a text is too long, or a token
                is not in the vocabulary.
            Failure: A kernel fails.
        """
        if self._encoder is None:
            raise PackageError(f"'{self.folder}' has no encoder; feed it the texts.")
        if IDS in inputs:
            require_known(np.asarray(inputs[IDS]), self.config.vocabulary)
        self.reset()
        self._encoded = self._encoder.run(inputs, self.config.inputs)

    def look(self, images: Sequence[Image]) -> list[int]:
        """Read images, of which the next tokens to be fed have the parts in their order.

        Args:
            images: Inputs of the encoder for each: `pixel_values`, and `image_grid_thw` where images have grids.

        Returns:
            How many tokens each image takes.

        Raises:
            PackageError: The package reads no images, or takes other inputs.
            Failure: A kernel fails.
        """
        if self._vision is None:
            raise PackageError(f"'{self.folder}' reads no images; give a text alone.")
        return self._vision.look(images)

    def begin(self, start: Sequence[int] = ()) -> Sequence[int]:
        """The tokens with which the decoder of an encoder-decoder begins, those of the package by default."""
        if not (found := start or self.rules.start):
            raise PackageError(
                f"'{self.folder / FILE}' names no token with which texts begin; package the model again."
            )
        return found

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Take further tokens of each text.

        Args:
            ids: Tokens [batch, sequence].
            mask: 0 where a token only fills up, which may be at the beginning of a text; [batch, sequence].

        Returns:
            The logits [batch, sequence, vocabulary].

        Raises:
            PackageError: There would be more tokens than the context holds, or the batch has another size than before,
                or a token is not in the vocabulary.
            Failure: A kernel fails.
        """
        ids = np.asarray(ids, np.int64)
        self._require_known(ids)
        if self._anew is not None and 0 < self._mask.shape[1] <= self._anew < self._mask.shape[1] + ids.shape[1]:
            return self._fed_anew(ids, mask)
        if self._mask.shape[1] and self._takes_singly(*ids.shape):
            return self._fed_singly(ids, mask)
        if not self._mask.shape[1]:
            self._mask = self._ids = np.zeros((ids.shape[0], 0), np.int64)
            begun = self._prompt is None
            self._cache = [without_tokens(layer, ids.shape[0]) for layer in self._layers] if begun else []
            self._room = 0
        if ids.shape[0] != self._mask.shape[0]:
            raise PackageError(f"the batch is {ids.shape[0]} and was {self._mask.shape[0]}; reset the generator first.")
        require_room(self.config, self._mask.shape[1] + ids.shape[1])
        if self.config.in_place:
            self.reserve(self._mask.shape[1] + ids.shape[1])
        new = np.ones_like(ids) if mask is None else np.asarray(mask, np.int64)
        whole = np.concatenate([self._mask, new], axis=1)
        moved = Filled.of(ids, whole) if self._on_right else None
        feeds = self._feeds(ids, whole) if moved is None else self._feeds(moved.ids, moved.mask)
        feeds |= self._adapter
        if self._cache:
            feeds |= {layer.past: value for layer, value in zip(self._layers, self._cache, strict=True)}
        try:
            logits = self._run(feeds)
        except Exception as error:
            raise failure_of(error, RUN, self.provider) from error
        self._mask, self._ids = whole, np.concatenate([self._ids, ids], axis=1)
        found = from_ort(self._outputs[0], logits)
        return found if moved is None else moved.back(found)

    def _require_known(self, ids: np.ndarray) -> None:
        """Raise PackageError for tokens that kernels would take for others: a negative one counts from the end.

        The decoder of an encoder-decoder may have a larger vocabulary than the encoder, of which the file tells.
        """
        if self.config.vision is not None:
            ids = ids[ids != self.config.vision.token]  # which stands for an image, and may lie above the others
        require_known(ids, self.config.vocabulary if self.config.encoder is None else None)

    def _feeds(self, ids: np.ndarray, mask: np.ndarray) -> dict[str, onnxruntime.OrtValue]:
        """Inputs of a step without the cache: new tokens, and the mask of all."""
        names = self.config.inputs
        if self._vision is not None:
            return self._vision.inputs(ids, mask, names)
        if self._encoder is not None:
            return {names[IDS]: to_ort(ids), **self._encoded}
        feeds = {names[IDS]: to_ort(ids)}
        if not self._cache or MASK_OF_TEXT in names:
            feeds[names.get(MASK_OF_TEXT, MASK_OF_TEXT)] = to_ort(mask)
        return feeds

    def _run(self, feeds: dict[str, onnxruntime.OrtValue]) -> onnxruntime.OrtValue:
        """Run one step; the cache is that after it."""
        if not self.config.in_place:
            session = self._session if self._prompt is None or self._cache else self._prompt
            logits, *self._cache = session.run_with_ort_values(self._outputs, feeds)
            return logits
        binding = self._session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output(self._outputs[0])
        for layer, value in zip(self._layers, self._cache, strict=True):
            binding.bind_ortvalue_output(layer.present, value)
        self._session.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    def _takes_singly(self, batch: int, sequence: int) -> bool:
        """Return True for tokens after others that are taken one by one: the kernel that writes in place asks for it of
        several texts, and a graph of a single step of all.
        """
        return sequence > 1 and (self._prompt is not None or (self.config.in_place and batch > 1))

    def _fed_singly(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Take several tokens of texts after others one by one."""
        columns = [slice(index, index + 1) for index in range(ids.shape[1])]
        return np.concatenate([self.feed(ids[:, at], None if mask is None else mask[:, at]) for at in columns], axis=1)

    def _fed_anew(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Take further tokens of each text together with all before them, without the cache of these."""
        new = np.ones_like(ids) if mask is None else np.asarray(mask, np.int64)
        before, seen = self._ids, self._mask
        if len(ids) != len(before):
            raise PackageError(f"the batch is {len(ids)} and was {len(before)}; reset the generator first.")
        whole = np.concatenate([before, ids], 1), np.concatenate([seen, new], 1)
        require_room(self.config, whole[0].shape[1])
        cache, room = self._cache, self._room
        self.reset()
        try:
            return self.feed(*whole)[:, -ids.shape[1] :]
        except BaseException:  # Ctrl-C, too: what was fed before stays fed
            self._ids, self._mask, self._cache, self._room = before, seen, cache, room
            raise

    def reserve(self, tokens: int) -> None:
        """Make room in a cache that is written in place, of twice as many tokens as before if that is not enough."""
        if tokens <= self._room:
            return
        seen, room = self._mask.shape[1], min(max(tokens, 2 * self._room, ROOM), self.config.context_length)
        for index, (layer, value) in enumerate(zip(self._layers, self._cache, strict=True)):
            larger = layer.zeros(self._mask.shape[0], room)
            larger[:, :, :seen] = from_ort(layer.past, value)[:, :, :seen]
            self._cache[index] = to_ort(larger)
        self._room = room

    def greedy(
        self,
        prompts: Sequence[Sequence[int]] | np.ndarray,
        max_new_tokens: int,
        stop: frozenset[int] | None = None,
        start: Sequence[int] = (),
        images: Sequence[Sequence[Image]] | None = None,
    ) -> Iterator[np.ndarray]:
        """Generate the likeliest token after each other, by the rules of the folder's `generation_config.json`.

        Args:
            prompts: Tokens of each text; shorter ones are filled up, for a decoder on the left. Of an encoder that
                takes sounds, its features [batch, bands, frames].
            max_new_tokens: Steps at most.
            stop: Tokens of which each ends a text; those of the package by default.
            start: Tokens with which the decoder of an encoder-decoder begins; those of the package by default.
            images: Those of each prompt, as `look` takes them. A prompt has one token in the place of each, or as many
                as it takes.

        Yields:
            The next token of each text [batch]; that of a text that has ended is the package's `pad`.

        Raises:
            PackageError: A prompt is empty, or too long for the context, or has another number of images.
        """
        stop = self.config.stop if stop is None else stop
        if self.config.encoder is not None:
            ids, mask = np.tile(np.array(self.begin(start), np.int64), (len(prompts), 1)), None
            given = source_of(prompts, self.config)
            self.encode(given)
            source = given.get(IDS)
        else:
            self.reset()
            ids, mask = padded(self._with_images(prompts, images), self.config.pad)
            source = ids
        require_room(self.config, ids.shape[1] + max(max_new_tokens - 1, 0))
        filled = np.zeros(len(ids), np.int64) if mask is None else mask.argmax(1)
        seen = Seen(ids, filled, ids.shape[1], ids.shape[1] + max_new_tokens, stop, source)
        ended = np.zeros(len(ids), bool)
        for _ in range(max_new_tokens):
            chosen = self.rules.apply(self.feed(ids, mask)[:, -1], seen).argmax(-1)
            chosen = np.where(ended, self.config.pad, chosen)
            yield chosen
            ended |= np.isin(chosen, list(stop))
            if ended.all():
                return
            ids, mask = chosen[:, None], None
            seen = replace(seen, ids=np.concatenate([seen.ids, ids], 1))

    def _with_images(
        self, prompts: Sequence[Sequence[int]] | np.ndarray, images: Sequence[Sequence[Image]] | None
    ) -> Sequence[Sequence[int]]:
        """Read the images of prompts; return these with as many tokens for each as it takes."""
        if self.config.vision is None and not images:
            return prompts  # type: ignore[return-value]  # an array is one of tokens here
        rows = images if images is not None else [[] for _ in prompts]
        if len(rows) != len(prompts):
            raise PackageError(f"there are {len(prompts)} prompts, and images of {len(rows)}; give those of each.")
        sizes = [self.look(row) for row in rows]
        assert self.config.vision is not None
        token = self.config.vision.token
        return [expanded(prompt, token, each) for prompt, each in zip(prompts, sizes, strict=True)]


def source_of(prompts: Sequence[Sequence[int]] | np.ndarray, config: PackageConfig) -> dict[str, np.ndarray]:
    """The inputs of an encoder: texts filled up on the right, or features of sounds as they are."""
    if isinstance(prompts, np.ndarray):
        return {AUDIO: prompts}
    ids, mask = padded(prompts, config.pad, on_left=False)
    return {"input_ids": ids, "attention_mask": mask}


def padded(
    prompts: Sequence[Sequence[int]] | np.ndarray, pad: int, *, on_left: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Prompts of several lengths as tokens and mask [batch, longest], filled up on one side."""
    if not len(prompts) or not all(len(prompt) for prompt in prompts):
        raise PackageError("a prompt has no tokens; give at least one, such as that for the beginning of a text.")
    longest = max(map(len, prompts))
    ids = np.full((len(prompts), longest), pad, np.int64)
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        there = slice(longest - len(prompt), None) if on_left else slice(len(prompt))
        ids[row, there], mask[row, there] = prompt, 1
    return ids, mask


def _read_anew(told: str | None, folder: Path) -> int | None:
    """The tokens after which a text is read anew, as the metadata of a model say."""
    if told is None:
        return None
    if not told.isdecimal():
        raise PackageError(
            f"'{folder}': its model says '{told[:40]}' in the place of a number of tokens; package it again."
        )
    return int(told)


def require_known(ids: np.ndarray, vocabulary: int | None) -> None:
    """Raise PackageError for a token that is negative, or not below the size of the vocabulary where that is known."""
    others = ids[(ids < 0) | (ids >= (np.iinfo(np.int64).max if vocabulary is None else vocabulary))]
    if others.size:
        held = "" if vocabulary is None else f", whose tokens are 0 to {vocabulary - 1}"
        raise PackageError(
            f"{others[0]} is no token of this model{held}; is the tokenizer that of another model, or has it tokens "
            "that were added later?"
        )


def require_room(config: PackageConfig, tokens: int) -> None:
    """Raise PackageError for more tokens than the context holds."""
    if tokens > config.context_length:
        raise PackageError(
            f"{tokens} tokens are more than the context of this model, which holds {config.context_length}; "
            "shorten the prompt, or generate fewer."
        )


__all__ = ["Failure", "Generator", "PackageError"]
