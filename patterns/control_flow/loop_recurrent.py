"""Loops and Scans whose body calls the operator LSTM, GRU or RNN for one step."""

from typing import Final

from xoptim.match import Example, GraphView, Node

from .._nodes import is_op
from ._loop_nodes import LoopNode, copy_source
from ._loops import Step, _RecurrentLoop

_STEP_ATTRIBUTES: Final = frozenset(
    (
        *("activations", "activation_alpha", "activation_beta", "clip", "hidden_size"),
        *("input_forget", "linear_before_reset"),
    )
)
"""Attributes that have the same meaning for one step and for all steps."""


class LoopRecurrentPattern(_RecurrentLoop):
    """Loop of LSTM(one step) → LSTM(all steps); the same for GRU and RNN, and for Scan"""

    exactness = "rounding"

    def step(self, g: GraphView, loop: LoopNode) -> Step | None:
        inside = g.inside(loop.body)
        for place in range(loop.state_count):
            hidden = copy_source(loop.body, loop.body.outputs[loop.first_output + place])
            node = _operator(inside, hidden)
            step = None if node is None else _operator_step(inside, loop, node, hidden, place)
            if step is not None:
                return step
        return None

    examples = Example.pairs(
        "agraph (float[3,2,1] x, float[3,1] h, float[3,1] c) => (float[3,2,1] y, float[3,1] e) "
        "<float[1,4,1] w = {1, 2, 3, 4}, float[1,4,1] r = {1, 2, 3, 4}, int64 n = {2}, "
        "bool go = {1}, int64[1] z = {0}> { s = SequenceEmpty <dtype = 1> () "
        "e, d, q = Loop(n, go, h, c, s) <body = step (int64 i, bool k, float[3,1] a, "
        "float[3,1] b, seq(float[3,1]) t) => (bool l, float[3,1] f, float[3,1] g, "
        "seq(float[3,1]) u) { l = Identity(k) o = Gather <axis = 1> (x, i) p = Unsqueeze(o, z) "
        "v = Unsqueeze(a, z) m = Unsqueeze(b, z) "
        "j, f1, g1 = LSTM <hidden_size = 1> (p, w, r, , , v, m) f = Squeeze(f1, z) "
        "g = Squeeze(g1, z) u = SequenceInsert(t, f) }> "
        "y = ConcatFromSequence <axis = 1, new_axis = 1> (q) }",
        "<float[1,4,1] w = {1, 2, 3, 4}, float[1,4,1] r = {1, 2, 3, 4}, int64[1] z = {0}, "
        "int64[1] o = {1}> { t = Transpose <perm = [1, 0, 2]> (x) i = Unsqueeze(h, z) "
        "j = Unsqueeze(c, z) p, f, g = LSTM <hidden_size = 1> (t, w, r, , , i, j) "
        "e = Squeeze(f, z) q = Squeeze(p, o) y = Transpose <perm = [1, 0, 2]> (q) }",
        "agraph (float[2,3,1] x, float[3,1] h) => (float[3,1] y, float[2,3,1] s) "
        "<int64[1] z = {0}> { y, s = Scan <num_scan_inputs = 1, scan_input_directions = [1], "
        "scan_output_directions = [1], body = step (float[3,1] a, float[3,1] b) => "
        "(float[3,1] c, float[3,1] d) <float[1,3,1] w = {1, 2, 3}, float[1,3,1] r = {4, 5, 6}> { "
        "p = Unsqueeze(b, z) v = Unsqueeze(a, z) e, f = GRU <hidden_size = 1> (p, w, r, , , v) "
        "c = Squeeze(f, z) d = Identity(c) }> (h, x) }",
        "<float[1,3,1] w = {1, 2, 3}, float[1,3,1] r = {4, 5, 6}, int64[1] z = {0}, "
        "int64[1] o = {1}> { i = Unsqueeze(h, z) p, f = GRU <hidden_size = 1, "
        'direction = "reverse"> (x, w, r, , , i) y = Squeeze(f, z) s = Squeeze(p, o) }',
    )


def _squeezed(g: GraphView, name: str) -> tuple[Node, int] | None:
    """The LSTM, GRU or RNN whose output is squeezed to a tensor, and the index of that output.

    The Squeeze drops the leading axes of size 1. ``None`` for other tensors.
    """
    squeeze = g.node_before(name)
    node = g.node_before(squeeze.input[0]) if is_op(squeeze, "Squeeze") else None
    if squeeze is None or not is_op(node, "LSTM", "GRU", "RNN"):
        return None
    place = node.output.index(squeeze.input[0])
    axes = g.get_argument(squeeze, "axes")
    return (node, place) if axes == ([0] if place else [0, 1]) else None


def _operator(g: GraphView, hidden: str) -> Node | None:
    """The operator that computes the state ``hidden`` of one step, or ``None``."""
    node, place = _squeezed(g, hidden) or (None, -1)
    # Output 0 has the states of all steps, and output 1 the last one. Output 2 is the cell state.
    return node if place < 2 else None


def _operator_step(
    g: GraphView, loop: LoopNode, node: Node, hidden: str, place: int
) -> Step | None:
    """The step that an operator computes.

    ``None`` if its states are not the states of the loop, or the body computes its weights. Also
    ``None`` for ``sequence_lens``, ``layout=1`` and a bidirectional operator.
    """
    operands = [*node.input, *[""] * (8 - len(node.input))]
    x, w, r, b, lengths, h, c, p = operands
    shape = g.static_shape(r)
    # With a single step, "reverse" computes the same as "forward".
    is_bidirectional = node.get_attribute("direction", "forward") == "bidirectional"
    if lengths or is_bidirectional or node.get_attribute("layout", 0) or shape is None:
        return None
    places = [place]
    if node.op_type == "LSTM":
        outputs = loop.body.outputs[loop.first_output : loop.first_output + loop.state_count]
        results = [_squeezed(g, copy_source(loop.body, name)) for name in outputs]
        cell_states = [index for index, result in enumerate(results) if result == (node, 2)]
        if len(cell_states) != 1:
            return None
        places += cell_states
    old_states = [loop.body.inputs[loop.first_input + index] for index in places]
    names = [_unsqueezed(g, name) for name in (h, c)[: len(places)]]
    source = _unsqueezed(g, x)
    if names != old_states or source is None:
        return None
    values = {name: value for name, value in node.attribute.items() if name in _STEP_ATTRIBUTES}
    weights = (w, r, b, p)
    computed = {*loop.body.inputs, *(name for inner in loop.body.nodes for name in inner.output)}
    if any(name and name in computed for name in weights):
        return None
    return Step(node.op_type, values, weights, source, hidden, places, shape[2])


def _unsqueezed(g: GraphView, name: str) -> str | None:
    """The matrix to which an Unsqueeze adds the axis of steps, or ``None``."""
    node = g.node_before(name)
    return (
        node.input[0] if is_op(node, "Unsqueeze") and g.get_argument(node, "axes") == [0] else None
    )
