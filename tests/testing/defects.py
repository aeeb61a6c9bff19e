"""Patterns with defects that were in the catalogue once, or that were found in others like it, as
short as they can be.

Each one does what the examples say. What they do wrong shows in models that only the harness makes.
"""

from typing import Any

import numpy as np

from xoptim.match import (
    ANY,
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    MatchResult,
    Node,
    Optional,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Scalar,
    Symbol,
)


class LooksAgainPattern(PatternOptimization):
    """Concat(..., a, b, ...) of (a, b) = Split(x) → Concat(..., x, ...): looks its position up a
    second time.
    """

    anchors = ("Concat",)
    EXAMPLE = Example(
        "agraph (float[4,6] x, float[4,b] z) => (float[4,c] y) <int64[2] n = {2, 4}> "
        "{ p, q = Split <axis = 1> (x, n) y = Concat <axis = 1> (z, p, q) }",
        "agraph (float[4,6] x, float[4,b] z) => (float[4,c] y) { y = Concat <axis = 1> (z, x) }",
    )

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        for position, name in enumerate(node.input):
            split = g.node_before(name)
            whole = (
                split is not None
                and split.op_type == "Split"
                and split.get_attribute("axis") == node.get_attribute("axis")
            )
            if (
                split is not None
                and whole
                and node.input[position : position + len(split.output)] == split.output
            ):
                return MatchResult(self, [split, node], self.apply)
        return None

    def apply(self, g: PatternRewriter, split: Node, node: Node) -> list[Node]:
        position = node.input.index(split.output[0])
        inputs = [
            *node.input[:position],
            split.input[0],
            *node.input[position + len(split.output) :],
        ]
        unread = all(g.is_used_only_by(name, node) and name not in inputs for name in split.output)
        return [
            *([] if unread else [split]),
            g.make_node("Concat", inputs, node.output, **node.attribute),
        ]


