"""Two movements in a row, merged into one by composing axes or editing the target of a Reshape."""

import math
from typing import ClassVar

from xoptim.facts.dims import fresh
from xoptim.facts.shapes import normalized
from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import keeps_shape, merged_target
from .._shapes import Movement, moved
from ._movement import NEW, axes_after, axes_movement


class _MovementPair(EasyPatternOptimization):
    """Two movements that become one, or none."""

    derives = ("movement",)

    def apply_pattern(self, g: PatternRewriter, x: str, movement: Movement) -> str:
        return moved(g, x, *movement)


class _AxesPair(_MovementPair):
    """Two of Transpose, Squeeze and Unsqueeze, which move complete axes; shapes may be unknown.

    `match_pattern` captures the perm or axes of the first node as `inner`, of the second node as
    `outer`.

    Class attributes:
        misfit: the refusal if one movement is not enough.
    """

    interior = "keep"
    misfit: ClassVar[str]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Follow the axes of x through both movements."""
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
        if rank is None:  # the smallest possible rank: axes beyond it stay last
            rank = max(numbers, default=-1) + 1 + len(inner) * (first.op_type == "Squeeze")
        middle = axes_after(first.op_type, inner, range(rank))
        result = None if middle is None else axes_after(second.op_type, outer, middle)
        movement = None if result is None else axes_movement(result, rank)
        if movement is None:  # (2)
            return self.none(second, msg=self.misfit)
        return m.derive(movement=movement)


class TransposeTransposePattern(_AxesPair):
    """Transpose(Transpose(x)) → Transpose(x), or x if they cancel

    What: composes the two permutations.
    Why: each Transpose copies the tensor.
    Refuses when:
    1. a Transpose has no ``perm``, and its default is unknown, because the rank is unknown.
    2. a list of axes is not a permutation, as in an invalid model.
    """

    misfit = "perm is not a permutation of the axes"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # (1)
        return g.op.Transpose(g.op.Transpose(x, perm=g.capture("inner")), perm=g.capture("outer"))

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) "
        "u = Transpose <perm = [1, 0]> (t) y = Relu(u) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b,c] x) => (float[c,a,b] y) "
        "{ t = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 2, 0]> (t) }",
        "{ y = Transpose <perm = [2, 0, 1]> (x) }",
    )


class SqueezeSqueezePattern(_AxesPair):
    """Squeeze(Squeeze(x, a), b) → Squeeze(x, both)

    What: removes all axes at once.
    Why: one node fewer.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown, or the first Squeeze lists no axes.
    2. an axis is out of range: such a model is not valid.
    """

    misfit = "the axes are not valid"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Match a second Squeeze without axes as well: the result removes all axes of size 1."""
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


