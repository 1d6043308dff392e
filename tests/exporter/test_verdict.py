"""The verdict on a package: which text it is compared along, and what eager PyTorch takes at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fxport import package
from fxport.diagnostics import Log
from fxport.exporter.language_models.verdict import verdict
from tests.cases.language_models import made

pytest.importorskip("transformers")


def test_eager_takes_the_text_of_a_good_package_at_once_and_that_of_a_bad_one_token_by_token(tmp_path: Path) -> None:
    model = made("Llama")
    made_of = package(model, tmp_path / "package")
    calls: list[int] = []
    model.register_forward_pre_hook(lambda module, args: calls.append(args[0].shape[1]))
    found = verdict(made_of.folder, model, Log(), "cpu", steps=32, accuracy="exact", weights="float32")
    assert (calls, found) == ([9, 1, 29, 1, 3], made_of.verdict)
    calls.clear()
    with torch.no_grad():
        model.lm_head.weight[7] += 1
    found = verdict(made_of.folder, model, Log(), "cpu", steps=32, accuracy="exact", weights="float32")
    assert calls[5:] == [9, *[1] * 31, 3]
    assert not found.passed
    assert found.flips
