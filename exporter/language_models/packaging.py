"""From a language model to a folder that generates: captured, written, and held against eager PyTorch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from fxport.diagnostics import Log, Stop
from fxport.diagnostics.folders import written_folder
from fxport.diagnostics.strangers import link_out_of
from fxport.exporter.language_models.adapter_inputs import AdapterInputs, compared_twice
from fxport.exporter.language_models.cache_in_place import CacheInPlace
from fxport.exporter.language_models.fast_products import fastest
from fxport.exporter.language_models.few_bits import BITS, BLOCKS, rounded
from fxport.exporter.language_models.few_bits_pass import StoreFewBits
from fxport.exporter.language_models.folders import Adapter, model_of, model_of_gguf
from fxport.exporter.language_models.from_table import FromTable, Packed
from fxport.exporter.language_models.gguf_file import is_gguf
from fxport.exporter.language_models.kinds import Runtime, kind_of
from fxport.exporter.language_models.package_files import TOKENIZER_FILES, copy_tokenizer, has_tokenizer
from fxport.exporter.language_models.text_models import plan_of
from fxport.exporter.language_models.text_score import TextScore, eager_logits, text_score, windows_of
from fxport.exporter.language_models.text_verdict import TextVerdict
from fxport.exporter.language_models.verdict import Verdict
from fxport.exporter.pipeline.exporting import export
from fxport.exporter.pipeline.options import Options
from fxport.ort_runner.adapter_file import FILE as ADAPTER
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.package_config import FILE as GENERATES
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.text_config import FILE as TAKES_TEXTS

Weights = Literal["float32", "int8", "int4"]
Accuracy = Literal["exact", "fast"]
Cache = Literal["dynamic", "shared"]

STEPS = 32
"""Tokens of each text that are compared."""

DESCRIPTIONS = (GENERATES, TAKES_TEXTS)
"""Files of which a package has one."""

PASSES: Mapping[Cache, CacheInPlace | None] = {"dynamic": None, "shared": CacheInPlace()}
"""Pass that makes the cache of a kind."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that was written.

    Attributes:
        folder: Where it is.
        files: Its files.
        verdict: What the comparison with eager PyTorch showed; None where none was wanted.
        log: The findings.
        text: The score of a text that was given.
        exact: Weights in few bits whose products stay exact although fast ones were asked for.
    """

    folder: Path
    files: tuple[Path, ...]
    verdict: Verdict | TextVerdict | None
    log: Log
    text: TextScore | None = None
    exact: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files)


def package(
    model: torch.nn.Module | str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    tokenizer: str | os.PathLike[str] | None = None,
    runtime: Runtime = "auto",
    weights: Weights = "float32",
    block: int = 32,
    accuracy: Accuracy = "exact",
    cache: Cache = "dynamic",
    provider: str = "cpu",
    steps: int = STEPS,
    adapter: Adapter = "merged",
    text: str | os.PathLike[str] | None = None,
    log: Log | None = None,
) -> Package:
    """Write a folder that generates text: one graph for prompt and steps, its configuration, and the tokenizer.

    The package is run beside eager PyTorch with the same weights (see `verdict`), and takes its place only if it
    passes. An earlier package at the destination is replaced as a whole.

    Args:
        model: A causal language model of transformers in float32 and eval mode, or the folder of one, or that of a
            LoRA beside its model, or a GGUF file. The folder, or that of the file, has a tokenizer unless `tokenizer`
            names another.
        destination: The folder to write: a new one, an empty one, or an earlier package.
        tokenizer: A folder with the files of the tokenizer; a model alone has none, and its package takes token ids.
        runtime: "genai" for onnxruntime-genai, which `fxport generate` runs too; "ort" for fxport alone, also with what
            onnxruntime-genai has no place for; "auto" takes what there is.
        weights: How the weights of linear layers are stored: "int8" and "int4" in blocks with a scale each.
        block: Numbers that share a scale: 16, 32, 64, 128 or 256.
        accuracy: "exact" computes in float32; "fast" rounds the inputs of products with such weights to 8 bits too, but
            for those that have to be exact so that no token differs and no logit by more than 5% of the largest.
        cache: "dynamic" gives the cache of each step as new tensors, by standard operators; "shared" writes new keys
            and values into the memory of the cache, by GroupQueryAttention of ONNX Runtime.
        provider: The provider of ONNX Runtime for the comparison.
        steps: Tokens of each text to compare; 0 compares nothing.
        adapter: "merged" adds a LoRA to the weights of its model; "input" writes its factors to `adapter.onnx_adapter`,
            which a runtime loads beside the model, or leaves out.
        text: A file of text, of which the first 1,024 tokens are scored: see `TextScore`.
        log: Where findings and times go.

    Returns:
        The package.

    Raises:
        PackageError: An argument that makes no sense, a destination that is in use, or a folder without tokenizer.
        PretrainedError: The folder has no model that transformers knows by itself.
        NotGenerativeError: The model has no single graph for prompt and steps.
        ExportError: The model cannot be exported.
        Stop: Weights are missing, or the package does not generate what the model does; the findings are in the log.
        OSError: The destination cannot be written.
    """
    log = log or Log()
    target = Path(destination)
    require_choices(weights=(weights, Weights), runtime=(runtime, Runtime), accuracy=(accuracy, Accuracy))
    require_choices(cache=(cache, Cache), adapter=(adapter, Adapter))
    if adapter == "input" and (not steps or isinstance(model, torch.nn.Module) or is_gguf(Path(model))):
        raise PackageError("an adapter as an input is that of a folder of peft, and is compared; compare some tokens.")
    if not steps and (cache == "shared" or accuracy == "fast"):
        what = "a cache in place is" if cache == "shared" else "'fast' is"
        raise PackageError(f"{what} compared with eager PyTorch before it is believed; compare some tokens.")
    if block not in BLOCKS:
        raise PackageError(f"blocks of {block} have no kernel; choose one of {', '.join(map(str, BLOCKS))}.")
    require_free(target)
    source = None if isinstance(model, torch.nn.Module) else Path(model)
    is_file = source is not None and is_gguf(source)
    words = Path(tokenizer) if tokenizer is not None else None if source is None else tokenizer_folder(source, is_file)
    if words is not None:
        require_tokenizer(words)
    packed: Mapping[str, Packed] = {}
    if source is not None:
        with log.stage("load"):
            loaded = model_of_gguf(source, log) if is_file else model_of(source, log, adapter=adapter)
        model, packed = loaded.model, loaded.packed
    assert isinstance(model, torch.nn.Module)
    require_plain(model)
    if packed and weights != "float32":
        raise PackageError(f"'{source}' has weights in few bits already, which are taken as they are; omit --weights.")
    if accuracy == "fast" and weights not in BITS and not packed:
        raise PackageError("'fast' is about weights in few bits; choose int4 or int8 too, or 'exact'.")
    if accuracy == "fast" and any(isinstance(weight, FromTable) for weight in packed.values()):
        raise PackageError(f"'{source}' has weights of a table, whose products are computed in float32; omit 'fast'.")
    kind = kind_of(model)
    kind.require(runtime=runtime, cache=cache, text=text, tokenizer=tokenizer, adapter=adapter)
    windows = [] if text is None else windows_of(Path(text), words, model)
    before = eager_logits(model, windows)
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_folder(target) as draft, _in_few_bits(model, weights, block, accuracy, packed) as store:
        factors = AdapterInputs() if adapter == "input" else None
        options = Options(ir_passes=tuple(each for each in (store, PASSES[cache], factors) if each is not None))
        files, graphs, found, exact = [], {}, None, ()
        for name, example in kind.parts(model).items():
            program = export(*example[:3], dynamic_shapes=example.dynamic_shapes, options=options, log=log)
            graphs[name] = program.model.graph
            files += replace(program, log=Log()).save(draft / name)  # where the weights are is told by the summary
        if store is not None and (lost := sorted(packed.keys() - store.replaced)):
            raise PackageError(f"'{lost[0]}' is used by others than products, so its few bits cannot be kept.")
        if words is not None:
            files += copy_tokenizer(words, draft)
        files += kind.reads(words, draft)
        if factors is not None:
            files.append(factors.write(draft / ADAPTER))
        files += kind.describe(model, graphs, draft, runtime=runtime, in_place=cache == "shared")
        if steps:
            with log.stage("verdict"):
                stored = {"accuracy": accuracy, "weights": f"{weights}, {accuracy}"}
                compare = partial(kind.verdict, draft, model, provider=provider, steps=steps, **stored)
                judged = (
                    partial(compare, answers=[] if accuracy == "fast" else None)
                    if factors is None
                    else partial(compared_twice, compare, model, draft / ADAPTER)
                )
                if store is not None and accuracy == "fast":
                    found, exact = fastest(draft, model, store.blocks, judged, log)
                else:
                    found = judged(log)
            if not found.passed:
                raise Stop(log, "verdict")
            if steps > 1:  # after the prompt, each token is a step of its own
                log.revise(partial(kind.left, model, found))
        score = _scored(draft, provider, windows, before, log) if windows else None
    return Package(target, tuple(target / path.relative_to(draft) for path in files), found, log, score, tuple(exact))


def tokenizer_folder(source: Path, is_file: bool) -> Path:
    """The folder of the tokenizer of a source, if nobody names it."""
    plan = None if is_file else plan_of(source)
    return plan.transformer if plan is not None else source.parent if is_file else source


def require_tokenizer(folder: Path) -> None:
    """Raise PackageError for a folder without a tokenizer, or with one that is a link out of it."""
    if folder.is_dir() and (link := link_out_of(folder, TOKENIZER_FILES)) is not None:
        raise PackageError(f"'{link}' is a link out of its folder, which is not followed; put the file itself there.")
    if not has_tokenizer(folder):
        raise PackageError(
            f"'{folder}' has no tokenizer; save it there with tokenizer.save_pretrained, or name its folder."
        )


def require_choices(**given: tuple[str, Any]) -> None:
    """Raise PackageError for a word that is none of a choice."""
    for name, (value, choice) in given.items():
        if value not in get_args(choice):
            raise PackageError(f"{name} '{value}' is unknown; choose one of {', '.join(get_args(choice))}.")


def require_free(target: Path) -> None:
    """Raise PackageError for a destination that holds something else than a package."""
    if target.exists() and not target.is_dir():
        raise PackageError(f"'{target}' is a file; name a folder.")
    if target.is_dir() and any(target.iterdir()) and not any((target / name).is_file() for name in DESCRIPTIONS):
        raise PackageError(f"'{target}' holds other files; name a new folder.")


def require_plain(model: torch.nn.Module) -> None:
    """Raise PackageError for a model in training mode, or one that does not compute in float32."""
    if model.training:
        raise PackageError(f"'{type(model).__name__}' is in training mode; call model.eval() first.")
    kinds = {str(each.dtype).removeprefix("torch.") for each in model.parameters() if each.is_floating_point()}
    if others := kinds - {"float32"}:
        raise PackageError(
            f"'{type(model).__name__}' has weights of {', '.join(sorted(others))}; packages compute in float32: call "
            "model.float() first."
        )


def _scored(
    draft: Path, provider: str, windows: Sequence[Sequence[int]], before: Sequence[np.ndarray], log: Log
) -> TextScore:
    """Score a text by a package. Raises Stop where ONNX Runtime fails."""
    try:
        with log.stage("text"):
            return text_score(draft, provider, windows, before)
    except Failure as failure:
        log.report(failure.rule, **failure.facts)
        raise Stop(log, "text") from failure


@contextmanager
def _in_few_bits(
    model: torch.nn.Module, weights: str, block: int, accuracy: str, packed: Mapping[str, Packed]
) -> Iterator[StoreFewBits | None]:
    """The pass that stores the weights in few bits, while the model computes with the values that they then have."""
    if packed:  # the model has their values already
        yield StoreFewBits(packed, accuracy)
    elif weights in BITS:
        with rounded(model, BITS[weights], block) as made:
            yield StoreFewBits(made, accuracy)
    else:
        yield None
