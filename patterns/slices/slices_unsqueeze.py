from functools import partial

from xoptim.facts.dims import Dim
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op, renamed
from .._operators import ELEMENTWISE
from .._shapes import reshape_target
from ._spans import steps_of

_MAX_OPERATORS = 4
"""Maximum number of operators between a Slice and the Unsqueeze."""


class SlicesUnsqueezePattern(PatternOptimization):
    """Unsqueeze(f(x[..., 0::2]), -1), Unsqueeze(g(x[..., 1::2]), -1) → f and g of the two parts of
    Split(Reshape(x))

    What: reshapes the last axis to pairs, which adds an axis of size 2, and splits this axis. Its
    halves already have the new last axis.
    Why: two nodes fewer. It takes 0.5 to 0.8 of the time on onnxruntime's CPU provider if the pairs
    are joined again, as in interleaved rotary embeddings (GPT-J, CodeGen, Cohere) and in position
    encodings of images (DETR).
    Refuses when:
    1. the Slices are not the even and the odd elements of the last axis, or one is missing.
    2. the size of the axis is not known to be even, or the target of the Reshape would have to be
       computed.
    3. a Slice does not lead through elementwise operators to a new last axis, or an intermediate
       result has other consumers.
    4. a node reads a result before both are computed.
    """

    anchors = ("Slice",)
    phase = "target"  # after the patterns that recognize embeddings
    priority = 4
    exactness = "rounding"  # onnxruntime may round depending on the index of an element
    radius = 6

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        source, shape = node.input[0], g.try_infer_shape(node.input[0])
        if not shape or _first_of_pairs(g, node, len(shape)) != 0:  # (1)
            return self.none(node, msg="not the even elements of the last axis")
        odd = [
            consumer
            for consumer in g.next_nodes(source)
            if _first_of_pairs(g, consumer, len(shape)) == 1
        ]
        if len(odd) != 1:  # (1)
            return self.none(node, msg="not exactly one other Slice takes the odd elements")
        size = shape[-1]
        target = (
            reshape_target(g, shape, (*shape[:-1], size // 2, 2))
            if isinstance(size, int) and not size % 2
            else None
        )
        if target is None:  # (2)
            return self.none(
                node, msg="the axis is not known to be even, or several dimensions are unknown"
            )
        chains = [_to_new_axis(g, first, len(shape)) for first in (node, *odd)]
        if not all(chains):  # (3)
            return self.none(
                node, msg="the Slices do not lead through elementwise operators to a new last axis"
            )
        nodes = [link for chain in chains for link in chain]
        consumers = [consumer for chain in chains for consumer in g.next_nodes(chain[-1].output[0])]
        if not consumers or min(n.label for n in consumers) < max(n.label for n in nodes):  # (4)
            return self.none(node, msg="a result is read before both are computed")
        return MatchResult(self, nodes, partial(self._split, target, len(chains[0])))

    def _split(self, target: list[int], count: int, g: PatternRewriter, *nodes: Node) -> list[Node]:
        pairs = g.op.Reshape(nodes[0].input[0], target)
        chains = nodes[:count], nodes[count:]
        parts = [
            g.unique_name("part") if len(chain) > 2 else chain[-1].output[0] for chain in chains
        ]
        new_nodes = [
            *g.created,
            g.make_node_check_opset("Split", [pairs], parts, axis=len(target) - 1, split=[1, 1]),
        ]
        for chain, name in zip(chains, parts, strict=True):
            names = {node.output[0]: g.unique_name(node.output[0]) for node in chain[1:-2]}
            new_nodes += renamed(
                g,
                chain[1:-1],
                {**names, chain[0].output[0]: name, chain[-2].output[0]: chain[-1].output[0]},
            )
        return new_nodes

    _slices = (
        "<int64[1] o = {0}, int64[1] i = {1}, int64[1] e = {9223372036854775807}, int64[1] k = "
        "{2}, int64[1] m = {-1}"
    )
    examples = Example.pairs(
        f"agraph (float[a,b,4] x) => (float[a,b,4] y) {_slices}, int64[3] r = {{0, 0, 4}}> {{ "
        "p = Slice(x, o, e, k, k) q = Slice(x, i, e, k, k) n = Neg(q) u = Unsqueeze(n, m) "
        "v = Unsqueeze(p, m) c = Concat <axis = 3> (u, v) y = Reshape(c, r) }",
        "agraph (float[a,b,4] x) => (float[a,b,4] y) <int64[4] s = {0, 0, 2, 2}, int64[2] k = {1, "
        "1}, int64[3] r = {0, 0, 4}> { t = Reshape(x, s) v, q = Split <axis = 3> (t, k) "
        "u = Neg(q) c = Concat <axis = 3> (u, v) y = Reshape(c, r) }",
        f"agraph (float[a,6] x) => (float[a,3,2] y) {_slices}, int64[1] l = {{1}}> {{ "
        "p = Slice(x, o, e, l, k) q = Slice(x, i, e, l, k) s = Sin(p) c = Cos(q) "
        "u = Unsqueeze(s, m) v = Unsqueeze(c, k) y = Concat <axis = -1> (u, v) }",
        "agraph (float[a,6] x) => (float[a,3,2] y) <int64[3] s = {0, 3, 2}, int64[2] k = {1, "
        "1}> { t = Reshape(x, s) p, q = Split <axis = 2> (t, k) u = Sin(p) v = Cos(q) "
        "y = Concat <axis = -1> (u, v) }",
    )


def _first_of_pairs(g: GraphView, node: Node, rank: int) -> Dim | None:
    """The start of a Slice that takes every second element of the last axis, or ``None``."""
    steps = steps_of(g, node.output[0]) if is_op(node, "Slice") else None
    if steps is None or len(steps.nodes) != 1 or [*steps.by_axis] != [rank - 1]:
        return None
    selection = steps.by_axis[rank - 1]
    return selection.start if selection.step == 2 else None


def _to_new_axis(g: GraphView, first: Node, rank: int) -> list[Node]:
    """A Slice and the nodes up to the Unsqueeze that adds a last axis; empty if there is none."""
    chain = [first]
    while len(chain) <= _MAX_OPERATORS + 1:
        name = chain[-1].output[0]
        consumer = g.next_node(name) if g.is_exclusive(name) else None
        if consumer is None or consumer.domain:
            return []
        chain.append(consumer)
        if consumer.op_type == "Unsqueeze":
            return chain if g.get_argument(consumer, "axes") in ([rank], [-1]) else []
        if (
            consumer.op_type not in ELEMENTWISE
            or consumer.input[0] != name
            or name in consumer.input[1:]
        ):
            return []
    return []
