"""PyTorch's own attention modules: padding, causal masks, weights asked for or not, other sizes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from fxport import export
from fxport.exporter.validation.reference import cases
from tests.running import assert_same, run_session, session_of

AUTO = Dim.AUTO
SIZES = {0: AUTO, 1: AUTO}


class Encoder(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), 1)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.decoder(x, memory, tgt_mask=mask, tgt_is_causal=True)


class Attended(nn.Module):
    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.attention, self.need_weights = nn.MultiheadAttention(16, 2, batch_first=True), need_weights

    def forward(self, x: Tensor, padding: Tensor) -> Any:
        result, weights = self.attention(x, x, x, key_padding_mask=padding, need_weights=self.need_weights)
        return (result, weights) if self.need_weights else result


def padded(batch: int, length: int) -> tuple[Tensor, Tensor]:
    mask = torch.zeros(batch, length, dtype=torch.bool)
    mask[1, length // 2 :] = True
    return torch.randn(batch, length, 16), mask


def paired(batch: int, length: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, length, 16), torch.randn(batch, length + 2, 16)


MODELS = {
    "encoder": (lambda: Encoder(), padded),
    "encoder, norm first, gelu": (lambda: Encoder(activation="gelu", norm_first=True), padded),
    "decoder": (lambda: Decoder(), paired),
    "transformer": (lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True), paired),
    "attention": (lambda: Attended(False), padded),
    "attention with its weights": (lambda: Attended(True), padded),
}


@pytest.mark.parametrize("name", MODELS)
def test_modules(name: str) -> None:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    program = export(model, inputs(2, 5), dynamic_shapes=(SIZES, SIZES))
    session = session_of(program)
    for case in (inputs(2, 5), inputs(3, 7)):
        with torch.enable_grad():  # without it, PyTorch's fast path gives 0 at padded positions
            expected = model(*case)
        actual = run_session(session, program, case)
        assert_same(actual, expected if isinstance(expected, tuple) else [expected])
    if name != "attention with its weights":
        assert Counter(node.op_type for node in program.model.graph)["Attention"] >= 1


def test_the_reference_does_not_take_the_fast_path() -> None:
    model, call = Encoder().eval(), padded(2, 5)
    program = export(model, call)
    sample = next(iter(cases(model, call, {}, program, program.log)))
    with torch.enable_grad():
        np.testing.assert_allclose(sample.outputs["output"], model(*call).detach().numpy(), atol=1e-6)
    assert torch.backends.mha.get_fastpath_enabled()
