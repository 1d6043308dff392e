"""What goes wrong on one rank is the same finding on all that live, soon, and no file is half-written."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from fxport.diagnostics import rules
from fxport.exporter.pipeline.options import DEFAULT_OPSET
from tests.distributed.faults import Told
from tests.distributed.spawn import Outcome, spawn

FAULTS = [
    "another_shape",
    "another_precision",
    "another_name",
    "another_placement",
    "another_call",
    "other_values",
    "not_there",
    "there_again",
    "no_such_folder",
    "attention_over_the_ranks",
    "failing_on_the_ranks",
    "no_capture",
    "bad_names",
    "terms_of_a_sum",
    "a_little_slow",
    "too_slow",
    "raising_mid_stream",
    "dying_mid_stream",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults")
    (path / "dying.onnx").write_text("the model of before")
    return path


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> Sequence[Outcome]:
    """Three ranks, of which the last dies at the end."""
    return spawn("tests.distributed.faults", "told", 3, str(folder), FAULTS)


@pytest.fixture(scope="module")
def living(outcomes: Sequence[Outcome]) -> Sequence[Told]:
    assert [outcome.code for outcome in outcomes] == [0, 0, -signal.SIGKILL], "\n".join(o.output for o in outcomes)
    return [outcome.result for outcome in outcomes[:2]]


def the_same(living: Sequence[Told], fault: str) -> tuple[str, list[str]]:
    """What all living ranks were told of a fault, within 30 seconds."""
    headlines, findings, seconds = zip(*(told[fault] for told in living), strict=True)
    assert len(set(headlines)) == 1, headlines
    assert findings[0] == findings[1]
    assert max(seconds) < 30
    return headlines[0], findings[0]


def test_another_shape_names_the_weight_and_the_rank(living: Sequence[Told]) -> None:
    _, findings = the_same(living, "another_shape")
    assert findings[0].startswith(f"{rules.RANKS_DISAGREE.id} The ranks do not hold the same '0.weight'")
    assert "ranks 0 and 2: [8, 8] float32" in findings[0]
    assert "rank 1: [9, 8] float32" in findings[0]
    assert findings[0].endswith("likewise 1 more, the last of them '0.bias'. at export(fully_shard(model), (X,))")
    assert len(findings) == 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "another_precision",
            "rank 1: [8, 8] bfloat16 S(0) on a mesh (3,); likewise 3 more, the last of them '1.bias'.",
        ),
        ("another_name", "ranks 0 and 2: no such weight; rank 1: [8] float32 S(0) on a mesh (3,). at def forward"),
        ("another_placement", "rank 1: [12, 8] float32 S(1) on a mesh (3,). at def forward"),
    ],
)
def test_what_ranks_hold_differently_is_one_finding(living: Sequence[Told], fault: str, said: str) -> None:
    _, (finding,) = the_same(living, fault)
    assert finding.startswith(rules.RANKS_DISAGREE.id)
    assert said in finding


def test_what_ranks_ask_for_differently_is_a_warning(living: Sequence[Told], folder: Path) -> None:
    _, findings = the_same(living, "another_call")
    ours = f"{rules.RANKS_ASK_DIFFERENTLY.id} The ranks call export with different"
    assert [finding.partition(". at ")[0] for finding in findings] == [
        f"{ours} 'opset', and that of rank 0 is used. They give: ranks 0 and 2: the default; rank 1: 18",
        f"{ours} 'input[0]', and that of rank 0 is used. They give: ranks 0 and 2: float32 of 2 dimensions; "
        "rank 1: float64 of 2 dimensions",
    ]
    assert onnx.load(folder / "call.onnx").opset_import[0].version == DEFAULT_OPSET


def test_copies_with_other_values_are_a_warning(living: Sequence[Told]) -> None:
    _, (finding,) = the_same(living, "other_values")
    assert finding.startswith(f"{rules.REPLICAS_DIFFER.id} The ranks have copies of 'up.weight' with other values")
    assert "Others like it: 5." in finding  # three biases, the weight of the head, the buffer


def test_a_rank_that_does_not_come_is_missed_only_once(living: Sequence[Told], folder: Path) -> None:
    assert living[0]["not_there"][1] == [
        f"{rules.RANK_LOST.id} The export has lost 'rank 1'. It did not come within 2 s. "
        "at export(model, (X,), options=Options(rank_timeout=2))"
    ]
    assert living[1]["not_there"][0] == "KeyError: 'no such layer'"
    assert the_same(living, "there_again") == ("", [])
    assert (folder / "again.onnx").exists()


def test_a_folder_that_is_not_there(living: Sequence[Told]) -> None:
    headline, _ = the_same(living, "no_such_folder")
    assert headline.startswith("FileNotFoundError: there is no folder")


def test_attention_over_the_ranks_is_refused(living: Sequence[Told]) -> None:
    _, (finding,) = the_same(living, "attention_over_the_ranks")
    assert finding.startswith(f"{rules.ATTENTION_SPREAD.id} Context parallelism spreads attention over the ranks")
    assert finding.endswith("at export(nn.TransformerEncoderLayer(8, 2, batch_first=True), (x,))")


def test_a_model_that_fails_on_the_ranks_is_not_compared(living: Sequence[Told]) -> None:
    _, (finding,) = the_same(living, "failing_on_the_ranks")
    assert finding.startswith(rules.VALIDATION_SKIPPED.id)
    assert "eager PyTorch raises RuntimeError: aten.mul.Tensor got mixed torch.Tensor and DTensor" in finding


def test_what_stops_rank_0_stops_all(living: Sequence[Told]) -> None:
    _, findings = the_same(living, "no_capture")
    assert findings[0].startswith(rules.DATA_DEPENDENT_CONTROL_FLOW.id)


def test_what_rank_0_raises_is_raised_by_all(living: Sequence[Told]) -> None:
    headline, _ = the_same(living, "bad_names")
    assert headline.startswith("NamesError: input_names has 3 names")


def test_terms_of_a_sum_are_refused(living: Sequence[Told]) -> None:
    _, findings = the_same(living, "terms_of_a_sum")
    assert findings[0].startswith(f"{rules.PLACEMENT_UNSUPPORTED.id} The parts that the ranks hold of 'weight'")


def test_a_rank_may_be_slow(living: Sequence[Told], folder: Path) -> None:
    assert the_same(living, "a_little_slow") == ("", [])
    assert (folder / "slow.onnx").exists()


def test_a_rank_may_be_too_slow(living: Sequence[Told]) -> None:
    _, findings = the_same(living, "too_slow")
    assert findings[0].startswith(f"{rules.RANK_LOST.id} The export has lost 'rank 1'. It did not come within 2 s.")


def test_a_rank_that_raises_says_why(living: Sequence[Told], folder: Path) -> None:
    assert living[1]["raising_mid_stream"][0] == "MemoryError: no memory is left"
    assert living[0]["raising_mid_stream"][1] == [
        f"{rules.RANK_LOST.id} The export has lost 'rank 1'. It raised MemoryError: no memory is left. "
        'at program.save(Path(folder, "raising.onnx"))'
    ]
    assert not (folder / "raising.onnx").exists()


def test_a_rank_that_dies_leaves_what_was_there(living: Sequence[Told], folder: Path) -> None:
    _, findings = the_same(living, "dying_mid_stream")
    assert findings == [
        f"{rules.RANK_LOST.id} The export has lost 'rank 2'. It has ended its connection. "
        'at program.save(Path(folder, "dying.onnx"))'
    ]
    assert (folder / "dying.onnx").read_text() == "the model of before"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{name}.onnx" for name in ("again", "call", "dying", "failing", "slow", "values")
    ]


@pytest.mark.slow
def test_a_rank_may_be_slow_by_20_seconds(tmp_path: Path) -> None:
    for outcome in spawn("tests.distributed.faults", "told", 2, str(tmp_path), ["slow_by_20_seconds"]):
        headline, findings, seconds = outcome.result["slow_by_20_seconds"]
        assert (headline, findings) == ("", [])
        assert seconds > 30  # two waits of 20, less what this rank began later
    assert (tmp_path / "slow.onnx").exists()


@pytest.mark.slow
def test_rank_0_may_die(tmp_path: Path) -> None:
    first, second = spawn("tests.distributed.faults", "told", 2, str(tmp_path), ["leader_dying"])
    assert first.code == -signal.SIGKILL
    _, findings, seconds = second.result["leader_dying"]
    assert findings == [
        f"{rules.RANK_LOST.id} The export has lost 'rank 0'. It has ended its connection. "
        'at program.save(Path(folder, "dying.onnx"))'
    ]
    assert seconds < 30
    assert not (tmp_path / "dying.onnx").exists()
