"""Counts of what became of many programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fuzz.programs.grammar import Program
from tests.fuzz.programs.running import FAILURES, Verdict


@dataclass
class Tally:
    """Verdicts by kind, refusals by rule and text, and pieces by what became of programs that have them."""

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    pieces: dict[str, Counter[str]] = field(default_factory=dict)
    ways: Counter[int] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def add(self, program: Program, verdict: Verdict) -> None:
        self.kinds[verdict.kind] += 1
        self.ways[verdict.ways] += 1
        self.reasons.update({(rule, _general(text)) for rule, text in verdict.rules})
        for piece in set(program.features):
            self.pieces.setdefault(piece, Counter())[verdict.kind] += 1
        if verdict.failed:
            self.failed.append(program.seed)

    @property
    def judged(self) -> int:
        """Programs that run in eager PyTorch."""
        return self.kinds.total() - self.kinds["thrown away"]

    @property
    def exported(self) -> int:
        return self.kinds["exported"] + self.kinds["limited"]

    def lines(self) -> Iterator[str]:
        """The counts as text."""
        share = self.exported / self.judged if self.judged else 0.0
        yield f"{self.judged} programs: {self.exported} exported ({share:.1%}), {self.kinds['refused']} refused"
        yield "; ".join(f"{kind}: {self.kinds[kind]}" for kind in ("limited", "thrown away", *FAILURES))
        yield "ways that their inputs take: " + ", ".join(f"{n}: {self.ways[n]}" for n in sorted(self.ways) if n)
        for (rule, text), number in self.reasons.most_common(30):
            yield f"{number:6} {rule} {text}"
        refused = {name: kinds["refused"] / kinds.total() for name, kinds in self.pieces.items()}
        most = sorted(refused, key=lambda name: -refused[name])[:15]
        yield "refused most often: " + ", ".join(f"{name} {refused[name]:.0%}" for name in most)
        if self.failed:
            yield f"failed: {' '.join(map(str, sorted(self.failed)))}"


def _general(text: str) -> str:
    """A message without what is of one program: numbers behind names, and quoted values."""
    return re.sub(r"\d+", "0", text)[:150]
