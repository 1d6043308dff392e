"""Runs of packages: what stops one is told as by any other command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fxport.diagnostics import Fix, Log, Stop, rules
from fxport.exporter.sources.usage import UsageError

IN_A_PACKAGE = Fix(
    "Try `--provider cpu`: if that succeeds, the provider is at fault. Else look at the input: token ids are below "
    "the size of the vocabulary, and no more than the model takes."
)
"""Advice where ONNX Runtime fails on a model of a package, which has no marked line."""


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
        fixes = [IN_A_PACKAGE] if failure.rule is rules.RUNTIME_FAILED else []
        log.report(failure.rule, fixes=fixes, **failure.facts)
        raise Stop(log, stage) from failure
