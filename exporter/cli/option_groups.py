"""The options of subcommands in the help, by what they are for."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from typer.core import TyperCommand

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Input": (
        "--against",
        "--trust",
        "--sandbox",
        "--init",
        "--input",
        "--inputs",
        "--input-names",
        "--weights",
        "--fake",
    ),
    "Dynamic shapes": ("--dynamic", "--allow-specialization"),
    "Training": ("--steps", "--accumulate", "--clip-grad-norm", "--constant-lr", "--native-rng", "--evaluate"),
    "Models": ("--manifest", "--jobs", "--executor", "--address", "--no-cache", "--update"),
    "Generation": (
        *("--tokenizer", "--dtype", "--runtime", "--block", "--accuracy", "--cache", "--adapter", "--tokens", "--text"),
        *("--prompt", "--ids", "--image", "--audio", "--features", "--max-new-tokens", "--query", "--prompt-name"),
    ),
    "Output": ("--output", "--opset", "--output-names", "--external-data", "--weights-in-place", "--no-functions"),
    "Validation": (
        *("--provider", "--runtime", "--validate", "--no-validate", "--no-run", "--adversarial", "--check-passes"),
        *("--atol", "--rtol", "--bisect", "--repro", "--predict"),
    ),
    "Measurement": ("--runs", "--warmup", "--threads", "--compile"),
    "Reporting": (
        *("--format", "--sarif", "--sarif-profile", "--report", "--fail-on", "--baseline"),
        *("--select", "--ignore", "--severity", "--quiet", "--verbose"),
    ),
    "Advanced": (
        *("--fix", "--plugin", "--custom-ops", "--no-reuse", "--no-rewrite", "--self-check", "--dump"),
        "--profile",
        "--rank-timeout",
    ),
}
"""By heading, in the order of the help. What is in none stands under "Options"; an option of two headings stands under
the first of them that has another option of the same command."""

ARGUMENTS, OTHERS = "Arguments", "Options"


class Grouped(TyperCommand):
    """A subcommand whose help has a section for each group of its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # Any: of click, which newer typer holds a copy of
        """Writes arguments first, then the options of each group in its order, then those of none."""
        heading = _headings({name for param in self.get_params(ctx) for name in param.opts})
        place = {option: number for number, option in enumerate(heading)}
        sections: dict[str, list[tuple[int, tuple[str, str]]]] = {ARGUMENTS: []}
        sections |= {group: [] for group in (*GROUPS, OTHERS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                name = next((name for name in param.opts if name in heading), "")
                group = ARGUMENTS if param.param_type_name == "argument" else heading.get(name, OTHERS)
                sections[group].append((place.get(name, 0), record))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([record for _, record in sorted(rows, key=itemgetter(0))])


def _headings(known: set[str]) -> dict[str, str]:
    """Return the heading of each option of a command, in the order of the help."""
    found: dict[str, str] = {}
    for group, options in GROUPS.items():
        mine = [option for option in options if option in known]
        for option in mine:
            if len(mine) > 1 or sum(option in others for others in GROUPS.values()) == 1:
                found.setdefault(option, group)
    return found
