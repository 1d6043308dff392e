"""Lines of functions by what their code does: instructions of Python, with the places that they stand at."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_trace


def places_of(
    code: CodeType, is_meant: Callable[[dis.Instruction, str], bool]
) -> Iterator[tuple[dis.Instruction, Place]]:
    """Yield the instructions that are meant, with their lines, of a function and of those within it.

    Args:
        code: The code of the function.
        is_meant: Is told an instruction, with the name of the one before.
    """
    before = ""
    for step in dis.get_instructions(code):
        if is_meant(step, before):
            line = step.positions.lineno if step.positions is not None else code.co_firstlineno
            place = place_of_trace(f'File "{code.co_filename}", line {line}, in {code.co_name}')
            if place is not None:
                yield step, place
        before = step.opname
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from places_of(each, is_meant)