class UnsqueezeUnsqueezePattern(_AxesPair):
    """Unsqueeze(Unsqueeze(x, a), b) → Unsqueeze(x, both)

    What: adds all axes at once.
    Why: one node fewer.
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


class SqueezeUnsqueezePattern(_AxesPair):
    """Unsqueeze(Squeeze(x, axes), axes) → x

    What: drops a pair that cancels.
    Why: two nodes fewer.
    Refuses when:
    1. the axes differ, and the result is not known to have the shape of x. Axes with different
       signs count as different if the rank is unknown.
    """

    misfit = "the axes of the Squeeze and the Unsqueeze differ"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Match a Squeeze without axes as well, which removes all axes of size 1."""
        return g.op.Unsqueeze(
            g.op.Squeeze(x, axes=g.capture("inner", optional=True)), axes=g.capture("outer")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Accept any axes if the shapes are equal: neither operator moves an element (1)."""
        if keeps_shape(g, m.nodes[1], m.x):
            return m.derive(movement=("", []))
        return super().validate_mapping(g, m)

    examples = Example.only(
        "agraph (float[a,1,b] x) => (float[a,1,b] y) <int64[1] first = {1}, "
        "int64[1] second = {-2}> { t = Squeeze(x, first) u = Unsqueeze(t, second) y = Relu(u) }",
        "{ y = Relu(x) }",
    )


class UnsqueezeSqueezePattern(_AxesPair):
    """Squeeze(Unsqueeze(x, a), b) → x, Unsqueeze(x, a without b) or Squeeze(x, b without a)

    What: does not add axes that are removed again.
    Why: one or two nodes fewer.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown (unless both lists are the same).
    2. the Unsqueeze adds an axis that stays, and the Squeeze removes an axis of x.
    """

    misfit = "the axes of the Squeeze and the Unsqueeze differ"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Match a Squeeze without axes as well: it also removes all axes that were added."""
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


class ReshapeSqueezePattern(_MovementPair):
    """Squeeze(Reshape(x, shape)) or Unsqueeze(Reshape(x, shape)) → Reshape(x, new shape)

    What: reshapes to the final shape at once, without the squeezed axes or with the new axes.
    Why: one node fewer.
    Refuses when:
    1. the target or the axes are not constant, there are no axes, or an axis is out of range.
    2. the target is not 1 in a squeezed axis.
    3. a 0 in the target would copy the size of another axis of x than before.
    """

    min_opset = 5

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Constant) -> Symbol:
        middle = g.op.Reshape(x, shape)
        if g.option("squeeze"):
            return g.op.Squeeze(middle, axes=g.capture("axes"))
        return g.op.Unsqueeze(middle, axes=g.capture("axes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        target = g.get_ints(m.shape) or []
        axes = axes_after(m.nodes[1].op_type, m.axes, range(len(target)))
        if not target or not m.axes or axes is None:  # (1)
            return self.none(m.nodes[1], msg="the axes are missing or out of range")
        if any(size != 1 for axis, size in enumerate(target) if axis not in axes):  # (2)
            return self.none(m.nodes[1], msg="an axis is not known to have size 1")
        source = g.try_infer_shape(m.x) or [fresh() for _ in target]
        sizes = dict(enumerate(source))
        edited = merged_target(
            source,
            [sizes.get(axis) for axis in axes],
            [1 if axis == NEW else target[axis] for axis in axes],
        )
        if edited is None:  # (3)
            return self.none(m.nodes[1], msg="a 0 in the target shape would copy another dimension")
        return m.derive(movement=("Reshape", edited))

    examples = Example.pairs(
        "agraph (float[a,6] x) => (float[a,2,3] y) <int64[4] s = {0, 2, 1, 3}, "
        "int64[1] axes = {-2}> { t = Reshape(x, s) y = Squeeze(t, axes) }",
        "<int64[3] s = {0, 2, 3}> { y = Reshape(x, s) }",
        "agraph (float[a,6] x) => (float[1,b,3] y) <int64[2] s = {-1, 3}, int64[1] axes = {0}> "
        "{ t = Reshape(x, s) y = Unsqueeze(t, axes) }",
        "<int64[3] s = {1, -1, 3}> { y = Reshape(x, s) }",
    )


class ReshapeFlattenPattern(_MovementPair):
    """Flatten(Reshape(x, shape), axis) → Reshape(x, two numbers)

    What: reshapes to the matrix at once.
    Why: one node fewer.
    Refuses when:
    1. the target is not constant, or the axis is out of range.
    2. the target has a 0 or -1 both among the rows and among the columns.
    """

    min_opset = 5

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Constant) -> Symbol:
        return g.op.Flatten(g.op.Reshape(x, shape), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        target = g.get_ints(m.shape) or []
        axis = m.axis if m.axis == len(target) else normalized(m.axis, len(target))
        if axis is None:  # (1)
            return self.none(
                m.nodes[1], msg="the target shape is unknown, or the axis is out of range"
            )
        parts = [
            -1 if any(size <= 0 for size in part) else math.prod(part)
            for part in (target[:axis], target[axis:])
        ]
        if parts == [-1, -1]:  # (2)
            return self.none(m.nodes[1], msg="neither the rows nor the columns are static")
        return m.derive(movement=("Reshape", parts))

    examples = Example.only(
        "agraph (float[a,24] x) => (float[a,24] y) <int64[3] s = {0, 4, 6}> { t = Reshape(x, s) "
        "y = Flatten(t) }",
        "<int64[2] s = {-1, 24}> { y = Reshape(x, s) }",
    )
