"""Arguments of years ago: keyword arguments at the end of `args`, the exporter of TorchScript, deprecated options."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(4, 4)

    def forward(self, x, mask=None, scale=None):
        scores = self.query(x) @ x.transpose(1, 2)
        if scale is not None:
            scores = scores * scale
        return scores if mask is None else scores.masked_fill(mask, -1e4).softmax(-1)


model = Scorer().eval()
x, mask = torch.randn(2, 3, 4), torch.rand(2, 3, 3) > 0.7

onnx.export(
    model,
    (x, {"mask": mask}),
    "scorer.onnx",
    verbose=False,
    training=onnx.TrainingMode.EVAL,
    operator_export_type=onnx.OperatorExportTypes.ONNX,
    input_names=["x", "mask"],
    opset_version=18,
    dynamic_axes={"x": {0: "batch"}, "mask": [0]},
    keep_initializers_as_inputs=False,
)

x, mask = torch.randn(4, 3, 4), torch.rand(4, 3, 3) > 0.7
written = "scorer.onnx"
feeds = {"x": x, "mask": mask}
expected = [model(x, mask)]
