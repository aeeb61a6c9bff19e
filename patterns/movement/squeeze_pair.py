"""Two of Squeeze and Unsqueeze in a row."""

from typing import ClassVar

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import keeps_shape


class _SqueezePair(EasyPatternOptimization):
    """Two operators that take out or put in axes of size 1."""

    interior = "keep"
    derives: ClassVar[tuple[str, ...]] = ("axes",)

    def derive_all(
        self, m: Match, outer: list[int], inner: list[int], rank: int | None
    ) -> bool | None:
        """Derive outer axes of a tensor, and inner ones, which are numbered without them."""
        if rank is None and min(*outer, *inner, 0) < 0:  # (1)
            return self.none(m.nodes[1], msg="negative axes of an unknown rank")
        count = len(outer) + max(*outer, *inner, 0) + 1 if rank is None else rank
        first = [axis + count if axis < 0 else axis for axis in outer]
        left = [axis for axis in range(count) if axis not in first]
        second = [axis + len(left) if axis < 0 else axis for axis in inner]
        axes = {*first, *(left[axis] for axis in second if 0 <= axis < len(left))}
        if len(axes) < len(first) + len(second) or not axes <= set(range(count)):  # (2)
            return self.none(m.nodes[1], msg="the axes are not valid")
        return m.derive(axes=sorted(axes))


class SqueezeSqueezePattern(_SqueezePair):
    """Squeeze(Squeeze(x, a), b) → Squeeze(x, both)

    What: removes all axes at once.
    Why: one node less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown, or the first one removes all axes of
       size 1.
    2. an axis is listed twice or out of range: such a model is not valid.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, the second Squeeze removes all axes of size 1, and so may the joint one."""
        return g.op.Squeeze(
            g.op.Squeeze(x, axes=g.capture("a")), axes=g.capture("b", optional=True)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """The second one numbers the axes that the first one leaves."""
        if not m.b or not m.a:
            return (
                m.derive(axes=None)
                if not m.b
                else self.none(m.nodes[0], msg="the Squeeze has no axes")
            )  # (1)
        return self.derive_all(m, m.a, m.b, g.info(m.x).rank)

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int] | None) -> str:
        return g.op.Squeeze(x, axes=axes)

    examples = Example.pairs(
        "agraph (float[1,1,a,b] x) => (float[a,b] y) <int64[1] i = {0}, int64[1] j = {0}> "
        "{ t = Squeeze(x, i) y = Squeeze(t, j) }",
        "<int64[2] i = {0, 1}> { y = Squeeze(x, i) }",
        "agraph (float[a,1,b,1] x) => (float[a,b] y) <int64[1] i = {1}, int64[1] j = {-1}> "
        "{ t = Squeeze(x, i) y = Squeeze(t, j) }",
        "<int64[2] i = {1, 3}> { y = Squeeze(x, i) }",
    )


