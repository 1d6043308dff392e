"""An operator of a library, with its ONNX form in ONNX Script."""

import torch
from onnxscript import opset18 as op
from torch import nn, onnx

torch.manual_seed(0)


@torch.library.custom_op("dropin::softsign_scaled", mutates_args=())
def softsign_scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    return scale * x / (1 + x.abs())


@softsign_scaled.register_fake
def _(x, scale):
    return torch.empty_like(x)


def translate(x, scale: float):
    return op.Mul(op.Softsign(x), op.Constant(value_float=scale))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.nn.functional.silu(softsign_scaled(self.linear(x), 1.5))


def silu(self):
    return op.Mul(self, op.Sigmoid(self))


model = Net().eval()
x = torch.randn(3, 4)

onnx.export(
    model,
    (x,),
    "custom.onnx",
    input_names=["x"],
    opset_version=18,
    custom_translation_table={
        torch.ops.dropin.softsign_scaled.default: translate,
        torch.ops.aten.silu.default: silu,
    },
)

written = "custom.onnx"
feeds = {"x": x}
expected = [model(x)]
