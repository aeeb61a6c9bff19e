from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import axis_of, is_op


class GathersConcatPattern(PatternOptimization):
    """Concat(Gather(x, i), Gather(x, j), ...) → Gather(x, Concat(i, j, ...))

    What: concatenates the indices, and gathers once.
    Why: the indices are smaller than the rows. The indices are often constants, or all outputs of a
    Split, so that no Concat remains.
    Refuses when:
    1. an operand is not a Gather from the same tensor, along the axis of the Concat, by a vector.
       Or the axis is negative, and the rank is unknown.
    2. a Gather has other consumers: its elements would be gathered twice.
    """

    anchors = ("Concat",)
    near = ("Gather",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        axis = axis_of(g, node)
        gathers = [gather for name in node.input if is_op(gather := g.node_before(name), "Gather")]
        if len(gathers) < max(len(node.input), 2):
            return self.none(node, msg="an operand is not the result of a Gather")
        kinds = {
            (
                gather.input[0],
                axis_of(g, gather),
                g.info(gather.input[1]).rank,
                g.try_infer_type(gather.input[1]),
            )
            for gather in gathers
        }
        # (1)
        if (
            axis is None
            or len(kinds) > 1
            or any(kind[1:3] != (axis, 1) or not kind[3] for kind in kinds)
        ):
            return self.none(
                node, msg="the Gathers may differ in tensor or axis, or an index is not a vector"
            )
        if not all(g.is_exclusive(name) for name in node.input):  # (2)
            return self.none(node, msg="a Gather has other consumers")
        return MatchResult(self, [*gathers, node], self._write)

    def _write(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
        """One Gather, by the indices of all Gathers."""
        *gathers, _ = nodes
        indices = g.make_node("Concat", [gather.input[1] for gather in gathers], axis=0)
        return [
            indices,
            g.make_node(
                "Gather",
                [gathers[0].input[0], *indices.output],
                nodes[-1].output,
                **gathers[0].attribute,
            ),
        ]

    examples = Example.only(
        "agraph (float[a,9] x, int64[2] i, int64[3] j) => (float[a,5] y) { "
        "p = Gather <axis = 1> (x, i) q = Gather <axis = -1> (x, j) y = Concat <axis = 1> (p, q) }",
        "{ k = Concat <axis = 0> (i, j) y = Gather <axis = 1> (x, k) }",
    )
