from collections.abc import Mapping
from functools import partial
from typing import Final

from xoptim.facts.dims import product
from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.axes import parameters
from xoptim.match.regions import AxisRegion, Carried, region_above
from xoptim.operators.registry import axes_of

from .._deductions import reshapes_as_inferred
from .._nodes import is_op
from .._operators import BROADCASTING, ELEMENTWISE
from .._shapes import Movement, moved, movement_between

_MAX_NODES: Final = 32
"""Maximum nodes of a region."""
_OPERATORS: Final = (
    *BROADCASTING,
    *sorted(ELEMENTWISE),
    "LogSoftmax",
    "MatMul",
    "Softmax",
    "Transpose",
)

_Entry = tuple[str, Movement]
"""A tensor, and the movement that gives it split batch axes."""


class BatchRegionPattern(PatternOptimization):
    """Reshape(f(MatMul(Reshape(a), Reshape(b)), Reshape(c))) → f(MatMul(a, b), c)

    What: keeps batch axes apart that the model merges by Reshapes before a MatMul, and splits after
    it. Elementwise operators, Softmax and Transpose may come between.
    Why: needs no Reshapes, and no computed shapes. Attention exported from torch's ``baddbmm`` has
    this form.
    Refuses when:
    1. the last node does not split the first axis only, or a shape is unknown.
    2. another node reads a result in between, or a node in between works along the merged axis.
    3. an operand is not merged by a Reshape, or would need a computed shape.
    4. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    5. no Reshape would be saved, or there is one operand (MovementChain shortens chains).
    """

    anchors = ("Reshape",)
    near = _OPERATORS
    exactness = "rounding"
    after = {"ReshapeMatMulReshape": "it takes a single MatMul"}
    min_opset = 13
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        merged, split = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
        if merged is None or split is None or len(merged) < 2 or len(split) <= len(merged):  # (1)
            return self.none(node, msg="the Reshape splits no axis")
        batch = split[: len(split) - len(merged) + 1]
        # (1) (4)
        if (
            split[len(batch) :] != merged[1:]
            or product(batch) != merged[0]
            or not reshapes_as_inferred(g, node)
        ):
            return self.none(
                node, msg="not a split of the first axis only, or a dimension may be 0"
            )
        region = region_above(g, node, 0, partial(_carry, g, batch), _MAX_NODES)
        entries = {
            name: entry
            for name in region.sources
            if (entry := _entry(g, g.node_before(name), batch)) is not None
        }
        if len(entries) < len(region.sources):  # (2) (3) (4)
            return self.none(
                region.stopped or node, msg="an operator in between cannot run on the split axes"
            )
        new = sum(bool(op_type) for _, (op_type, _) in entries.values())
        old = 1 + sum(g.is_used_only_by(name, *region.nodes) for name in entries)
        if new >= old or len(entries) < 2:  # (5)
            return self.none(node, msg="no Reshape would be saved, or there is only one operand")
        return MatchResult(self, [*reversed(region.nodes), node], partial(_write, region, entries))

    examples = Example.only(
        "agraph (float[a,2,3,4] x, float[a,2,5,4] z, float[a,2,5] c) "
        "=> (float[a,2,3,5] y) <int64[3] i = {-1, 3, 4}, int64[3] j = {-1, 5, 4}, "
        "int64[3] k = {-1, 1, 5}, int64[4] l = {-1, 2, 3, 5}, float h = {0.5}> { "
        "r = Reshape(x, i) w = Reshape(z, j) v = Transpose <perm = [0, 2, 1]> (w) "
        "u = MatMul(r, v) n = Mul(u, h) b = Reshape(c, k) d = Add(n, b) y = Reshape(d, l) }",
        "<float h = {0.5}, int64[1] k = {2}> { v = Transpose <perm = [0, 1, 3, 2]> (z) "
        "u = MatMul(x, v) n = Mul(u, h) g = Unsqueeze(c, k) y = Add(n, g) }",
    )


def _carry(g: GraphView, batch: Shape, node: Node, place: int) -> Carried | None:
    """The form of a node with split batch axes, if these axes come first in all its operands."""
    shape, axes = (
        g.try_infer_shape(node.output[0]),
        axes_of(g, node) if node.op_type in _OPERATORS else None,
    )
    if axes is None or shape is None or len(shape) < 2 or axes.results[0][0] in axes.fixed:
        return None
    first = axes.results[0][0]
    parts = axes.parts([g.try_infer_shape(name) for name in node.input], first, shape[0])
    if parts is None or any(parts.values()):
        return None
    return Carried(
        parts, parameters(g, node, axes.replaced({first: (first, *range(-1, -len(batch), -1))}))
    )


def _entry(g: GraphView, node: Node | None, batch: Shape) -> _Entry | None:
    """The source of a Reshape before the region, and the movement that gives it split batch axes.

    ``None`` if the node is not such a Reshape, or no single movement is enough.
    """
    if not is_op(node, "Reshape", "Flatten") or not reshapes_as_inferred(g, node):
        return None
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if source is None or result is None:
        return None
    split_shape = (*batch, *result[1:])
    if source == split_shape:
        return node.input[0], ("", [])
    movement = movement_between(g, source, split_shape)
    return None if movement is None else (node.input[0], movement)


def _write(
    region: AxisRegion, entries: Mapping[str, _Entry], g: PatternRewriter, *nodes: Node
) -> list[Node]:
    names = {name: moved(g, source, *movement) for name, (source, movement) in entries.items()}
    return [*g.created, *region.written(g, names, {nodes[-1].input[0]: nodes[-1].output})]
