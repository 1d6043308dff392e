"""Single statements, which stand inside of other pieces."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature("assign", "$T = $E"),
    Feature("assign", "$T = $E"),
    Feature("assign", "$T = $T2 + $R$B * 0.5"),
    Feature("write in place", "$T$I"),
    Feature("augmented assignment", "$T $A"),
    Feature("write a row", "$T@[⟨0|-1⟩] = $R * 0.5"),
    Feature("write rows", "$T@[⟨:1|1:⟩] $A"),
    Feature("assign a row", "$R = $ER"),
    Feature("assign a row", "$R = torch.tanh($R + $R2)"),
    Feature("write a row in place", "$R$I"),
    Feature("count", "$K ⟨+= 1|-= 1|+= 0.5|*= 2⟩", needs="N"),
    Feature("assign a number", "$K = ⟨0.5|2|-1|True|0⟩", needs="N"),
    Feature("a number of another", "$K = $K // 2 + ⟨1|$N⟩", needs="N"),
    Feature("write to a buffer", "self.⟨seen|state⟩ ⟨+= 1|*= 0.5|-= 0.25⟩"),
    Feature("write to a part of a buffer", "self.state[⟨0|1:3|-1⟩] = ⟨0.5|$R.mean()⟩"),
    Feature("write to a buffer in place", "self.⟨seen|state⟩$I"),
    Feature("assign a buffer", "self.state = ⟨self.state * 0.5|$ER⟩"),
    Feature("add to a buffer", "self.seen.add_($R.sum() * 0.25)"),
    Feature("jump", "if $C:\n    ⟨break|continue⟩", needs="loop"),
    Feature("jump", "if $C:\n    ⟨break|continue⟩", needs="loop"),
    Feature("return", "if $C:\n    return $RETURN", needs="return"),
    Feature("branch", "if $C:\n    $T = $E"),
    Feature("append", "$L.append($R ⟨* 0.5|+ 1⟩)", needs="L"),
)
