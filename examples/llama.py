"""A Llama-like decoder, with dynamic batch and sequence.

fxport export examples/llama.py:model -o llama.onnx      logits for a whole text, without a cache
fxport export examples/llama.py:prompt -o prompt.onnx    a prompt: logits, and the cache to go on with
fxport export examples/llama.py:step -o step.onnx        one more token: cache in, logits and the longer cache out
"""

import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM

from fxport import Example, decode_step, prefill

CONFIG = LlamaConfig(
    vocab_size=4096,
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=512,
)


class Decoder(nn.Module):
    """(batch, sequence) tokens and their mask → (batch, sequence, vocabulary) logits, without a cache."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.network = LlamaForCausalLM(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.network(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def model() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor], dict[str, dict[int, Dim]]]:
    """The model in eval mode, tokens and mask, no keyword arguments, and which dims may vary."""
    torch.manual_seed(0)
    tokens = torch.randint(CONFIG.vocab_size, (2, 16))
    dims = {0: Dim("batch"), 1: Dim("sequence")}
    return Decoder(CONFIG).eval(), (tokens, torch.ones_like(tokens)), {}, {"input_ids": dims, "attention_mask": dims}


def prompt() -> Example:
    """The prompt at once; its cache is what `step` begins with."""
    torch.manual_seed(0)
    return prefill(LlamaForCausalLM(CONFIG).eval())


def step() -> Example:
    """One step of decoding, with a cache of any length."""
    torch.manual_seed(0)
    return decode_step(LlamaForCausalLM(CONFIG).eval())
