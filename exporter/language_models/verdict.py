"""The verdict on a package: the logits and the tokens that it gives, beside eager PyTorch with the same weights."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fxport.diagnostics import Finding, Log, rules
from fxport.exporter.capture.arguments.caches import MODULE
from fxport.exporter.language_models.decode import PAST, SEQUENCE, SOURCE
from fxport.exporter.language_models.eager_vision import EagerVision, prompts_with_images
from fxport.exporter.language_models.own_error import InFloat64, Limits, Measured, Taking, error_of, is_half, own_of
from fxport.exporter.language_models.read_anew import read_anew_after
from fxport.exporter.language_models.seq2seq import SOUND, EagerSeq2Seq, source_example
from fxport.exporter.language_models.sights import sight_of
from fxport.exporter.language_models.states import block_of, cache_name, grows
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.generation import Generator, padded, source_of
from fxport.ort_runner.package_config import AUDIO, PackageError

PROMPTS = (9, 6)
"""Tokens of the prompts; the second is padded."""

ALTOGETHER = 3
"""Tokens that are taken at once after the steps, as in speculative decoding."""

BUDGETS = {"exact": 1e-4, "fast": 5e-2}
"""The largest error of a logit, in parts of the largest logit, by the accuracy that was asked for."""

TOKENS, MOST = (SEQUENCE, PAST, SOURCE), "at most"
"""Dimensions that count tokens, and the beginning of the words for a limit of one."""

AT_MOST = re.compile(r"[^<>=]* <=? \d+")
"""The relation of a limit of several, as of all tokens before and of new ones."""

TIE = BUDGETS["exact"]
"""Two logits that are no further apart, in parts of the largest, may change places by rounding."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of comparing a package with eager PyTorch.

    Attributes:
        tokens: Tokens that were generated and compared, of both prompts.
        error: The largest error of a logit, in parts of the largest logit.
        flips: Tokens that were others, and no ties.
        ties: Tokens that were others because two logits are equal but for rounding.
        passed: Whether the package is good.
        filled: Whether a text that fills the context was compared too.
        own: The error of eager PyTorch in half precision itself, beside float64; None in float32.
        widened: Whether operators of the package computed in float32 in the place of bfloat16.
    """

    tokens: int
    error: float
    flips: int
    ties: int
    passed: bool
    filled: bool = False
    own: float | None = None
    widened: bool = False

    def __str__(self) -> str:
        told = f"{self.tokens} tokens compared with eager PyTorch: {self.flips} differ"
        ties = f", {self.ties} ties" if self.ties else ""
        own = f", of eager PyTorch itself {self.own:.2g}" if self.own is not None else ""
        wide = (
            "; kernels of bfloat16 were not validated on this machine: they computed in float32" if self.widened else ""
        )
        return f"{told}{ties}; largest error of a logit {self.error:.2g} of the largest{own}{wide}"


class Eager:
    """The model in PyTorch, taking tokens as `Generator` does."""

    def __init__(self, model: Any) -> None:
        parameters = inspect.signature(type(model).forward).parameters
        self._model, self._name = model, cache_name(type(model))
        self._positions, self._anew = "position_ids" in parameters, read_anew_after(model)
        self._begin()

    def _begin(self) -> None:
        self._cache = importlib.import_module(MODULE).DynamicCache(config=self._model.config)
        self._ids = self._mask = torch.zeros(0, 0, dtype=torch.int64)

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The logits [batch, sequence, vocabulary] of further tokens [batch, sequence]."""
        given = torch.from_numpy(ids)
        new = torch.from_numpy(np.ones_like(ids) if mask is None else mask)
        begins = not self._mask.numel()
        whole = (given, new) if begins else (torch.cat([self._ids, given], 1), torch.cat([self._mask, new], 1))
        if self._anew is not None and not begins and self._mask.shape[1] <= self._anew < whole[1].shape[1]:
            self._begin()
            return self.feed(*(each.numpy() for each in whole))[:, -ids.shape[1] :]
        self._ids, self._mask = whole
        kwargs: dict[str, Any] = {self._name: self._cache, "use_cache": True}
        if begins or grows(self._cache):
            kwargs["attention_mask"] = self._mask
        if self._positions:
            kwargs["position_ids"] = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        with torch.no_grad():
            return self._model(given, **kwargs).logits.float().numpy()


