"""A detector that returns nested outputs; the result is called as the model."""

import torch
from torch import nn, onnx

torch.manual_seed(0)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3, padding=1)
        self.boxes = nn.Conv2d(8, 4, 1)
        self.scores = nn.Conv2d(8, 2, 1)

    def forward(self, image):
        x = torch.relu(self.body(image))
        scores = self.scores(x).flatten(2).softmax(1)
        return {"boxes": self.boxes(x).flatten(2), "classes": (scores, scores.argmax(1))}


model = Detector().eval()
image = torch.randn(1, 3, 8, 8)

program = onnx.export(model, (image,), "detector.onnx", output_names=["boxes", "scores", "labels"], verbose=False)
called = program(image)

outputs = model(image)
expected = [outputs["boxes"], *outputs["classes"]]
for got, want in zip(called, expected, strict=True):
    torch.testing.assert_close(got, want)
written = "detector.onnx"
feeds = {"image": image}
