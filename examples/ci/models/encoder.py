"""A transformer's encoder with dynamic batch and sequence; its inputs and dims are written in the manifest."""

from torch import Tensor, nn


class Encoder(nn.Module):
    """(batch, sequence) token ids → (batch, sequence, 32) states."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.layers(self.embed(ids))