class _Remembering:
    """The answers of a model to the same tokens as before, and the model itself where there are none yet."""

    def __init__(self, eager: Taking, answers: list[np.ndarray]) -> None:
        self._eager, self._answers, self._known = eager, answers, iter(tuple(answers))

    def feed(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        if (known := next(self._known, None)) is not None:
            return known
        self._answers.append(self._eager.feed(ids, mask))
        return self._answers[-1]


def verdict(
    folder: Path,
    model: Any,
    log: Log,
    provider: str,
    *,
    steps: int,
    accuracy: str,
    weights: str,
    answers: list[np.ndarray] | None = None,
    adapter: Path | None = None,
) -> Verdict:
    """Compare a package with the model that it is of, along the text that the model itself generates.

    The package takes the prompts, then each token that eager PyTorch finds likeliest, then several tokens at once. So
    each of its logits is compared after the same tokens, and if none of its choices differs, the texts are equal.
    Eager PyTorch takes the tokens that the package has chosen at once but for the first and last; where a choice or a
    logit then differs, it generates its text token by token instead, and the package takes that. The
    prompts of an encoder-decoder are read by the encoder, and the tokens begin with those of the package. Where the
    capture has limited how many tokens there may be, a text that fills the context is compared too.

    Args:
        folder: The package.
        model: The model in eval mode; of weights in few bits it has the restored values.
        log: Where differences are reported, as errors.
        provider: A provider of ONNX Runtime.
        steps: Tokens to generate, fewer where the context ends.
        accuracy: "exact" or "fast", which says how large the errors of logits may be.
        weights: How the weights are stored, for the message.
        answers: What eager PyTorch gave, token by token, in an earlier comparison of the same steps; filled where it
            is empty.
        adapter: The file of an adapter that takes part.
    """
    text = model.config.get_text_config()
    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(0, text.vocab_size, (size,), generator=generator).tolist() for size in PROMPTS]
    try:
        package = Generator(folder, provider, adapter=adapter)
        limits = Limits(BUDGETS[accuracy], TIE)
        found = _compared(package, model, prompts, log, steps, limits, weights, answers)
        if found.passed and package.config.prompt is not None:
            found = _of_other_lengths(package, model, log, limits, weights, found)
        if not found.passed or package.config.vision is not None or not any(map(limits_tokens, log.findings)):
            return found
        whole, passed = _filled(package, model, log, limits)
        return replace(found, error=max(found.error, whole), passed=passed, filled=True)
    except Failure as failure:
        log.report(failure.rule, **failure.facts)
        return Verdict(0, float("inf"), 0, 0, passed=False)


def _of_other_lengths(
    package: Generator, model: Any, log: Log, limits: Limits, weights: str, found: Verdict
) -> Verdict:
    """The verdict after prompts of one token, and of more than two of the blocks in which the model computes."""
    vocabulary = int(model.config.get_text_config().vocab_size)
    for length in sorted({1, min(2 * block_of(log.findings) + 1, package.config.context_length - 2)}):
        prompt = np.random.default_rng(length).integers(0, vocabulary, (1, length))
        package.reset()
        pairs = islice(_along_eager_text(package, Eager(model), prompt, np.ones_like(prompt), 2), 2)
        other = _judged(pairs, package.provider, log, 2, limits, weights)
        found = replace(found, error=max(found.error, other.error), flips=found.flips + other.flips)
        found = replace(found, passed=found.passed and other.passed)
    return found


