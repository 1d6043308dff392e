"""Sizes: slices and branches that depend on them, views that are copies at some sizes."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "a transpose that is flattened",
        """
        $y = $T.clone()
        $flat = $y.t().⟨flatten()|reshape(-1)|contiguous()|contiguous().view(-1)⟩
        $flat⟨$I| $A⟩
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a reshape that is written to",
        """
        $y = $T.clone()
        $flat = $y⟨.reshape(-1)|.view(-1)|.flatten()|@[1:].reshape(-1)|@[:1].flatten()⟩
        $flat⟨$I| $A⟩
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "contiguous",
        """
        $y = $T ⟨+ 0.0|* 0.5⟩
        $z = $y⟨|.t().contiguous().t()|@[:].contiguous()|.t().t().contiguous()⟩
        $z⟨$I| $A⟩
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "a branch on a size",
        """
        if $SIZE ⟨> 2|== 3|% 2 == 0|< 6⟩:
            $fill
        else:
            $fill
        """,
    ),
    Feature(
        "asked for its layout",
        """
        $k = ⟨$T.stride(0)|int($T.t().is_contiguous())|$T.numel()|$T.storage_offset()|$T.dim()⟩
        $fill
        """,
        gives="N:$k",
    ),
    Feature("halves", "$n = $SIZE // 2\n$y = torch.cat([$T@[$n:], $T@[:$n]], $DIM)\n$fill", gives="T:$y N:$n"),
    Feature(
        "positions",
        """
        $p = torch.arange($SIZE) * ⟨0.5|1⟩
        $s = $p⟨.sum()|[-1]|.float().mean()⟩
        $fill
        """,
        gives="N:$s",
    ),
    Feature(
        "chunks",
        """
        $h = torch.zeros(4)
        for $part in $T.⟨chunk(2, $DIM)|split(1, $DIM)|split(2, $DIM)|unbind($DIM)⟩:
            $h = $h + $part.sum() * ⟨0.5|$part.shape[0]⟩
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "a slice written by a size",
        """
        $y = $T.clone()
        $y@[⟨$SIZE // 2:|: $SIZE - 1|-1:|$SIZE:⟩] ⟨= 0.5|*= 0.5|+= $SIZE⟩
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a squeeze",
        """
        $y = $T@[:1].squeeze($DIM)
        $r = $T@[: ⟨1|$SIZE⟩].⟨sum($DIM)|mean($DIM)|amax($DIM)⟩
        $fill
        """,
        gives="R:$y R:$r",
    ),
    Feature(
        "broadcast",
        """
        $y = torch.zeros_like($T)
        $row = $y.⟨new_zeros(4)|sum($DIM)⟩
        $z = $row$B.expand_as($T) + $T
        $z⟨$I| $A⟩
        """,
        gives="T:$y T:$z",
    ),
    Feature(
        "a size that data decides on",
        """
        $chosen = $R[$R > 0]
        $s = $chosen.sum() * 0.5 + $chosen.shape[0]
        if $chosen.numel() > ⟨0|1|2⟩:
            $fill
        """,
        gives="N:$s",
    ),
)
