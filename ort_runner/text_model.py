"""Embedding and reranking with a package in ONNX Runtime, without torch: texts to vectors, pairs of texts to scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fxport.ort_runner.package_config import PIXELS, PackageError
from fxport.ort_runner.session import ports_of, run_session, session_on
from fxport.ort_runner.text_config import EMBEDDING, FILE, IMAGE_EMBEDDING, SCORES, TextConfig
from fxport.ort_runner.tokenizer import Tokenizer
from fxport.ort_runner.vision import Image

BATCH = 32
"""Texts that are run at once."""

MOST_TOKENS = 1 << 20
"""Tokens beyond which no text is cut."""

INSTEAD: Mapping[str, str] = {
    SCORES: "it scores texts as answers to a question: `fxport embed` with --query, in Python `score`",
    EMBEDDING: "it gives vectors: `fxport embed` without --query, in Python `embed`",
}
"""Advice for a package that was asked for something else, by its output."""

Text = str | tuple[str, str]
"""A text, or a pair of a question and a text."""


class TextTokenizer:
    """The tokenizer of a package with its settings for whole texts. Raises PackageError where it is missing."""

    def __init__(self, folder: str | Path, config: TextConfig) -> None:
        self._tokenizer, self._config = Tokenizer(folder), config
        backend = self._tokenizer.backend
        if config.lower_case:
            from tokenizers import normalizers

            before = [backend.normalizer] if backend.normalizer is not None else []
            backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
        if config.max_length < MOST_TOKENS:
            backend.enable_truncation(config.max_length, direction=config.truncation_side)

    def encode(self, texts: Sequence[Text]) -> dict[str, np.ndarray]:
        """The inputs of the model, int64 [texts, longest]: each text is cut to the most tokens, and filled up."""
        found = self._tokenizer.encode_batch(texts)
        longest = max(len(each.ids) for each in found)
        if not all(each.ids for each in found):
            raise PackageError("a text has no tokens; leave it out.")
        fill = {"input_ids": self._config.pad_token_id, "token_type_ids": self._config.pad_token_type_id}
        rows = {
            "input_ids": [each.ids for each in found],
            "attention_mask": [each.attention_mask for each in found],
            "token_type_ids": [each.type_ids for each in found],
        }
        return {name: self._filled(rows[name], longest, fill.get(name, 0)) for name in self._config.inputs}

    def _filled(self, rows: Sequence[Sequence[int]], longest: int, fill: int) -> np.ndarray:
        whole = np.full((len(rows), longest), fill, np.int64)
        for into, row in zip(whole, rows, strict=True):
            into[slice(longest - len(row), None) if self._config.padding_side == "left" else slice(len(row))] = row
        return whole


class TextModel:
    """A package of an embedding or reranking model that is open.

    Args:
        folder: What `fxport package` has written.
        provider: A provider of ONNX Runtime; "auto" is CUDA where it works, else the CPU.
        threads: Threads of ONNX Runtime; 0 leaves their number to it.

    Raises:
        PackageError: The folder is no such package, or its model has other inputs than its configuration says.
        Failure: ONNX Runtime cannot open the model.
        ValueError: The provider is unknown or does not work here.
    """

    def __init__(self, folder: str | Path, provider: str = "auto", threads: int = 0) -> None:
        self.folder = Path(folder)
        self.config = TextConfig.read(self.folder)
        self._session, used = session_on(provider, self.folder / self.config.model, threads=threads)
        self.provider = used.name
        images = self.config.images
        self._images = session_on(provider, self.folder / images, threads=threads)[0] if images is not None else None
        self._tokenizer: TextTokenizer | None = None
        inputs = {port.name for port in ports_of(self._session.get_inputs())}
        outputs = {port.name for port in ports_of(self._session.get_outputs())}
        if inputs != {*self.config.inputs} or self.config.output not in outputs:
            raise PackageError(f"'{self.folder / self.config.model}' and {FILE} differ; package the model again.")

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All outputs for inputs [texts, sequence] of int64. Raises Failure if a kernel fails."""
        return run_session(self._session, inputs, self.provider)

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        """Return the vectors of texts, float32 [texts, size].

        Args:
            texts: The texts, at least one; longer ones than the model takes are cut, as its folder says.
            prompt: The name of a beginning to put before each; the folder's default if None.

        Raises:
            PackageError: The package gives no vectors, has no such prompt or no tokenizer, or a text has no tokens.
            Failure: A kernel fails.
        """
        self._require(EMBEDDING, "vectors")
        before = self._prompt(prompt)
        return self._results([before + text for text in texts])

    def embed_images(self, images: Sequence[Image]) -> np.ndarray:
        """Return the vectors of images, float32 [images, size], in the space of those of texts.

        Args:
            images: `pixel_values` of each, float32 [1, channels, height, width], as `pictures.inputs_of` gives them.

        Raises:
            PackageError: The package reads no images, or images of other sizes.
            Failure: A kernel fails.
        """
        if self._images is None:
            raise PackageError(f"'{self.folder}' reads no images; give texts.")
        shapes = {each[PIXELS].shape[1:] for each in images}
        want = tuple(ports_of(self._images.get_inputs())[0].shape or ())[1:]
        if shapes != {want}:
            raise PackageError(f"images have the shapes {sorted(shapes)}, and '{self.folder}' takes {want}.")
        pixels = np.concatenate([each[PIXELS] for each in images])
        return run_session(self._images, {PIXELS: pixels}, self.provider)[IMAGE_EMBEDDING]

    def score(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """Score texts as answers to a query: float32 [texts, labels]. Raises what `embed` raises."""
        self._require(SCORES, "scores")
        return self._results([(query, text) for text in texts])

    def _require(self, output: str, said: str) -> None:
        if self.config.output != output:
            advice = INSTEAD.get(self.config.output, "give another package")
            raise PackageError(f"'{self.folder}' gives '{self.config.output}' and no {said}; {advice}.")

    def _prompt(self, name: str | None) -> str:
        name = self.config.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.config.prompts:
            known = ", ".join(self.config.prompts) or "none"
            raise PackageError(f"'{self.folder}' has no prompt '{name}'; it has {known}.")
        return self.config.prompts[name]

    def _results(self, texts: Sequence[Text]) -> np.ndarray:
        if not texts:
            raise PackageError("there is no text; give at least one.")
        if self._tokenizer is None:
            self._tokenizer = TextTokenizer(self.folder, self.config)
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        return np.concatenate([self.run(self._tokenizer.encode(each))[self.config.output] for each in batches])
