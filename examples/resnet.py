"""An image classifier with a dynamic batch: `fxport export examples/resnet.py:model -o resnet.onnx`."""

import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import ResNetConfig, ResNetForImageClassification

CONFIG = ResNetConfig(embedding_size=32, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])


class Classifier(nn.Module):
    """(batch, 3, height, width) images → (batch, 2) logits."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.network = ResNetForImageClassification(config)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(pixel_values=images).logits


def model() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor], dict[str, dict[int, Dim]]]:
    """The model in eval mode, two images, no keyword arguments, and which dims may vary."""
    torch.manual_seed(0)
    return Classifier(CONFIG).eval(), (torch.randn(2, 3, 64, 64),), {}, {"images": {0: Dim("batch")}}
