"""The error that an export ends with, importable before anything that captures is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fxport.diagnostics import Level, Log
from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.text import render

if TYPE_CHECKING:
    from fxport.exporter.lowering.lower.portable import PortableLog


class ExportError(FxportError):
    """The model could not be exported. `log` has every finding, at its place in the user's source.

    The text is that of the errors among them, as the command line prints them, under a headline; `reason` stands in
    where there is none.
    """

    def __init__(self, log: Log, reason: str, headline: str = "the model cannot be exported") -> None:
        errors = render(log, least=Level.ERROR).rstrip()
        super().__init__(f"{headline}\n\n{errors}" if errors else reason)
        self.log = log

    def __reduce__(self) -> tuple[Callable[..., ExportError], tuple[str, PortableLog]]:
        """For pickles, and so for the pools of multiprocessing: the text, and the log without its callbacks."""
        from fxport.exporter.lowering.lower.portable import portable_log

        return _restored_error, (str(self), portable_log(self.log))


def _restored_error(text: str, log: PortableLog) -> ExportError:
    error = ExportError(Log(), text)
    error.log = log.restored()
    return error
