"""Numbers as Python has them."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "an int or a float",
        """
        $k = ⟨1|2|True|0⟩
        if $C:
            $k = ⟨0.5|2.5|-1.5|3|False⟩
            $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "an int tensor or a number",
        """
        $k = ⟨($R > 0).sum()|torch.tensor(3)|$R.sum() > 0⟩
        if $C:
            $k = ⟨0.5|2|True|$R[0]⟩
            $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "powers",
        """
        $h = $R * 0.5
        for $i in range($SIZE):
            $h = $h + $T@[$i] * ⟨2 ** -$i|0.5 ** $i|$i ** 2 * 0.1|2 ** $i * 0.1|(-1) ** $i⟩
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "powers of a counter",
        """
        $k = 0
        while $k < 3 and $C:
            $T = $T * ⟨2 ** -$k|0.5 ** $k|(-0.5) ** $k⟩
            $k += 1
            $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "truth values added",
        """
        $a, $b = bool($R.sum() > 0), ⟨bool($R2.mean() > 0)|True|$SIZE > 2⟩
        $k = ⟨$a + $b|$a + $b + 1|$a * 3 - $b|-$a|sum([$a, $b, $a])|int($a) + $b * 0.5⟩
        $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "truth values counted",
        """
        $k = ⟨0|0.5|False⟩
        for $r in $T.unbind($DIM):
            $k += ⟨bool($r.sum() > 0)|$r[0].item() > 0|1 if $r.mean() > 0 else 0.5⟩
            $fill
        """,
        gives="N:$k",
    ),
    Feature(
        "floor and modulo",
        """
        $s = 0
        for $i in range($SIZE):
            $s += ⟨($i - 3) // 2|($i - 4) % 3|(5 - $i) % -3|($i - 5) // -2|-$i // 2|divmod($i - 3, 2)[1]⟩
            $s = $s + ⟨$i / 4|-$i % 2.5|($i - 2.5) // 1|abs($i - 2)⟩
            $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "floor and modulo of data",
        """
        $k = int($R[0] * 10)
        $s = ⟨$k // 3|$k % 3|-$k // 4|(-$k) % 4|$k // -3|$k % -3|divmod($k, 4)[0]⟩ + ⟨$k / 4|round($k / 4)|abs($k)|0⟩
        $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "floats of data",
        """
        $f = float($R⟨.mean()|[0]|.sum()⟩)
        $s = ⟨$f // 0.25|$f % 0.75|-$f % 0.5|round($f)|int($f * 3)|abs($f)|max($f, 0.25)|min(1, $f)|round($f, 1)⟩
        $m = ⟨math.floor($f)|math.ceil($f * 2)|math.trunc(-$f * 2)|$f ** 2|math.exp(-abs($f))|$s⟩
        $fill
        """,
        gives="N:$s N:$m",
    ),
    Feature(
        "an int that becomes a float",
        """
        $scale = ⟨1|0|True⟩
        for $i in range(⟨$SIZE|3⟩):
            $scale ⟨/= 2|+= 0.1|*= 0.5|-= $i / 2⟩
            $T = $T ⟨+|-⟩ $scale
            $fill
        """,
        gives="N:$scale",
    ),
    Feature(
        "a number in a while",
        """
        $n = ⟨20|7|5.5⟩
        $k = 0
        while $T.sum() < $n and $k < 4:
            $n ⟨= $n / 3|//= 2|-= 1.5|= $n % 4⟩
            $k += 1
            $fill
        """,
        gives="N:$n N:$k",
    ),
    Feature(
        "sizes in floats",
        """
        $n = $SIZE
        $k = ⟨int($n * 0.29 * 100)|math.ceil($n * 0.1 * 10)|int(0.7 * $n + 0.3 * $n)|round($n * 2.675, 2)⟩
        $m = ⟨round($n / 2)|math.floor(-$n / 2)|-$n // 2|int(-$n / 2)|$n ** 0.5|math.sqrt($n)|$n % 3 / 2|$k // 2⟩
        $fill
        """,
        gives="N:$k N:$m",
    ),
    Feature(
        "min and max in a loop",
        """
        $top = ⟨0.0|0|-1⟩
        for $r in $T.unbind($DIM):
            $top = ⟨max($top, float($r.max()))|min($top, $r.sum().item())|max($top, $r[0])⟩
            $fill
        """,
        gives="N:$top",
    ),
    Feature(
        "an index that data decides on",
        """
        $k = 0
        if $C:
            $k = ⟨1|2|-1⟩
            $fill
        $s = $R[$k] + $R2[: $k].sum()
        """,
        gives="N:$s",
    ),
    Feature(
        "argmax as a number",
        """
        $k = int($R.argmax())
        $s = $k * 0.5
        if $k ⟨> 1|== 2|!= 0|in (0, 3)⟩:
            $T = $T + $k
            $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "integers of tensors",
        """
        $k = ($R * 4).to(torch.int64)
        $q = $k ⟨// 3|% 3|// -2|% -3|>> 1|* 2|+ True⟩
        $s = ($q ⟨+ 0.5|/ 2|* True⟩).sum()
        $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "counters of two kinds",
        """
        $hits, $weight = 0, 1.0
        for $i, $r in enumerate($T.unbind($DIM)):
            if $r.sum() > 0:
                $hits += 1
                $weight ⟨*= 0.5|/= $i + 1|= $hits|-= $hits * 0.5⟩
                $fill
        """,
        gives="N:$hits N:$weight",
    ),
    Feature(
        "a comparison of numbers",
        """
        $k = ⟨$SIZE|int(($R > 0).sum())⟩
        $s = ⟨1 if $k > 2 else 0.5|($k > 2) + 1|$k if $k % 2 else -$k|max($k, 3)|min($k, 2.5)⟩
        $fill
        """,
        gives="N:$s",
    ),
)
