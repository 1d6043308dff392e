"""Tokens with which a model of speech begins: language, task, and that it writes no timestamps."""

from __future__ import annotations

from typing import Any

from fxport.ort_runner.package_config import PackageError

CURE = "set 'language' and 'task' of model.generation_config, and save the model again"


def spoken_start(settings: Any, first: int) -> list[int]:
    """Return the tokens that `generate` of Whisper begins with, for settings that name the language.

    Args:
        settings: Settings for generation.
        first: `decoder_start_token_id`.

    Raises:
        PackageError: The settings leave the language to `generate`, or ask for timestamps.
    """
    languages, tasks = getattr(settings, "lang_to_id", None), getattr(settings, "task_to_id", None)
    language, task = getattr(settings, "language", None), getattr(settings, "task", None)
    if getattr(settings, "return_timestamps", None):
        raise PackageError("'return_timestamps' of the settings for generation is not computed; set it to False.")
    tokens = [first]
    if languages:
        wanted = next((name for name in (language, f"<|{language}|>") if name in languages), None)
        if wanted is None:
            known = ", ".join(list(languages)[:5])
            raise PackageError(f"the settings for generation name no language of {known} …, but {language!r}; {CURE}.")
        tokens.append(int(languages[wanted]))
    if tasks and (languages or task):
        if (name := task or "transcribe") not in tasks:
            raise PackageError(f"the task {name!r} is none of {', '.join(tasks)}; {CURE}.")
        tokens.append(int(tasks[name]))
    silent = getattr(settings, "no_timestamps_token_id", None)
    return tokens if silent is None else [*tokens, int(silent)]
