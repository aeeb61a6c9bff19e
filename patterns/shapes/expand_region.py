from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from xoptim.facts.dims import Dim, broadcast
from xoptim.facts.shapes import Shape, broadcast_shapes
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.regions import AxisRegion, Carried, region_below
from xoptim.operators.registry import axes_of

from .._nodes import renamed
from .._operators import BROADCASTING, ELEMENTWISE, POSITIONAL, is_exponent
from .._shapes import same_dims, unstretched

_ALIGNED: Final = frozenset((*BROADCASTING, *(ELEMENTWISE - POSITIONAL), "CastLike"))
"""Operators that broadcast shapes of any rank, and round elements independently of their index."""
_INDEXING: Final = ("Gather", "Transpose", "Unsqueeze")

_MAX_NODES = 32
_OTHER_ROUNDING: Final = {
    False: "onnxruntime rounds results of an operator depending on the index of the element",
    True: "no operator's results are rounded depending on the index of the element",
}
"""Messages by `_ExpandRegion.rounds`."""


class _ExpandRegion(PatternOptimization):
    """An Expand and the elementwise operators after it."""

    min_opset = 8
    radius = 8
    rounds: ClassVar[bool] = False
    """Whether the pattern is for regions with an operator whose results onnxruntime rounds
    depending on the index of the element.
    """

    def is_own(self, region: Iterable[Node]) -> bool:
        """Whether the pattern, with its ``rounds``, is for these operators."""
        return self.rounds == any(node.op_type in POSITIONAL for node in region)


