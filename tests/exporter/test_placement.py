"""Predictions from the tables of kernels, and how those are read from ONNX Runtime's documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fxport import export
from fxport.exporter.lowering.kernels import kernels_of
from fxport.exporter.lowering.kernels.placement import predicted, providers
from fxport.ort_runner.kernels import documented, main

PAGE = """## Operators implemented by CPUExecutionProvider

|**Operator Domain:** *ai.onnx*||||
|Abs|*in* X:**T**<br> *out* Y:**T**|13+|**T** = tensor(float)|

## Operators implemented by CUDAExecutionProvider

| Op Name | Parameters | OpSet Version | Types Supported |
|---------|------------|---------------|-----------------|
|**Operator Domain:** *ai.onnx*||||
|Add|*in* A:**T**<br> *in* B:**T**|14+|**T** = tensor(double), tensor(float)|
|||13|**T** = tensor(float16)|
|||[7, 12]|**T** = tensor(float)|
|If|*in* c:**B**|19+|**B** = tensor(bool)<br/> **V** = seq(tensor(float)), tensor(uint8)|
|**Operator Domain:** *com.microsoft*||||
|Gelu|*in* X:**T**|1+|**T** = tensor(float)|
"""


def test_the_documentation_is_read() -> None:
    lines = documented(PAGE, "CUDAExecutionProvider").splitlines()[1:]
    assert lines == ["Add\t13\t13\tT=f16", "Add\t14\t\tT=f32,f64", "Add\t7\t12\tT=f32", "If\t19\t\tB=bool;V=u8"]
    with pytest.raises(ValueError, match="no section on Dml"):
        documented(PAGE, "Dml")


@pytest.mark.parametrize("source", [str, Path.as_uri], ids=["file", "address"])
def test_the_table_is_written(source: Callable[[Path], str], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    main("cuda", source(tmp_path / "page.md"), str(tmp_path / "cuda.tsv"))
    assert (tmp_path / "cuda.tsv").read_text() == documented(PAGE, "CUDAExecutionProvider")


def test_the_shipped_tables() -> None:
    assert providers() == ("cpu", "cuda")
    assert len(kernels_of("cuda")) > 140


class Mixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x @ x), torch.tan(x)


def test_what_cuda_has_no_kernel_for_is_placed_at_its_line() -> None:
    found = predicted(export(Mixed(), (torch.eye(3),)).model, "cuda")
    names = [op for op, _ in found.elsewhere]
    assert found.nodes > len(names)
    assert not {"Relu", "MatMul"} & set(names)
    assert names == ["Tan"]
    assert found.copies == 0  # from an input to an output
    assert all(place is not None and place.path == __file__ for _, place in found.elsewhere)
    assert not predicted(export(torch.nn.Linear(3, 3), (torch.ones(2, 3),)).model, "cuda").elsewhere


class Between(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return torch.tan(y) @ y


def test_values_that_are_copied_there_and_back() -> None:
    assert predicted(export(Between(), (torch.eye(3),)).model, "cuda").copies == 2
