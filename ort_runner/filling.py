"""Tokens that fill up shorter texts, moved from the beginning of each text to its end and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fxport.ort_runner.package_config import PackageError


@dataclass(frozen=True, slots=True)
class Filled:
    """New tokens of texts, for a model that takes what fills them up at their ends.

    Attributes:
        ids: The tokens [batch, sequence].
        mask: The mask of all tokens [batch, total], ones first.
        shift: Places by which each text was moved [batch].
    """

    ids: np.ndarray
    mask: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, ids: np.ndarray, mask: np.ndarray) -> Filled:
        """Move new tokens.

        Args:
            ids: New tokens [batch, sequence].
            mask: The mask of all tokens [batch, total], where texts are filled up at their beginnings.

        Raises:
            PackageError: A token fills up a text elsewhere than at its beginning.
        """
        new = mask[:, -ids.shape[1] :]
        if (np.diff(mask, axis=1) < 0).any() or (mask.shape[1] > ids.shape[1] and not new.all()):
            raise PackageError("only the beginning of a text, in the first call, may be filled up.")
        shift = (new == 0).sum(1)
        counted = np.arange(mask.shape[1])[None] < mask.sum(1)[:, None]
        return cls(_rolled(ids, shift), counted.astype(mask.dtype), shift)

    def back(self, logits: np.ndarray) -> np.ndarray:
        """Logits [batch, sequence, vocabulary] at the places that the tokens had."""
        return _rolled(logits, -self.shift)


def _rolled(array: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Each row of [batch, sequence, ...] begun at another place."""
    if not shift.any():
        return array
    index = (np.arange(array.shape[1])[None] + shift[:, None]) % array.shape[1]
    return np.take_along_axis(array, index.reshape(*index.shape, *[1] * (array.ndim - 2)), 1)
