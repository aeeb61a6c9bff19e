"""The first and last elements of inputs that are assumed to be sorted in ascending order."""

from typing import Final

from onnx import TensorProto

from xoptim.facts.advice import Advice
from xoptim.facts.dims import is_nonzero
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Scalar,
    Symbol,
)

_HEAD: Final = '<metadata_props: ["xoptim.assumptions" : "sorted(x)"]> agraph'
"""The assumption about the input of the examples."""


class _Sorted(EasyPatternOptimization):
    """The largest or smallest elements of a tensor whose last axis is sorted."""

    # Floats are excluded: -0 equals 0, so the order does not tell which of them comes first.
    operand_types = {"x": {TensorProto.INT32, TensorProto.INT64}}

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        hint = f"assume it of an input with {Advice('assume', f'sorted({m.x})')}"
        return g.assumes("sorted", m.x) or self.none(
            m.nodes[0], msg=f"the order of the elements is not known: {hint}"
        )


class SortedReducePattern(_Sorted):
    """ReduceMax(x) → Gather(x, -1) for x in ascending order

    What: reads the last element of each row, or for ReduceMin the first element. Other axes are
    reduced afterwards.
    Why: reads one element per row, such as the last position ID of a sequence, instead of all.
    Refuses when:
    1. x is not assumed to be sorted (``--assume 'sorted(x)'``), or is not int32 or int64.
    2. the last axis is not reduced, may have size 0, or the rank or the axes are unknown.
    """

    min_opset = 11  # negative indices
    derives = ("rest",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        reduce = getattr(g.op, g.choice("operator", "ReduceMax", "ReduceMin"))
        return reduce(x, axes=g.capture("axes", optional=True), keepdims=g.capture("keepdims"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        if not shape:  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown, or 0")
        rest = {axis % len(shape) for axis in m.axes or range(len(shape))} ^ {len(shape) - 1}
        if len(shape) - 1 in rest:  # (2)
            return self.none(m.nodes[0], msg="the last axis is not reduced")
        if not is_nonzero(shape[-1]):  # (2)
            return self.none(
                m.nodes[0],
                msg=f"a dimension may be 0, unless {shape[-1]} >= 1 is assumed "
                f"({Advice('assume')})",
            )
        return super().validate_mapping(g, m) and m.derive(rest=sorted(rest))  # (1)

    def apply_pattern(
        self, g: PatternRewriter, x: str, operator: str, keepdims: int, rest: list[int]
    ) -> str:
        index = -1 if operator == "ReduceMax" else 0
        end = g.op.Gather(x, [index] if keepdims else index, axis=-1)
        return str(getattr(g.op, operator)(end, axes=rest, keepdims=keepdims) if rest else end)

    examples = Example.pairs(
        f"{_HEAD} (int64[2,3] x) => (int64 y) {{ y = ReduceMax <keepdims = 0> (x) }}",
        "<int64 last = {-1}, int64[1] a = {0}> { e = Gather <axis = -1> (x, last) "
        "y = ReduceMax <keepdims = 0> (e, a) }",
        f"{_HEAD} (int64[batch,8] x) => (int64[batch,1] y) <int64[1] a = {{1}}> {{ "
        "y = ReduceMin(x, a) }",
        "<int64[1] first = {0}> { y = Gather <axis = -1> (x, first) }",
    )


class SortedTopKPattern(_Sorted):
    """TopK(x, k, largest=0) → Slice(x, 0:k) for x in ascending order

    What: slices the first k elements, or for largest=1 the last k elements in reverse.
    Why: compares no elements.
    Refuses when:
    1. x is not assumed to be sorted (``--assume 'sorted(x)'``), or is not int32 or int64.
    2. the indices are read, the axis is not the last one, or the result is not sorted.
    3. k is not constant, or not known to fit into the axis.
    """

    min_opset = 11
    derives = ("count", "size")

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Scalar) -> Symbol:
        options = {"axis": g.capture("axis"), "largest": g.capture("largest"), "sorted": 1}  # (2)
        values, _ = g.op.TopK(x, k, outputs=2, **options)
        return values

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, count = g.try_infer_shape(m.x), g.get_constant_scalar(m.k)
        if not shape or m.axis not in (-1, len(shape) - 1):  # (2)
            return self.none(m.nodes[0], msg="the axis is not the last one")
        size = shape[-1]
        if not isinstance(size, int) or not isinstance(count, int) or not 0 < count <= size:  # (3)
            return self.none(m.nodes[0], msg="k is not known to be at most the size of the axis")
        return super().validate_mapping(g, m) and m.derive(count=count, size=size)  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, largest: int, count: int, size: int) -> str:
        first, end, step = (
            (-1, -size - 1 if count == size else -count - 1, -1) if largest else (0, count, 1)
        )
        return str(g.op.Slice(x, [first], [end], [-1], [step]))

    examples = Example.pairs(
        f"{_HEAD} (int64[n,5] x) => (int64[n,3] y) <int64[1] k = {{3}}> {{ "
        "y, i = TopK <largest = 0> (x, k) }",
        "<int64[1] a = {0}, int64[1] b = {3}, int64[1] c = {-1}, int64[1] d = {1}> { "
        "y = Slice(x, a, b, c, d) }",
        f"{_HEAD} (int64[n,5] x) => (int64[n,5] y) <int64[1] k = {{5}}> {{ y, i = TopK(x, k) }}",
        "<int64[1] a = {-1}, int64[1] b = {-6}> { y = Slice(x, a, b, a, a) }",
    )
