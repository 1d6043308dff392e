"""Runs of packages: what stops one is told as by any other command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log, Stop
from fxport.exporter.cli.supervised import limited
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    from fxport.ort_runner.vision import Image


@contextmanager
def running_a_package(log: Log, stage: str) -> Iterator[None]:
    """Turn what is wrong with a package, or with what it was asked, into UsageError; a failure of ONNX Runtime into a
    finding and Stop.
    """
    from fxport.ort_runner.failures import Failure
    from fxport.ort_runner.package_config import PackageError

    try:
        yield
    except PackageError as error:
        raise UsageError(str(error)) from error
    except ValueError as error:  # an unknown provider, or one that does not work here
        raise UsageError(f"--provider: {error}; choose another.") from error
    except Failure as failure:
        log.report(failure.rule, **failure.facts)
        raise Stop(log, stage) from failure


@contextmanager
def within_limits(
    folder: Path, provider: str, tokens: int = 0, new: int = 0, pictures: Iterable[Image] = ()
) -> Iterator[Callable[[], None]]:
    """Open or run the models of a package in the time and memory that they may take.

    Args:
        folder: The package.
        provider: The provider that was asked for; memory is limited on the CPU alone, as for other models.
        tokens: Tokens, or frames of a sound, that are taken at once.
        new: Tokens that are generated.
        pictures: Images that are read.

    Yields:
        A function to call after each step: the time begins anew.
    """
    from fxport.ort_runner.child import memory_of_package, time_of_package
    from fxport.ort_runner.providers import choose
    from fxport.ort_runner.worker import CPU

    on_cpu = choose(provider).provider.name == CPU
    inputs = sum(array.nbytes for image in pictures for array in image.values())
    memory = memory_of_package(folder, tokens + new, inputs) if on_cpu else None
    with limited(time_of_package(folder, tokens), memory) as alive:
        yield alive
