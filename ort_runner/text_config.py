"""The file that says what a package of an embedding or reranking model takes and gives: `text_config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.ort_runner import json_values
from fxport.ort_runner.package_config import TEXTS_FILE as FILE
from fxport.ort_runner.package_config import PackageError, require_folder

SIDES = ("left", "right")
EMBEDDING, SCORES = "sentence_embedding", "scores"
"""Outputs of such models, by which they are told apart."""

IMAGES, IMAGE_EMBEDDING = "images.onnx", "image_embedding"
"""The ONNX file of a model whose images become vectors too, and its output."""


@dataclass(frozen=True, slots=True)
class TextConfig:
    """Description of a package: inputs and output of the model, and the treatment of texts.

    Attributes:
        model: The ONNX file, by its name.
        inputs: Inputs that it takes: `input_ids`, `attention_mask`, and `token_type_ids` of some models.
        output: `sentence_embedding`, or the `scores` of pairs of texts.
        max_length: Tokens of a text, or of a pair; longer ones are cut.
        truncation_side: The side on which they are cut.
        padding_side: The side on which shorter ones are filled up.
        pad_token_id: The token for that.
        pad_token_type_id: Its type.
        lower_case: Whether texts become lower case first.
        prompts: Beginnings that are put before a text, by their names.
        default_prompt: Name of the one that is put before a text if none is named.
        images: The ONNX file of the tower that reads images, by its name; None where nothing does.
    """

    inputs: tuple[str, ...]
    output: str
    max_length: int
    model: str = "model.onnx"
    truncation_side: str = "right"
    padding_side: str = "right"
    pad_token_id: int = 0
    pad_token_type_id: int = 0
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    images: str | None = None

    @classmethod
    def read(cls, folder: Path) -> TextConfig:
        """Read the file in a folder. Raises PackageError for a folder that is no package of such a model."""
        require_folder(folder)
        path = folder / FILE
        if not path.is_file():
            raise PackageError(
                f"'{folder}' is no package of an embedding or reranking model: it has no {FILE}; make one with fxport "
                "package."
            )
        try:
            held = json_of(read_bounded(path, CONFIG), CONFIG)
            default, images = held["default_prompt"], held.get("images")
            return cls(
                model=Path(json_values.text(held["model"])).name,
                inputs=json_values.texts(held["inputs"]),
                output=_one_of(held["output"], (EMBEDDING, SCORES)),
                max_length=json_values.count(held["max_length"]),
                truncation_side=_one_of(held["truncation_side"], SIDES),
                padding_side=_one_of(held["padding_side"], SIDES),
                pad_token_id=json_values.count(held["pad_token_id"]),
                pad_token_type_id=json_values.count(held["pad_token_type_id"]),
                lower_case=json_values.truth(held["lower_case"]),
                prompts=json_values.named_texts(held["prompts"]),
                default_prompt=None if default is None else json_values.text(default),
                images=None if images is None else Path(json_values.text(images)).name,
            )
        except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
            raise PackageError(
                f"'{path}' does not describe an embedding or reranking model: {type(error).__name__}: {error}; make "
                "the package with fxport package."
            ) from error

    def write(self, folder: Path) -> Path:
        """Write the file into a folder."""
        path = folder / FILE
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        return path


def _one_of(value: object, choice: tuple[str, ...]) -> str:
    if value not in choice:
        raise ValueError(f"{value!r} is none of {', '.join(choice)}")
    return str(value)