def limits_tokens(finding: Finding) -> bool:
    """Return True for a finding that a graph takes no more than some number of tokens."""
    facts = finding.facts
    if finding.rule is rules.DIMENSIONS_TIED:
        return {facts["dim"], facts["other"]} <= {*TOKENS} and AT_MOST.fullmatch(str(facts["relation"])) is not None
    is_limit = finding.rule is rules.DIMENSION_RANGE_NARROWED and str(facts["range"]).startswith(MOST)
    return is_limit and facts["dim"] in TOKENS


def _begun(package: Generator, model: Any, prompts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, Taking]:
    """The first tokens to be fed and their mask, and the model that takes the same, after the encoder of both."""
    config = package.config
    package.reset()
    if config.vision is not None:
        images = sight_of(model).images(model)
        sizes = package.look([{name: each.numpy() for name, each in image.items()} for image in images])
        return *padded(prompts_with_images(model, sizes, prompts), config.pad), EagerVision(model, images)
    if config.encoder is None:
        eager = Eager(model)
        return *padded(prompts, config.pad), Measured(eager, InFloat64(model, Eager(model))) if is_half(
            model
        ) else eager
    source = source_of(prompts, config)
    if AUDIO in config.encoder.inputs:
        source = {AUDIO: source_example(model, len(prompts), 0)[SOUND].numpy()}
    package.encode(source)
    ids, names = np.tile(np.array(package.begin(), np.int64), (len(prompts), 1)), {AUDIO: SOUND}
    given = {names.get(name, name): torch.from_numpy(array) for name, array in source.items()}
    return ids, np.ones_like(ids), EagerSeq2Seq(model, given)


def _filled(package: Generator, model: Any, log: Log, limits: Limits) -> tuple[float, bool]:
    """The error of a text that fills the context, all but one token at once, and whether it is small enough."""
    config, vocabulary = package.config, int(model.config.get_text_config().vocab_size)
    drawn = np.random.default_rng(0).integers(0, vocabulary, config.context_length)
    source = (config.encoder.context_length if config.encoder else None) or 1
    prompt = drawn[:-1] if config.encoder is None else np.resize(drawn, source)
    ids, mask, eager = _begun(package, model, [prompt.tolist()])
    if config.encoder is not None:
        ids = np.concatenate([ids, drawn[None, ids.shape[1] : -1]], 1)
        mask = np.ones_like(ids)
    worst = 0.0
    for new, seen in ((ids, mask), (drawn[None, -1:], np.ones((1, 1), np.int64))):
        worst = max(worst, error_of(eager.feed(new, seen), package.feed(new, seen).astype(np.float32, copy=False)))
    budget = limits.beside(eager).error
    if not worst <= budget:
        facts = {"output": "logits", "provider": package.provider, "ratio": worst / budget, "worst": worst}
        log.report(rules.OUTPUT_DRIFT, **facts, sample=f"{config.context_length} tokens", cause="not looked for")
    return worst, worst <= budget


def _compared(
    package: Generator,
    model: Any,
    prompts: Sequence[Sequence[int]],
    log: Log,
    steps: int,
    limits: Limits,
    weights: str,
    answers: list[np.ndarray] | None,
) -> Verdict:
    """Compare along the text of the package, and where that is not the same for both, along that of eager PyTorch."""
    ids, mask, eager = _begun(package, model, prompts)
    steps = max(1, min(steps, package.config.context_length - ids.shape[1] - ALTOGETHER))
    singly = package.config.prompt is not None
    if answers is None and not singly:
        pairs = _along_own_text(package, eager, ids, mask, steps)
        found = replace(
            _judged(pairs, package.provider, Log(), steps, limits.beside(eager), weights), own=own_of(eager)
        )
        if found.passed and not found.ties:
            return found
        ids, mask, eager = _begun(package, model, prompts)
    taking = eager if answers is None else _Remembering(eager, answers)
    stepwise = list(islice(_along_eager_text(package, taking, ids, mask, steps), steps if singly else None))
    found = _judged(stepwise, package.provider, log, steps, limits.beside(taking), weights)
    return replace(found, own=own_of(taking))


