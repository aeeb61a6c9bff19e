from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._latents import (
    Projection,
    Rows,
    are_probabilities,
    example,
    heads_shape,
    projection_of,
    rows_of,
    saves,
    shared_product,
    weights_of,
    with_axis,
)


class LatentValuesPattern(PatternOptimization):
    """MatMul(p, heads(MatMul(c, w))) → MatMul(MatMul(p, c), w), for few queries

    What: sums the latents of all positions with the probabilities of attention, and projects the
    sums: in place of projecting the latents of each position to values (multi-head latent
    attention of DeepSeek). Heads are rows of one matrix, as they share the latents.
    Why: with LatentKeys, a DeepSeek-V3 of two layers takes 0.16 of the time of the export for one
    token after 512, and 0.37 without both.
    Refuses when:
    1. the values are not a part of a projection by constant weights, or are read elsewhere; or they
       are not multiplied by the result of Softmax, which has no infinities.
    2. there may be many queries: assume a bound of their number (``--assume 'seq == 1'``).
    3. an axis may be empty.
    """

    anchors = ("MatMul",)
    phase = "specialize"
    exactness = "rounding"
    providers = ("cpu",)
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        values = projection_of(g, node.input[1], [0, 2, 1, 3])
        if values is None or not are_probabilities(g, node.input[0]):  # (1)
            return self.none(node, msg="not probabilities by a projection of latents")
        shape = heads_shape(g, node.input[0], values)
        if shape is None:  # (1)
            return self.none(node, msg="the first operand has other sequences or heads")
        if not saves(shape[2], values):  # (2)
            return self.none(
                node, msg=f"{shape[2]}, the number of queries, may be large (--assume)"
            )
        rows = rows_of(g, shape, shape[3], values.rank)
        if rows is None:  # (3)
            return self.none(node, msg="a dimension may be 0")
        return MatchResult(self, [values.transpose, node], partial(_written, values, rows))

    _graph = partial(example, "float[2,2,1,t] p", "float[2,2,1,4]")
    examples = Example.only(
        _graph(
            "m = MatMul(c, w) h = Reshape(m, heads) k, v = Split <axis = 3> (h, sizes) "
            "f = Transpose <perm = [0, 2, 1, 3]> (v) d = Softmax(p) y = MatMul(d, f)"
        ),
        _graph(
            "a = Reshape(w, whole) b = Slice(a, two, six, two) "
            "v = Transpose <perm = [1, 0, 2]> (b) d = Softmax(p) r = Reshape(d, rows) "
            "l = Unsqueeze(c, one) m = MatMul(r, l) s = Reshape(m, back) y = MatMul(s, v)"
        ),
    )


def _written(values: Projection, rows: Rows, g: PatternRewriter, *nodes: Node) -> list[Node]:
    sums = shared_product(g, nodes[-1].input[0], rows, with_axis(g, values))
    weights = weights_of(g, values, [1, 0, 2])
    return [*g.created, g.make_node("MatMul", [sums, weights], nodes[-1].output)]
