from xoptim.facts.dims import before_wrapping
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by
from .._shapes import uniform_value


class RecurrentZeroStatePattern(PatternOptimization):
    """LSTM(..., initial_h = 0, initial_c = 0) → LSTM(...); the same for GRU and RNN

    What: drops initial states of zeros, which are the default of the operator.
    Why: exporters compute the shape of these zeros from the input, with five or more nodes.
    Refuses when:
    1. no initial state is known to hold only zeros. (A Concat of the states of both directions is
       recognized.)
    2. the batch dimensions of state and input are not known to be equal: a run in which they differ
       would fail. (The batch dimension of the state may come from a Cast to int32.)
    """

    anchors = ("LSTM", "GRU", "RNN")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Operand 5 is initial_h; operand 6 of LSTM is initial_c.
        input_shape = g.try_infer_shape(node.input[0]) or ()
        batch_axis = 0 if node.get_attribute("layout") else 1
        zeros = []
        for index, name in enumerate(node.input[5:7], start=5):
            shape = (g.try_infer_shape(name) if name else None) or ()
            # (2)
            fits = (
                len(shape) == len(input_shape) == 3
                and before_wrapping(shape[batch_axis]) == input_shape[batch_axis]
            )
            parts = (
                producer.input
                if fits and is_op(producer := g.node_before(name), "Concat")
                else [name]
            )
            values = (
                g.get_computed_constant(part) if g.is_constant(part) else uniform_value(g, part)
                for part in parts
            )
            if fits and all(value is not None and not value.any() for value in values):
                zeros.append(index)
        if not zeros:  # (1)
            return self.none(node, msg="no initial state is known to be all zeros")
        inputs = ["" if index in zeros else name for index, name in enumerate(node.input)]
        return MatchResult(self, [node], replaced_by(node.op_type, *inputs, **node.attribute))

    _start = "agraph (float[s,b,3] x, float[1,6,3] w, float[1,6,2] r) => (float[s,1,b,2] y)"
    _constants = "int64[1] one = {1}, float[1,1,2] z = {0, 0}, int32[1] i = {1}, int32[1] k = {2}"
    _states = f"{_start} <{_constants}> {{ n = Shape <start = 1, end = 2> (x)"
    _result = "y = GRU <hidden_size = 2> (x, w, r, , , h) }"
    _shorter = f"{_start} {{ y = GRU <hidden_size = 2> (x, w, r) }}"
    examples = Example.pairs(
        f"{_states} t = Concat <axis = 0> (one, n, one) h = Tile(z, t) {_result}",
        _shorter,
        f"{_states} c = Cast <to = 6> (n) v = Concat <axis = 0> (i, c, k) t = Cast <to = 7> (v) "
        f"h = ConstantOfShape(t) {_result}",
        _shorter,
    )
