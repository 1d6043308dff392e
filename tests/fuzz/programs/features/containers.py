"""Lists, dicts and deques of tensors that branches and loops fill."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "a list filled by turns",
        """
        $rows = []
        for $i, $r in enumerate($T.unbind($DIM)):
            $rows.append(⟨$r * ($i + 1)|torch.tanh($r + len($rows))|$r⟩)
            $fill
        $y = torch.stack($rows, $DIM)
        """,
        gives="T:$y",
    ),
    Feature(
        "a list read while it is filled",
        """
        $rows = [$R * 0.5]
        for $r in $T.unbind($DIM):
            $rows.append($rows[-1] * 0.5 + $r)
            $fill
        $h = ⟨$rows[-1]|$rows[0] + $rows[-1]|sum($rows)⟩
        """,
        gives="R:$h",
    ),
    Feature(
        "a list that data fills",
        """
        $rows = [$R]
        for $r in $T.unbind($DIM):
            if $r.sum() > 0:
                $rows.append($r)
            $fill
        $h, $k = torch.stack($rows).sum(0), len($rows)
        """,
        gives="R:$h N:$k",
    ),
    Feature(
        "a list in a branch",
        """
        $parts = [$R]
        ⟨$alias = $parts|$alias = list($parts)⟩
        if $C:
            $parts.⟨append($R2)|insert(0, $R2)|extend([$R2, $R])⟩
            $fill
        $h, $k = $parts[-1] + $parts[0], len($alias)
        """,
        gives="R:$h N:$k",
    ),
    Feature(
        "augmented assignment of a list",
        """
        $parts = [$T, $E]
        $alias = $parts
        if $C:
            $parts += [$E]
            $fill
        ⟨else:|elif $C:⟩
            $parts = $parts + [$T]
        $y = sum($alias) + $parts[-1] * 0.5
        """,
        gives="T:$y",
    ),
    Feature(
        "items set and removed",
        """
        $parts = [$R * 0.5, $R2, $R + 1]
        if $C:
            ⟨$parts[0] = $ER|$parts.pop()|del $parts[0]|$parts[1:] = [$R]|$parts.clear()|$parts.reverse()⟩
            $fill
        $h = sum($parts, torch.zeros(4))
        """,
        gives="R:$h",
    ),
    Feature(
        "a dict in a branch",
        """
        $held = {"a": $R}
        if $C:
            $held[⟨"a"|"b"⟩] = $ER
            $fill
        else:
            $held.update(⟨b=$R2|a=$R2 * 0.5⟩)
        $h = $held["a"] + $held.get("b", $R)
        """,
        gives="R:$h",
    ),
    Feature(
        "a dict in a loop",
        """
        $held = {"last": $T@[0], "sum": torch.zeros(4)}
        for $r in $T.unbind($DIM):
            $held["sum"] = $held["sum"] + $r
            if $r.sum() > $held["last"].sum():
                $held["last"] = $r
            $fill
        $h, $q = $held["last"], $held["sum"]
        """,
        gives="R:$h R:$q",
    ),
    Feature(
        "setdefault",
        """
        $held = {}
        if $C:
            $held["r"] = $ER
        $r = $held.setdefault("r", $R)
        $fill
        """,
        gives="R:$r",
    ),
    Feature(
        "a deque",
        """
        $last = collections.deque([$R, $R2], maxlen=2)
        ⟨if $C:|for $i in range(2):⟩
            $last.append($ER)
            $fill
        $h = $last[0] + $last[-1] * 0.5
        """,
        gives="R:$h",
    ),
    Feature(
        "a deque in a loop",
        """
        $last = collections.deque([torch.zeros(4), $R], maxlen=⟨2|3⟩)
        for $r in $T.unbind($DIM):
            $last.append($r + $last[0])
            $fill
        $h = sum($last)
        """,
        gives="R:$h",
    ),
    Feature(
        "a tuple that grows",
        """
        $parts = ($R,)
        for $i in range(⟨2|3⟩):
            $parts = (*$parts, $parts[-1] * 0.5)
            if $C:
                $parts = $parts[⟨1:|:1|::-1⟩]
            $fill
        $h, $k = $parts[0] + $parts[-1], len($parts)
        """,
        gives="R:$h N:$k",
    ),
    Feature(
        "joined in turns",
        """
        $parts = []
        for $i in range($SIZE):
            $parts.append($T@[$i : $i + 1] * ⟨$i|0.5⟩)
            $fill
        $y = torch.cat($parts, $DIM)
        """,
        gives="T:$y",
    ),
    Feature(
        "a tensor that is joined to",
        """
        $y = $T@[:1]
        for $r in $T.unbind($DIM)[1:]:
            $y = torch.cat([$y, $r.unsqueeze($DIM) + $y@[-1:]], $DIM)
            $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a dict of lists",
        """
        $held = {"up": [$R], "down": [$R2 * 0.5]}
        ⟨if $C:|for $i in range(2):⟩
            $held[⟨"up"|"down"⟩].append($ER)
            $fill
        $k = len($held["up"]) - len($held["down"])
        $h = sum($held["up"]) - $held["down"][-1]
        """,
        gives="R:$h N:$k",
    ),
    Feature(
        "items of a dict",
        """
        $held = {"a": $R, "b": $R2 * 0.5, "c": $R + 1}
        $h = torch.zeros(4)
        for $name, $r in $held.items():
            if $r.sum() > 0⟨| and $name != "b"⟩:
                $h = $h + $r
                $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "a list of numbers",
        """
        $factors = [1.0]
        if $C:
            $factors.append(⟨2|0.5⟩)
            $fill
        $s = sum($factors) * len($factors)
        """,
        gives="N:$s",
    ),
    Feature(
        "sorted by data",
        """
        $parts = sorted([$R, $R2 * 0.5], key=lambda y: float(y.sum()))
        $r = $parts[⟨0|-1⟩]
        $fill
        """,
        gives="R:$r",
    ),
    Feature(
        "the largest by data",
        """
        $r = ⟨max|min⟩([$R, $R2 * 0.5, $ER], key=lambda y: y.sum())
        $fill
        """,
        gives="R:$r",
    ),
    Feature(
        "one of two lists",
        """
        $ups, $downs = [$R * 0.5], [$R2]
        $parts = ⟨$ups|[*$ups]|$ups[:]⟩ if $C else ⟨$downs|[*$downs]|$downs + [$R]⟩
        $parts.append($R)
        $fill
        $h = sum($ups) + sum($downs) * 0.5 + $parts[0]
        """,
        gives="R:$h",
    ),
    Feature(
        "a sum that is kept",
        """
        $sum, $sums = $R * 0.0, []
        for $r in $T.unbind($DIM):
            $sum ⟨+= $r|= $sum + $r|= $sum * 0.5 + $r⟩
            $sums.append($sum)
            $fill
        $y = torch.stack($sums, $DIM)
        """,
        gives="T:$y",
    ),
    Feature(
        "the order of a dict",
        """
        $held = {"a": $R, "b": $R2 * 0.5}
        if $C:
            $held["a"] = ⟨$held.pop("a")|$held["a"] * 0.5|$ER⟩
            $fill
        $h = [*$held.values()][0] * 0.5
        """,
        gives="R:$h",
    ),
)
