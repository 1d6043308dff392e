"""Buffers, attributes, properties, globals and plain objects that are set and read."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

BOX = """
class Box:
    def __init__(self, total=0.0):
        self.total, self.count = total, 0

    def add(self, y):
        self.total = self.total + y
        self.count += 1
        return self
"""

FEATURES = (
    Feature(
        "a buffer in a loop",
        """
        $h = $R * 0.5
        for $r in $T.unbind($DIM):
            self.state[1] ⟨= self.state[1] * 0.5 + $r.sum()|+= $r[0]⟩
            $h = $h + $r * self.state[⟨0|1⟩]
            ⟨self.state[0] = self.state[1]|self.seen += 1|self.state = self.state * 0.5⟩
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "rows of a buffer",
        """
        $h = $R * 0.5
        for $i in range(4):
            $h = $h + self.state[$i] * $i
            ⟨self.state[⟨-1|0⟩] = $h.sum()|self.state = self.state * 0.5|self.state.mul_(0.5)⟩
            $fill
        """,
        gives="R:$h",
    ),
    Feature(
        "a buffer in a callee",
        """
        if $C:
            $T = self.$note($T)
            $fill
        $s = self.seen * 0.5
        """,
        methods="""
        def $note(self, y):
            self.seen ⟨+= 1|= self.seen + y.mean()⟩
            self.state[0] = 1.0
            return y ⟨* self.seen|+ self.state[0]⟩
        """,
        gives="N:$s",
    ),
    Feature(
        "a number of the model",
        """
        if ⟨$C|$SIZE > 0⟩:
            self.$count += ⟨1|0.5⟩
            $fill
        $k = self.$count * 2
        """,
        init="self.$count = ⟨0|1|0.5⟩",
        gives="N:$k",
    ),
    Feature(
        "a number of the model in a loop",
        """
        self.$count = 0
        for $r in $T.unbind($DIM):
            if $r.sum() > 0:
                self.$count += ⟨1|0.5⟩
            $fill
        $k = self.$count
        """,
        gives="N:$k",
    ),
    Feature(
        "a tensor attribute",
        """
        self.$last = $R * 1.0
        if $C:
            self.$last ⟨= $ER|$A|= self.$last + 1⟩
            $fill
        $r = self.$last
        """,
        gives="R:$r",
    ),
    Feature(
        "an attribute of the last turn",
        """
        self.$last = torch.zeros(4)
        for $r in $T.unbind($DIM):
            self.$last = torch.tanh(self.$last + $r)
            $fill
        $h = self.$last
        """,
        gives="R:$h",
    ),
    Feature(
        "a property",
        """
        if $C:
            $T = $T * self.$level
            $fill
            self.$level = ⟨0.25|$R.mean()⟩
        $s = self.$level + 1
        """,
        methods="""
        @property
        def $level(self):
            self.state[2] += 0.5
            return self.state.sum() * 0.5

        @$level.setter
        def $level(self, value):
            self.state[0] = value
        """,
        gives="N:$s",
    ),
    Feature(
        "an object of the call",
        """
        $box = Box()
        if $C:
            $box.add($R)
            $fill
        $box.add($R2 ⟨* 0.5|+ 1⟩)
        $r, $k = $box.total, $box.count
        """,
        module=BOX,
        gives="R:$r N:$k",
    ),
    Feature(
        "an object in a loop",
        """
        $box = Box($R * 0.5)
        for $r in $T.unbind($DIM):
            if $r.mean() > 0:
                $box.add($r)
            $fill
        $q, $k = $box.total, $box.count
        """,
        module=BOX,
        gives="R:$q N:$k",
    ),
    Feature(
        "an object of the model",
        """
        if $C:
            self.$box.add($R)
            $fill
        $k = self.$box.count
        $r = self.$box.total + torch.zeros(4)
        """,
        module=BOX,
        init="self.$box = Box()",
        gives="R:$r N:$k",
    ),
    Feature(
        "a global list",
        """
        if $C:
            $remember($R)
            $fill
        $k = len($log)
        """,
        module="""
        $log = []

        def $remember(y):
            $log.append(⟨y|1|y * 2⟩)
        """,
        gives="N:$k",
    ),
    Feature(
        "a global number",
        """
        if $C:
            $raise_count()
            $fill
        $k = $count ⟨* 2|+ 0.5⟩
        """,
        module="""
        $count = 0

        def $raise_count():
            global $count
            $count += 1
        """,
        gives="N:$k",
    ),
    Feature(
        "a global dict",
        """
        $last["r"] = $R
        ⟨if $C:|for $r in $T.unbind($DIM):⟩
            $last["r"] = ⟨$last["r"] * 0.5|$ER⟩
            $fill
        $q = $last["r"]
        """,
        module="$last = {}",
        gives="R:$q",
    ),
    Feature(
        "a dataclass",
        """
        $pair = Pair($T, 1)
        if $C:
            $pair.scale = ⟨2|0.5⟩
            $pair.value ⟨= $E|*= 0.5⟩
            $fill
        $y = $pair.value * $pair.scale
        """,
        module="""
        @dataclass
        class Pair:
            value: torch.Tensor
            scale: float
        """,
        gives="T:$y",
    ),
    Feature(
        "setattr and getattr",
        """
        $name = "$kept"
        setattr(self, $name, $T * 0.5)
        if $C:
            setattr(self, $name, $E)
            $fill
        $y = getattr(self, $name)
        """,
        gives="T:$y",
    ),
    Feature(
        "an attribute of a submodule",
        """
        if $C:
            self.$part.scale ⟨= 2.0|+= 0.5⟩
            self.$part.total += 1
            $fill
        $y = self.$part($T)
        """,
        module="""
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 1.0
                self.register_buffer("total", torch.zeros(()))

            def forward(self, y):
                self.total += 0.5
                return torch.tanh(y * self.scale + self.total)
        """,
        init="self.$part = Part()",
        gives="T:$y",
    ),
    Feature(
        "state of a class",
        """
        if $C:
            Counter.made += 1
            $fill
        $k = Counter.made
        """,
        module="""
        class Counter:
            made = 0
        """,
        gives="N:$k",
    ),
)
