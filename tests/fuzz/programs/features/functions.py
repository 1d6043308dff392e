"""Functions: early returns, defaults, closures, `super()`, decorated, generators, submodules."""

from __future__ import annotations

from tests.fuzz.programs.template import Feature

FEATURES = (
    Feature(
        "an early return of a function",
        "$T = $step($T⟨|, 0.25⟩)",
        module="""
        def $step(y, by=0.5, *rest):
            if y.sum() > ⟨0|1⟩:
                return y * by
            ⟨for each in y:|while y.mean() < -0.25:|if y.max() > 1:⟩
                y = y + ⟨0.5|by⟩
            return y ⟨- by|+ sum(rest)⟩
        """,
    ),
    Feature(
        "a nested function",
        """
        def $inner(y, by=⟨0.5|2⟩):
            %with T:y N:by
            $fill
            if y.sum() > 0:
                return y * by
            return y
        $T = $inner($T⟨|, by=0.25⟩)
        """,
    ),
    Feature(
        "a method",
        """
        $y = self.$step($T, ⟨$R|$R2⟩)
        $fill
        """,
        methods="""
        def $step(self, y, r):
            if r.sum() > 0:
                self.seen += 1
                return y + self.seen
            self.state = self.state ⟨* 0.5|+ r⟩
            return y * 0.5
        """,
        gives="T:$y",
    ),
    Feature(
        "super in a branch",
        """
        if $C:
            $T = self.step($T)
            $fill
        $T = ⟨super().step($T)|super(Generated, self).step($T)|self.step($T)⟩
        """,
        methods="""
        def step(self, y):
            if y.sum() > 0.5:
                y = super().step(y)
            return y * self.level
        """,
        top=True,
    ),
    Feature(
        "super in a loop",
        """
        for $r in $T.unbind($DIM):
            if $r.sum() > 0:
                $r = super().step($r)
            $fill
        $s = self.level
        """,
        gives="N:$s",
    ),
    Feature(
        "a decorated function",
        "$T = $step($T)",
        module="""
        def $twice(function):
            @functools.wraps(function)
            def run(*args, **kwargs):
                return function(*args, **kwargs) + function(*args, **kwargs)
            return run

        @$twice
        def $step(y):
            if y.sum() > 0:
                return y * 0.25
            return y.sin()
        """,
    ),
    Feature(
        "functions made by a function",
        """
        for $f in ($above(0.0, 0.5), $above(0.5, 0.25)):
            $T = $f($T)
            $fill
        """,
        module="""
        def $above(limit, factor):
            def check(y):
                if y.sum() > limit:
                    return y * factor
                return y
            return check
        """,
    ),
    Feature(
        "lambdas",
        """
        $up, $down = (lambda y: y + 1 if y.sum() > 0 else y), lambda y: y * 0.5 if y.sum() > 1 else y - 1
        $y = $up($T) + $down($T)
        $fill
        """,
        gives="T:$y",
    ),
    Feature(
        "a generator",
        """
        $h = torch.zeros(4)
        for $part in $parts($T, $R):
            $h = torch.tanh($h + $part)
            $fill
        """,
        module="""
        def $parts(y, r):
            yield r * 0.5
            for each in ⟨y|(r, r)⟩:
                yield each.sum().expand(4)
        """,
        gives="R:$h",
    ),
    Feature(
        "a generator on data",
        """
        $h = torch.zeros(4)
        for $part in $parts($R):
            $h = torch.tanh($h + $part)
            $fill
        """,
        module="""
        def $parts(r):
            yield r * 0.5
            if r.sum() > 0:
                yield r + 1
        """,
        gives="R:$h",
    ),
    Feature(
        "a callable object",
        "$y = Scale(⟨0.5|2⟩)($T)\n$fill",
        module="""
        class Scale:
            def __init__(self, by):
                self.by = by

            def __call__(self, y):
                if y.sum() > 0:
                    self.by = self.by * 0.5
                return y * self.by
        """,
        gives="T:$y",
    ),
    Feature(
        "static and class methods",
        "$y = self.$fixed($T) + self.$made($T)\n$fill",
        methods="""
        @staticmethod
        def $fixed(y):
            return y * 0.5 if y.sum() > 0 else y

        @classmethod
        def $made(cls, y):
            if y.max() > 1:
                y = cls.$fixed(y)
            return y
        """,
        gives="T:$y",
    ),
    Feature(
        "layers that stop",
        """
        for $i, $layer in enumerate(self.$layers):
            $T = $layer($T)
            if $C:
                ⟨break|continue⟩
            $fill
        """,
        module="""
        class Layer(nn.Module):
            def __init__(self, by):
                super().__init__()
                self.by = by
                self.register_buffer("runs", torch.zeros(()))

            def forward(self, y):
                self.runs += 1
                if y.sum() > 0:
                    y = y * self.by
                return torch.tanh(y)
        """,
        init="self.$layers = nn.ModuleList(Layer(0.5 * i) for i in range(1, 4))",
    ),
    Feature(
        "a default that is kept",
        "$s = $mean($R) + $mean($R2)\n$fill",
        module="""
        def $mean(y, held=[]):
            held.append(y.mean())
            return ⟨held[-1]|sum(held)⟩ * 0.5
        """,
        gives="N:$s",
    ),
    Feature(
        "a recursion on a number",
        "$T = $halved($T, ⟨2|3⟩)",
        module="""
        def $halved(y, depth):
            if depth == 0:
                return y if y.sum() > 0 else -y
            return $halved(y * 0.5, depth - 1) + depth
        """,
    ),
    Feature(
        "keywords and stars",
        """
        $y = $joined($T, *[$E], scale=⟨0.5|2⟩, **{"add": 1.0})
        $fill
        """,
        module="""
        def $joined(first, *others, scale=1, **rest):
            for each in others:
                if each.sum() > 0:
                    first = first + each
            return first * scale + rest["add"]
        """,
        gives="T:$y",
    ),
    Feature(
        "partial",
        "$y = functools.partial($scaled, by=⟨0.5|2⟩)($T)\n$fill",
        module="""
        def $scaled(y, by):
            if y.mean() > 0:
                return y * by
            return y
        """,
        gives="T:$y",
    ),
    Feature(
        "a linear layer",
        "$r = torch.tanh(self.$linear($R))\n$fill",
        init="torch.manual_seed(0)\nself.$linear = nn.Linear(4, 4)",
        gives="R:$r",
    ),
)
