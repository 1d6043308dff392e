"""A number that tells the values of two tensors apart, without sending them."""

from __future__ import annotations

import zlib

import torch

from fxport.exporter.capture.fake import has_no_values

SAMPLED = 1 << 16
"""Elements of a tensor that are looked at, evenly spread: to read all of a large model would take as long as saving it.
"""

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def digest_of(tensor: torch.Tensor) -> int | None:
    """The same for equal values. None for a tensor without values, or in a format of its own."""
    if type(tensor) not in PLAIN or has_no_values(tensor) or tensor.is_quantized or tensor.layout != torch.strided:
        return None
    flat = tensor.detach().reshape(-1)
    chosen = flat[:: max(1, flat.numel() // SAMPLED)].cpu().contiguous()
    return zlib.crc32(chosen.view(torch.uint8).numpy().tobytes())
