"""Tensor-parallel generation: each rank runs ONNX models of its own; functions here run in processes of their own."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from fxport import decode_step
from fxport.exporter.distributed.collectives import MICROSOFT, communicate
from fxport.exporter.distributed.per_rank import export_per_rank
from fxport.ort_runner.distributed import RankSession, Segment
from tests.distributed.everyday import in_parallel, llama
from tests.distributed.models import made, mesh_of, parallel

COUNT = 16


def generated(folder: str) -> tuple[list[int], list[int], float, list[str], set[str]]:
    """Tokens of the ranks' ONNX models, tokens of eager PyTorch in one process, the largest difference of their
    logits, the collectives, and their operators in the other domain."""
    model, ids = made("llama")
    whole, _ = made("llama")
    prompt = ids[:1]
    shapes = ({1: "sequence"},)
    spread = parallel(model, "llama", mesh_of(2))
    program = export_per_rank(spread, (prompt,), dynamic_shapes=shapes)
    path = Path(folder, f"rank{dist.get_rank()}.onnx")
    program.save(path, external_data=True)
    mine, eager, worst = prompt.numpy(), prompt, 0.0
    with RankSession(path, communicate, "cpu", threads=1) as session:
        collectives = [step.op_type for step in session.steps if not isinstance(step, Segment)]
        for _ in range(COUNT):
            logits = session.run({"ids": mine})[session.outputs[0]]
            with torch.no_grad():
                expected = whole(eager)
            worst = max(worst, float(np.abs(logits - expected.numpy()).max()))
            mine = np.concatenate([mine, logits[:, -1:].argmax(-1)], 1)
            eager = torch.cat([eager, expected[:, -1:].argmax(-1)], 1)
    other = export_per_rank(spread, (prompt,), domain=MICROSOFT).model.graph
    named = {f"{node.domain}::{node.op_type}" for node in other if node.domain}
    return mine[0].tolist(), eager[0].tolist(), worst, collectives, named


def generated_with_cache(folder: str) -> tuple[list[int], list[int], float, list[int]]:
    """As `generated`, of a Llama of transformers by a model of one step, from the cache that eager PyTorch has of the
    prompt; and the shape of the first layer's keys at the end. Each rank has its own heads of the cache."""
    torch.manual_seed(3)
    spread, ids = llama()
    whole, prompt = copy.deepcopy(spread), ids[:1]
    in_parallel(spread)
    example = decode_step(spread)
    program = export_per_rank(*example[:3], dynamic_shapes=example.dynamic_shapes)
    path = Path(folder, f"rank{dist.get_rank()}.onnx")
    program.save(path, external_data=True)
    mine, eager, worst = prompt.numpy(), prompt, 0.0
    with torch.no_grad(), RankSession(path, communicate, "cpu", threads=1) as session:
        layers = spread(prompt[:, :-1], use_cache=True).past_key_values.layers
        cache = {
            f"past_key_values.{index}.{part}": held.numpy()
            for index, layer in enumerate(layers)
            for part, held in (("key", layer.keys), ("value", layer.values))
        }
        for _ in range(COUNT):
            found = session.run({"input_ids": mine[:, -1:], "attention_mask": np.ones_like(mine), **cache})
            logits = found.pop("logits")
            cache = {name.removesuffix(".out"): array for name, array in found.items()}
            expected = whole(eager, use_cache=False).logits[:, -1:]
            worst = max(worst, float(np.abs(logits - expected.numpy()).max()))
            mine = np.concatenate([mine, logits.argmax(-1)], 1)
            eager = torch.cat([eager, expected.argmax(-1)], 1)
    return mine[0].tolist(), eager[0].tolist(), worst, list(cache["past_key_values.0.key"].shape)


class Exchange(torch.nn.Module):
    """Every collective that there is a node for, on rows of which each rank sends the other another number."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        world: Any = dist.group.WORLD
        splits = ([1, 3], [3, 1])[dist.get_rank()]
        return (
            functional.all_to_all_single(x * 2, splits, splits, world),
            functional.all_gather_tensor(x + 1, 0, world),
            functional.reduce_scatter_tensor(x, "avg", 0, world),
            functional.all_reduce(x, "max", world),
            functional.broadcast(x - 1, 1, world),
        )


def exchanged(folder: str) -> tuple[list[str], float]:
    """The operators of the collectives, and the largest difference from eager PyTorch."""
    model, x = Exchange(), torch.randn(4, 3) + dist.get_rank()
    want = model(x)
    path = Path(folder, f"rank{dist.get_rank()}.onnx")
    export_per_rank(model, (x,)).save(path)
    with RankSession(path, communicate, "cpu", threads=1) as session:
        kinds = [step.op_type for step in session.steps if not isinstance(step, Segment)]
        got = session.run({"x": x.numpy()})
    return sorted(kinds), max(
        float(np.abs(mine - theirs.numpy()).max()) for mine, theirs in zip(got.values(), want, strict=True)
    )
