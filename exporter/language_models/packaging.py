"""From a language model to a folder that generates: captured, written, and held against eager PyTorch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from fxport.diagnostics import Log, Stop
from fxport.diagnostics.folders import written_folder
from fxport.diagnostics.strangers import link_out_of
from fxport.exporter.language_models.adapter_inputs import AdapterInputs, compared_twice
from fxport.exporter.language_models.cache_in_place import CacheInPlace
from fxport.exporter.language_models.decode import Example
from fxport.exporter.language_models.fast_products import Judged, fastest
from fxport.exporter.language_models.few_bits import BITS, rounded
from fxport.exporter.language_models.few_bits_pass import StoreFewBits
from fxport.exporter.language_models.folders import Adapter, model_of, model_of_gguf
from fxport.exporter.language_models.from_table import Packed
from fxport.exporter.language_models.gguf_file import is_gguf
from fxport.exporter.language_models.kinds import Kind, Runtime, kind_of
from fxport.exporter.language_models.package_choices import Accuracy, Cache, Choices, Dtype, Weights
from fxport.exporter.language_models.package_files import TOKENIZER_FILES, copy_tokenizer, has_tokenizer
from fxport.exporter.language_models.rotations import rotations_of_context
from fxport.exporter.language_models.same_tokens import require_same_ids
from fxport.exporter.language_models.shared_weights import save_sharing
from fxport.exporter.language_models.text_models import plan_of
from fxport.exporter.language_models.text_score import TextScore, eager_logits, text_score, windows_of
from fxport.exporter.language_models.text_verdict import TextVerdict
from fxport.exporter.language_models.torchao_models import packed_in, restored
from fxport.exporter.language_models.verdict import Verdict
from fxport.exporter.language_models.widened import KERNELS, Twin, twin_of
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.pipeline.exporting import export
from fxport.exporter.pipeline.options import Options
from fxport.ort_runner.adapter_file import FILE as ADAPTER
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.package_config import FILE as GENERATES
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.text_config import FILE as TAKES_TEXTS

if TYPE_CHECKING:
    import onnx_ir as ir

STEPS = 32
"""Tokens of each text that are compared."""

DESCRIPTIONS = (GENERATES, TAKES_TEXTS)
"""Files of which a package has one."""

PASSES: Mapping[Cache, CacheInPlace | None] = {
    "dynamic": None,
    "shared": CacheInPlace(),
    "gqa": CacheInPlace(masked=False),
}
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
    weights: Weights | None = None,
    dtype: Dtype = "float32",
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
        model: A causal language model of transformers in `dtype` and eval mode, or the folder of one, or that of a
            LoRA beside its model, or a GGUF file. The folder, or that of the file, has a tokenizer unless `tokenizer`
            names another.
        destination: The folder to write: a new one, an empty one, or an earlier package.
        tokenizer: A folder with the files of the tokenizer; a model alone has none, and its package takes token ids.
        runtime: "genai" for onnxruntime-genai, which `fxport generate` runs too; "ort" for fxport alone, also with what
            onnxruntime-genai has no place for; "auto" takes what there is.
        weights: How the weights of linear layers are stored: "int8" and "int4" in blocks with a scale each; by default
            in the type of the package.
        dtype: The type of activations, of the cache, and of weights that are not in few bits. What transformers keeps
            or computes in float32 stays so. The provider "cpu" has few kernels for "bfloat16": what is compared there
            is a copy whose operators compute in float32, with results rounded to bfloat16.
        block: Numbers that share a scale: 16, 32, 64, 128 or 256.
        accuracy: "exact" computes in float32; "fast" rounds the inputs of products with such weights to 8 bits too, but
            for those that have to be exact so that no token differs and no logit by more than 5% of the largest.
        cache: "dynamic" gives the cache of each step as new tensors, by standard operators; "shared" writes new keys
            and values into the memory of the cache, by GroupQueryAttention of ONNX Runtime; "gqa" does so without a
            mask that is added to the scores, where all masks are proven to be causal, with a window or not.
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
    source = None if isinstance(model, torch.nn.Module) else Path(model)
    choices = Choices(runtime, weights, block, accuracy, cache, adapter, steps, dtype)
    choices.require(folder=source is not None and not is_gguf(source))
    require_free(target)
    words = tokenizer_folder(source) if tokenizer is None else Path(tokenizer)
    if words is not None:
        require_tokenizer(words)
    packed: Mapping[str, Packed] = {}
    if source is not None:
        with log.stage("load"):
            loaded = (
                model_of_gguf(source, log)
                if is_gguf(source)
                else model_of(source, log, adapter=adapter, dtype=dtype, near=target)
            )
        model, packed = loaded.model, loaded.packed
    assert isinstance(model, torch.nn.Module)
    own = packed_in(model) if source is None else {}
    packed = packed or own
    choices.require_for(model, source, packed)
    kind = kind_of(model)
    chosen = {"cache": None if cache == "dynamic" else cache, "dtype": None if dtype == "float32" else dtype}
    kind.require(runtime=runtime, text=text, tokenizer=tokenizer, adapter=adapter, **chosen)
    if words is not None and kind.reads_prompts:
        require_same_ids(words)
    windows = [] if text is None else windows_of(Path(text), words, model)
    before = eager_logits(model, windows)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        twin_of(target, dtype, provider) as twin,
        written_folder(target) as draft,
        restored(model, own),
        _in_few_bits(model, weights, block, accuracy, packed, is_own=source is not None) as store,
    ):
        factors = AdapterInputs() if adapter == "input" else None
        passes = tuple(each for each in (store, PASSES[cache], factors) if each is not None)
        options = Options(ir_passes=passes, kernels=KERNELS if dtype == "bfloat16" else ("cpu",))
        files, graphs = _exported(kind, model, draft, options, log, twin)
        if store is not None and (lost := sorted(packed.keys() - store.replaced)):
            raise PackageError(f"'{lost[0]}' is used by others than products, so its few bits cannot be kept.")
        if words is not None:
            files += copy_tokenizer(words, draft)
        files += kind.reads(words, draft)
        if factors is not None:
            files.append(factors.write(draft / ADAPTER))
        files += kind.describe(model, graphs, draft, runtime=runtime, in_place=cache != "dynamic")
        found, exact, ran = None, (), draft
        if twin is not None:
            twin.complete(draft)
            ran = twin.folder
        if steps:
            stored = {"accuracy": accuracy, "weights": f"{weights or dtype}, {accuracy}"}
            compare = partial(kind.verdict, ran, model, provider=provider, steps=steps, **stored)
            judged = (
                partial(compare, answers=[] if accuracy == "fast" else None)
                if factors is None
                else partial(compared_twice, compare, model, draft / ADAPTER)
            )
            found, exact = _judged(judged, draft, model, store if accuracy == "fast" else None, log)
            if twin is not None and isinstance(found, Verdict):
                found = replace(found, widened=True)
        if found is not None and steps > 1:  # after the prompt, each token is a step of its own
            log.revise(partial(kind.left, model, found))
        score = _scored(ran, provider, windows, before, log) if windows else None
    return Package(target, tuple(target / path.relative_to(draft) for path in files), found, log, score, tuple(exact))


def _exported(
    kind: Kind, model: torch.nn.Module, draft: Path, options: Options, log: Log, twin: Twin | None
) -> tuple[list[Path], dict[str, ir.Graph]]:
    """Export each part of a model into the folder `draft`, and into that of a twin that runs in its place.

    Returns the files, and the graphs by the names of theirs.
    """
    with rotations_of_context(model):
        programs = {name: _program(kind, model, name, each, options, log) for name, each in kind.parts(model).items()}
    for program in programs.values():
        program.model.metadata_props.update(kind.notes(model))
    files = save_sharing(programs, draft)
    if twin is not None:
        for name, program in programs.items():
            twin.save(program, name)
    return files, {name: program.model.graph for name, program in programs.items()}


def _program(
    kind: Kind, model: torch.nn.Module, name: str, example: Example, options: Options, log: Log
) -> OnnxProgram:
    """Export a part; with a longer example where the findings on the first one ask for it."""
    trial = log.trial()
    try:
        program = export(*example[:3], dynamic_shapes=example.dynamic_shapes, options=options, log=trial)
    except BaseException:
        log.adopt(trial)
        raise
    longer = kind.longer(model, name, trial.findings)
    if longer is None:
        log.adopt(trial)
        return program
    return export(*longer[:3], dynamic_shapes=longer.dynamic_shapes, options=options, log=log)


def _judged(
    judged: Judged, draft: Path, model: torch.nn.Module, fast: StoreFewBits | None, log: Log
) -> tuple[Verdict | TextVerdict, Sequence[str]]:
    """Run a package beside eager PyTorch. `fast` has the weights whose products are to be fast where they can be.

    Returns the verdict, and the names of the weights whose products stay exact. Raises Stop where it does not pass.
    """
    with log.stage("verdict"):
        found, exact = (judged(log), ()) if fast is None else fastest(draft, model, fast.blocks, judged, log)
    if not found.passed:
        raise Stop(log, "verdict")
    return found, exact


def tokenizer_folder(source: Path | None) -> Path | None:
    """The folder of the tokenizer of a source, if nobody names it; None for a model without a source."""
    if source is None:
        return None
    if is_gguf(source):
        return source.parent
    plan = plan_of(source)
    return source if plan is None else plan.transformer


def require_tokenizer(folder: Path) -> None:
    """Raise PackageError for a folder without a tokenizer, or with one that is a link out of it."""
    if folder.is_dir() and (link := link_out_of(folder, TOKENIZER_FILES)) is not None:
        raise PackageError(f"'{link}' is a link out of its folder, which is not followed; put the file itself there.")
    if not has_tokenizer(folder):
        raise PackageError(
            f"'{folder}' has no tokenizer; save it there with tokenizer.save_pretrained, or name its folder."
        )


def require_free(target: Path) -> None:
    """Raise PackageError for a destination that holds something else than a package."""
    if target.exists() and not target.is_dir():
        raise PackageError(f"'{target}' is a file; name a folder.")
    if target.is_dir() and any(target.iterdir()) and not any((target / name).is_file() for name in DESCRIPTIONS):
        raise PackageError(f"'{target}' holds other files; name a new folder.")


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
    model: torch.nn.Module,
    weights: str | None,
    block: int,
    accuracy: str,
    packed: Mapping[str, Packed],
    *,
    is_own: bool,
) -> Iterator[StoreFewBits | None]:
    """The pass that stores the weights in few bits, while the model computes with the values that they then have.

    Where the model is the package's own, and nobody else's, the values before are given up.
    """
    if packed:  # the model has their values already
        yield StoreFewBits(packed, accuracy)
    elif weights is not None and weights in BITS:
        with rounded(model, BITS[weights], block, restore=not is_own) as made:
            yield StoreFewBits(made, accuracy)
    else:
        yield None
