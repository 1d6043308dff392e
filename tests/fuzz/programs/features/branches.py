"""Branches on data: arms, early returns, conditional expressions, short circuits with effects."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

COUNTED = """
def $counted(self, y):
    self.seen ⟨+= 1|= self.seen * 2 + 1⟩
    return y.⟨max() > 0.5|sum() < 0⟩
"""

FEATURES = (
    Feature(
        "if and else",
        """
        if $C:
            $fill
        else:
            $fill
        """,
    ),
    Feature(
        "elif",
        """
        $y = $T
        if $C:
            $y = $E
            $fill
        elif $C:
            $fill
        ⟨elif $C|else⟩:
            $y = $y + 0.25
            $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "bound in both arms",
        """
        if ⟨$C|not ($C)|$C and $C⟩:
            $y = $E
            $fill
            $r = $R * 0.5
        else:
            $r = $ER
            $y = ⟨$T|$E⟩
        """,
        gives="T:$y R:$r",
    ),
    Feature(
        "if in if",
        """
        if $C:
            if $C:
                $fill
            else:
                $fill
            $fill
        """,
    ),
    Feature(
        "an early return",
        """
        if $C:
            $fill
            return $RETURN
        """,
        needs="return",
    ),
    Feature(
        "returns in both",
        """
        if $C:
            $fill
            if $C:
                return $RETURN
        else:
            $fill
        """,
        needs="return",
    ),
    Feature("a conditional expression", "$y = ($E) if $C else ($T ⟨if $C else $E|⟩)", gives="T:$y"),
    Feature(
        "a conditional expression with an effect",
        """
        $y = $T * 1.0
        def $lowered(by):
            $y⟨.sub_(by)|@[0] = by|.mul_(0.5).add_(by)⟩
            return $y * 2
        $z = $lowered(1.0) if $C else ⟨$y|$lowered(0.25)|$y * 0.5⟩
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "and, or in a test",
        """
        if $C ⟨and|or⟩ self.$counted(⟨$T|$R⟩):
            $fill
        """,
        methods=COUNTED,
    ),
    Feature(
        "and, or as a statement",
        """
        ($C) ⟨and|or⟩ self.$counted(⟨$T|$R⟩)
        $fill
        ⟨$x = ($R.sum() > 0) ⟨and|or⟩ self.$counted($T)|$x = not self.$counted($T)⟩
        $y = $T if $x else $T * 0.5
        """,
        methods=COUNTED,
        gives="T:$y",
    ),
    Feature(
        "a chained comparison",
        """
        if ⟨0|$N⟩ < $R.sum() < self.$limit(⟨1.0|2⟩):
            $fill
        """,
        methods="""
        def $limit(self, value):
            self.seen += 0.5
            return self.seen * value
        """,
    ),
    Feature(
        "any and all of conditions",
        """
        if ⟨any|all⟩(⟨[$y.sum() > 0 for $y in ($R, $R2)]|each.mean() > 0 for each in ($T, $R)⟩):
            $fill
        """,
    ),
    Feature(
        "any and all with an effect",
        """
        if ⟨any|all⟩(⟨self.$counted(each)|each.sum() > 0|not (each > 1).any()⟩ for each in ($T, $R)):
            $fill
        """,
        methods=COUNTED,
    ),
    Feature(
        "an error on data",
        """
        if $R.abs().sum() > 10000:
            raise ValueError("too large")
        assert $T.abs().max() < 10000, "too large"
        $fill
        """,
    ),
    Feature(
        "a write on one way, read on both",
        """
        $y = $T * 1.0
        if $C:
            $y@[⟨0|-1|1:⟩] ⟨= 0.5|+= $R|*= 0⟩
            $fill
        $s = $y.sum()
        if $s > ⟨0|1⟩:
            $y.mul_(0.5)
        """,
        gives="T:$y",
    ),
    Feature(
        "a mask",
        """
        $y = $T.clone()
        if ($y > ⟨0|1⟩).any():
            $y[$y > ⟨0|1⟩] ⟨= 0.25|*= 0.5|-= 1⟩
            $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "truth of a number",
        """
        $k = ⟨int(($R > 0).sum())|$R[0].item()|float($R.mean() > 0)|len($R)⟩
        if $k⟨| and $C⟩:
            $fill
        $m = $k or 2
        """,
        gives="N:$m",
    ),
    Feature(
        "an error that values decide on",
        """
        $m = torch.eye(4) * $R ⟨+ torch.eye(4) * 2|⟩
        try:
            $s = torch.linalg.cholesky($m).sum()
        except RuntimeError:
            $s = torch.zeros(())
            $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "try and finally",
        """
        try:
            if $C:
                $fill
        finally:
            $T ⟨$A|= $E⟩
        """,
    ),
    Feature(
        "not of a tensor",
        """
        $flag = $R.sum() > 0
        if not $flag:
            $flag = ⟨$R2.sum() > 0|True|~$flag⟩
            $fill
        $y = $T if $flag else $E
        """,
        gives="T:$y",
    ),
)
