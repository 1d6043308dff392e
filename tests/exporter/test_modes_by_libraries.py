"""A model that asks a library how it is called: the answer of a capture is told, as that of PyTorch's own functions."""

from __future__ import annotations

import pytest
import torch

from fxport import export
from fxport.diagnostics import Log, rules

pytest.importorskip("transformers", reason="needs the extra 'models'")

from transformers.utils import is_torchdynamo_compiling


class Asking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if is_torchdynamo_compiling() else x * 3


def test_what_a_library_tells_is_told() -> None:
    log = Log()
    export(Asking(), (torch.ones(2),), log=log)
    (finding,) = (each for each in log.findings if each.rule is rules.ENVIRONMENT_BAKED)
    assert finding.place is not None
    assert finding.place.snippet == "return x * 2 if is_torchdynamo_compiling() else x * 3"
