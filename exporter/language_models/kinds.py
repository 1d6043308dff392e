"""Kinds of packages: the graphs of each, the file that describes it, and how it is held against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import onnx_ir as ir
import torch

from fxport.diagnostics import Finding, Log, rules
from fxport.exporter.language_models.decode import SEQUENCE, Example, is_encoder_decoder
from fxport.exporter.language_models.generation import generation_step, require_causal
from fxport.exporter.language_models.package_files import (
    GENAI_TYPE,
    UnequalLayers,
    config_of,
    require_rules,
    write_description,
    write_generation,
)
from fxport.exporter.language_models.processors import write_pictures, write_sounds
from fxport.exporter.language_models.read_anew import GENAI_TYPES as ANEW_TYPES
from fxport.exporter.language_models.read_anew import OWN_TYPE, genai_type, notes_of, read_anew_after
from fxport.exporter.language_models.seq2seq import has_place, require_source, seq2seq_config, seq2seq_parts, start_of
from fxport.exporter.language_models.sights import kinds_of_tokens, sight_of
from fxport.exporter.language_models.states import (
    PROMPT,
    TOTAL,
    has_states,
    longer_prompt,
    prompt_and_step,
    require_stated_order,
    states_config,
)
from fxport.exporter.language_models.text_models import CLASSIFIER, TextModel
from fxport.exporter.language_models.text_verdict import TextVerdict, text_example, text_verdict
from fxport.exporter.language_models.towers import TowerModel, has_towers, image_example, tower_verdict
from fxport.exporter.language_models.verdict import Verdict, limits_tokens, verdict
from fxport.exporter.language_models.vision import has_place as sees_in_genai
from fxport.exporter.language_models.vision import reads_images, vision_config, vision_parts
from fxport.ort_runner.package_config import PackageError
from fxport.ort_runner.text_config import IMAGES

Runtime = Literal["auto", "genai", "ort"]
MODEL = "model.onnx"


class Compared(Protocol):
    """Hold a package against the model that it is of."""

    def __call__(
        self,
        folder: Path,
        model: Any,
        log: Log,
        provider: str,
        *,
        steps: int,
        accuracy: str,
        weights: str,
        answers: list[np.ndarray] | None = None,
    ) -> Verdict | TextVerdict: ...


class Described(Protocol):
    """Write the files beside the graphs; return them."""

    def __call__(
        self,
        model: Any,
        graphs: Mapping[str, ir.Graph],
        target: Path,
        *,
        runtime: Runtime,
        in_place: bool,
    ) -> list[Path]: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of package.

    Attributes:
        parts: The calls that become graphs, by the names of their files.
        describe: Writes the files beside the graphs.
        verdict: Compares it with eager PyTorch.
        lacks: What is said where a choice makes no sense for it, by the choice and its value.
        reads: Writes how images and sounds are read, where the folder of the tokenizer says so.
        refuted: Limits of dimensions (FXP2002) that the verdict on a model refutes where it passes: dimension and
            accepted sizes, or the beginning of their words.
        reads_prompts: Whether the runner makes tokens of a prompt by the file of the tokenizer alone.
        notes: What the metadata of the graphs say to the runner.
        longer: The call of a part with a longer example, where the findings on the first one ask for it; else None.
    """

    parts: Callable[[Any], Mapping[str, Example]]
    describe: Described
    verdict: Compared
    lacks: Mapping[tuple[str, object], str] = field(default_factory=dict)
    refuted: Callable[[Any], tuple[tuple[str, str], ...]] = lambda model: ()
    reads: Callable[[Path | None, Path], list[Path]] = lambda folder, target: []
    reads_prompts: bool = True
    notes: Callable[[Any], Mapping[str, str]] = lambda model: {}
    longer: Callable[[Any, str, Sequence[Finding]], Example | None] = lambda model, name, findings: None

    def require(self, **choices: object) -> None:
        """Raise PackageError for a choice that this kind does not have."""
        for name, value in choices.items():
            told = self.lacks.get((name, value)) or (self.lacks.get((name, ...)) if value is not None else None)
            if told is not None:
                raise PackageError(told)

    def left(self, model: Any, found: Verdict | TextVerdict, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return findings without the limits that a verdict has refuted.

        A text that fills the context refutes those of tokens: a runtime takes no longer one.
        """
        filled, refuted = isinstance(found, Verdict) and found.filled, self.refuted(model)
        return [each for each in findings if not _is_of(each, refuted) and not (filled and limits_tokens(each))]


def _is_of(finding: Finding, limits: tuple[tuple[str, str], ...]) -> bool:
    """Return True for a limit of a dimension that is one of these."""
    facts = finding.facts
    if finding.rule is not rules.DIMENSION_RANGE_NARROWED:
        return False
    return any(
        facts["dim"] == dim and (facts["range"] == sizes or (sizes == LEAST and str(facts["range"]).startswith(sizes)))
        for dim, sizes in limits
    )


def _decoder(
    model: Any,
    graphs: Mapping[str, ir.Graph],
    target: Path,
    *,
    runtime: Runtime,
    in_place: bool,
) -> list[Path]:
    anew = read_anew_after(model)
    kind = genai_type(anew, GENAI_TYPE)
    if runtime == "genai" and kind is None:
        raise PackageError(
            f"this model reads a text anew after {anew} tokens, which onnxruntime-genai does after "
            f"{', '.join(map(str, ANEW_TYPES))} alone; choose the runtime 'ort'."
        )
    try:
        config = config_of(model, graphs[MODEL], kind or OWN_TYPE, uniform=runtime == "genai", in_place=in_place)
    except UnequalLayers as error:
        raise PackageError(
            f"the layers of the cache have different shapes ({error}), which onnxruntime-genai cannot take; choose "
            "the runtime 'ort'."
        ) from error
    return [write_description(config, target), *write_generation(model, target)]


def _texts(
    model: TextModel,
    graphs: Mapping[str, ir.Graph],
    target: Path,
    *,
    runtime: Runtime,
    in_place: bool,
) -> list[Path]:
    images = IMAGES if isinstance(model, TowerModel) else None
    return [replace(model.text_config, images=images).write(target)]


def _vision(
    model: Any,
    graphs: Mapping[str, ir.Graph],
    target: Path,
    *,
    runtime: Runtime,
    in_place: bool,
) -> list[Path]:
    return [write_description(vision_config(model, graphs), target), *write_generation(model, target)]


def _seq2seq(
    model: Any,
    graphs: Mapping[str, ir.Graph],
    target: Path,
    *,
    runtime: Runtime,
    in_place: bool,
) -> list[Path]:
    return [write_description(seq2seq_config(model, graphs), target), *write_generation(model, target, start_of(model))]


def _states(
    model: Any,
    graphs: Mapping[str, ir.Graph],
    target: Path,
    *,
    runtime: Runtime,
    in_place: bool,
) -> list[Path]:
    return [write_description(states_config(model, graphs), target), *write_generation(model, target)]


LEAST = "at least"
"""Beginning of the words for a limit below which the verdict has looked."""

SINGLE_STEPS = ((SEQUENCE, "at least 2"),)
"""The verdict on models that generate runs single tokens after the prompt."""

NO_HALF = {("dtype", ...): "only decoders of text are packaged in half precision; omit --dtype."}
NO_INPUT = "an adapter as an input is for decoders of text alone; omit --adapter."

DECODER = Kind(
    lambda model: {MODEL: generation_step(model)},
    _decoder,
    verdict,
    refuted=lambda model: SINGLE_STEPS,
    notes=notes_of,
)
STATES = Kind(
    prompt_and_step,
    _states,
    verdict,
    {
        ("runtime", "genai"): "onnxruntime-genai has no place for the states of this cache; choose the runtime 'ort'.",
        ("dtype", ...): "a decoder whose cache has states is packaged in float32; omit --dtype.",
        ("cache", ...): "a cache in place is for keys and values alone, and this one has states; omit --cache.",
        ("adapter", "input"): NO_INPUT,
    },
    lambda model: ((SEQUENCE, LEAST), (TOTAL, LEAST)),
    longer=lambda model, name, findings: longer_prompt(model, findings) if name == PROMPT else None,
)
TEXTS = Kind(
    lambda model: {MODEL: text_example(model)},
    _texts,
    text_verdict,
    {
        ("runtime", "genai"): "onnxruntime-genai runs no embedding or reranking models; choose the runtime 'ort'.",
        ("cache", ...): "an embedding or reranking model has no cache; omit --cache.",
        ("adapter", "input"): NO_INPUT,
        **NO_HALF,
        ("tokenizer", ...): "the tokenizer of an embedding or reranking model is that of its folder; omit --tokenizer.",
        ("text", ...): "a text is scored by models that generate; an embedding or reranking model does not; omit it.",
    },
    reads_prompts=False,
)
TOWERS = replace(
    TEXTS,
    parts=lambda model: {MODEL: text_example(model), IMAGES: image_example(model)},
    verdict=tower_verdict,
    reads=write_pictures,
)
SPOKEN = Kind(
    seq2seq_parts,
    _seq2seq,
    verdict,
    {
        **NO_HALF,
        ("cache", ...): "a cache in place is for decoders alone; omit --cache.",
        ("adapter", "input"): NO_INPUT,
        ("text", ...): "a text is scored by decoders alone, not by encoder-decoders; omit it.",
    },
    lambda model: SINGLE_STEPS,
    write_sounds,
    reads_prompts=False,
)
VISION = Kind(
    vision_parts,
    _vision,
    verdict,
    {
        **NO_HALF,
        ("cache", ...): "a cache in place is for decoders of text alone; omit --cache.",
        ("adapter", "input"): NO_INPUT,
        ("text", ...): "a text is scored by decoders of text alone; omit it.",
    },
    lambda model: (*SINGLE_STEPS, *sight_of(model).refuted(model)),
    write_pictures,
)
VISION_ALONE = replace(
    VISION,
    lacks={
        **VISION.lacks,
        (
            "runtime",
            "genai",
        ): "onnxruntime-genai has no place for this vision-language model; choose the runtime 'ort'.",
    },
)
SEQ2SEQ = replace(
    SPOKEN,
    reads=DECODER.reads,
    reads_prompts=True,
    lacks={
        **SPOKEN.lacks,
        ("runtime", "genai"): "onnxruntime-genai has no place for this encoder-decoder; choose the runtime 'ort'.",
    },
)


def kind_of(model: torch.nn.Module) -> Kind:
    """The kind of a model. Raises PackageError or NotGenerativeError for one that no package is made of."""
    if isinstance(model, TextModel):
        return TOWERS if isinstance(model, TowerModel) else TEXTS
    if type(model).__name__.endswith(CLASSIFIER) or has_towers(model):
        raise PackageError(
            f"'{type(model).__name__}' is packaged from its folder, which says how texts become its inputs: save it "
            "and its tokenizer with save_pretrained."
        )
    require_rules(model)
    if is_encoder_decoder(model):
        require_source(model)
        start_of(model)
        return SPOKEN if has_place(model) else SEQ2SEQ
    require_causal(model)
    if reads_images(model):
        sight_of(model)
        kinds_of_tokens(model)
        return VISION if sees_in_genai(model) else VISION_ALONE
    require_stated_order(model)
    return STATES if has_states(model) else DECODER
