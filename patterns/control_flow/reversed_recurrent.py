from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from .._shapes import unstretched

_FIRST_END = -(1 << 31)
"""A Slice with step -1 and this end or a lower one includes the first element."""
_OPPOSITE = {"forward": "reverse", "reverse": "forward"}


class ReversedRecurrentPattern(PatternOptimization):
    """Slice(LSTM(Slice(x, steps=-1)), steps=-1) → LSTM(x, direction=reverse); the same for GRU and
    RNN

    What: changes the direction of the operator, instead of reversing its input and its result. A
    Squeeze may come before the reversal of the result. TensorFlow's converter writes the backward
    direction of a bidirectional layer this way, also with ReverseSequence.
    Why: two copies fewer. Measured 0.9 to 1.0 of the time with Slice, and 0.97 to 1.02 with
    ReverseSequence (64 steps of 64 features, hidden size 64).
    Refuses when:
    1. the input is not reversed along its first axis by a Slice or a ReverseSequence. All lengths
       of the ReverseSequence must be known to be the size of the axis.
    2. the layer is bidirectional, has lengths of sequences, or the batch comes first.
    3. a node reads the results of all steps without reversing them.
    """

    anchors = ("LSTM", "GRU", "RNN")
    near = ("Slice", "ReverseSequence")
    min_opset = 11
    radius = 4

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        direction = _OPPOSITE.get(node.get_attribute("direction", "forward"))
        if direction is None or any(node.input[4:5]) or node.attribute.get("layout"):  # (2)
            return self.none(
                node, msg="the layer is bidirectional, has sequence lengths, or layout=1"
            )
        reversal = g.node_before(node.input[0])
        if reversal is None or not _reverses(g, reversal):  # (1)
            return self.none(node, msg="the input is not reversed")
        readers = _readers(g, node.output[0]) if node.output[0] else []
        if readers is None:  # (3)
            return self.none(node, msg="a consumer does not reverse the results of all steps")
        nodes = [node, *(inner for pair in readers for inner in pair)]
        write = partial(_write, reversal.input[0], direction, readers)
        return MatchResult(self, nodes, write)

    _inputs = (
        "float[1,8,3] w, float[1,8,2] r) => (float[s,b,2] y) <int64[1] a = {-1}, "
        "int64[1] e = {-9223372036854775807}, int64[1] z = {0}, int64[1] o = {1}>"
    )
    examples = Example.pairs(
        f"agraph (float[s,b,3] x, {_inputs} {{ t = Slice(x, a, e, z, a) "
        "p = LSTM <hidden_size = 2> (t, w, r) q = Squeeze(p, o) y = Slice(q, a, e, z, a) }",
        f"agraph (float[s,b,3] x, {_inputs} {{ "
        'p = LSTM <hidden_size = 2, direction = "reverse"> (x, w, r) y = Squeeze(p, o) }',
        "agraph (float[s,b,3] x, float[1,6,3] w, float[1,6,2] r) => (float[1,b,2] h) "
        "<int64[1] a = {-1}, int64[1] e = {-9223372036854775807}, int64[1] z = {0}> "
        "{ t = Slice(x, a, e, z, a) "
        'p, h = GRU <hidden_size = 2, direction = "reverse"> (t, w, r) }',
        "{ p, h = GRU <hidden_size = 2> (x, w, r) }",
        "agraph (float[5,2,3] x, float[1,8,3] w, float[1,8,2] r) => (float[5,2,2] y) "
        "<int64[2] l = {5, 5}, int64[1] o = {1}> { t = ReverseSequence <time_axis = 0, "
        "batch_axis = 1> (x, l) p = LSTM <hidden_size = 2> (t, w, r) q = Squeeze(p, o) "
        "y = ReverseSequence <time_axis = 0, batch_axis = 1> (q, l) }",
        '<int64[1] o = {1}> { p = LSTM <hidden_size = 2, direction = "reverse"> (x, w, r) '
        "y = Squeeze(p, o) }",
    )


def _reverses(g: GraphView, node: Node) -> bool:
    """Whether a node only reverses the first axis."""
    if is_op(node, "ReverseSequence"):
        return not node.get_attribute("time_axis", 0) and _are_full(g, *node.input)
    if not is_op(node, "Slice"):
        return False
    starts, ends, axes, steps = (
        g.get_argument(node, name) for name in ("starts", "ends", "axes", "steps")
    )
    rank = g.info(node.input[0]).rank
    if not isinstance(ends, list) or not rank or len(ends) != 1 or ends[0] > _FIRST_END:
        return False
    return starts == [-1] and steps == [-1] and axes in (None, [0], [-rank])


def _are_full(g: GraphView, name: str, lengths: str) -> bool:
    """Whether all lengths of sequences equal the size of the first axis of a tensor."""
    shape, constant = g.try_infer_shape(name), g.get_computed_constant(lengths)
    if not shape:
        return False
    if constant is not None:
        return isinstance(shape[0], int) and bool((constant == shape[0]).all())
    data = g.info(unstretched(g, lengths) or lengths).data
    return bool(data) and all(size == shape[0] for size in data or ())


def _readers(g: GraphView, name: str) -> list[tuple[Node, ...]] | None:
    """The nodes that reverse a result, each with the Squeeze of the second axis before it, if any.

    ``None`` if a consumer does not reverse the result.
    """
    readers: list[tuple[Node, ...]] = []
    if not g.is_used_only_by(name, *g.next_nodes(name)):
        return None
    for node in g.next_nodes(name):
        row: tuple[Node, ...] = (node,)
        if is_op(node, "Squeeze") and g.get_argument(node, "axes") == [1]:
            last = g.next_node(node.output[0])
            if last is None or not g.is_exclusive(node.output[0]):
                return None
            row = (node, last)
        if not _reverses(g, row[-1]):
            return None
        readers.append(row)
    return readers


def _write(
    source: str,
    direction: str,
    readers: Sequence[Sequence[Node]],
    g: PatternRewriter,
    *nodes: Node,
) -> list[Node]:
    layer = nodes[0]
    attributes = {**layer.attribute, "direction": direction}
    # The results of all steps are now in the other order, so they need a new name.
    steps = g.unique_name(layer.output[0]) if readers else layer.output[0]
    outputs = [steps, *layer.output[1:]]
    written = [g.make_node(layer.op_type, [source, *layer.input[1:]], outputs, **attributes)]
    for *squeezes, reverse in readers:
        if squeezes:
            (squeeze,) = squeezes
            operands = [steps, *squeeze.input[1:]]
            written.append(g.make_node("Squeeze", operands, reverse.output, **squeeze.attribute))
        else:
            written.append(g.make_node("Identity", [steps], reverse.output))
    return written