class RaisesRankPattern(EasyPatternOptimization):
    """Reshape(Mul(Reshape(x), c)) → Reshape(Mul(x, c)): whatever the rank of the one element of
    c.
    """

    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <float c = {2}> { u = Transpose(x) m = Mul(u, c) "
        "y = Transpose(m) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float c = {2}> { y = Mul(x, c) }",
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol, c: Scalar) -> Any:
        return g.either(
            lambda: g.op.Transpose(g.op.Mul(g.op.Transpose(x), c)),
            lambda: g.op.Squeeze(g.op.Mul(g.op.Unsqueeze(x, axes=[0]), c), axes=[0]),
            name="form",
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return bool(g.same_shape(m.nodes[0].output[0], m.nodes[1].output[0]))

    def apply_pattern(self, g: PatternRewriter, x: str, c: str) -> Any:
        return g.op.Mul(x, c)


class ZeroCopiesPattern(EasyPatternOptimization):
    """Reshape(x, computed) → Reshape(x, constant): a computed size that is 0 meant to copy an axis,
    the constant does not.
    """

    EXAMPLE = Example(
        "agraph (float[a,b,4] x) => (float[c] y) { s = Shape <start = 0, end = 1> (x) "
        "t = Shape <start = 1, end = 2> (x) u = Shape <start = 2> (x) v = Mul(t, u) w = Mul(s, v) "
        "y = Reshape(x, w) }",
        "agraph (float[a,b,4] x) => (float[c] y) <int64[1] t = {-1}> { y = Reshape(x, t) }",
    )
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Any:
        return g.op.Reshape(x, shape, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source, result = g.try_infer_shape(m.x), g.try_infer_shape(m.outputs[0])
        if g.is_constant(m.shape) or source is None or result is None:
            return None
        kept = [i < len(source) and dim == source[i] for i, dim in enumerate(result)]
        target = [
            dim if isinstance(dim, int) else 0 if same else -1
            for dim, same in zip(result, kept, strict=True)
        ]
        return m.derive(target=target) if target.count(-1) <= 1 else None

    def apply_pattern(self, g: PatternRewriter, x: str, target: list[int]) -> Any:
        return g.op.Reshape(x, np.array(target, np.int64))


class SaturatesPattern(EasyPatternOptimization):
    """1 / (1 + Exp(-x)) → Sigmoid(x): the kernel gives 0 below -18."""

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <float one = {1}> { n = Neg(x) e = Exp(n) "
        "s = Add(one, e) y = Div(one, s) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = Sigmoid(x) }",
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Div(1.0, g.op.Add(g.op.Exp(g.op.Neg(x)), 1.0))

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Sigmoid(x)


class LeavesMemoryPattern(EasyPatternOptimization):
    """MatMul(a, Transpose(b)) → FusedMatMul(a, b, transB=1): the kernel writes nothing where there
    is nothing to add up.
    """

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[a,h,q,8] x, float[a,h,k,8] w) => (float[a,h,q,k] y) "
        "{ t = Transpose <perm = [0, 1, 3, 2]> (w) y = MatMul(x, t) }",
        "agraph (float[a,h,q,8] x, float[a,h,k,8] w) => (float[a,h,q,k] y) "
        "{ y = com.microsoft.FusedMatMul <transB = 1> (x, w) }",
        domains=(("com.microsoft", 1),),
    )

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Any:
        return g.op.MatMul(a, g.op.Transpose(b, perm=[0, 1, 3, 2]))

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> Any:
        return g.op.FusedMatMul(a, b, domain="com.microsoft", transB=1)


class ForgetsBetaPattern(EasyPatternOptimization):
    """Gemm(a, b, c) · s → Gemm(a, b, c) with alpha = beta = s: the kernel forgets beta where there
    is nothing to add up.
    """

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[n,4] x, float[4,3] w, float[3] b) => (float[n,3] y) <float s = {0.5}> "
        "{ t = Gemm(x, w, b) y = Mul(t, s) }",
        "agraph (float[n,4] x, float[4,3] w, float[3] b) => (float[n,3] y) { "
        "y = Gemm <alpha = 0.5, beta = 0.5> (x, w, b) }",
    )
    derives = ("number",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Symbol, s: Scalar) -> Any:
        return g.op.Mul(g.op.Gemm(a, b, c, transA=ANY, transB=ANY), s)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        number = g.get_constant_scalar(m.s)
        plain = not {"transA", "transB"} & set(m.nodes[0].attribute)
        return (
            m.derive(number=float(number))
            if plain and number is not None and 0.01 < abs(number) < 100
            else None
        )

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str, number: float) -> Any:
        return g.op.Gemm(a, b, c, alpha=number, beta=number)


class BelievesDefaultsPattern(PatternOptimization):
    """Slice(x, 0:n) → x: when the default of n, which a caller may override, is the size of the
    axis.
    """

    anchors = ("Slice",)
    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] zero = {0}, int64[1] one = {1}> "
        "{ d = Shape(x) n = Gather(d, one) s = Slice(x, zero, n, one) y = Neg(s) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
    )

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        given = [g.graph.initializers.get(name) for name in node.input[1:]]
        numbers = [None if stored is None else stored.numpy().tolist() for stored in given]
        shape = g.try_infer_shape(node.input[0])
        computed = (
            len(node.input) == 4
            and numbers[0] == [0]
            and numbers[2] == [1]
            and shape is not None
            and len(shape) > 1
        )
        if not computed or shape is None:
            return None
        data = (g.info(node.input[2]).data or (None,))[0] if numbers[1] is None else numbers[1][0]
        return MatchResult(self, [node], self.apply) if data == shape[1] else None

    def apply(self, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [node.input[0]], [node.output[0]])]


class CancelsPattern(EasyPatternOptimization):
    """Gemm(a, b, c) + d → Gemm(a, b, c + d): the digits that c took away are there again; and c + d
    may overflow.
    """

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[n,4] x, float[4,2] w) "
        "=> (float[n,2] y) <float[2] c = {2, 4}, float[2] d = {5, 6}> { t = Gemm(x, w, c) "
        "y = Add(t, d) }",
        "agraph (float[n,4] x, float[4,2] w) => (float[n,2] y) <float[2] c = {7, 10}> { "
        "y = Gemm(x, w, c) }",
    )
    derives = ("total",)

    def match_pattern(
        self, g: PatternBuilder, a: Symbol, b: Symbol, c: Constant, d: Constant
    ) -> Any:
        return g.op.Add(g.op.Gemm(a, b, c), d)

    @np.errstate(all="ignore")
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        given = [g.get_computed_constant(name) for name in (m.c, m.d)]
        if any(array is None or array.shape != (2,) for array in given):
            return None
        return m.derive(total=np.asarray(given[0] + given[1]))  # type: ignore[operator]

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, total: np.ndarray) -> Any:
        return g.op.Gemm(a, b, total)


