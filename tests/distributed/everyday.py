"""Sharded models as people have them, exported and run; functions here run in processes of their own."""

from __future__ import annotations

import traceback
import types
import warnings
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from fxport import decode_step, export, prefill

Pair = namedtuple("Pair", "a b")  # without types, as people write it


@dataclass
class Parts:
    a: torch.Tensor
    b: torch.Tensor


class Nested(nn.Module):
    """Takes a dataclass and a keyword, and calls one of its own modules by a method that was set on the instance."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.act = types.MethodType(lambda self, x: self.second(x), self)

    def forward(self, parts: Parts, *, scale: torch.Tensor) -> dict[str, Any]:
        h = self.first(parts.a) + self.act(parts.b)
        return {"h": h * scale, "rest": (h,)}


class Pieces(nn.Module):
    """Takes an argument of every kind that a policy casts, and says in which precision each has come."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, parts: Parts, pair: Pair, *, scale: torch.Tensor, rest: Any) -> torch.Tensor:
        y = self.inner(parts.a) + parts.b + pair.a * scale
        given = (x, parts.a, parts.b, pair.a, scale, rest["of"][0])
        kept = torch.tensor([tensor.dtype == torch.bfloat16 for tensor in given])
        return torch.cat([y.float().flatten(), kept.float(), (pair.b + x[0, 0]).float().flatten()])


class Packed(nn.Module):
    """Takes a packed sequence beside a tensor, and gives the values of both."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: PackedSequence, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return pad_packed_sequence(x)[0], self.inner(y).float()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, 2, bidirectional=True), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, pair: Pair) -> torch.Tensor:
        return self.inner(pair.a).float() * pair.b.sum().float()


LOW = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)


def nested(folder: str) -> float:
    """The user's hooks stay, around the casts of a policy; keywords and dataclasses keep their names."""
    model = Nested()
    model.first.register_forward_hook(lambda _, args, output: output + 1)
    model.register_forward_pre_hook(lambda _, args, kwargs: (args, {"scale": kwargs["scale"] * 2}), with_kwargs=True)
    fully_shard(model.second, mp_policy=LOW)
    fully_shard(model)
    parts, scale = Parts(torch.randn(2, 4), torch.randn(2, 4)), torch.randn(4)
    eager = model(parts, scale=scale)["h"]
    export(model, (parts,), {"scale": scale}).save(Path(folder, "nested.onnx"))
    return gap(folder, "nested", {"parts.a": parts.a, "parts.b": parts.b, "scale": scale}, eager)


def recurrent(folder: str) -> float:
    model, x = fully_shard(Recurrent().eval()), torch.randn(5, 2, 4)
    eager = model(x)
    export(model, (x,), dynamic_shapes=({0: "time"},)).save(Path(folder, "recurrent.onnx"))
    return gap(folder, "recurrent", {"x": x}, eager)


def named(folder: str) -> float:
    """A namedtuple is cast item by item."""
    model, pair = fully_shard(Named(), mp_policy=LOW), Pair(torch.randn(2, 4), torch.randn(3))
    eager = model(pair)
    export(model, (pair,)).save(Path(folder, "named.onnx"))
    return gap(folder, "named", {"pair.a": pair.a, "pair.b": pair.b}, eager, torch.bfloat16)


def pieces(folder: str) -> float:
    """Keywords, dataclasses, namedtuples and what is nested deeper are cast; whole numbers are not."""
    model = fully_shard(Pieces(), mp_policy=LOW)
    x, scale, rest = torch.randn(2, 4), torch.randn(4), {"of": [torch.randn(1)]}
    parts, pair = Parts(torch.randn(2, 4), torch.randn(4)), Pair(torch.randn(2, 4), torch.arange(3))
    eager = model(x, parts, pair, scale=scale, rest=rest)
    assert eager[8:14].tolist() == [1.0] * 6
    export(model, (x, parts, pair), {"scale": scale, "rest": rest}).save(Path(folder, "pieces.onnx"))
    inputs = {"x": x, "parts.a": parts.a, "parts.b": parts.b, "pair.a": pair.a, "pair.b": pair.b, "scale": scale}
    inputs |= {"rest.of.0": rest["of"][0]}
    return gap(folder, "pieces", inputs, eager, torch.bfloat16)


