"""`fxport package SOURCE`: from a language model to a folder that generates text, or embeds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fxport.diagnostics import Log, Stop
from fxport.diagnostics.amounts import size
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.outputs import require_folder
from fxport.exporter.sources.source import init_of, load
from fxport.exporter.sources.usage import UsageError, unwritable
from fxport.exporter.validation.choices import require_provider, require_runtime


class Runtime(StrEnum):
    """Runtimes of a package."""

    AUTO = "auto"
    GENAI = "genai"
    ORT = "ort"


class Dtype(StrEnum):
    """Types of activations, of the cache and of weights."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


class Stored(StrEnum):
    """Storage of the weights of linear layers."""

    FLOAT32 = "float32"
    INT8 = "int8"
    INT4 = "int4"


class Accuracy(StrEnum):
    """Arithmetic of products with weights in few bits."""

    EXACT = "exact"
    FAST = "fast"


class Adapter(StrEnum):
    """Places of a LoRA in a package."""

    MERGED = "merged"
    INPUT = "input"


class Cache(StrEnum):
    """Kinds of caches."""

    GROWING = "dynamic"
    SHARED = "shared"
    GROUPED = "gqa"


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport package`, as it was typed."""

    source: str
    output: Path
    runtime: Runtime
    dtype: Dtype
    weights: Stored | None
    block: int
    accuracy: Accuracy
    cache: Cache
    adapter: Adapter
    tokenizer: Path | None
    provider: str
    tokens: int
    text: Path | None
    init: tuple[str, ...]


@reports()
def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder that transformers has saved, with its tokenizer; a GGUF file; or FILE.py:NAME "
            "or package.module:NAME, where NAME is a language model of transformers or a function that "
            "returns one. The folder may be one of sentence-transformers, or of a model that classifies texts.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    runtime: Annotated[
        Runtime, typer.Option("--runtime", help="genai: onnxruntime-genai has to take it too; ort: fxport alone.")
    ] = Runtime.AUTO,
    dtype: Annotated[
        Dtype, typer.Option("--dtype", help="The type of activations, cache and weights.")
    ] = Dtype.FLOAT32,
    weights: Annotated[
        Stored | None,
        typer.Option("--weights", help="How the weights of linear layers are stored: by default in --dtype."),
    ] = None,
    block: Annotated[int, typer.Option("--block", help="Numbers of such a weight that share a scale.")] = 32,
    accuracy: Annotated[
        Accuracy, typer.Option("--accuracy", help="fast: also round the inputs of products with such weights.")
    ] = Accuracy.EXACT,
    cache: Annotated[
        Cache,
        typer.Option("--cache", help="shared: each step writes into its memory; gqa: without an added mask."),
    ] = Cache.GROWING,
    adapter: Annotated[
        Adapter, typer.Option("--adapter", help="input: a LoRA stays a file of its own, which a runtime loads or not.")
    ] = Adapter.MERGED,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="DIR", help="The folder of the tokenizer, if not SOURCE.")
    ] = None,
    provider: Annotated[str, typer.Option("--provider", help="ONNX Runtime provider to compare on.")] = "cpu",
    tokens: Annotated[
        int, typer.Option("--tokens", min=0, help="Tokens to compare with eager PyTorch; 0: compare nothing.")
    ] = 32,
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="A text to score: perplexity and divergence.")
    ] = None,
    init: arguments.Init = None,
    sandbox: arguments.Sandbox = False,  # dealt with before: cli.sandbox
    reporting: Reporting = Reporting(),
) -> None:
    """Write a folder that runs a language model: its graph, its configuration, and the tokenizer.

    It is run beside eager PyTorch, and written only if it gives the same tokens, or vectors, or scores. Exit codes are
    those of `fxport export`.
    """
    require_folder(output, "--output")
    asked = Request(
        source,
        output,
        runtime,
        dtype,
        weights,
        block,
        accuracy,
        cache,
        adapter,
        tokenizer,
        provider,
        tokens,
        text,
        tuple(init or ()),
    )
    raise typer.Exit(run(lambda log: packaged(asked, log), reporting.resolved("package", source)))


def packaged(asked: Request, log: Log) -> str:
    """Write the package; returns the summary. A mistake in the request is a UsageError."""
    require_provider(asked.provider)
    require_runtime("package")

    from fxport.exporter.language_models.generation import NotGenerativeError
    from fxport.exporter.language_models.gguf_file import is_gguf
    from fxport.exporter.language_models.packaging import package
    from fxport.exporter.pipeline.errors import ExportError
    from fxport.exporter.sources.pretrained import PretrainedError
    from fxport.exporter.weights import CheckpointError
    from fxport.ort_runner.package_config import PackageError

    folder = Path(asked.source)
    model = folder if folder.is_dir() or is_gguf(folder) else load(asked.source, init_of(asked.init)).model
    try:
        made = package(
            model,  # type: ignore[arg-type]  # a program without a class is refused as no language model
            asked.output,
            tokenizer=asked.tokenizer,
            runtime=asked.runtime.value,
            dtype=asked.dtype.value,
            weights=asked.weights.value if asked.weights else None,
            block=asked.block,
            accuracy=asked.accuracy.value,
            cache=asked.cache.value,
            adapter=asked.adapter.value,
            provider=asked.provider,
            steps=asked.tokens,
            text=asked.text,
            log=log,
        )
    except (PackageError, PretrainedError, CheckpointError, NotGenerativeError) as error:
        raise UsageError(str(error)) from error
    except ExportError as error:
        raise Stop(log, "export") from error
    except OSError as error:
        named = error.filename
        if isinstance(named, str) and not Path(named).resolve().is_relative_to(asked.output.resolve()):
            raise  # a file that was to be read
        raise unwritable(asked.output, error) from error
    compared = made.verdict or "not compared with eager PyTorch"
    exact = f"\n{len(made.exact)} products are exact, not fast (FXP5017)" if made.exact else ""
    scored = f"\n{made.text}" if made.text is not None else ""
    return f"{made.folder}: {len(made.files)} files, {size(made.size)}\n{compared}{exact}{scored}"
