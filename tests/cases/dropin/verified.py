"""An export that is verified, with everything that helps when it goes wrong."""

from pathlib import Path

import torch
from torch import nn, onnx

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).eval()
x = torch.randn(2, 8)

program = onnx.export(
    model,
    (x,),
    "verified.onnx",
    input_names=["x"],
    dynamo=True,
    optimize=True,
    verify=True,
    report=True,
    profile=True,
    dump_exported_program=True,
    artifacts_dir="artifacts",
)

names = sorted(path.suffix for path in Path("artifacts").iterdir() if path.suffix in {".md", ".pt2"})
assert names == [".md", ".pt2"], names
saved = torch.export.load(next(Path("artifacts").glob("*.pt2")))
torch.testing.assert_close(saved.module()(x), model(x))

written = "verified.onnx"
feeds = {"x": x}
expected = [model(x)]
