"""Weights in a file of their own, for a model that is to grow beyond 2 GiB."""

from pathlib import Path

import torch
from torch import nn, onnx

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)).eval()
x = torch.randn(4, 64)

Path("deploy").mkdir()
target = Path("deploy") / "mlp.onnx"
onnx.export(model, (x,), target, input_names=["x"], external_data=True)
assert target.stat().st_size < 64 * 1024 < sum(path.stat().st_size for path in Path("deploy").iterdir())

written = str(target)
feeds = {"x": x}
expected = [model(x)]
