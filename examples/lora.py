"""A language model of which only a low-rank adaptation (LoRA) of its attention is trained, on a device without PyTorch.

    fxport train-step examples/lora.py:step --evaluate -o lora.onnx    here: the step, and a graph for evaluation
    python examples/lora_on_device.py lora.onnx                         there: ONNX Runtime, NumPy and safetensors only

The weights of the model are frozen: they are in the state once, and no output of the step. What is trained and saved is
the adaptation, W + B A (Hu et al., 2021, https://arxiv.org/abs/2106.09685).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

RANK, SCALE = 8, 2.0
ADAPTED = ("q_proj", "v_proj")
VOCABULARY = 64
BATCH, LENGTH = 16, 24


class LowRank(nn.Module):
    """A frozen linear layer with a trained product of rank `RANK` beside it: x [..., n] to [..., m]."""

    def __init__(self, frozen: nn.Linear) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(RANK, frozen.in_features) / RANK)
        self.lora_b = nn.Parameter(torch.zeros(frozen.out_features, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + SCALE * (x @ self.lora_a.T @ self.lora_b.T)


def model() -> nn.Module:
    """Return a Llama of two layers with an adaptation in each; its own weights are random here."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
    )
    net = LlamaForCausalLM(config).requires_grad_(False)
    for layer in net.model.layers:
        for name in ADAPTED:
            setattr(layer.self_attn, name, LowRank(getattr(layer.self_attn, name)))
    return net


def loss(net: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of each token after those before it. tokens: int64 [batch, length]."""
    logits = net(input_ids=tokens[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def step() -> tuple[Any, ...]:
    """(model, optimizer, loss_fn, batch, dynamic_shapes), as `fxport train-step` takes it."""
    net = model().train()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    batch = (torch.randint(0, VOCABULARY, (BATCH, LENGTH)),)
    return net, optimizer, loss, batch, ({0: "batch", 1: "length"},)
