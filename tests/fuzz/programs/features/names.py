"""Names that are bound out of sight of an assignment, and scopes."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "walrus in a test",
        """
        if ($top := $R.max()) > ⟨0.5|1⟩ ⟨and|or⟩ ($low := $R2.min()) < 0:
            $T = $T + $top
            $fill
        """,
        gives="N:$top",
    ),
    Feature(
        "walrus in a while",
        """
        $k = 0
        while ($size := $T.abs().sum()) > ⟨1|3⟩ and $k < 4:
            $T = $T * 0.5
            $k += 1
            $fill
        """,
        gives="N:$size N:$k",
    ),
    Feature(
        "walrus in a comprehension",
        """
        $last = $R * 0.5
        ⟨if $C:|for $i in range(2):⟩
            $parts = [$last := $last * 0.5 + $each for $each in ($R, $R2)]
            $fill
        """,
        gives="R:$last",
    ),
    Feature("walrus in an argument", "$y = torch.add($z := $E, $T) * 0.5 if $C else ($z := $T) - 1", gives="T:$y T:$z"),
    Feature(
        "match of a sequence",
        """
        $a = $b = $T
        match (⟨$T, $E|$E, $T|[$T, $E]⟩):
            case ⟨($a, $b)|[$a, $b]|($a, $b, *_)⟩ if $C:
                $b = $b + 1
                $fill
            case ⟨[$a, *_]|(_, $a)⟩:
                $a = $a * 0.5
        """,
        gives="T:$a T:$b",
    ),
    Feature(
        "match in a branch",
        """
        $a, $b = $T, $T * 0.5
        if $C:
            match ⟨{"one": $T, "two": $E}|{"two": $T2, "one": $E}⟩:
                case {"one": $a, ⟨"two": $b|**$rest⟩}:
                    $fill
        """,
        gives="T:$a T:$b",
    ),
    Feature(
        "match of a number",
        """
        match ⟨int(($R > 0).sum())|$SIZE|$N⟩:
            case ⟨0|1|2|3⟩:
                $fill
            case $k if $k ⟨> 2|< 3⟩:
                $T = $T * 0.5 + $k
            case _:
                $fill
        """,
    ),
    Feature(
        "with as",
        """
        $y = $T
        if $C:
            with $scaled(⟨$T|$y⟩, 0.5) as $y⟨|, torch.no_grad()⟩:
                $fill
        """,
        module="""
        @contextlib.contextmanager
        def $scaled(x, by):
            yield x * by
        """,
        gives="T:$y",
    ),
    Feature(
        "with in a loop",
        """
        $y = $T
        for $i in range(⟨2|$SIZE⟩):
            with $noted(self, $i), contextlib.suppress(KeyError) as $none:
                $y = torch.tanh($y + $i * 0.25)
                $fill
        """,
        module="""
        @contextlib.contextmanager
        def $noted(model, by):
            model.seen += by
            yield
            model.seen *= 0.5
        """,
        gives="T:$y",
    ),
    Feature(
        "import in a branch",
        """
        $scale = 1.0
        if $C:
            ⟨import math as $m|from math import pi as $scale|from math import e as $scale⟩
            $fill
        """,
        gives="N:$scale",
    ),
    Feature(
        "imports in both arms",
        """
        if $C:
            from math import pi as $m
        else:
            from math import ⟨tau|e⟩ as $m
        $fill
        """,
        gives="N:$m",
    ),
    Feature(
        "del",
        """
        $y = $E
        $z = $T
        if $C:
            $z = $z + $y
            del $y
            $fill
        ⟨else:|elif $C:⟩
            $y = $T
            $fill
        """,
        gives="T:$z",
    ),
    Feature(
        "except as",
        """
        $k = 1
        if $C:
            try:
                $k = {"scale": 2}[⟨"none"|"scale"⟩]
            except KeyError as $error:
                $k += len($error.args)
                $fill
            ⟨finally|else⟩:
                $T = $E
        """,
        gives="N:$k",
    ),
    Feature(
        "unpacking",
        """
        ($a, *$b), $c = [$T, $E, $T2 * 0.5], $T
        if $C:
            $a, ($c, *$b) = $c * 0.5, [$a * 2, $b[0] * 0.5, $b[1] + 1]
        $d, $e = $b
        $fill
        """,
        gives="T:$a T:$c T:$d T:$e",
    ),
    Feature(
        "nonlocal",
        """
        $steps = ⟨torch.zeros(())|0|0.5⟩
        def $step(y):
            nonlocal $steps
            $steps = $steps + 1
            return y * 0.5
        if $C:
            $T = $step($T)
            $fill
        else:
            $T = $step($step($T))
        """,
        gives="N:$steps",
    ),
    Feature(
        "nonlocal in a loop",
        """
        $steps = ⟨torch.zeros(())|0|0.5⟩
        def $step(y):
            nonlocal $steps
            $steps ⟨+= 1|= $steps * 2 + 1⟩
            return y
        for $r in $T.unbind($DIM):
            if $r.sum() > 0:
                $step($r)
                $fill
        """,
        gives="N:$steps",
    ),
    Feature(
        "names of inner scopes",
        """
        $y = $T
        if $C:
            $z = [$y * 0.5 for $y in ($T, $T2 + 1)][⟨0|1⟩]
            $w = (lambda $y: $y - 1)($z)
            $fill
        else:
            $w = $y
        """,
        gives="T:$y T:$w",
    ),
    Feature(
        "an item as target",
        """
        $held = [$R, $R2 * 0.5]
        for $held[0] in $T.unbind($DIM):
            $held[1] = $held[1] * 0.5 + $held[0]
        $r, $q = $held
        """,
        gives="R:$r R:$q",
    ),
    Feature(
        "an attribute as target",
        """
        for self.$row in $T.unbind($DIM):
            self.seen += self.$row.sum()
            $fill
        $r = self.$row
        """,
        gives="R:$r",
    ),
    Feature(
        "a class in a branch",
        """
        $scale = 1.0
        if $C:
            class Scales:
                half = ⟨0.5|2⟩
            $scale = Scales.half
            $fill
        """,
        gives="N:$scale",
    ),
    Feature(
        "a function in a branch",
        """
        if $C:
            def $f(y):
                return y * 0.5
        else:
            $f = ⟨torch.sin|lambda y: y + 1⟩
        $y = $f($T)
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "late binding",
        """
        $k = 1
        $scale = lambda y: y * $k
        if $C:
            $k = ⟨2|0.5⟩
            $fill
        $y = $scale($T)
        """,
        gives="T:$y N:$k",
    ),
    Feature(
        "bound on one way only",
        """
        if $C:
            $y = $E
            $flag = True
        else:
            $flag = False
        $fill
        if $flag:
            $T = $T + $y
        """,
    ),
)
