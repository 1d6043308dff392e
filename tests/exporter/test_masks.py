"""Masks of transformers that would hide nothing: a plain run makes none, and neither does a capture."""

from __future__ import annotations

import pytest
import torch

from fxport import Options, export
from fxport.diagnostics import Log
from fxport.exporter.language_models.generation import generation_step
from tests.running import assert_same, run_session, session_of

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "initializer_range": 0.5,
}
SIZES = {0: "batch", 1: "sequence"}


def test_text_model_that_attends_to_both_sides() -> None:
    torch.manual_seed(0)
    config = transformers.GemmaConfig(
        **SMALL, head_dim=8, num_key_value_heads=1, use_bidirectional_attention=True, use_cache=False
    )
    model = transformers.GemmaModel(config).eval()
    program = export(model, (torch.arange(8).reshape(2, 4),), dynamic_shapes=(SIZES,))
    ids = torch.randint(0, 50, (3, 6))
    with torch.no_grad():
        expected = model(ids).last_hidden_state
    assert_same(run_session(session_of(program), program, (ids,)), (expected,))


def test_text_model_that_attends_to_both_sides_if_nothing_is_padded() -> None:
    torch.manual_seed(0)
    config = transformers.GemmaConfig(
        **SMALL, head_dim=8, num_key_value_heads=1, use_bidirectional_attention=True, use_cache=False
    )
    model = transformers.GemmaModel(config).eval()
    args = (torch.arange(8).reshape(2, 4), torch.ones(2, 4, dtype=torch.int64))
    program = export(model, args, dynamic_shapes=(SIZES, SIZES))
    session = session_of(program)
    ids, mask = torch.randint(0, 50, (3, 6)), torch.ones(3, 6, dtype=torch.int64)
    for _ in range(2):
        with torch.no_grad():
            expected = model(ids, mask).last_hidden_state
        assert_same(run_session(session, program, (ids, mask)), (expected,))
        mask[1, :2] = 0


def test_layers_that_are_not_causal_under_a_causal_mask() -> None:
    torch.manual_seed(0)
    config = transformers.Aimv2TextConfig(**SMALL, max_position_embeddings=16, eos_token_id=2)
    model = transformers.Aimv2TextModel(config).eval()
    args = (torch.arange(8).reshape(2, 4), torch.ones(2, 4, dtype=torch.int64))
    program = export(model, args, dynamic_shapes=(SIZES, SIZES))
    session = session_of(program)
    ids, mask = torch.randint(0, 50, (3, 6)), torch.ones(3, 6, dtype=torch.int64)
    for _ in range(2):
        with torch.no_grad():
            expected = model(ids, mask).last_hidden_state
        assert_same(run_session(session, program, (ids, mask))[:1], (expected,))
        mask[1, 4:] = 0


def test_encoder_without_padding() -> None:
    """And the functions of transformers are as they were."""
    module = transformers.masking_utils
    before = module._ignore_causal_mask_sdpa, module._ignore_bidirectional_mask_sdpa
    model = transformers.BertModel(transformers.BertConfig(**SMALL), add_pooling_layer=False).eval()
    program = export(model, (torch.arange(8).reshape(2, 4),), dynamic_shapes=(SIZES,))
    assert not [node for node in program.model.graph if node.op_type in ("Where", "And")]
    assert (module._ignore_causal_mask_sdpa, module._ignore_bidirectional_mask_sdpa) == before


def test_positions_of_two_texts_in_a_row() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=1, use_cache=False)
    model = transformers.LlamaModel(config).eval()
    ids, positions = torch.randint(0, 50, (1, 6)), torch.tensor([[0, 1, 2, 3, 0, 1]])
    kwargs = {"input_ids": ids, "position_ids": positions}
    program = export(model, (), kwargs, dynamic_shapes={"input_ids": {1: "n"}, "position_ids": {1: "n"}})
    ids, positions = torch.randint(0, 50, (1, 5)), torch.tensor([[0, 1, 0, 1, 2]])
    with torch.no_grad():
        expected = model(ids, position_ids=positions).last_hidden_state
    assert_same(run_session(session_of(program), program, (ids, positions)), (expected,))


class TwoTexts(torch.nn.Module):
    """Counts the positions and lets those of a second text begin anew, through another name of the same memory."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.LlamaConfig(**SMALL, num_key_value_heads=1, use_cache=False)
        self.model = transformers.LlamaModel(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        counted = torch.arange(ids.shape[1])
        positions = counted.unsqueeze(0)
        counted[4:] -= 4
        return self.model(input_ids=ids, position_ids=positions).last_hidden_state


def test_positions_of_each_text_are_no_question_of_how_many_there_are() -> None:
    torch.manual_seed(0)
    model = transformers.GemmaModel(
        transformers.GemmaConfig(**SMALL, head_dim=8, num_key_value_heads=1, use_cache=False)
    ).eval()
    log = Log()
    program = export(
        model, (torch.arange(8).reshape(2, 4),), dynamic_shapes=(SIZES,), options=Options(rewrite=False), log=log
    )
    assert not log.findings
    session = session_of(program)
    for batch in (1, 2, 3):
        ids = torch.randint(0, 50, (batch, 6))
        with torch.no_grad():
            assert_same(run_session(session, program, (ids,)), (model(ids).last_hidden_state,))


def test_positions_that_are_written_to_are_not_counted() -> None:
    torch.manual_seed(0)
    model, ids = TwoTexts().eval(), torch.randint(0, 50, (1, 6))
    program = export(model, (ids,))
    with torch.no_grad():
        assert_same(run_session(session_of(program), program, (ids,)), (model(ids),))


def test_heads_of_keys_are_shared_without_a_limit_of_new_tokens() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**SMALL, "num_attention_heads": 4}, num_key_value_heads=2, head_dim=8)
    example = generation_step(transformers.LlamaForCausalLM(config).eval())
    program = export(*example[:3], dynamic_shapes=example.dynamic_shapes)
    assert not program.log.findings  # transformers asks for one query before it repeats the heads
    assert {node.op_type for node in program.model.graph}.isdisjoint({"Expand"})
