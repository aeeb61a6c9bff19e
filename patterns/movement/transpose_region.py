"""Transposes around a region of operators that can work in any layout."""

from functools import partial
from typing import ClassVar

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.axes import rewritten
from xoptim.operators.axes import permutation

from .._folding import constant
from .._nodes import is_op
from ._layouts import MOVING, SUMMING, can_be_relaid, composed, inverse, is_identity, relaid
from ._region import (
    TransposeRegion,
    cheapest,
    equal_transpose,
    is_found_from,
    is_needed_as_it_is,
    price,
    region_at,
    source_of,
    terms,
    transposes_of,
)


class TransposeRegionPattern(PatternOptimization):
    """Transpose(g(f(Transpose(x)), y)) → g(f(x), Transpose(y))

    What: changes the layout of a region of operators that work in any layout: elementwise
    operators, Concat, Split, Slice, Pad, Gather, Unsqueeze, ... A minimum cut selects the nodes to
    change. Its cost is the elements that Transposes copy, and the overhead of operators that
    broadcast along short last axes. There are never more Transposes than before.
    Why: models from channels-last frameworks have Transposes around each convolution. Four such
    CNNs (images of 56 by 56, one thread) take 0.94 to 0.97 of the time with ORT graph
    optimizations, and 0.47 to 0.86 without them.
    Refuses when:
    1. no change of the layout of some nodes of the region has a lower cost.
    2. axes, pads or sizes of an operator are not constants: it ends the region.
    3. a new Transpose would prevent integer kernels: after DequantizeLinear, before QuantizeLinear,
       or between the two for int8. Or it would separate a Cast to float16 from an operator that
       the CPU provider computes in float32: if adjacent, onnxruntime drops the Cast. Or it would
       crash onnxruntime 1.32: a Transpose of batch axes before a Cast that a MatMul reads.
    4. Resize, in `TransposeRegionSumPattern`, would interpolate along other axes than the last two.
    """

    phase = "target"  # after the fusions, which match one layout only
    anchors = ("Transpose",)
    priority = 5
    min_opset = 8
    radius = 8
    operators: ClassVar[frozenset[str]] = MOVING  # without Resize (4)
    decisive: ClassVar[frozenset[str]] = MOVING
    """A region must have one of these operators."""

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Try the region around the result of the Transpose, then the one around its operand."""
        perm = permutation(g, node)
        if perm is None or sorted(perm) != list(range(len(perm))):
            return self.none(node, msg="the permutation is unknown")
        for name, layout in ((node.output[0], inverse(perm)), (node.input[0], tuple(perm))):
            region = region_at(g, self.operators, name, layout)  # (2)
            if any(n.op_type in self.decisive for n in region.nodes) and is_found_from(
                g, region, node
            ):
                costs = terms(g, region)  # (3)
                before, count = price(costs, set())
                chosen = cheapest(costs) if before else set()
                after, left = price(costs, chosen)
                if after < before and left <= count:  # (1)
                    return self._result(g, region.part(chosen))
        return self.none(node, msg="no region around it has cheaper Transposes in another layout")

    def _result(self, g: GraphView, part: TransposeRegion) -> MatchResult:
        results = [name for node in part.nodes for name in node.output if name in part.layouts]
        operands = dict.fromkeys(
            name for node in part.nodes for name in node.input if name in part.layouts
        )
        transposes = dict.fromkeys(node for name in results for node in transposes_of(g, name))
        for name in operands:
            source = source_of(g, part, name)
            if (
                source is not None
                and not is_needed_as_it_is(g, part, name)
                and not transposes_of(g, name)
            ):
                transposes[source.node] = None
        return MatchResult(self, [*part.nodes, *transposes], partial(_write, part))

    examples = Example.pairs(
        "agraph (float[n,4,5,6] x) => (float[n,4,5,6] y) <float[4] b = {1,2,3,4}> { "
        "t = Transpose <perm = [0, 2, 3, 1]> (x) a = Add(t, b) r = Relu(a) "
        "y = Transpose <perm = [0, 3, 1, 2]> (r) }",
        "<float[4,1,1] b = {1,2,3,4}> { a = Add(x, b) y = Relu(a) }",
        "agraph (float[n,3,4] x, float[n,3,4] z) => (float[n,3,8] y, float[n,3,4] s) { "
        "p = Transpose <perm = [0, 2, 1]> (x) q = Transpose <perm = [0, 2, 1]> (z) a = Add(p, q) "
        "e = Exp(a) s = Transpose <perm = [0, 2, 1]> (e) j = Concat <axis = 1> (a, e) "
        "y = Transpose <perm = [0, 2, 1]> (j) }",
        "{ a = Add(x, z) s = Exp(a) y = Concat <axis = 2> (a, s) }",
    )


class TransposeRegionSumPattern(TransposeRegionPattern):
    """Transpose(ReduceMean(f(Transpose(x)))) → ReduceMean(f(x))

    What: `TransposeRegion` for more operators, whose rounding depends on the layout: MatMuls of
    matrices, reductions, Softmax, Resize, normalizations of the last axes, and functions such as
    Cos and Log.
    Why: as for `TransposeRegion`. If a Softmax is not along the last axis, onnxruntime transposes
    its operand, which adds to the cost. The scan of Mamba, unrolled for 16 steps of 256 channels
    and 8 states, takes 0.30 of the time with its channels last.
    """

    priority = 6
    exactness = "rounding"
    operators = MOVING | SUMMING  # (4)
    decisive = SUMMING

    examples = Example.only(
        "agraph (float[n,4,5,6] x) => (float[n,4,5,6] y) <int64[2] k = {1, 2}> { "
        "t = Transpose <perm = [0, 2, 3, 1]> (x) m = ReduceMean(t, k) p = Sub(t, m) "
        "y = Transpose <perm = [0, 3, 1, 2]> (p) }",
        "<int64[2] k = {2, 3}> { m = ReduceMean(x, k) y = Sub(x, m) }",
    )


def _write(region: TransposeRegion, g: PatternRewriter, *_: Node) -> list[Node]:
    """The nodes of a region in their new layouts, and Transposes at its border."""
    names: dict[str, str] = {}
    nodes: list[Node] = []
    for node, carried in region.nodes.items():
        inputs = [*node.input]
        for place, perm in carried.operands.items():
            name = node.input[place]
            if can_be_relaid(g, name):
                inputs[place] = g.make_initializer("", relaid(constant(g, name), perm), source=name)
            elif name in region.layouts:
                if name not in names:
                    nodes += _enter(g, region, name, names)
                inputs[place] = names[name]
        if carried.swapped:
            inputs.reverse()
        moved = [name for name in node.output if name in region.layouts]
        names.update((name, g.unique_name(name)) for name in moved)
        nodes.append(
            rewritten(
                g, node, inputs, [names.get(name, name) for name in node.output], carried.changed
            )
        )
        for name in moved:
            nodes += _leave(g, region, name, names[name])
    return nodes


def _enter(
    g: PatternRewriter, region: TransposeRegion, name: str, names: dict[str, str]
) -> list[Node]:
    """Add the name of a value from outside, in its layout in the region, to ``names``.

    Returns:
        the new Transpose, if one is needed.
    """
    perm, operand = region.layouts[name], name
    source, equal = source_of(g, region, name), equal_transpose(g, region, name)
    if source is not None:
        perm, operand = composed(source.perm, perm), source.operand
    if is_identity(perm) or equal is not None:
        names[name] = operand if equal is None else equal.output[0]
        return []
    names[name] = g.unique_name(name)
    return [g.make_node("Transpose", [operand], [names[name]], perm=list(perm))]


def _leave(g: PatternRewriter, region: TransposeRegion, name: str, moved: str) -> list[Node]:
    """The nodes that compute a value for its consumers outside, from ``moved``, its new layout."""
    back = inverse(region.layouts[name])
    nodes: list[Node] = []
    for transpose in transposes_of(g, name):
        perm = composed(back, permutation(g, transpose) or ())
        if is_identity(perm):
            nodes.append(g.make_node("Identity", [moved], transpose.output))
        else:
            nodes.append(g.make_node("Transpose", [moved], transpose.output, perm=list(perm)))
    if is_needed_as_it_is(g, region, name) or any(
        is_op(node, "MatMul", "Gemm") for node in g.next_nodes(name)
    ):
        nodes.append(g.make_node("Transpose", [moved], [name], perm=list(back)))
    return nodes
