"""Embedding and reranking models: one module from token ids and mask to vectors, or to scores, and its folder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fxport.diagnostics.limits import CONFIG, json_of, read_bounded
from fxport.diagnostics.messages import error_text
from fxport.diagnostics.strangers import link_out_of
from fxport.exporter.language_models.package_files import context_of
from fxport.exporter.language_models.same_tokens import require_same_tokens
from fxport.exporter.language_models.text_modules import (
    MODULES,
    Pooling,
    UnknownModuleError,
    activation_of,
    module_of,
)
from fxport.exporter.sources.pretrained import PretrainedError, tokenizer_of
from fxport.ort_runner.json_values import named_texts, text
from fxport.ort_runner.text_config import EMBEDDING, SCORES, TextConfig
from fxport.ort_runner.text_model import MOST_TOKENS

LISTED, WHOLE, TRANSFORMER = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
"""Files of sentence-transformers: the modules, settings of the whole, and those of the first module."""

OURS = "sentence_transformers."
CLASSIFIER = "ForSequenceClassification"
INNER = "transformer"
"""Name of the model of transformers in ours."""

TYPES = "token_type_ids"
TASKS = {"feature-extraction": "token_embeddings", "sequence-classification": SCORES}
"""Tasks of the first module, and what it calls its result."""

READ = {"feature-extraction": "last_hidden_state", "sequence-classification": "logits"}
"""Its part of the model's result, by task."""

OPTIONAL = {"query_length", "document_length", "unpad_inputs"}
"""Settings of the first module that say nothing where they have no value."""


class TextModel(torch.nn.Module):
    """From `input_ids` and `attention_mask` [batch, sequence] to vectors, or to logits and scores [batch, labels].

    Args:
        transformer: A model of transformers.
        pooling: Makes one vector for each text of those of its tokens; None for a model that gives logits.
        stages: What comes after it.
        config: How texts become its inputs.
    """

    def __init__(
        self, transformer: Any, pooling: Pooling | None, stages: torch.nn.Sequential, config: TextConfig
    ) -> None:
        super().__init__()
        self.transformer, self.pooling, self.stages = transformer, pooling, stages
        self.text_config = config
        self.has_cache = "use_cache" in inspect.signature(transformer.forward).parameters

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        kwargs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask, "return_dict": True}
        kwargs |= {TYPES: token_type_ids} if token_type_ids is not None else {}
        kwargs |= {"use_cache": False} if self.has_cache else {}
        result = self.transformer(**kwargs)
        if self.pooling is None:
            return {"logits": result.logits, SCORES: self.stages(result.logits)}
        return {EMBEDDING: self.stages(self.pooling(result.last_hidden_state, attention_mask))}


@dataclass(frozen=True, slots=True)
class Plan:
    """Description of a folder: its model of transformers, and the modules after it.

    Attributes:
        folder: The folder.
        transformer: The folder of that model, and of the tokenizer.
        is_classifier: Whether it has a head that classifies.
        pooling: As in `TextModel`.
        stages: As in `TextModel`.
        settings: Those of the first module.
        whole: Those of the whole.
    """

    folder: Path
    transformer: Path
    is_classifier: bool
    pooling: Pooling | None
    stages: torch.nn.Sequential
    settings: Mapping[str, Any]
    whole: Mapping[str, Any]

    def completed(self, transformer: Any) -> TextModel:
        """The model with what the folder puts after it. Raises PretrainedError or PackageError for a tokenizer that is
        unknown, or that the runner would not use as transformers does.
        """
        config = transformer.config
        stages = self.stages
        if self.is_classifier:
            own: Mapping[str, Any] = getattr(config, "sentence_transformers", None) or {}
            earlier = getattr(config, "sbert_ce_default_activation_function", None)
            name = own.get("activation_fn") or earlier or self.whole.get("activation_fn")
            stages = torch.nn.Sequential(self._activation(name, config.num_labels))
        described = described_text(
            transformer, self.transformer, self.is_classifier, self.settings.get("max_seq_length")
        )
        prompts, default = self._prompts()
        lower = bool(self.settings.get("do_lower_case", False))
        described = replace(described, lower_case=lower, prompts=prompts, default_prompt=default)
        require_same_tokens(self.transformer, described)
        return TextModel(transformer, self.pooling, stages, described)

    def _prompts(self) -> tuple[dict[str, str], str | None]:
        """Beginnings of texts by their names, and the name of the default. Raises PretrainedError for other values."""
        default = self.whole.get("default_prompt_name")
        try:
            held = self.whole.get("prompts") or {}
            prompts = named_texts({name: value or "" for name, value in dict(held).items()})
            return prompts, None if default is None else text(default)
        except (TypeError, ValueError) as error:
            raise PretrainedError(f"'{self.folder / WHOLE}': its prompts are no table of texts: {error}.") from error

    def _activation(self, name: str | None, labels: int) -> torch.nn.Module:
        """The function that makes scores of logits; by default that of sentence-transformers."""
        if name is None:
            return torch.nn.Sigmoid() if labels == 1 else torch.nn.Identity()
        try:
            return activation_of(name)
        except UnknownModuleError as error:
            raise PretrainedError(f"'{self.folder}' cannot be packaged: {error}.") from error