class _Pair(NamedTuple):
    """Logits [batch, sequence, vocabulary] of eager PyTorch and of the package, of tokens that were fed as `seen`."""

    want: np.ndarray
    got: np.ndarray
    seen: np.ndarray


def _along_own_text(package: Taking, eager: Taking, ids: np.ndarray, mask: np.ndarray, steps: int) -> list[_Pair]:
    """Pairs along the text that the package generates, of which eager PyTorch takes most tokens at once.

    It is also the text of eager PyTorch where all choices are alike.
    """
    fed, got = [(ids, mask)], [_logits(package, ids, mask)]
    further = _further(ids)
    for step in range(steps):
        new = got[-1][:, -1].argmax(-1)[:, None] if step < steps - 1 else further
        fed.append((new, np.ones_like(new)))
        got.append(_logits(package, *fed[-1]))
    first, *singles, last = fed
    parts = [singles[:1], singles[1:-1], singles[-1:]] if len(singles) > 1 else [singles]
    joined = [(np.concatenate([new for new, _ in part], 1), len(part)) for part in parts if part]
    want = [eager.feed(*first)]
    for new, count in joined:
        want += np.split(eager.feed(new, np.ones_like(new)), count, axis=1)
    want.append(eager.feed(*last))
    return [_Pair(one, other, seen) for one, other, (_, seen) in zip(want, got, fed, strict=True)]


def _along_eager_text(package: Taking, eager: Taking, ids: np.ndarray, mask: np.ndarray, steps: int) -> Iterator[_Pair]:
    """Pairs along the text that eager PyTorch generates, each token taken by both."""
    further, seen = _further(ids), mask
    for step in range(steps + 1):
        pair = _Pair(eager.feed(ids, seen), _logits(package, ids, seen), seen)
        yield pair
        ids = pair.want[:, -1].argmax(-1)[:, None] if step < steps - 1 else further
        seen = np.ones_like(ids)


def _logits(package: Taking, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return package.feed(ids, mask).astype(np.float32, copy=False)


def _further(ids: np.ndarray) -> np.ndarray:
    """Tokens that are taken at once after the steps."""
    return np.resize(ids[:, ::-1], (len(ids), ALTOGETHER))


def _judged(pairs: Iterable[_Pair], provider: str, log: Log, steps: int, limits: Limits, weights: str) -> Verdict:
    """The verdict on pairs: the prompt, each step, and what is taken at once, of which no token is chosen."""
    worst, flips, ties, texts = 0.0, 0, 0, 0
    budget, tie = limits
    for step, (want, got, seen) in enumerate(pairs):
        if not np.isfinite(want[seen > 0]).all():
            raise PackageError(
                f"the logits of eager PyTorch at token {step} are not finite, so nothing can be compared; look for "
                "weights that are NaN or too large."
            )
        texts, error = len(want), error_of(want[seen > 0], got[seen > 0])
        if not error <= budget and worst <= budget:  # told once
            facts = {"output": "logits", "provider": provider, "ratio": error / budget, "worst": error}
            log.report(rules.OUTPUT_DRIFT, **facts, sample=f"token {step}", cause="not looked for")
        worst = max(worst, error)
        chosen, other = want[:, -1].argmax(-1), got[:, -1].argmax(-1)
        for row in np.flatnonzero(chosen != other) if step < steps else ():
            last = want[row, -1]
            margin = float(last[chosen[row]] - last[other[row]]) / float(np.abs(last).max())
            ties, flips = (ties + 1, flips) if margin <= tie else (ties, flips + 1)
            if margin > tie and flips == 1:
                facts = {"got": int(other[row]), "want": int(chosen[row]), "margin": margin, "weights": weights}
                log.report(rules.TOKENS_DIFFER, provider=provider, step=step, **facts)
    return Verdict(steps * texts, worst, flips, ties, passed=worst <= budget and not flips)
