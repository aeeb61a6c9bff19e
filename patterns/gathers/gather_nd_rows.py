from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by


class GatherNDRowsPattern(PatternOptimization):
    """GatherND(x, Unsqueeze(i, -1)) → Gather(x, i)

    What: uses the simpler operator. The same for a constant column of indices.
    Why: one node fewer, and more patterns match Gather.
    Refuses when:
    1. batch_dims is set, or the indices are neither constant nor the result of an Unsqueeze that
       adds their last axis.
    2. the last dimension of the indices is not known to be 1: GatherND may index several axes.
    3. a row may have a dimension of size 0, or the shape of x is unknown: onnxruntime's GatherND
       does not check the indices of rows without elements.
    """

    anchors = ("GatherND",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        indices_shape, producer = g.try_infer_shape(node.input[1]), g.node_before(node.input[1])
        # (1) (2)
        if not indices_shape or indices_shape[-1] != 1 or node.attribute.get("batch_dims", 0):
            return self.none(
                node, msg="the last dimension of the indices is not 1, or batch_dims is set"
            )
        indices, x_shape = g.get_computed_constant(node.input[1]), g.try_infer_shape(node.input[0])
        if not x_shape or not all(map(is_nonzero, x_shape[1:])):  # (3)
            return self.none(
                node, msg="a row may have a dimension of size 0, or the shape is unknown"
            )
        if indices is not None:
            return MatchResult(self, [node], replaced_by("Gather", node.input[0], indices[..., 0]))
        axes = g.get_argument(producer, "axes") if is_op(producer, "Unsqueeze") else None
        if producer is None or axes not in ([-1], [len(indices_shape) - 1]):  # (1)
            return self.none(node, msg="no Unsqueeze adds the last axis")
        return MatchResult(self, [node], replaced_by("Gather", node.input[0], producer.input[0]))

    examples = Example.pairs(
        "agraph (float[9,4] x, int64[b] i) => (float[b,4] y) <int64[1] k = {-1}> { "
        "u = Unsqueeze(i, k) y = GatherND(x, u) }",
        "{ y = Gather(x, i) }",
        "agraph (float[9,4] x) => (float[2,4] y) <int64[2,1] i = {3, -1}> { y = GatherND(x, i) }",
        "<int64[2] i = {3, -1}> { y = Gather(x, i) }",
        ranges=(("i", 0, 8),),
    )
