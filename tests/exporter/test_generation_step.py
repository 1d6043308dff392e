"""One graph for prompt and steps: at a past of 0, at single tokens, at several at once, padded, with full windows."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from fxport import OnnxProgram, export, generation_step
from fxport.diagnostics import Level, Log
from fxport.exporter.language_models.generation import NotGenerativeError
from tests.cases.language_models import MODELS, QUICK, made
from tests.running import assert_same, run_session, session_of

transformers = pytest.importorskip("transformers")

CHUNKS = (6, 1, 1, 3, 1, 2)
"""New tokens of each call: the prompt, steps, and several tokens at once."""

OF_THE_CONTEXT = ("at most 61.", "at most 62.")
"""Limits by a table of 64 positions, which a few models have."""

Arrays = dict[str, np.ndarray]


def exported(model: Any, log: Log) -> OnnxProgram:
    example = generation_step(model)
    return export(*example[:3], dynamic_shapes=example.dynamic_shapes, log=log)


def positions_of(model: Any, mask: torch.Tensor, new: int) -> dict[str, torch.Tensor]:
    """Positions without padding, as `generate` gives them, of models that take some."""
    if "position_ids" not in inspect.signature(type(model).forward).parameters:
        return {}
    return {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -new:]}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]
)
@pytest.mark.filterwarnings("ignore::UserWarning:transformers")
def test_one_graph_takes_prompts_and_steps(name: str) -> None:
    model, log = made(name), Log()
    program = exported(model, log)
    told = [each.message for each in log.findings if each.level is not Level.NOTE]
    assert not [text for text in told if not text.endswith(OF_THE_CONTEXT)]
    session = session_of(program)
    ports = {port.name: port.shape for port in session.get_inputs()}
    assert ports["attention_mask"] == ["batch", "past + sequence"]
    generator = torch.Generator().manual_seed(1)
    for batch, padding in ((1, 0), (3, 2)):
        feeds: Arrays = {
            port: np.zeros((batch, shape[1], 0, shape[3]), np.float32) for port, shape in ports.items() if "." in port
        }
        mask = torch.ones(batch, 0, dtype=torch.int64)
        cache = transformers.DynamicCache(config=model.config)  # with windows, where the model has them
        for new in CHUNKS:
            ids = torch.randint(0, 100, (batch, new), generator=generator)
            fresh = torch.ones_like(ids)
            fresh[0, : padding if mask.shape[1] == 0 else 0] = 0
            mask = torch.cat([mask, fresh], 1)
            given = {"attention_mask": mask, "past_key_values": cache, "use_cache": True}
            with torch.no_grad():
                want = model(ids, **given, **positions_of(model, mask, new)).logits.numpy()
            outputs = [port.name for port in session.get_outputs()]
            feeds |= {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
            results = dict(zip(outputs, map(np.asarray, session.run(outputs, feeds)), strict=True))
            seen = fresh.numpy() > 0
            np.testing.assert_allclose(results["logits"][seen], want[seen], rtol=1e-4, atol=1e-4 * np.abs(want).max())
            feeds |= {port: results[port.replace("past_key_values", "present")] for port in ports if "." in port}


class Attending(torch.nn.Module):
    """The attention of one layer of transformers, without a mask."""

    num_key_value_groups = 2

    def __init__(self, *, is_causal: bool, bias: bool = False) -> None:
        super().__init__()
        self.is_causal, self.bias = is_causal, bias

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        attend = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"]
        bias = query @ key[:, :1].transpose(2, 3) if self.bias else None
        return attend(self, query, key, value, None, position_bias=bias)[0]


def attended(queries: int, keys: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(1, 4, queries, 8), torch.randn(1, 2, keys, 8), torch.randn(1, 2, keys, 8)


@pytest.mark.parametrize("bias", [False, True], ids=["", "biased"])
@pytest.mark.parametrize(
    ("is_causal", "sizes"),
    [(True, [(3, 3), (1, 1), (5, 5)]), (False, [(3, 5), (1, 4), (1, 1), (6, 2)])],
    ids=["as many keys", "not causal"],
)
def test_a_single_query_that_sees_all_keys_is_like_several(
    sizes: list[tuple[int, int]], *, is_causal: bool, bias: bool
) -> None:
    """Nothing comes later than a single query, or nothing is hidden: no limit, and no branch in the graph."""
    model, log = Attending(is_causal=is_causal, bias=bias), Log()
    keys = {2: "queries" if is_causal else "keys"}
    calls = [attended(*each) for each in sizes]
    program = export(model, calls[0], dynamic_shapes=({2: "queries"}, keys, keys), log=log)
    assert not log.findings
    assert not any(node.op_type == "If" for node in program.model.graph)
    session = session_of(program)
    for call in calls:
        assert_same(run_session(session, program, call), (model(*call),))


def test_a_single_query_that_is_causal_among_more_keys_is_told() -> None:
    """It sees all keys, as none comes later than the last query; several see the first ones."""
    log, dims = Log(), ({2: "queries"}, {2: "keys"}, {2: "keys"})
    export(Attending(is_causal=True), attended(3, 5), dynamic_shapes=dims, log=log)
    assert "FXP2002" in {each.rule.id for each in log.findings}


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "an encoder-decoder": (
        "T5ForConditionalGeneration",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 100},
        "is an encoder-decoder",
    ),
    "states": (
        "MambaForCausalLM",
        {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 100, "state_size": 4},
        "has no single graph|takes no",
    ),
    "states and keys": (
        "Lfm2ForCausalLM",
        {
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "vocab_size": 100,
            "num_hidden_layers": 2,
            "layer_types": ["full_attention", "conv"],
        },
        "has no single graph",
    ),
    "no cache": (
        "BertLMHeadModel",
        {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64},
        "has no single graph",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused(name: str) -> None:
    kind, settings, words = REFUSED[name]
    cls = getattr(transformers, kind)
    with pytest.raises(NotGenerativeError, match=words):
        generation_step(cls(cls.config_class(**settings)).eval())


def test_what_is_no_model_of_transformers_is_refused() -> None:
    with pytest.raises(NotGenerativeError, match="no language model of transformers"):
        generation_step(torch.nn.Linear(2, 2))
