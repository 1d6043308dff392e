"""Tensor-parallel generation: each rank runs its own ONNX model; run in processes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from exporter.distributed.collectives import MICROSOFT, communicate
from exporter.distributed.per_rank import export_per_rank
from ort_runner.distributed import RankSession, Segment
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
