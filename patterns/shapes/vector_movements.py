from collections.abc import Sequence

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by

_MAX_ELEMENTS, _MAX_NODES = 64, 8


class VectorMovementsPattern(PatternOptimization):
    """Reshape(Transpose(Slice(Reshape(x, [-1, 2])))) → Gather(x, indices)

    What: one Gather takes the elements of a short vector in their new order.
    Why: one node instead of four, and the elements become known to shape inference. torch
    rearranges the pads of ``F.pad`` with such nodes.
    Refuses when:
    1. x or the result is not a vector of static length, up to 64, or there is only one node.
    2. there are other operators, computed operands, or more than 8 nodes.
    """

    anchors = ("Reshape", "Squeeze")
    near = ("Reshape", "Transpose", "Slice", "Squeeze", "Unsqueeze", "Flatten")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        chain = [node]
        while (producer := g.node_before(chain[-1].input[0])) is not None and g.info(
            chain[-1].input[0]
        ).rank != 1:
            chain.append(producer)
            if len(chain) > _MAX_NODES or not is_op(producer, *self.near):  # (2)
                return self.none(
                    producer, msg="not a Slice, Reshape, Transpose, ..., or more than 8 of them"
                )
        source = chain[-1].input[0]
        sizes = [g.static_shape(name) or () for name in (source, node.output[0])]
        # (1)
        if (
            any(len(size) != 1 or size[0] > _MAX_ELEMENTS for size in sizes)
            or g.is_constant(source)
            or len(chain) < 2
        ):
            return self.none(
                node, msg="not several nodes from one vector of up to 64 elements to another"
            )
        results: Sequence[np.ndarray] = [np.arange(*sizes[0])]
        for step in reversed(chain):
            operands = [g.get_computed_constant(name) for name in step.input[1:]]
            # (2)
            if any(operand is None for operand in operands) or not (
                results := g.evaluate(step, [results[0], *operands]) or ()
            ):
                return self.none(node, msg="another operand is not a constant")
        return MatchResult(self, [node], replaced_by("Gather", source, results[0]))

    examples = Example.only(
        "agraph (int64[4] x) => (int64[4] y) <int64[2] t = {-1, 2}, int64[1] o = {-1}, "
        "int64[1] e = {-9}, int64[1] z = {0}> { r = Reshape(x, t) s = Slice(r, o, e, z, o) "
        "p = Transpose(s) y = Reshape(p, o) }",
        "<int64[4] i = {2, 0, 3, 1}> { y = Gather(x, i) }",
    )