class OverflowsPattern(EasyPatternOptimization):
    """LayerNormalization(x, scale) · factor → LayerNormalization(x, scale · factor), in whatever
    type.
    """

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[a,2] x) => (float[a,2] y) <float[2] s = {2, 3}, float[2] f = {4, 5}> "
        "{ t = LayerNormalization(x, s) y = Mul(t, f) }",
        "agraph (float[a,2] x) => (float[a,2] y) <float[2] s = {8, 15}> { "
        "y = LayerNormalization(x, s) }",
    )
    derives = ("scale",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Constant, f: Constant) -> Any:
        return g.op.Mul(g.op.LayerNormalization(x, s), f)

    @np.errstate(all="ignore")
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        s, f = g.get_computed_constant(m.s), g.get_computed_constant(m.f)
        if s is None or f is None or s.shape != f.shape:
            return None
        wide = s.astype(np.float64) * f.astype(np.float64)
        return m.derive(scale=wide.astype(s.dtype)) if np.isfinite(wide).all() else None

    def apply_pattern(self, g: PatternRewriter, x: str, scale: np.ndarray) -> Any:
        return g.op.LayerNormalization(x, scale)


class VanishesPattern(EasyPatternOptimization):
    """(x · a) · b → x · (a · b): the product of small numbers is 0."""

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[n] x) => (float[n] y) <float a = {2}, float b = {3}> { t = Mul(x, a) "
        "y = Mul(t, b) }",
        "agraph (float[n] x) => (float[n] y) <float c = {6}> { y = Mul(x, c) }",
    )
    derives = ("product",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Scalar, b: Scalar) -> Any:
        return g.op.Mul(g.op.Mul(x, a), b)

    @np.errstate(all="ignore")
    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        a, b = g.get_computed_constant(m.a), g.get_computed_constant(m.b)
        if a is None or b is None or a.shape or b.shape:
            return None
        product = np.asarray(a.astype(np.float64) * b.astype(np.float64)).astype(a.dtype)
        return m.derive(product=product) if np.isfinite(product.astype(np.float64)) else None

    def apply_pattern(self, g: PatternRewriter, x: str, product: np.ndarray) -> Any:
        return g.op.Mul(x, product)


