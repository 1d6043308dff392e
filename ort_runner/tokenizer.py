"""The tokenizer of a package, without transformers: text to tokens and back, by the library `tokenizers`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fxport.diagnostics.limits import TOKENIZER as LIMIT
from fxport.diagnostics.limits import LimitError, read_bounded
from fxport.diagnostics.messages import error_line
from fxport.ort_runner.package_config import TOKENIZER, PackageError, require_folder

PANIC = "PanicException"
"""Name of the exception of a fault in a library in Rust, which is made in each library anew."""


class Tokenizer:
    """The tokenizer of a package. Raises PackageError where the file or the library is missing."""

    def __init__(self, folder: str | Path) -> None:
        require_folder(Path(folder))
        self.path = path = Path(folder) / TOKENIZER
        if not path.is_file():
            raise PackageError(
                f"'{folder}' has no {TOKENIZER}, so it takes no text; save the tokenizer there with "
                "tokenizer.save_pretrained, or give tokens with --ids."
            )
        try:
            import tokenizers
        except ImportError as error:
            raise PackageError("text needs the library tokenizers: pip install tokenizers; or give --ids.") from error
        try:
            # The library's parser stops at a depth of 128 by itself.
            self.backend: Any = tokenizers.Tokenizer.from_str(read_bounded(path, LIMIT).decode())
        except LimitError as error:
            raise PackageError(f"'{path}' is not read: {error}; copy the model's own there.") from error
        except Exception as error:  # the library raises bare Exception for files that it cannot read
            raise PackageError(f"'{path}' is no tokenizer: {error}; copy the model's own there.") from error
        self.backend.no_truncation()  # a file may hold the settings of its last use
        self.backend.no_padding()

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the tokenizer puts before it."""
        (found,) = self.encode_batch([text])
        return list(found.ids)

    def encode_batch(self, texts: Sequence[Any]) -> list[Any]:
        """The encodings of texts, or of pairs of them. Raises PackageError where the tokenizer fails for one."""
        try:
            return self.backend.encode_batch(list(texts))
        except BaseException as error:
            raise self._failed("a text", error) from error

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        try:
            return str(self.backend.decode([int(each) for each in ids]))
        except BaseException as error:
            raise self._failed("tokens", error) from error

    def _failed(self, what: str, error: BaseException) -> BaseException:
        """The error to raise: PackageError for one of the library, bare or a panic of Rust; others as they are."""
        if isinstance(error, Exception) or type(error).__name__ == PANIC:
            return PackageError(f"'{self.path}' fails for {what}: {error_line(error)}; copy the model's own there.")
        return error