class ExpandElementwisePattern(_ExpandRegion):
    """g(... f(Expand(x)) ..., y) → g(... f(x) ..., y)

    What: drops an Expand. Elementwise operators, Unsqueeze, Transpose and the indices of Gather
    then work on the small tensor, until operators that broadcast restore the shape.
    Why: masks are expanded to the batch long before the first Add, which broadcasts anyway. All
    intermediate results shrink as well.
    Refuses when:
    1. a consumer is another operator, or onnxruntime rounds it depending on the index of an
       element. Or there are too many consumers.
    2. a result that would shrink is a graph output, or a subgraph reads it.
    3. a shape is unknown.
    4. another node reads a result before all operands of the consumers are computed, so that they
       cannot be replaced together.
    """

    anchors = ("Expand", "Tile")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Follow the consumers in graph order, so that the operands of a node precede it."""
        small = unstretched(g, node.output[0])
        shape = None if small is None else g.try_infer_shape(small)
        if small is None or shape is None:
            return self.none(
                node, msg="the node repeats axes of size above 1, or the shape is unknown"
            )
        shrunk: dict[str, Shape] = {node.output[0]: shape}
        carry = partial(carried, g, shrunk, rounds=self.rounds)
        region = region_below(g, shrunk, carry, _MAX_NODES)
        reason = obstacle(g, node, region, shrunk)
        if reason is not None:  # (1) (2) (3) (4)
            return self.none(reason[0], msg=reason[1])
        if not self.is_own(region.nodes):  # (1)
            return self.none(node, msg=_OTHER_ROUNDING[self.rounds])
        return MatchResult(
            self, [node, *region.nodes], partial(self._without, small, tuple(shrunk))
        )

    def _without(
        self, small: str, shrunk: Sequence[str], g: PatternRewriter, node: Node, *region: Node
    ) -> list[Node]:
        return renamed(
            g, region, {node.output[0]: small, **{name: g.unique_name(name) for name in shrunk[1:]}}
        )

    examples = Example.pairs(
        "agraph (float[b,h,s,s] x, int64[b,1,1,s] m) "
        "=> (float[b,h,s,s] y) <float one = {1}, int64[1] k = {1}> { i = Shape <end = 1> (x) "
        "j = Shape <start = 3> (m) t = Concat <axis = 0> (i, k, j, j) e = Expand(m, t) "
        "c = Cast <to = 1> (e) n = Sub(one, c) y = Add(x, n) }",
        "<float one = {1}> { c = Cast <to = 1> (m) n = Sub(one, c) y = Add(x, n) }",
        "agraph (float[b,s,2] x, int64[s] p) "
        "=> (float[b,s,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { i = Shape <end = 2> (x) "
        "e = Expand(p, i) g = Gather(w, e) y = Add(x, g) }",
        "<float[3,2] w = {1, 2, 3, 4, 5, 6}> { g = Gather(w, p) y = Add(x, g) }",
        ranges=(("p", 0, 2),),
    )


class ExpandPositionalPattern(ExpandElementwisePattern):
    """g(... f(Expand(x)) ..., y) → g(... f(x) ..., y), f rounded depending on the index

    What: as `ExpandElementwise`, with operators such as Softplus, Log, Sin or Elu. The last bit of
    their results depends on the index of an element.
    Why: measured for Mul(z, Softplus(Expand(x))), where x has 16 elements: 0.38 of the time if z
    has 1024 elements, and 0.85 if z has 64.
    Refuses when:
    1. no operator rounds depending on the index, or ExpandElementwise refuses.
    """

    exactness = "rounding"
    rounds = True

    examples = Example.pairs(
        "agraph (float[b,h,1] x, float[b,h,3] z) => (float[b,h,3] y) { s = Shape(z) "
        "e = Expand(x, s) p = Softplus(e) y = Mul(z, p) }",
        "{ p = Softplus(x) y = Mul(z, p) }",
        "agraph (float[b,h,1] x, float[b,h,3] z) => (float[b,h,3] y) { s = Shape(z) "
        "e = Expand(x, s) p = Softplus(e) q = Sin(e) m = Mul(z, p) y = Add(m, q) }",
        "{ p = Softplus(x) q = Sin(x) m = Mul(z, p) y = Add(m, q) }",
    )


class ShapeBasedExpandSwapPattern(_ExpandRegion):
    """g(f(Expand(x, s))) → Expand(g(f(x)), s)

    What: elementwise operators work on the small tensor, and their result is expanded. Several
    operators may read the Expand, if one operator combines their results.
    Why: fewer elements to compute. The consumer of the result often broadcasts anyway, so that the
    Expand is then removed.
    Refuses when:
    1. s or a shape is unknown.
    2. more than one result would have to be expanded, or another node reads the Expand.
    3. the result has another shape than the Expand.
    4. onnxruntime rounds an operator depending on the index of an element.
    """

    anchors = ("Expand",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Collect consumers in graph order whose other operands are computed before the Expand.
        shape, sizes = (
            g.try_infer_shape(node.input[0]),
            g.info(node.input[1]).data or g.get_ints(node.input[1]),
        )
        if shape is None or sizes is None:  # (1)
            return self.none(node, msg="a shape is unknown")
        shrunk: dict[str, Shape] = {node.output[0]: shape}
        carry = partial(_carry, g, node, shrunk, self.rounds)
        region = region_below(g, shrunk, carry, _MAX_NODES).nodes
        if not self.is_own(region):  # (4)
            return self.none(node, msg=_OTHER_ROUNDING[self.rounds])
        leaves = [
            name
            for name in shrunk
            if is_read_from_outside(g, name)
            or any(consumer not in region for consumer in g.next_nodes(name))
        ]
        if len(leaves) != 1 or leaves[0] == node.output[0]:  # (2)
            return self.none(node, msg="not exactly one other result would have to be expanded")
        # (3)
        if not same_dims(
            broadcast_shapes(shrunk[leaves[0]], tuple(sizes)), g.try_infer_shape(leaves[0])
        ):
            return self.none(node, msg="the result does not have the shape of the Expand")
        return MatchResult(self, [node, *region], partial(self._swap, leaves[0]))

    def _swap(self, leaf: str, g: PatternRewriter, node: Node, *region: Node) -> list[Node]:
        names = {node.output[0]: node.input[0]} | {
            n.output[0]: g.unique_name(n.output[0]) for n in region
        }
        return [
            *renamed(g, region, names),
            g.make_node("Expand", [names[leaf], node.input[1]], [leaf]),
        ]

    examples = Example.only(
        "agraph (float[b,1,s] m, float[b,s,s] z) "
        "=> (float[b,s,s] y) <float one = {1}, float low = {-100}> { t = Shape(z) "
        "e = Expand(m, t) n = Sub(one, e) c = Cast <to = 9> (n) y = Where(c, low, n) }",
        "<float one = {1}, float low = {-100}> { n = Sub(one, m) c = Cast <to = 9> (n) "
        "w = Where(c, low, n) t = Shape(z) y = Expand(w, t) }",
    )


class ExpandPositionalSwapPattern(ShapeBasedExpandSwapPattern):
    """g(f(Expand(x, s))) → Expand(g(f(x)), s), f rounded depending on the index

    What: as `ShapeBasedExpandSwap`, with operators such as Softplus, Log, Sin or Elu. The last bit
    of their results depends on the index of an element.
    Why: measured for Softplus(Expand(x)), where x has 16 elements: 0.42 of the time for 1024
    results, and 0.93 for 64.
    Refuses when:
    1. no operator rounds depending on the index, or ShapeBasedExpandSwap refuses.
    """

    exactness = "rounding"
    rounds = True

    examples = Example.only(
        "agraph (float[b,1,s] m, float[b,s,s] z) => (float[b,s,s] y) <float one = {1}> { "
        "t = Shape(z) e = Expand(m, t) n = Add(one, e) y = Softplus(n) }",
        "<float one = {1}> { n = Add(one, m) p = Softplus(n) t = Shape(z) y = Expand(p, t) }",
    )


def obstacle(
    g: GraphView, node: Node, region: AxisRegion, shrunk: Mapping[str, Shape]
) -> tuple[Node | None, str] | None:
    """The node that cannot work on smaller tensors, and the reason; ``None`` if all can."""
    if region.stopped is not None:
        return region.stopped, "a consumer cannot run on the smaller tensor"
    outside = next((name for name in shrunk if is_read_from_outside(g, name)), None)
    if outside is not None:
        reason = "a result that would shrink is a graph output or read by a subgraph"
        return g.node_before(outside), reason
    if not region.nodes or not _are_together(g, [node, *region.nodes]):
        return node, "the consumers are too far apart"
    return None


def _are_together(g: GraphView, nodes: list[Node]) -> bool:
    """Whether all operands of the nodes come before all consumers of their results."""
    producers = [g.node_before(name) for node in nodes for name in node.input]
    consumers = [
        consumer
        for node in nodes
        for name in node.output
        for consumer in g.next_nodes(name)
        if consumer not in nodes
    ]
    needed = [
        producer.label for producer in producers if producer is not None and producer not in nodes
    ]
    return max(needed, default=0) < min((consumer.label for consumer in consumers), default=1 << 62)


def _carry(
    g: GraphView, node: Node, shrunk: dict[str, Shape], rounds: bool, consumer: Node
) -> Carried | None:
    """The form of an elementwise consumer with small operands (4).

    ``None`` unless its other operands are computed before the Expand.
    """
    producers = [g.node_before(name) for name in consumer.input if name not in shrunk]
    is_elementwise = consumer.op_type in BROADCASTING or consumer.op_type in ELEMENTWISE
    if not is_elementwise or not all(
        producer is None or producer.label < node.label for producer in producers
    ):
        return None
    count = len(shrunk)
    carry = carried(g, shrunk, consumer, rounds=rounds)
    return carry if len(shrunk) > count else None


def shape_with(
    g: GraphView, node: Node, shrunk: Mapping[str, Shape], *, rounds: bool = False
) -> Shape | None:
    """The shape of the result of a node whose operands have the ``shrunk`` shapes.

    ``None`` if the node does not work with them, or if it would round differently and ``rounds`` is
    false.
    """
    aligned = _ALIGNED | POSITIONAL if rounds else _ALIGNED
    axes = axes_of(g, node, shrunk) if node.op_type in (*aligned, *_INDEXING) else None
    is_rounded = any(
        is_exponent(node, index) and name in shrunk for index, name in enumerate(node.input)
    )
    if axes is None or (is_rounded and not rounds):
        return None
    sizes: dict[int, Dim] = {}
    for name, operand in zip(node.input, axes.operands, strict=True):
        if operand is not None:
            shape = shrunk[name] if name in shrunk else g.try_infer_shape(name) or ()
            sizes.update(
                (label, broadcast(sizes.get(label, 1), size))
                for label, size in zip(operand.labels, shape, strict=True)
            )
        if name in shrunk and node.op_type != "CastLike":
            # With a lower rank, the preceding axes of the result would move.
            is_moved = (
                node.op_type not in aligned
                and len(shrunk[name]) != g.info(name).rank
                and 0 not in axes.names.values()
            )
            if operand is None or operand.whole or is_moved:
                return None
    return tuple(sizes.get(label, 1) for label in axes.results[0])


def carried(
    g: GraphView, shrunk: dict[str, Shape], node: Node, *, rounds: bool = False
) -> Carried | None:
    """The form of a node whose operands have the ``shrunk`` shapes, or ``None``.

    A result that shrinks is added to ``shrunk``. ``rounds`` allows operators that onnxruntime
    rounds depending on the index of an element.
    """
    shape, result = shape_with(g, node, shrunk, rounds=rounds), node.output[0]
    if shape is None:
        return None
    if not same_dims(shape, g.try_infer_shape(result)):
        shrunk[result] = shape
    return Carried(
        {index: shrunk[name] for index, name in enumerate(node.input) if name in shrunk}, {}
    )


def is_read_from_outside(g: GraphView, name: str) -> bool:
    """Whether a result is a graph output, or a subgraph reads it."""
    return g.is_output(name) or g.is_used_by_subgraph(name)