class UnsqueezeUnsqueezePattern(_SqueezePair):
    """Unsqueeze(Unsqueeze(x, a), b) → Unsqueeze(x, both)

    What: adds all axes at once.
    Why: one node less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown.
    2. an axis is listed twice or out of range: such a model is not valid.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Unsqueeze(g.op.Unsqueeze(x, axes=g.capture("a")), axes=g.capture("b"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """The axes of the first one take the places that the second one leaves free."""
        rank = g.info(m.nodes[0].output[0]).rank
        return self.derive_all(m, m.b, m.a, None if rank is None else rank + len(m.b))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int]) -> str:
        return g.op.Unsqueeze(x, axes=axes)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[1,a,b,1] y) <int64[1] i = {0}, int64[1] j = {-1}> "
        "{ t = Unsqueeze(x, i) y = Unsqueeze(t, j) }",
        "<int64[2] i = {0, 3}> { y = Unsqueeze(x, i) }",
        "agraph (float[a,b] x) => (float[1,a,1,b] y) <int64[1] i = {1}, int64[1] j = {0}> "
        "{ t = Unsqueeze(x, i) y = Unsqueeze(t, j) }",
        "<int64[2] i = {0, 2}> { y = Unsqueeze(x, i) }",
    )


class SqueezeUnsqueezePattern(_SqueezePair):
    """Unsqueeze(Squeeze(x, axes), axes) → x

    What: drops a pair that cancels.
    Why: two nodes less.
    Refuses when:
    1. the axes differ, or have different signs while the rank is unknown; unless the result is
       known to have the shape of x.
    """

    derives = ()

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, Squeeze removes all axes of size 1."""
        return g.op.Unsqueeze(
            g.op.Squeeze(x, axes=g.capture("removed", optional=True)), axes=g.capture("added")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the axes, then the shapes: neither operator moves an element (1)."""
        rank = g.info(m.x).rank or 0
        removed, added = (
            {a + rank if a < 0 else a for a in axes or ()} for axes in (m.removed, m.added)
        )
        if m.removed and removed == added and len(m.removed) == len(m.added):
            return True
        return keeps_shape(g, m.nodes[1], m.x) or self.none(
            m.nodes[1], msg="the axes of the Squeeze and the Unsqueeze differ"
        )

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[a,1,b] x) => (float[a,1,b] y) <int64[1] first = {1}, "
        "int64[1] second = {-2}> { t = Squeeze(x, first) u = Unsqueeze(t, second) y = Relu(u) }",
        "{ y = Relu(x) }",
    )


class UnsqueezeSqueezePattern(_SqueezePair):
    """Squeeze(Unsqueeze(x, a), b) → x, Unsqueeze(x, a without b) or Squeeze(x, b without a)

    What: neither adds an axis nor removes it again.
    Why: one or two nodes less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown (unless both lists are the same).
    2. each of the two does something that the other one does not undo.
    """

    derives = ("added", "removed")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, Squeeze removes all axes of size 1, and so all that were added."""
        return g.op.Squeeze(
            g.op.Unsqueeze(x, axes=g.capture("a")), axes=g.capture("b", optional=True)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Both lists number axes of the shape in between; the axes that stay are numbered anew."""
        if m.b is None or not m.b:
            return m.derive(added=[], removed=None)
        rank = g.info(m.nodes[0].output[0]).rank
        if rank is None and min(*m.a, *m.b, 0) < 0 and m.a != m.b:  # (1)
            return self.none(m.nodes[1], msg="negative axes of an unknown rank")
        a, b = ({axis + (rank or 0) if axis < 0 else axis for axis in axes} for axes in (m.a, m.b))
        if not (a <= b or b <= a):  # (2)
            return self.none(m.nodes[1], msg="the axes of the Squeeze and the Unsqueeze differ")
        return m.derive(
            added=[axis - sum(place < axis for place in b) for axis in sorted(a - b)],
            removed=[axis - sum(place < axis for place in a) for axis in sorted(b - a)],
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, added: list[int], removed: list[int] | None
    ) -> str:
        if added:
            return g.op.Unsqueeze(x, axes=added)
        return x if removed == [] else g.op.Squeeze(x, axes=removed)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] i = {1}, int64[1] j = {-2}> "
        "{ t = Unsqueeze(x, i) u = Squeeze(t, j) y = Relu(u) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x) => (float[a,1,b] y) <int64[2] i = {0, 2}, int64[1] j = {0}> "
        "{ t = Unsqueeze(x, i) y = Squeeze(t, j) }",
        "<int64[1] i = {1}> { y = Unsqueeze(x, i) }",
        "agraph (float[a,1] x) => (float[a] y) <int64[1] i = {0}, int64[2] j = {0, 2}> "
        "{ t = Unsqueeze(x, i) y = Squeeze(t, j) }",
        "<int64[1] j = {1}> { y = Squeeze(x, j) }",
    )
