"""Several names of one storage: assignments, views, attributes, containers, closures, `.data`."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "another name",
        """
        $y = $T
        if $C:
            ⟨$y|$T⟩⟨$I| $A⟩
            $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "residual through a callee",
        """
        $y = $T
        if $C:
            $T = lower_($T)
            $fill
        """,
        module="""
        def lower_(y):
            y -= 0.25
            return y
        """,
        gives="T:$y",
    ),
    Feature(
        "a view of a row",
        """
        $T = $T * 1.0
        $r = $T@[⟨0|-1⟩]
        $fill
        if $C:
            ⟨$r$I|$r $A|$T$I|$T@[0] $A⟩
            $fill
        """,
        gives="R:$r",
    ),
    Feature(
        "a view in a loop",
        """
        $y = $T + 0.0
        $last = $y@[-1]
        $h = $R * 0.5
        for $i in range($SIZE):
            $h = $h + $y@[$i]
            ⟨$last$I|$y@[⟨-1|0|$i⟩] $A|$y = $y * 0.5|$y *= 0.5⟩
            $fill
        """,
        gives="T:$y R:$h",
    ),
    Feature(
        "one of two tensors",
        """
        $a, $b = $T + 1, $T * 0.5
        ⟨$c = $a if $C else $b|$c = $b|$c = ($a, $b)[int($C)]⟩
        $c⟨$I| $A⟩
        $fill
        """,
        gives="T:$a T:$b T:$c",
    ),
    Feature(
        "the tensor or a copy",
        """
        $y = $T * 1.0
        $z = $y if $C else $y⟨ * 2|.clone()|⟩
        $z⟨$I| $A⟩
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "an attribute",
        """
        $T = $T * 1.0
        self.$kept = $T
        if $C:
            ⟨self.$kept$I|self.$kept $A|self.$kept = $E|$T$I⟩
            $fill
        $y = self.$kept
        """,
        gives="T:$y",
    ),
    Feature(
        "an attribute in a loop",
        """
        self.$kept = $T * 1.0
        $h = $R * 0.5
        for $i in range($SIZE):
            $h = $h + self.$kept@[$i]
            ⟨self.$kept = self.$kept * 0.5|self.$kept *= 0.5|self.$kept@[0] = $h|self.$kept.sub_(0.25)⟩
            $fill
        $y = self.$kept
        """,
        gives="T:$y R:$h",
    ),
    Feature(
        "in a list and a dict",
        """
        $y = $T * 1.0
        $held, $named = [$y, $T], {"y": $y}
        if $C:
            ⟨$held[0]$I|$named["y"] $A|$held[0] = $E|$held[0] $A|$named["y"] = $y + 1⟩
            $fill
        else:
            ⟨$y$I|$held[1] $A|$held.reverse()|$named["z"] = $y⟩
        $z = $held[0] + $named["y"]
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "each of a list",
        """
        $y = $T * 1.0
        for $each in [$y, $T ⟨* 0.5|+ 0⟩, $y@[:1]]:
            if $each.sum() > ⟨0|1⟩:
                $each⟨$I| $A⟩
            $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a closure that writes",
        """
        $y = $T + 0.0
        def $lower($by):
            $y⟨.sub_($by)|@[0] = $by|@[1:] -= $by⟩
        if $C:
            $lower(⟨0.5|$N⟩)
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a closure in a loop",
        """
        $y = $T + 0.0
        $h = $R * 1.0
        def $lower($k):
            $y@[$k:] -= 0.25
            return $y@[$k]
        for $i in range($SIZE):
            $h = $h * 0.5 + $lower($i)
            $fill
        """,
        gives="T:$y R:$h",
    ),
    Feature(
        "rows that were written",
        """
        $y = $T⟨.clone()| * 0.5⟩
        $z = $y
        for $i in range(⟨1|0|$SIZE // 2⟩, $SIZE):
            ⟨$y|$z⟩@[$i] ⟨= $y@[$i - 1] * 0.5 + 1|+= $z@[$i - 1]|*= $z@[0]⟩
            $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "data",
        """
        $y = $T * 1.0
        $z = ⟨$y|$y@[:1]|$y.view(-1)⟩
        ⟨$y.data = $T2 * 3|$y.data.mul_(2)|$y.detach().add_(1)|$y.data@[0] = 2.0⟩
        $y⟨$I| $A|⟩
        $s = $z.sum()
        """,
        gives="T:$y N:$s",
    ),
    Feature(
        "data in a branch",
        """
        $y = $T * 1.0
        $z = $y
        if $C:
            ⟨$y.data = $T2 * 3|$y.data.mul_(2)|$y.detach().add_(1)⟩
            $fill
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "out=",
        """
        $y = torch.zeros_like($T)
        $z = $y
        if $C:
            torch.add($T, ⟨1|$T2⟩, out=$y)
            $fill
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "knowledge of places",
        """
        $hit = $T > 0
        $rows = $hit.nonzero()[:, ⟨0|1⟩]
        ⟨$rows += 1|$hit.zero_()|$hit.logical_not_()|$hit.view(-1)[0] = True|$rows *= 0⟩
        $s = $rows.sum() * 0.25 + $T[$hit].sum() * 0.5
        """,
        gives="N:$s",
    ),
    Feature(
        "a test asked twice",
        """
        $y = $T.clone()
        $positive = $y.sum() > 0
        if $positive:
            ⟨$y.neg_()|$positive.logical_not_()|$y.zero_()⟩
        $fill
        if ⟨$positive|$y.sum() > 0⟩:
            $y.sub_(1)
        """,
        gives="T:$y",
    ),
    Feature(
        "a count that changes",
        """
        $count = ($R > 0).sum()
        $k = int($count)
        $count += 1
        $fill
        $m = int($count)
        """,
        gives="N:$k N:$m",
    ),
)