def plan_of(folder: Path) -> Plan | None:
    """Read the description of a folder; None for one that neither lists modules nor classifies texts.

    Raises PretrainedError for modules or settings that are not understood, with the name of the module.
    """
    whole = _table(folder / WHOLE)
    if not (folder / LISTED).is_file():
        names = _table(folder / "config.json").get("architectures")
        named = names[0] if isinstance(names, list) and names else ""
        is_classifier = isinstance(named, str) and named.endswith(CLASSIFIER)
        return Plan(folder, folder, True, None, torch.nn.Sequential(), {}, whole) if is_classifier else None
    listed = _json(folder / LISTED)
    try:
        entries = [(str(each["name"]), str(each["type"]), str(each["path"])) for each in listed]
        kinds = [_kind(*each[:2]) for each in entries]
    except (KeyError, TypeError) as error:
        raise PretrainedError(f"'{folder / LISTED}' lists no modules: {error_text(error)}.") from error
    except UnknownModuleError as error:
        raise PretrainedError(_refusal(folder, error)) from error
    try:
        if not entries:
            raise UnknownModuleError("it lists no modules")
        transformer = _inside(folder, entries[0][2])
        settings = _first_settings(kinds, transformer)
        made = [_module(folder, name, path, kind) for (name, _, path), kind in zip(entries[1:], kinds[1:], strict=True)]
        is_classifier = settings.get("transformer_task") == "sequence-classification"
        pooling = made[0] if made and isinstance(made[0], Pooling) else None
        if (pooling is None) != is_classifier or (is_classifier and made):
            raise UnknownModuleError("after the first module a Pooling is needed, and none after one that classifies")
        if again := [entry[0] for entry, each in zip(entries[2:], made[1:], strict=True) if isinstance(each, Pooling)]:
            raise UnknownModuleError(f"module '{again[0]}' is a second Pooling")
    except UnknownModuleError as error:
        raise PretrainedError(_refusal(folder, error)) from error
    return Plan(folder, transformer, is_classifier, pooling, torch.nn.Sequential(*made[1:]), settings, whole)


def described_text(transformer: Any, folder: Path, is_classifier: bool, max_length: int | None = None) -> TextConfig:
    """Describe the treatment of texts for a model: by the tokenizer of a folder, as transformers reads it."""
    tokenizer = tokenizer_of(folder)
    try:
        return _config_of(tokenizer, transformer, is_classifier, max_length)
    except Exception as error:  # anybody's settings, of which transformers raises what it likes
        raise PretrainedError(f"'{folder}' has a tokenizer that does not work: {error_text(error)}.") from error


def _config_of(tokenizer: Any, transformer: Any, is_classifier: bool, max_length: int | None) -> TextConfig:
    takes = TYPES in inspect.signature(transformer.forward).parameters and TYPES in tokenizer.model_input_names
    return TextConfig(
        inputs=("input_ids", "attention_mask", *((TYPES,) if takes else ())),
        output=SCORES if is_classifier else EMBEDDING,
        max_length=max_length or min(tokenizer.model_max_length, context_of(transformer.config.get_text_config())),
        truncation_side=tokenizer.truncation_side,
        padding_side=tokenizer.padding_side,
        pad_token_id=tokenizer.pad_token_id or 0,
        pad_token_type_id=tokenizer.pad_token_type_id,
    )


def _kind(name: str, written: str) -> str:
    kind = written.rpartition(".")[2]
    if not written.startswith(OURS) or kind not in {"Transformer", *MODULES}:
        raise UnknownModuleError(
            f"module '{name}' is of '{written}', which is none of Transformer, {', '.join(MODULES)}"
        )
    return kind


def _first_settings(kinds: list[str], folder: Path) -> Mapping[str, Any]:
    """The settings of the first module. Raises UnknownModuleError for those that change what it computes."""
    if not kinds or kinds[0] != "Transformer" or "Transformer" in kinds[1:]:
        raise UnknownModuleError("the first module, and no other, has to be a Transformer")
    settings = _table(folder / TRANSFORMER)
    task = str(settings.get("transformer_task", "feature-extraction"))
    length = settings.get("max_seq_length")
    known = {
        "max_seq_length": length if length is None or (type(length) is int and 0 < length < MOST_TOKENS) else None,
        "do_lower_case": settings.get("do_lower_case"),
        "transformer_task": task if task in TASKS else None,
        "module_output_name": TASKS.get(task),
        "modality_config": {"text": {"method": "forward", "method_output_name": READ.get(task)}},
    }
    for name, value in settings.items():
        if (name in OPTIONAL and value is None) or (name in known and value == known[name]):
            continue
        raise UnknownModuleError(f"the Transformer's setting '{name}' is {value!r}, which is not understood")
    return settings


def _module(folder: Path, name: str, path: str, kind: str) -> torch.nn.Module:
    try:
        where = _inside(folder, path)
        return module_of(kind, where, _table(where / "config.json"))
    except UnknownModuleError as error:
        raise UnknownModuleError(f"module '{name}', a {kind}: {error}") from error


def _inside(folder: Path, path: str) -> Path:
    if path and Path(path).name != path:
        raise UnknownModuleError(f"the path '{path}' is no folder in it")
    return folder / path


def _table(path: Path) -> dict[str, Any]:
    """The settings of a file; none where it is not there. Raises PretrainedError for a damaged one."""
    found = _json(path) if path.is_file() else {}
    if not isinstance(found, dict):
        raise PretrainedError(f"'{path}' holds no table of settings; save the model again.")
    return found


def _json(path: Path) -> Any:
    if (link := link_out_of(path.parent, [path.name])) is not None:
        raise PretrainedError(
            f"'{link}' is a link out of its folder, which is not followed; put the file itself there."
        )
    try:
        return json_of(read_bounded(path, CONFIG), CONFIG)
    except (OSError, ValueError) as error:
        raise PretrainedError(f"'{path}' cannot be read: {error_text(error)}; save the model again.") from error


def _refusal(folder: Path, error: UnknownModuleError) -> str:
    return f"'{folder}' cannot be packaged: {error}; export it from Python, as a module that you write: fxport export."
