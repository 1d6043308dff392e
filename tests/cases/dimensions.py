"""Models whose dynamic dimensions cannot stay as they are asked for: each with what must be said, and at which line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.cases.sized_models import (
    Added,
    Batch,
    Branch,
    Checked,
    Chunks,
    Dataclasses,
    Doubled,
    Entries,
    Expanded,
    FirstTwo,
    Groups,
    Halved,
    Hashed,
    Keywords,
    LoopOverSize,
    Named,
    NamedTuples,
    Neighbours,
    Nested,
    NotFive,
    OneRow,
    Parity,
    Patches,
    Pooled,
    Positions,
    PositionsUpTo,
    Roots,
    Rows,
    SizeEquals,
    Skip,
    Squeezed,
    Starred,
    StarredBranch,
    Times,
    Together,
    Upsampled,
    WholeWindows,
    Windows,
)


@dataclass(frozen=True)
class DimensionCase:
    """`said` holds, for each finding that must be made, its rule, what it says, and a text of its line in forward.

    `shapes` must be all that is dynamic in the call; `kept` are the axes that stay dynamic with "auto".
    """

    model: Callable[[], nn.Module]
    args: tuple[Any, ...]
    shapes: Any
    said: tuple[tuple[str, str, str], ...]
    kept: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    auto: Any = "auto"
    """With several arguments, "auto" for those that may have dynamic dimensions."""
    rewrite: bool = True
    """False: branches stay as they are, and limit what they ask about."""


SPECIALIZED, NARROWED, TIED = "FXP2001", "FXP2002", "FXP2003"


def t(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


CASES: Mapping[str, DimensionCase] = {
    "neighbours, and a reshape of a transpose": DimensionCase(
        Neighbours, (t(6, 4),), ({0: "n", 1: "m"},), ((NARROWED, "at least 2", "arange"),), ("x.0", "x.1")
    ),
    "multiplied by a table of one size": DimensionCase(
        Rows, (t(4, 3),), ({0: "n", 1: "m"},), ((SPECIALIZED, "'n' of input 'x'", "arange"),), ("x.1",)
    ),
    "a size compared with a number": DimensionCase(
        SizeEquals, (t(4, 3),), ({0: "n"},), ((SPECIALIZED, "'n'", "== 4"),), ("x.1",)
    ),
    "a loop over a size": DimensionCase(LoopOverSize, (t(4, 3),), ({0: "n"},), (), ("x.0", "x.1")),
    "a dictionary of as many entries": DimensionCase(
        Entries, (t(4, 3),), ({0: "n"},), ((SPECIALIZED, "'n'", "range"),), ("x.1",)
    ),
    "added to a table of one size": DimensionCase(
        Positions, (t(2, 7, 3),), ({0: "n", 1: "time"},), ((SPECIALIZED, "'time'", "x + "),), ("x.0",)
    ),
    "added to a part of a table": DimensionCase(
        PositionsUpTo, (t(2, 7, 3),), ({0: "n", 1: "time"},), ((NARROWED, "at most 16", "x + "),), ("x.0", "x.1")
    ),
    "a branch on a size": DimensionCase(
        Branch, (t(4, 3),), ({0: "n"},), ((NARROWED, "at most 8", "> 8"),), ("x.0", "x.1"), rewrite=False
    ),
    "a branch on a size, the other way": DimensionCase(
        Branch, (t(12, 3),), ({0: "n"},), ((NARROWED, "at least 9", "> 8"),), ("x.0", "x.1"), rewrite=False
    ),
    "two sizes that must be equal": DimensionCase(
        Added, (t(4, 3), t(4, 3)), ({0: "n"}, {0: "m"}), ((TIED, "'m == n'", "+ y"),), ("x.0", "x.1", "y.0", "y.1")
    ),
    "a size twice another": DimensionCase(
        Doubled,
        (t(4, 3), t(8, 3)),
        ({0: "n"}, {0: Dim.DYNAMIC}),
        ((TIED, "'y.0 == 2*n'", "* y"),),
        ("x.0", "x.1", "y.0", "y.1"),
    ),
    "groups of four": DimensionCase(
        Groups, (t(8, 5),), ({0: "n", 1: "m"},), ((NARROWED, "a multiple of 4", "reshape"),), ("x.0", "x.1")
    ),
    "even or odd": DimensionCase(
        Parity, (t(6, 3),), ({0: "n"},), ((NARROWED, "a multiple of 2", "% 2"),), ("x.0", "x.1"), rewrite=False
    ),
    "a branch for one row": DimensionCase(
        OneRow, (t(4, 3),), ({0: "n"},), ((NARROWED, "at least 2", "== 1"),), ("x.0", "x.1"), rewrite=False
    ),
    "as many as the first two are": DimensionCase(
        FirstTwo, (t(4, 3),), ({0: "n"},), ((NARROWED, "at least 2", "x[:2]"),), ("x.0", "x.1")
    ),
    "an axis that vanishes when it is one": DimensionCase(
        Squeezed, (t(4, 3),), ({0: "n"},), ((NARROWED, "at least 2", "squeeze"),), ("x.0", "x.1")
    ),
    "a grid of patches": DimensionCase(
        Patches,
        (t(2, 3, 32, 32),),
        ({0: "n", 2: "h", 3: "w"},),
        ((SPECIALIZED, "'h' of", "+ self.positions"), (SPECIALIZED, "32 to 39", "+ self.positions")),
        ("x.0", "x.2", "x.3"),
    ),
    "windows": DimensionCase(
        Windows,
        (t(2, 14, 21, 3),),
        ({1: "h", 2: "w"},),
        ((NARROWED, "'h' of", "view"), (NARROWED, "a multiple of 7", "view")),
        ("x.0", "x.1", "x.2", "x.3"),
    ),
    "down and up again": DimensionCase(
        Skip, (t(2, 3, 8),), ({2: "time"},), ((NARROWED, "a multiple of 2", "inner + x"),), ("x.0", "x.2")
    ),
    "all but one size": DimensionCase(
        NotFive, (t(4, 3),), ({0: "n"},), ((NARROWED, "not 5", "assert"),), ("x.0", "x.1")
    ),
    "a branch on the sum of two sizes": DimensionCase(
        Together,
        (t(4, 3), t(3, 3)),
        ({0: "n"}, {0: "m"}),
        ((TIED, "m + n <= 10", "> 10"),),
        ("x.0", "x.1", "y.0", "y.1"),
        rewrite=False,
    ),
    "a check of the user's": DimensionCase(
        Checked, (t(6, 3),), ({0: "n"},), ((NARROWED, "a multiple of 3", "_check"),), ("x.0", "x.1")
    ),
    "*args: a number of rows": DimensionCase(
        Starred,
        (t(4, 3), t(2, 3)),
        ({0: "n", 1: "m"}, {0: "k"}),
        ((SPECIALIZED, "'n' of input 'xs.0'", "arange"),),
        ("xs.0.1", "xs.1.0", "xs.1.1"),
    ),
    "*args: a branch": DimensionCase(
        StarredBranch,
        (t(3), t(4, 3), t(4, 3)),
        {"xs": ({0: "n"}, {0: "m"})},
        ((NARROWED, "'m' of input 'xs.1'", "< 7"),),
        ("xs.1.0",),
        auto={"xs.1": "auto"},
        rewrite=False,
    ),
    "**kwargs: tied": DimensionCase(
        Keywords,
        (t(4, 3),),
        {"x": {0: "n"}, "mask": {0: "m"}},
        ((TIED, "'m == n'", "mask"),),
        ("x.0", "x.1", "mask.0", "mask.1"),
        {"mask": t(4, 3)},
    ),
    "nested containers": DimensionCase(
        Nested,
        ({"images": [{"pixels": t(2, 3)}, {"pixels": t(4, 3)}], "scale": t(1)},),
        {"batch.images.1.pixels": {0: "n"}},
        ((SPECIALIZED, "'n' of input 'batch.images.1.pixels'", "arange"),),
        (),
        auto={"batch": {"images": [None, "auto"]}},
    ),
    "a named tuple": DimensionCase(
        NamedTuples,
        (Named(t(4, 5), [t(4, 5)]),),
        (Named({0: "n", 1: "m"}, [{0: "n"}]),),  # type: ignore[arg-type]
        ((SPECIALIZED, "'m' of input 'pair.left'", "@"),),
        ("pair.left.0", "pair.right.0.0"),
        auto={"pair": {"left": "auto", "right": "auto"}},
    ),
    "a dataclass": DimensionCase(
        Dataclasses,
        (Batch(t(4), {"own": t(3)}),),
        {"batch.masks.own": {0: "n"}},
        ((NARROWED, "'n' of input 'batch.masks.own'", ">= 6"),),
        ("batch.x.0", "batch.masks.own.0"),
        rewrite=False,
    ),
    "a list": DimensionCase(
        Chunks,
        ([t(4, 3), t(5, 3)],),
        ([{0: "n"}, {0: "m"}],),
        ((TIED, "((m + n) % 3) == 0", "unflatten"),),
        ("chunks.0.0", "chunks.0.1", "chunks.1.0", "chunks.1.1"),
    ),
    "a number": DimensionCase(
        Times,
        (t(4, 3), 3),
        ({0: "n"}, "times"),
        (),
        ("x.0", "x.1"),
        auto=("auto", "auto"),
    ),
    "expanded to a number of rows": DimensionCase(
        Expanded, (t(6, 3), t(1, 3)), ({0: "n"}, None), ((SPECIALIZED, "'n'", "expand"),), (), auto=("auto", None)
    ),
    "a size as a key": DimensionCase(Hashed, (t(4, 3),), ({0: "n"},), ((SPECIALIZED, "'n'", "[rows]"),), ("x.1",)),
    "a square": DimensionCase(
        Roots,
        (t(2, 16),),
        ({0: "n", 1: "m"},),
        ((NARROWED, "1, 4, 9, 16 or in one of 7 other ranges up to 121", "reshape"),),
        ("x.0", "x.1"),
    ),
    "adaptive pooling": DimensionCase(Pooled, (t(2, 3, 8, 8),), ({2: "h", 3: "w"},), (), ("x.0", "x.1", "x.2", "x.3")),
    "cut back to what it was": DimensionCase(
        WholeWindows, (t(2, 8, 16, 3),), ({1: "h", 2: "w"},), (), ("x.0", "x.1", "x.2", "x.3")
    ),
    "a size twice another, by interpolation": DimensionCase(
        Upsampled,
        (t(2, 3, 4), t(2, 3, 8)),
        ({2: "short"}, {2: "long"}),
        ((TIED, "'long == 2*short'", "+ skip"),),
        ("x.0", "x.1", "x.2", "skip.0", "skip.1", "skip.2"),
    ),
    "a product of halves": DimensionCase(
        Halved,
        (t(2, 4, 6, 8), t(12, 4)),
        ({2: "h", 3: "w"}, {0: "n"}),
        ((TIED, "((w // 2)*(h // 2)) == n", "* positions"),),
        ("x.0", "x.1", "x.2", "x.3", "positions.0", "positions.1"),
    ),
}
