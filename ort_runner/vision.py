"""The parts of a package that read images, in ONNX Runtime: from images and tokens to what the decoder takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fxport.ort_runner.failures import RUN, failure_of
from fxport.ort_runner.package_config import (
    EMBEDS,
    FEATURES,
    GRID,
    IDS,
    MASK_OF_TEXT,
    POSITIONS,
    TOKEN_TYPES,
    PackageError,
    VisionConfig,
)
from fxport.ort_runner.session import from_ort, ports_of, session_on, to_ort

if TYPE_CHECKING:
    import onnxruntime

Image = Mapping[str, np.ndarray]
"""Inputs of the encoder for one image, by their names in the configuration."""

AXES = 3
"""Of a position where images have grids: frame, row and column."""


class Vision:
    """The encoder of images and the embedding of a package that are open, and what of the images is not yet in a text.

    Raises PackageError where a model has other inputs or outputs than its configuration says, and Failure.
    """

    def __init__(self, config: VisionConfig, provider: str, threads: int) -> None:
        self._config = config
        self._encoder, used = session_on(provider, config.encoder, threads=threads)
        self._embedding, _ = session_on(provider, config.embedding, threads=threads)
        self._provider = used.name
        sessions = ((self._encoder, config.encoder, config.inputs), (self._embedding, config.embedding, config.taken))
        for session, path, names in sessions:
            if other := {port.name for port in ports_of(session.get_inputs())} ^ {*names.values()}:
                raise PackageError(f"'{path}' and its configuration differ in {sorted(other)}; package it again.")
        shapes = {port.name: port.shape for port in ports_of(self._embedding.get_inputs())}
        size = (shapes[config.taken[FEATURES]] or (None,))[-1]
        if not isinstance(size, int):
            raise PackageError(f"'{config.embedding}' does not say how large a feature is; package it again.")
        self._none = np.zeros((0, size), np.float32)
        self.reset()

    def reset(self) -> None:
        """Forget all images and positions."""
        self._waiting, self._grids = self._none, list[tuple[int, ...]]()
        self._next: np.ndarray | None = None
        self._kinds: np.ndarray | None = None

    def features(self, images: Sequence[Image]) -> list[np.ndarray]:
        """Return the features [image tokens, hidden] of each image. Raises PackageError or Failure."""
        found = []
        for image in images:
            if image.keys() != self._config.inputs.keys():
                raise PackageError(f"an image is {', '.join(self._config.inputs)}, not {', '.join(image)}.")
            feeds = {self._config.inputs[name]: to_ort(np.ascontiguousarray(each)) for name, each in image.items()}
            found.append(self._run(self._encoder, self._config.outputs[FEATURES], feeds))
        return [from_ort(FEATURES, each) for each in found]

    def look(self, images: Sequence[Image]) -> list[int]:
        """Read images that the next tokens are about, in the order of these; return how many tokens each takes."""
        features = self.features(images)
        self._waiting = np.concatenate([self._waiting, *features])
        merge = self._config.merge
        if GRID in self._config.inputs:
            self._grids += [(int(t), int(h) // merge, int(w) // merge) for each in images for t, h, w in each[GRID]]
        return [len(each) for each in features]

    def inputs(self, ids: np.ndarray, mask: np.ndarray, names: Mapping[str, str]) -> dict[str, onnxruntime.OrtValue]:
        """Inputs of the decoder for further tokens [batch, sequence], by the names that it has for them.

        Raises PackageError where images wait and the tokens do not have a place for each part of them.
        """
        marked = int((ids == self._config.token).sum())
        if len(self._waiting) and marked != len(self._waiting):
            raise PackageError(
                f"the images have {len(self._waiting)} parts, and the texts {marked} tokens {self._config.token}, "
                "which stand for one each."
            )
        taken = self._config.taken
        feeds = {taken[IDS]: to_ort(ids), taken[FEATURES]: to_ort(self._waiting)}
        found = {
            names[EMBEDS]: self._run(self._embedding, self._config.given[EMBEDS], feeds),
            names[MASK_OF_TEXT]: to_ort(mask),
        }
        if POSITIONS in names:
            found[names[POSITIONS]] = to_ort(self._positions(ids, mask[:, -ids.shape[1] :]))
        if TOKEN_TYPES in names:
            found[names[TOKEN_TYPES]] = to_ort(self._kinds_of(ids))
        self._waiting = self._none
        return found

    def _kinds_of(self, ids: np.ndarray) -> np.ndarray:
        """The kinds [batch, past + sequence] of all tokens; those that are taken first are the prompt."""
        words, images, generated = self._config.kinds
        if self._kinds is None:
            marked = (ids == self._config.token) & bool(len(self._waiting))
            self._kinds = np.where(marked, images, words).astype(np.int64)
        else:
            self._kinds = np.concatenate([self._kinds, np.full_like(ids, generated)], 1)
        return self._kinds

    def _positions(self, ids: np.ndarray, new: np.ndarray) -> np.ndarray:
        """The positions [3, batch, sequence] of further tokens, as transformers counts them for the Qwen-VL family.

        A text goes on by one for each token; an image has those of its grid, and the text after it begins after the
        longer side. https://arxiv.org/abs/2409.12191, section 2.1
        """
        found = np.zeros((AXES, *ids.shape), np.int64)
        begin = np.zeros(len(ids), np.int64) if self._next is None else self._next
        for row, (tokens, there) in enumerate(zip(ids, new > 0, strict=True)):
            found[:, row, there], begin[row] = self._of_text(tokens[there], int(begin[row]))
        self._next = begin
        return found

    def _of_text(self, tokens: np.ndarray, begin: int) -> tuple[np.ndarray, int]:
        """The positions [3, tokens] of one text, and that after it."""
        marked = (tokens == self._config.token) & bool(len(self._waiting))
        starts = np.flatnonzero(np.diff(marked, prepend=~marked[:1]))
        found = []
        for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
            if not marked[start]:
                found.append(np.tile(np.arange(end - start), (AXES, 1)) + begin)
                begin += int(end - start)
                continue
            grid = self._grids.pop(0) if self._grids else ()
            if int(np.prod(grid)) != end - start:
                raise PackageError(f"{end - start} tokens of images stand side by side, and the next one has {grid}.")
            found.append(np.indices(grid).reshape(AXES, -1) + begin)
            begin += max(grid[1:])
        return np.concatenate(found, 1) if found else np.zeros((AXES, 0), np.int64), begin

    def _run(
        self, session: onnxruntime.InferenceSession, output: str, feeds: dict[str, onnxruntime.OrtValue]
    ) -> onnxruntime.OrtValue:
        try:
            return session.run_with_ort_values([output], feeds)[0]
        except Exception as error:
            raise failure_of(error, RUN, self._provider) from error


def expanded(prompt: Sequence[int], token: int, sizes: Sequence[int]) -> list[int]:
    """Tokens of a text with as many in the place of each image as it takes.

    A text that has all of them already stays as it is. Raises PackageError where it has another number of places.
    """
    places = sum(each == token for each in prompt)
    if places == sum(sizes):
        return list(prompt)
    if places != len(sizes):
        raise PackageError(f"the text has {places} tokens {token}, which stand for images, and there are {len(sizes)}.")
    left = iter(sizes)
    return [each for known in prompt for each in ([token] * next(left) if known == token else [known])]
