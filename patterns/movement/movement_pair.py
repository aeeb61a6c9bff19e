"""Two of Transpose, Squeeze and Unsqueeze in a row."""

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
from .._shapes import Movement, moved
from ._movement import axes_after, axes_movement


class _MovementPair(EasyPatternOptimization):
    """Two movements of complete axes as one, or as none, even where no shape is known.

    `match_pattern` captures the perm or axes of both, `inner` and `outer`.

    Class attributes:
        misfit: the reason when one movement is not enough.
    """

    interior = "keep"
    derives = ("movement",)
    misfit: ClassVar[str]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Follow the axes of x through both."""
        (first, second), inner, outer = m.nodes, m.inner or [], m.outer or []
        if not outer and second.op_type == "Squeeze":
            return m.derive(movement=("Squeeze", []))  # removes all axes of size 1
        if not inner and first.op_type == "Squeeze":  # (1)
            return self.none(first, msg="the Squeeze has no axes")
        if first.op_type != second.op_type and sorted(inner) == sorted(outer):
            return m.derive(movement=("", []))
        rank, numbers = g.info(m.x).rank, [*inner, *outer]
        if rank is None and min(numbers, default=0) < 0:  # (1)
            return self.none(second, msg="negative axes of an unknown rank")
        if rank is None:  # the smallest one that is enough: further axes stay the last ones
            rank = max(numbers, default=-1) + 1 + len(inner) * (first.op_type == "Squeeze")
        middle = axes_after(first.op_type, inner, range(rank))
        result = None if middle is None else axes_after(second.op_type, outer, middle)
        movement = None if result is None else axes_movement(result, rank)
        if movement is None:  # (2)
            return self.none(second, msg=self.misfit)
        return m.derive(movement=movement)

    def apply_pattern(self, g: PatternRewriter, x: str, movement: Movement) -> str:
        return moved(g, x, *movement)


class TransposeTransposePattern(_MovementPair):
    """Transpose(Transpose(x)) → Transpose(x), or x when they cancel.

    What: composes the two permutations.
    Why: each Transpose copies the whole tensor.
    Refuses when:
    1. a permutation is not written and the rank is unknown, so that its default is unknown.
    2. a list of axes is not a permutation, as in an invalid model.
    """

    misfit = "perm is not a permutation of the axes"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Transpose(g.op.Transpose(x, perm=g.capture("inner")), perm=g.capture("outer"))

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) "
        "u = Transpose <perm = [1, 0]> (t) y = Relu(u) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b,c] x) => (float[c,a,b] y) "
        "{ t = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 2, 0]> (t) }",
        "{ y = Transpose <perm = [2, 0, 1]> (x) }",
    )


class SqueezeSqueezePattern(_MovementPair):
    """Squeeze(Squeeze(x, a), b) → Squeeze(x, both)

    What: removes all axes at once.
    Why: one node less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown, or the first one removes all axes of
       size 1.
    2. an axis is out of range: such a model is not valid.
    """

    misfit = "the axes are not valid"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, the second Squeeze removes all axes of size 1, and so may the joint one."""
        return g.op.Squeeze(
            g.op.Squeeze(x, axes=g.capture("inner")), axes=g.capture("outer", optional=True)
        )

    examples = Example.pairs(
        "agraph (float[1,1,a,b] x) => (float[a,b] y) <int64[1] i = {0}, int64[1] j = {0}> "
        "{ t = Squeeze(x, i) y = Squeeze(t, j) }",
        "<int64[2] i = {0, 1}> { y = Squeeze(x, i) }",
        "agraph (float[a,1,b,1] x) => (float[a,b] y) <int64[1] i = {1}, int64[1] j = {-1}> "
        "{ t = Squeeze(x, i) y = Squeeze(t, j) }",
        "<int64[2] i = {1, 3}> { y = Squeeze(x, i) }",
    )


class UnsqueezeUnsqueezePattern(_MovementPair):
    """Unsqueeze(Unsqueeze(x, a), b) → Unsqueeze(x, both)

    What: adds all axes at once.
    Why: one node less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown.
    2. an axis is listed twice or out of range: such a model is not valid.
    """

    misfit = "the axes are not valid"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Unsqueeze(g.op.Unsqueeze(x, axes=g.capture("inner")), axes=g.capture("outer"))

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[1,a,b,1] y) <int64[1] i = {0}, int64[1] j = {-1}> "
        "{ t = Unsqueeze(x, i) y = Unsqueeze(t, j) }",
        "<int64[2] i = {0, 3}> { y = Unsqueeze(x, i) }",
        "agraph (float[a,b] x) => (float[1,a,1,b] y) <int64[1] i = {1}, int64[1] j = {0}> "
        "{ t = Unsqueeze(x, i) y = Unsqueeze(t, j) }",
        "<int64[2] i = {0, 2}> { y = Unsqueeze(x, i) }",
    )


class SqueezeUnsqueezePattern(_MovementPair):
    """Unsqueeze(Squeeze(x, axes), axes) → x

    What: drops a pair that cancels.
    Why: two nodes less.
    Refuses when:
    1. the axes differ, or have different signs while the rank is unknown; unless the result is
       known to have the shape of x.
    """

    misfit = "the axes of the Squeeze and the Unsqueeze differ"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, Squeeze removes all axes of size 1."""
        return g.op.Unsqueeze(
            g.op.Squeeze(x, axes=g.capture("inner", optional=True)), axes=g.capture("outer")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """An equal shape suffices: neither operator moves an element (1)."""
        if keeps_shape(g, m.nodes[1], m.x):
            return m.derive(movement=("", []))
        return super().validate_mapping(g, m)

    examples = Example.only(
        "agraph (float[a,1,b] x) => (float[a,1,b] y) <int64[1] first = {1}, "
        "int64[1] second = {-2}> { t = Squeeze(x, first) u = Unsqueeze(t, second) y = Relu(u) }",
        "{ y = Relu(x) }",
    )


class UnsqueezeSqueezePattern(_MovementPair):
    """Squeeze(Unsqueeze(x, a), b) → x, Unsqueeze(x, a without b) or Squeeze(x, b without a)

    What: neither adds an axis nor removes it again.
    Why: one or two nodes less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown (unless both lists are the same).
    2. each of the two does something that the other one does not undo.
    """

    misfit = "the axes of the Squeeze and the Unsqueeze differ"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, Squeeze removes all axes of size 1, and so all that were added."""
        return g.op.Squeeze(
            g.op.Unsqueeze(x, axes=g.capture("inner")), axes=g.capture("outer", optional=True)
        )

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
