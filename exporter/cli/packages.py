"""Runs of packages: what stops one is told as by any other command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fxport.diagnostics import Log, Stop
from fxport.exporter.sources.usage import UsageError


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