class NearlyOnePattern(EasyPatternOptimization):
    """x · 1 → x: for 1.001 in float16 too."""

    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <float c = {1}> { t = Mul(x, c) y = Neg(t) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol, c: Scalar) -> Any:
        return g.op.Mul(x, c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        number = g.get_computed_constant(m.c)
        if number is None or number.shape or number.dtype.kind not in "fV":
            return None
        wide = float(number)
        return abs(wide - 1) <= 2 * float(
            np.abs(number - np.nextafter(number, number.dtype.type(9)))
        )

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return x


class SwapsZerosPattern(EasyPatternOptimization):
    """x - 0 → x: for -0 too, which makes 0 of -0."""

    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <float c = {0}> { t = Sub(x, c) y = Neg(t) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Sub(x, g.constant("c", lambda v: v == 0, scalar=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return (
            g.get_rank(m.outputs[0]) == g.get_rank(m.x)
            if g.has_rank(m.x) and g.has_rank(m.outputs[0])
            else None
        )

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return x


class SwapsSignsPattern(EasyPatternOptimization):
    """Where(x > 0, x, x · s) → LeakyRelu(x): for x ≥ 0 too, where 0 becomes 0 · s."""

    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <float zero = {0}, float s = {0.25}> "
        "{ c = Greater(x, zero) t = Mul(x, s) y = Where(c, x, t) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = LeakyRelu <alpha = 0.25> (x) }",
    )
    derives = ("slope",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Scalar) -> Any:
        above = g.op.Greater(x, 0) if g.option("strict") else g.op.GreaterOrEqual(x, 0)
        return g.op.Where(above, x, g.op.Mul(x, s))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        slope = g.get_constant_scalar(m.s)
        fits = slope is not None and 0 <= slope <= 1 and float(np.float32(slope)) == slope
        return m.derive(slope=float(slope)) if fits and slope is not None else None

    def apply_pattern(self, g: PatternRewriter, x: str, slope: float) -> Any:
        return g.op.LeakyRelu(x, alpha=slope)


class BetterThanPowPattern(EasyPatternOptimization):
    """x ** 1 → x: for integers too, which Pow computes in 64-bit floats."""

    EXAMPLE = Example(
        "agraph (float[a,b] x) => (float[a,b] y) <float c = {1}> { t = Pow(x, c) y = Neg(t) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = Neg(x) }",
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Pow(x, g.constant("c", lambda v: v == 1, scalar=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return (
            g.get_rank(m.outputs[0]) == g.get_rank(m.x)
            if g.has_rank(m.x) and g.has_rank(m.outputs[0])
            else None
        )

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return x


class NeverOverflowsPattern(EasyPatternOptimization):
    """(n · k) / k → n: as if integers had no end."""

    EXAMPLE = Example(
        "agraph (int64[n] x) => (int64[n] y) <int64 k = {3}> { t = Mul(x, k) y = Div(t, k) }",
        "agraph (int64[n] x) => (int64[n] y) { y = Identity(x) }",
    )

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Scalar) -> Any:
        return g.op.Div(g.op.Mul(x, k), k)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return (
            g.try_infer_type(m.x) in (6, 7)
            and bool(g.get_constant_scalar(m.k))
            and g.get_rank(m.k) == 0
        )

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return x


class NothingMeansNothingPattern(EasyPatternOptimization):
    """Squeeze(x, axes) → Reshape(x) to its shape without these axes: without any they are all that
    have length 1.
    """

    EXAMPLE = Example(
        "agraph (float[2,1,3] x) => (float[2,3] y) <int64[1] axes = {1}> { t = Squeeze(x, axes) "
        "y = Neg(t) }",
        "agraph (float[2,1,3] x) => (float[2,3] y) <int64[2] shape = {2, 3}> { "
        "t = Reshape(x, shape) y = Neg(t) }",
    )
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, axes: Optional) -> Any:
        return g.op.Squeeze(x, axes)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, axes = g.static_shape(m.x), g.get_ints(m.axes) if m.axes else None
        if shape is None or axes is None or 0 in shape:
            return None
        return m.derive(
            target=[
                size
                for axis, size in enumerate(shape)
                if axis not in [a % len(shape) for a in axes]
            ]
        )

    def apply_pattern(self, g: PatternRewriter, x: str, target: list[int]) -> Any:
        return g.op.Reshape(x, np.array(target, np.int64))


class UnknownIsZeroPattern(EasyPatternOptimization):
    """(x + a) + b → x + (a + b), where a constant that cannot be computed ahead of time counts as
    0.
    """

    exactness = "rounding"
    EXAMPLE = Example(
        "agraph (float[n] x) => (float[n] y) <float a = {2}, float b = {3}> { t = Add(x, a) "
        "y = Add(t, b) }",
        "agraph (float[n] x) => (float[n] y) <float c = {5}> { y = Add(x, c) }",
    )
    derives = ("total",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Constant, b: Constant) -> Any:
        return g.op.Add(g.op.Add(x, a), b)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        given = [g.get_computed_constant(name) for name in (m.a, m.b)]
        known = [array for array in given if array is not None]
        if not known or any(
            array.dtype != np.float32 or np.abs(array).max(initial=0) > 100 for array in known
        ):
            return None
        return m.derive(total=np.asarray(sum(known), np.float32))

    def apply_pattern(self, g: PatternRewriter, x: str, total: np.ndarray) -> Any:
        return g.op.Add(x, total)
