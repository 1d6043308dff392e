"""A classifier of images, exported as the tutorials of PyTorch do."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Linear(8, 10)

    def forward(self, image):
        return self.classifier(torch.flatten(self.features(image), 1))


model = Classifier()
model.eval()
x = torch.randn(2, 3, 32, 32, requires_grad=True)

onnx.export(
    model,
    x,
    "classifier.onnx",
    export_params=True,
    opset_version=18,
    do_constant_folding=True,
    input_names=["input"],
    output_names=["output"],
    dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
)

image = torch.randn(5, 3, 32, 32)
written = "classifier.onnx"
feeds = {"input": image}
expected = [model(image)]
