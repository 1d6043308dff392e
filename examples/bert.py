"""An encoder with dynamic batch and sequence: `fxport export examples/bert.py:model -o bert.onnx`."""

import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import BertConfig, BertModel

CONFIG = BertConfig(
    vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
)


def model() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor], dict[str, dict[int, Dim]]]:
    """The model in eval mode, no positional arguments, its keyword arguments, and which of their dims may vary."""
    torch.manual_seed(0)
    inputs = {
        "input_ids": torch.randint(CONFIG.vocab_size, (2, 16)),
        "attention_mask": torch.ones(2, 16, dtype=torch.int64),
    }
    dims = {0: Dim("batch"), 1: Dim("sequence", max=CONFIG.max_position_embeddings)}
    return BertModel(CONFIG).eval(), (), inputs, dict.fromkeys(inputs, dims)
