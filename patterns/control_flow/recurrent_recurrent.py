from functools import partial
from itertools import pairwise

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._unrolled import depends_on

_RANK = 3
"""The rank of the input of a recurrent operator."""
_MAX_OPERANDS = 8
_SEQUENCE_LENS, _INITIAL_H, _P = 4, 5, 7
"""Indices of operands. After X come W, R and B; after initial_h, LSTM has initial_c and P."""


class RecurrentRecurrentPattern(PatternOptimization):
    """LSTM(x2, h and c of LSTM(x1)) → LSTM(Concat(x1, x2)); the same for GRU and RNN

    What: one operator for the steps of two or more operators with the same weights. Models that
    call ``LSTM`` for one step after the other are exported this way.
    Why: measured 0.2 to 0.7 of the time for 8 and 32 operators of one step with a hidden size of
    16, for 1 to 32 sequences.
    Refuses when:
    1. the states do not come from an operator with equal weights and attributes.
    2. the direction is not forward, the operators have lengths of sequences, or the batch comes
       first.
    3. another node reads the last states of an operator before the end of the chain.
    4. the numbers of steps are unknown, or 0, or the batches differ.
    5. an input depends on a preceding operator of the chain.
    """

    anchors = ("LSTM", "GRU", "RNN")
    near = anchors
    exactness = "rounding"
    min_opset = 7
    providers = ("cpu",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        readers = [reader for name in node.output[1:2] for reader in g.next_nodes(name)]
        if any(_continues(node, reader) for reader in readers):
            return None  # the last operator of the chain matches
        chain = [node]
        while (producer := g.node_before(_operands(chain[0])[_INITIAL_H])) is not None:
            if not _continues(producer, chain[0]):
                break
            chain.insert(0, producer)
        if len(chain) < 2 or _is_special(node):  # (1) (2)
            return self.none(
                node,
                msg="the states are not those of an operator with equal weights and attributes,"
                " or direction, layout or sequence_lens is not supported",
            )
        count = _states(node)
        inner = [
            (name, after)
            for first, after in pairwise(chain)
            for name in first.output[1 : 1 + count]
        ]
        if not all(g.is_used_only_by(name, after) for name, after in inner):  # (3)
            return self.none(node, msg="something else reads the last states")
        shapes = [g.try_infer_shape(operator.input[0]) or () for operator in chain]
        sizes = [shape[0] for shape in shapes if len(shape) == _RANK]
        steps = [size for size in sizes if isinstance(size, int) and size]
        if len(steps) < len(shapes) or len({shape[1:] for shape in shapes}) > 1:  # (4)
            return self.none(node, msg="a number of steps is unknown or 0, or the batches differ")
        if depends_on(g, [operator.input[0] for operator in chain], {*chain}):  # (5)
            return self.none(node, msg="an input depends on a preceding operator of the chain")
        return MatchResult(self, chain, partial(_write, steps))

    examples = Example.only(
        "agraph (float[2,3,1] x, float[1,3,1] u, float[1,4,1] w, float[1,4,1] r) => "
        "(float[2,1,3,1] y, float[1,1,3,1] s, float[1,3,1] c) { "
        "y, h1, c1 = LSTM <hidden_size = 1> (x, w, r) "
        "s, h2, c = LSTM <hidden_size = 1> (u, w, r, , , h1, c1) }",
        "<int64[2] sizes = {2, 1}> { t = Concat <axis = 0> (x, u) "
        "a, h, c = LSTM <hidden_size = 1> (t, w, r) y, s = Split <axis = 0> (a, sizes) }",
    )


def _operands(node: Node) -> list[str]:
    return [*node.input, *[""] * (_MAX_OPERANDS - len(node.input))]


def _states(node: Node) -> int:
    """The number of states of an operator."""
    return 2 if node.op_type == "LSTM" else 1


def _continues(first: Node, node: Node) -> bool:
    """Whether ``node`` starts from the last states of ``first``, with equal weights."""
    if node.op_type != first.op_type or node.domain or first.domain:
        return False
    operands, first_operands, count = _operands(node), _operands(first), _states(node)
    last_states = [name for name in first.output[1 : 1 + count] if name]
    # An omitted last state has no name, like an omitted initial state, which is 0.
    return (
        len(last_states) == count
        and operands[_INITIAL_H : _INITIAL_H + count] == last_states
        and operands[1:_INITIAL_H] == first_operands[1:_INITIAL_H]
        and operands[_P] == first_operands[_P]
        and node.attribute == first.attribute
    )


def _is_special(node: Node) -> bool:
    """Whether an operator is not forward, has lengths of sequences, or has the batch first."""
    is_forward = node.get_attribute("direction", "forward") == "forward"
    has_lengths = bool(_operands(node)[_SEQUENCE_LENS])
    return not is_forward or has_lengths or bool(node.get_attribute("layout", 0))


def _write(steps: list[int], g: PatternRewriter, *chain: Node) -> list[Node]:
    """One operator for the steps of all operators of the chain, and a Split of its results."""
    first, last = chain[0], chain[-1]
    x = g.op.Concat(*(operator.input[0] for operator in chain), axis=0)
    names = [operator.output[0] for operator in chain]
    is_read = any(name and g.is_used(name) for name in names)
    y = g.unique_name("steps") if is_read else ""
    results = [y, *last.output[1:]]
    joined = g.make_node(last.op_type, [x, *first.input[1:]], results, **last.attribute)
    if not is_read:
        return [*g.created, joined]
    parts = [name or g.unique_name("unused") for name in names]
    split = g.make_node_check_opset("Split", [y], parts, axis=0, split=steps)
    return [*g.created, joined, split]
