"""Declaration of passes, and their one runner, which handles bodies, dead code, lint and dumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch.fx import GraphModule

from fxport.diagnostics import Log
from fxport.diagnostics.paths import write_whole
from fxport.fx_passes.graph import bodies
from fxport.fx_passes.program import MUTATED, Output, OutputKind, Program

PassFunction = Callable[[GraphModule, Log], bool]

Observer = Callable[[str, Program], None]
"""Called with the name of a pass and the program that it left, for each pass that changed something."""


@dataclass(frozen=True, slots=True)
class FxPass:
    """A named function on one flat graph that returns whether it changed it."""

    name: str
    run: PassFunction

    def __call__(self, gm: GraphModule, log: Log) -> bool:
        return self.run(gm, log)


def fx_pass(function: PassFunction) -> FxPass:
    """Declares a pass. Its name is the function's, `verb_noun`; its docstring shows Given and Result."""
    return FxPass(function.__name__, function)


def run_passes(
    program: Program, passes: Sequence[FxPass], log: Log, dump: Path | None = None, observe: Observer | None = None
) -> Program:
    """Runs the passes in order over the graph and over the bodies of its control flow.

    After each pass that changed something the graph is freed of dead code and linted; with `dump`, it is written to
    `<dump>/<number>-<pass>.fx.py`.
    """
    gm = program.graph_module
    for number, each in enumerate(passes):
        if _run(each, gm, log):
            if dump is not None:
                gm.recompile()
                write_dump(gm, dump / f"{number:02}-{each.name}.fx.py")
            if observe is not None:
                observe(each.name, replace(program, outputs=_with_mutations(program)))
    _recompile(gm)
    return replace(program, outputs=_with_mutations(program))


def _recompile(gm: GraphModule) -> None:
    """Brings the code of a graph, and of the bodies of its control flow, up to date."""
    gm.recompile()
    for _, body in bodies(gm):
        _recompile(body)


def _run(each: FxPass, gm: GraphModule, log: Log) -> bool:
    changed = False
    for _, body in bodies(gm):
        changed |= _run(each, body, log)
    if each(gm, log):
        gm.graph.eliminate_dead_code()
        gm.graph.lint()
        changed = True
    return changed


def _with_mutations(program: Program) -> tuple[Output, ...]:
    """The program's outputs, with those that functionalization appended to the graph's results."""
    mutated: Sequence[str] = program.graph_module.graph.output_node().meta.get(MUTATED, ())
    by_placeholder = {node.name: entry for node, entry in zip(program.placeholders, program.inputs, strict=True)}
    known = {entry.updates for entry in program.outputs}
    names = [by_placeholder[placeholder].name for placeholder in mutated]
    fresh = [Output(OutputKind.MUTATION, f"{name}.updated", name) for name in names if name not in known]
    return (*program.outputs, *fresh)


def write_dump(gm: GraphModule, path: Path) -> None:
    """Writes the graph as readable Python, each line of it with its shape and the user's line above it."""
    write_whole(path, gm.print_readable(print_output=False))
