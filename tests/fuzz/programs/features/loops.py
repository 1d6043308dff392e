"""Loops: over rows, ranges, numbers of data; jumps and `else`; targets that are used behind the loop."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "over rows by an index",
        """
        $h = $R * 0.5
        for $i in range($SIZE):
            $h = ⟨$h + $T@[$i]|torch.tanh($h + $T@[$i] * $i)⟩
            %with R:$h N:$i
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "over a range",
        """
        $h = $R * 1.0
        for $i in range(⟨-1, $SIZE - 1|$SIZE - 1, -1, -1|0, $SIZE, 2|1, $SIZE|2, $SIZE|$SIZE - 1|-2, 1|3, 0, -1⟩):
            $h = $h * 0.5 + ⟨$i|$T@[$i % $SIZE]|$T@[0] * $i⟩
            %with R:$h N:$i
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "over rows directly",
        """
        $h = torch.zeros(4)
        for $r in ⟨$T|$T * 0.5|reversed($T)|$T.unbind($DIM)⟩:
            $h = $h + $r.sum() ⟨* 0.25|+ 0.5⟩
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "enumerate and zip",
        """
        $h = $R * 1.0
        for $i, ⟨$r in enumerate($T.unbind($DIM))|($r, $q) in enumerate(zip($T.unbind($DIM), $T2.unbind($DIM)))⟩:
            $h = $h * 0.5 + $r * $i
            %with R:$h R:$r N:$i
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "break on data",
        """
        $h = $R * 1.0
        for $i in range($SIZE):
            if $T@[$i].⟨sum() < 0|max() > 1|mean() > 0⟩:
                ⟨break|continue⟩
            $h = $h + $T@[$i]
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "target after break",
        """
        $i = 0
        for $i in range(⟨$SIZE|3|2, 5⟩):
            $T = $T * 0.5 + ⟨$i|0.25⟩
            if $C:
                break
            $fill
        """,
        gives="N:$i",
    ),
    Feature(
        "row after the loop",
        """
        $k = 0
        for $r in $T.unbind($DIM):
            if $r.sum() < ⟨0|-1|1⟩:
                $k ⟨= 1|+= 0.5⟩
                break
            $fill
        else:
            $k = ⟨2|0.5⟩
        """,
        gives="N:$k R:$r",
    ),
    Feature(
        "fixed loop with else",
        """
        for $i in ⟨(1, 2, 3)|(0.5, 1)|[3]|range(2)⟩:
            $T = $T * 0.5 + $i
            if $C:
                ⟨break|continue⟩
            $fill
        else:
            $fill
        """,
        gives="N:$i",
    ),
    Feature(
        "loop in a loop",
        """
        $h = $R * 1.0
        for $i in range(⟨$SIZE|2⟩):
            for $j in range(⟨2|$SIZE|$i|$i + 1⟩):
                $h = torch.tanh($h + $T@[$j % $SIZE] * ($i - $j))
                $fill
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "while on data",
        """
        $k = 0
        while $k < ⟨3|4⟩ and $T.sum() ⟨> 0.5|< 2|> -1⟩:
            $T = $T * 0.5 ⟨- 0.25|+ 0.25|⟩
            $k += 1
            %with N:$k
            $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "while with a tensor counter",
        """
        $k = torch.zeros(())
        while $k < ⟨3|$R.abs().sum().clamp(max=3)⟩:
            $k = $k + 1
            $fill
            if $C:
                break
        else:
            $T = $E
        """,
        gives="N:$k",
    ),
    Feature(
        "while True",
        """
        $k = 0
        while True:
            $k += 1
            if $k > 3 or $C:
                break
            $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "turns of data",
        """
        $n = int(($R > 0).sum())
        for $i in range(⟨$n|0, $n|1, $n + 1|$n, 0, -1|$n - 1⟩):
            $T = torch.tanh($T + $i * 0.25)
            %with N:$i
            $fill
        """,
        gives="N:$n",
    ),
    Feature(
        "return in a loop",
        """
        for $r in $T.unbind($DIM):
            if $r.sum() < -1:
                return $RETURN
            $fill
        """,
        needs="return",
    ),
    Feature(
        "a target that the body sets",
        """
        $h = $R * 1.0
        for $i in range($SIZE):
            $i = ⟨$i * 2|$i - 1|$i / 2⟩
            $h = $h + $T@[0] * $i
            $fill
        """,
        gives="R:$h N:$i",
    ),
    Feature(
        "targets after all turns",
        """
        $h = $R * 0.5
        for $i, $r in enumerate($T.unbind($DIM)):
            $h = $h + $r
            $fill
        """,
        gives="R:$h R:$r N:$i",
    ),
    Feature(
        "a comprehension over rows",
        """
        $parts = [⟨$r * 0.5|$r + $i|($r if $r.sum() > 0 else $r * 0.5)⟩ for $i, $r in enumerate($T.unbind($DIM))]
        $y = torch.stack($parts, $DIM)
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a generator over rows",
        """
        $s = sum(⟨$r.sum()|$r.max() * $i|($r.sum() if $r[0] > 0 else $i)⟩ for $i, $r in enumerate($T.unbind($DIM)))
        $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "carries that are swapped",
        """
        $a, $b = $R * 1.0, $R2 + 1
        for $r in $T.unbind($DIM):
            $a, $b = $b, torch.tanh($a + $r)
            $fill
        """,
        gives="R:$a R:$b",
    ),
    Feature(
        "a carry that starts as a number",
        """
        $h = ⟨0|0.0|None⟩
        for $i in range($SIZE):
            $h = $T@[$i] if $h is None else $h * 0.5 + $T@[$i]
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "the last row that was seen",
        """
        $best = $T@[0]
        for $r in $T.unbind($DIM):
            if $r.sum() > $best.sum():
                $best = $r
                $fill
        """,
        gives="R:$best",
    ),
    Feature(
        "names that turns trade",
        """
        $first = $R * 1.0
        $last, $now = torch.zeros(4), $first
        for $r in $T.unbind($DIM):
            $last, $now = $now, $now * 0.5 + $r
            $fill
        $last ⟨= $last * 0.5|*= 0.5|= $last - 1⟩
        $h = $first + $last
        """,
        gives="R:$h",
    ),
    Feature(
        "a jump out of with",
        """
        $h = $R * 0.5
        for $i in range(⟨3|$SIZE⟩):
            with ⟨contextlib.suppress(KeyError)|torch.no_grad()⟩:
                if $h.sum() > ⟨1|2⟩:
                    ⟨break|continue⟩
                $h = $h + ⟨0.25|$T@[0]⟩
            $fill
        """,
        gives="R:$h",
    ),
)
