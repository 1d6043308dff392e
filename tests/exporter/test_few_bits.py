"""Matrices in 4 and 8 bits: what they are rounded to, and what they stand for."""

import numpy as np
import pytest
import torch

from fxport.exporter.language_models.few_bits import in_few_bits


def test_the_number_farthest_from_0_is_kept() -> None:
    weight = torch.randn(3, 40)  # the last block is filled up
    for bits, steps in ((4, 8), (8, 128)):
        restored = in_few_bits(weight, bits, 16).restored()
        assert restored.shape == weight.shape
        for left in range(0, 40, 16):
            one, other = weight[:, left : left + 16], restored[:, left : left + 16]
            largest = one.abs().amax(1, keepdim=True)
            assert bool(((one - other).abs() <= largest / steps * 1.001).all())
            torch.testing.assert_close(other.abs().amax(1, keepdim=True), largest)
    assert not in_few_bits(torch.zeros(2, 16), 4, 16).restored().any()


@pytest.mark.parametrize("bits", [4, 8])
def test_each_number_is_the_nearest_one_there_is(bits: int) -> None:
    """Of matrices of several strips, with a last block that is filled up."""
    weight, most = torch.randn(700, 1000), 2 ** (bits - 1)
    held = in_few_bits(weight, bits, 32)
    scales = torch.from_numpy(held.scales).repeat_interleave(32, 1)[:, :1000]
    exact = (weight / scales).clamp(-most, most - 1)
    assert float((held.restored() / scales - exact).abs().max()) < 0.5001


def test_a_matrix_in_few_bits_stands_for_its_own_values_however_they_lie_in_memory() -> None:
    held = in_few_bits(torch.randn(700, 1000), 4, 32)
    by_rows = held.restored().numpy()
    by_columns = np.asfortranarray(by_rows)
    assert held.stands_for(by_rows)
    assert held.stands_for(by_columns)
    assert not held.stands_for(by_rows.T)
    for matrix in (by_rows, by_columns):
        for place in ((0, 0), (699, 999), (350, 640)):
            other = matrix.copy(order="K")
            other[place] += 1
            assert not held.stands_for(other)