def packed(folder: str) -> float:
    """FSDP's cast of inputs has no effect on a packed sequence, whose values keep all their digits."""
    model = fully_shard(Packed(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    x, y, lengths = torch.randn(5, 3, 4), torch.randn(2, 4), torch.tensor([5, 3, 2])
    given = pack_padded_sequence(x, lengths)
    eager, _ = model(given, y)
    export(model, (given, y)).save(Path(folder, "packed.onnx"))
    return gap(folder, "packed", {"x.values": x, "x.lengths": lengths, "y": y}, eager)


def compiled_in_place(folder: str) -> float:
    """Blocks by `module.compile()`, which leaves their class as it is."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).eval()
    for layer in model:
        layer.compile(backend="eager")
        fully_shard(layer)
    fully_shard(model)
    x = torch.randn(2, 4)
    eager = model(x)
    export(model, (x,)).save(Path(folder, "compiled.onnx"))
    return gap(folder, "compiled", {"input": x}, eager)


def composable(folder: str) -> float:
    """`replicate`, which makes a class of its own in the place of a wrapper; each rank exports by itself."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
    eager = model(x)
    program = export(replicate(model), (x,))
    if dist.get_rank() == 0:
        program.save(Path(folder, "composable.onnx"))
    return gap(folder, "composable", {"input": x}, eager)


def trained(folder: str) -> float:
    """After steps of training, which leave weights gathered; and it trains on after the export."""
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    fully_shard(model[0])
    fully_shard(model)
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(2, 4)
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    eager = model(x)
    export(torch.compile(model), (x,)).save(Path(folder, "trained.onnx"))
    model(x).sum().backward()
    optimizer.step()
    return gap(folder, "trained", {"input": x}, eager)


def llama_of_transformers(folder: str) -> float:
    """FSDP2: the prompt and a step with its cache."""
    model, ids = llama()
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    eager = model(ids, use_cache=False).logits
    step = decode_step(model)
    export(*step[:3], dynamic_shapes=step.dynamic_shapes).save(Path(folder, "step.onnx"))
    return _prompt(folder, "fsdp", model, ids, eager)


def llama_in_parallel(folder: str) -> float:
    """Tensor parallelism by a plan."""
    model, ids = llama()
    eager = model(ids, use_cache=False).logits
    return _prompt(folder, "parallel", in_parallel(model), ids, eager)


def llama_by_its_own_plan(folder: str) -> float:
    """Tensor parallelism as transformers does it, `tp_plan="auto"`."""
    from transformers import AutoModelForCausalLM

    model, ids = llama()
    eager = model(ids, use_cache=False).logits
    if dist.get_rank() == 0:
        model.save_pretrained(Path(folder, "llama"))
    dist.barrier()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the name of the argument is to change
        spread = AutoModelForCausalLM.from_pretrained(Path(folder, "llama"), tp_plan="auto", device_mesh=mesh)
    return _prompt(folder, "plan", spread.eval(), ids, eager)


def in_parallel(model: Any) -> Any:
    """The Llama spread over all ranks."""
    styles = {f"model.layers.*.self_attn.{name}_proj": ColwiseParallel() for name in "qkv"}
    styles |= {f"model.layers.*.mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")}
    styles |= {f"model.layers.*.{name}_proj": RowwiseParallel() for name in ("self_attn.o", "mlp.down")}
    return parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), styles)


def llama() -> tuple[Any, torch.Tensor]:
    """A small Llama of transformers with tied embeddings, and a prompt."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        vocab_size=64,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval(), torch.randint(0, 64, (1, 6))


def _prompt(folder: str, name: str, model: Any, ids: torch.Tensor, eager: torch.Tensor) -> float:
    prompt = prefill(model)
    export(*prompt[:3], dynamic_shapes=prompt.dynamic_shapes).save(Path(folder, f"{name}.onnx"))
    return gap(folder, name, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, eager)


def gap(
    folder: str,
    name: str,
    inputs: dict[str, torch.Tensor],
    eager: torch.Tensor,
    dtype: torch.dtype = torch.float32,
) -> float:
    """The largest difference of the first output from the eager one, in roundings of its largest value.

    `dtype` is the lowest precision that the model computes in. 0 on the ranks that have no file.
    """
    if dist.get_rank() != 0:
        return 0.0
    session = onnxruntime.InferenceSession(Path(folder, f"{name}.onnx"), providers=["CPUExecutionProvider"])
    got = torch.from_numpy(session.run(None, {key: value.numpy() for key, value in inputs.items()})[0])
    return float((got - eager).abs().max() / (eager.abs().max() * torch.finfo(dtype).eps))


def gaps(folder: str, names: list[str]) -> dict[str, float | str]:
    """For each function of this file: the difference of its model from eager PyTorch, or what it raised."""
    found: dict[str, float | str] = {}
    for name in names:
        torch.manual_seed(3)
        try:
            found[name] = globals()[name](folder)
        except Exception:  # noqa: BLE001  # told to the test
            found[name] = traceback.format_exc()
    return found
