"""LSTM, GRU and RNN whose steps are unrolled into separate nodes."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

from onnx import TensorProto

from xoptim.facts.dtypes import Exactness
from xoptim.facts.shapes import Shape
from xoptim.match import (
    Example,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
    runs,
)

from .._nodes import is_op
from .._shapes import may_be_empty
from ._cells import Cell, Weights, read_gru, read_lstm, read_rnn
from ._recurrent import Chain, chain_of, initial_state, operands, weights_before
from ._unrolled import (
    Stack,
    Steps,
    depends_on,
    stacks_of,
    states_of,
    steps_of,
    tensor_of,
    write_states,
)

_MAX_BATCH: Final = 8
"""Maximum number of sequences for which the kernel of GRU is faster."""
_MAX_HIDDEN_SIZE: Final = 256
"""Maximum hidden size for which the kernel of RNN is faster with a batch of 1."""
_MAX_ELEMENTS: Final = 128
"""Maximum batch · hidden size for which the kernel of RNN is faster with larger batches."""


class _UnrolledRecurrent(PatternOptimization):
    """A recurrent operator written out step by step.

    What: recognizes a chain of cells with equal weights, each of which reads the state of its
    predecessor, and writes one operator for all steps. Exporters unroll loops over ``LSTMCell``,
    ``GRUCell``, ``RNNCell`` and custom cells. Gates may be in any order, from one weight matrix or
    several, and from concatenated input and state.
    Why: for one and for eight sequences, 32 steps take 0.1 to 0.3 of the time with a hidden size of
    16, and 0.5 to 0.8 with 256. Two steps with 512 take 0.8 to 1.0. (The exactness is ``finite``:
    the kernels replace NaN by a number.)
    Refuses when:
    1. the nodes are not a cell, its weights are not constant, or its predecessor has other weights.
    2. a later cell continues the chain.
    3. the type is not float32, or the hidden size is unknown.
    4. the inputs of the steps have other shapes, or depend on the states.
    5. the initial state has another shape, or depends on the states.
    6. the batch may be empty, for which the kernels crash.
    7. the kernel is slower for a batch of this size.
    8. a weight or bias is not finite, or so large that the order of a sum matters.
    9. a node outside the chain reads a value inside of a cell, or a cell state of an LSTM before
       the last one.
    """

    anchors = ("Tanh",)
    exactness: ClassVar[Exactness] = "finite"  # the kernels replace NaN by a number
    min_opset = 7
    providers = ("cpu",)
    radius = 8
    operator: ClassVar[str]

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        cells = [cell for name in self.results(g, node) if (cell := self.cell(g, name)) is not None]
        pairs = [(cell, weights_before(g, cell, self.cell)) for cell in cells]
        last, weights = next((pair for pair in pairs if pair[1] is not None), (None, None))
        if last is None or weights is None:  # (1)
            return self.none(node, msg="no cell whose state comes from a cell with equal weights")
        if _continues(g, last.hidden, weights):  # (2)
            return self.none(node, msg="a later step reads the state")
        chain = chain_of(g, last, weights, self.cell)
        hidden = last.hidden
        shape = g.try_infer_shape(hidden)
        is_float = g.try_infer_type(hidden) == TensorProto.FLOAT
        if shape is None or len(shape) != 2 or not is_float or not runs(g, self.operator, hidden):
            return self.none(node, msg="the states are not float32 matrices of known shape")  # (3)
        steps = steps_of(g, chain, shape[0])
        if steps is None:  # (4)
            return self.none(node, msg="the inputs of the steps do not form a tensor")
        initial = [name for name in (chain.hidden, chain.cell_state) if name]
        fits = all(_is_state(g, name, shape) for name in initial)
        if not fits or depends_on(g, initial, {*chain.nodes()}):  # (5)
            return self.none(node, msg="the initial state has another shape, or comes from a step")
        reason = may_be_empty(g, shape[:1])
        if reason:  # (6)
            return self.none(node, msg=reason)
        if not self.is_faster(shape):  # (7)
            return self.none(node, msg="the batch is large, or unknown: the kernel is slower")
        if not chain.weights.are_moderate(g):  # (8)
            return self.none(node, msg="a weight or bias is not finite, or extremely large")
        nodes = chain.nodes()
        if not _is_closed(g, chain, nodes):  # (9)
            return self.none(node, msg="a value inside of a step is read elsewhere")
        stacks = stacks_of(g, chain, steps)
        nodes += [inner for stack in stacks for inner in stack.nodes]
        return MatchResult(self, nodes, partial(self.write, chain, steps, stacks))

    def is_faster(self, shape: Shape) -> bool:
        """Whether the operator is faster for states of this shape."""
        return True

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        """The cell that computes the state ``hidden``, or ``None``."""
        raise NotImplementedError

    def results(self, g: GraphView, tanh: Node) -> list[str]:
        """The tensors that may be the state of a cell with this Tanh."""
        raise NotImplementedError

    def write(
        self,
        chain: Chain,
        steps: Steps,
        stacks: Sequence[Stack],
        g: PatternRewriter,
        *nodes: Node,
    ) -> list[Node]:
        """Write the operator, and the states after steps that other nodes read."""
        last = chain.cells[-1]
        states = states_of(chain, steps)
        x = tensor_of(g, steps, len(chain.cells))
        inputs, recurrent, biases = operands(g, chain.weights)
        size = chain.weights.biases[0].size
        initial = [
            initial_state(g, name, x, size) if name else None
            for name in (chain.hidden, chain.cell_state)[: 2 if last.cell_state else 1]
        ]
        y, *ends = g.op[self.operator](
            *(x, inputs, recurrent, biases, None, *initial),
            outputs=3 if last.cell_state else 2,
            hidden_size=size,
            direction="reverse" if steps.is_reversed else None,
            **self.attributes(chain),
        )
        read = [name for name in states if not g.is_used_only_by(name, *nodes)]
        if stacks or read not in ([], [last.hidden]):
            write_states(g, y, {name: states.index(name) for name in read}, stacks)
        elif read:
            g.op.Squeeze(ends[0], axes=[0], outputs=[last.hidden])
        if last.cell_state and not g.is_used_only_by(last.cell_state, *nodes):
            g.op.Squeeze(ends[1], axes=[0], outputs=[last.cell_state])
        return g.created

    def attributes(self, chain: Chain) -> dict[str, Any]:
        """The attributes that LSTM, GRU and RNN do not share."""
        return {}


def _is_state(g: GraphView, name: str, shape: Shape) -> bool:
    """Whether a tensor has the shape of the states, or is one state for all sequences.

    One state needs Expand, which exists from operator set 8 on.
    """
    dims = g.try_infer_shape(name)
    return dims == shape or (dims in (shape[1:], (1, *shape[1:])) and g.opsets.get("", 0) >= 8)


def _continues(g: GraphView, hidden: str, weights: Weights) -> bool:
    """Whether a following step multiplies the state ``hidden`` by the same weights."""
    names = {block.name for block in weights.states}
    readers = list(g.next_nodes(hidden))
    concats = [reader for reader in readers if is_op(reader, "Concat")]
    readers += [node for concat in concats for node in _consumers(g, concat)]
    return any(is_op(node, "MatMul", "Gemm") and node.input[1] in names for node in readers)


def _consumers(g: GraphView, node: Node) -> list[Node]:
    """The nodes that read the first result of a node."""
    return list(g.next_nodes(node.output[0]))


def _is_closed(g: GraphView, chain: Chain, nodes: Sequence[Node]) -> bool:
    """Whether no other node reads a value of the cells.

    Exceptions are the state after each step, and the second state after the last step.
    """
    results = {cell.hidden for cell in chain.cells} | {chain.cells[-1].cell_state}
    inner = (name for node in nodes for name in node.output if name and name not in results)
    return all(g.is_used_only_by(name, *nodes) for name in inner)


class UnrolledLSTMPattern(_UnrolledRecurrent):
    """o · tanh(f · c + i · tanh(j)) for each step → LSTM(x, w, r, b, h, c)"""

    operator = "LSTM"

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        return read_lstm(g, hidden)

    def results(self, g: GraphView, tanh: Node) -> list[str]:
        return [node.output[0] for node in g.next_nodes(tanh.output[0]) if is_op(node, "Mul")]

    examples = Example.pairs(
        "agraph (float[3,2,2] x) => (float[3,1] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
        "float[4,1] r = {1, 2, 3, 4}, float[4] k = {1, 2, 3, 4}, int64 zero = {0}, "
        "int64 one = {1}, int64[4] sizes = {1, 1, 1, 1}> { p = Gather <axis = 1> (x, zero) "
        "q = Gemm <transB = 1> (p, w, k) qi, qf, qj, qo = Split <axis = 1> (q, sizes) "
        "i1 = Sigmoid(qi) j1 = Tanh(qj) o1 = Sigmoid(qo) c1 = Mul(i1, j1) t1 = Tanh(c1) "
        "h1 = Mul(o1, t1) s = Gather <axis = 1> (x, one) u = Gemm <transB = 1> (s, w, k) "
        "v = Gemm <transB = 1> (h1, r, u) vi, vf, vj, vo = Split <axis = 1> (v, sizes) "
        "i2 = Sigmoid(vi) f2 = Sigmoid(vf) j2 = Tanh(vj) o2 = Sigmoid(vo) m = Mul(f2, c1) "
        "n = Mul(i2, j2) c2 = Add(m, n) t2 = Tanh(c2) y = Mul(o2, t2) }",
        "<float[1,4,2] w = {1, 2, 7, 8, 3, 4, 5, 6}, float[1,4,1] r = {1, 4, 2, 3}, "
        "float[1,8] k = {1, 4, 2, 3, 0, 0, 0, 0}, int64[1] z = {0}> { "
        "t = Transpose <perm = [1, 0, 2]> (x) p, h = LSTM <hidden_size = 1> (t, w, r, k) "
        "y = Squeeze(h, z) }",
        "agraph (float[2,3,1] x, float[3,1] h, float[3,1] c) => (float[2,3,1] y, float[3,1] e) "
        "<float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64 zero = {0}, int64 one = {1}, "
        "int64[4] sizes = {1, 1, 1, 1}, int64[1] z = {0}> { p = Gather(x, one) "
        "a = Concat <axis = 1> (p, h) q = MatMul(a, w) "
        "qi, qf, qj, qo = Split <axis = 1> (q, sizes) "
        "i1 = Sigmoid(qi) f1 = Sigmoid(qf) j1 = Tanh(qj) o1 = Sigmoid(qo) k = Mul(c, f1) "
        "l = Mul(i1, j1) c1 = Add(k, l) t1 = Tanh(c1) h1 = Mul(t1, o1) s = Gather(x, zero) "
        "b = Concat <axis = 1> (s, h1) v = MatMul(b, w) "
        "vi, vf, vj, vo = Split <axis = 1> (v, sizes) "
        "i2 = Sigmoid(vi) f2 = Sigmoid(vf) j2 = Tanh(vj) o2 = Sigmoid(vo) m = Mul(f2, c1) "
        "n = Mul(j2, i2) e = Add(n, m) t2 = Tanh(e) h2 = Mul(o2, t2) "
        "d = Unsqueeze(h1, z) g = Unsqueeze(h2, z) y = Concat <axis = 0> (g, d) }",
        "<float[1,4,1] w = {1, 4, 2, 3}, float[1,4,1] r = {5, 8, 6, 7}, int64[1] z = {0}, "
        "int64[1] one = {1}> { i = Unsqueeze(h, z) j = Unsqueeze(c, z) p, q, m = LSTM "
        '<hidden_size = 1, direction = "reverse"> (x, w, r, , , i, j) y = Squeeze(p, one) '
        "e = Squeeze(m, z) }",
    )


class UnrolledGRUPattern(_UnrolledRecurrent):
    """(1 - z) · tanh(j) + z · h for each step → GRU(x, w, r, b, h)

    Why: for one and for eight sequences, 32 steps take 0.1 to 0.3 of the time with a hidden size of
    16, and 0.4 to 0.8 with 256. 16 or more sequences take 0.9 to 1.1: a static batch of more than
    eight is refused. (The exactness is ``finite``: the kernels replace NaN by a number.)
    """

    operator = "GRU"

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        return read_gru(g, hidden)

    def results(self, g: GraphView, tanh: Node) -> list[str]:
        readers = _consumers(g, tanh)
        products = [reader for reader in readers if is_op(reader, "Mul")]
        readers += [node for product in products for node in _consumers(g, product)]
        sums = (node for node in readers if is_op(node, "Add"))
        return [*dict.fromkeys(node.output[0] for node in sums)]

    def is_faster(self, shape: Shape) -> bool:
        return not isinstance(shape[0], int) or shape[0] <= _MAX_BATCH

    def attributes(self, chain: Chain) -> dict[str, Any]:
        return {"linear_before_reset": int(chain.weights.resets_after) or None}

    examples = Example.pairs(
        "agraph (float[3,2,1] x, float[3,1] h) => (float[3,1] y) <float[3,1] w = {1, 2, 3}, "
        "float[3,1] r = {4, 5, 6}, float[3] k = {1, 2, 3}, float[3] l = {4, 5, 6}, "
        "int64 zero = {0}, int64 one = {1}, int64[3] sizes = {1, 1, 1}> { "
        "p = Gather <axis = 1> (x, zero) a = Gemm <transB = 1> (p, w, k) "
        "ar, az, an = Split <axis = 1> (a, sizes) b = Gemm <transB = 1> (h, r, l) "
        "br, bz, bn = Split <axis = 1> (b, sizes) r1 = Add(ar, br) z1 = Add(az, bz) "
        "f1 = Sigmoid(r1) g1 = Sigmoid(z1) m1 = Mul(f1, bn) n1 = Add(an, m1) j1 = Tanh(n1) "
        "d1 = Sub(h, j1) s1 = Mul(d1, g1) h1 = Add(s1, j1) q = Gather <axis = 1> (x, one) "
        "c = Gemm <transB = 1> (q, w, k) cr, cz, cn = Split <axis = 1> (c, sizes) "
        "e = Gemm <transB = 1> (h1, r, l) er, ez, en = Split <axis = 1> (e, sizes) "
        "r2 = Add(cr, er) z2 = Add(cz, ez) f2 = Sigmoid(r2) g2 = Sigmoid(z2) m2 = Mul(f2, en) "
        "n2 = Add(cn, m2) j2 = Tanh(n2) d2 = Sub(h1, j2) s2 = Mul(d2, g2) y = Add(s2, j2) }",
        "<float[1,3,1] w = {2, 1, 3}, float[1,3,1] r = {5, 4, 6}, "
        "float[1,6] k = {7, 5, 3, 0, 0, 6}, int64[1] z = {0}> { "
        "t = Transpose <perm = [1, 0, 2]> (x) i = Unsqueeze(h, z) p, e = GRU "
        "<hidden_size = 1, linear_before_reset = 1> (t, w, r, k, , i) y = Squeeze(e, z) }",
        "agraph (float[2,3,1] x) => (float[3,1] y) <float[1,2] w = {1, 2}, float[2] k = {3, 4}, "
        "float[1,2] r = {5, 6}, float[1,1] v = {7}, float[1,1] l = {8}, int64 zero = {0}, "
        "int64 one = {1}, int64[2] sizes = {1, 1}, float unit = {1}> { p = Gather(x, zero) "
        "a = MatMul(p, w) b = Add(a, k) c = Sigmoid(b) r1, z1 = Split <axis = 1> (c, sizes) "
        "d = MatMul(p, v) j1 = Tanh(d) o1 = Sub(unit, z1) h1 = Mul(o1, j1) q = Gather(x, one) "
        "e = MatMul(q, w) f = Add(e, k) g = MatMul(h1, r) h = Add(f, g) i = Sigmoid(h) "
        "r2, z2 = Split <axis = 1> (i, sizes) j = MatMul(q, v) m = Mul(r2, h1) n = MatMul(m, l) "
        "s = Add(j, n) j2 = Tanh(s) o2 = Sub(unit, z2) t = Mul(o2, j2) u = Mul(z2, h1) "
        "y = Add(t, u) }",
        "<float[1,3,1] w = {2, 1, 7}, float[1,3,1] r = {6, 5, 8}, "
        "float[1,6] k = {4, 3, 0, 0, 0, 0}, int64[1] z = {0}> { "
        "p, e = GRU <hidden_size = 1> (x, w, r, k) y = Squeeze(e, z) }",
    )


class UnrolledRNNPattern(_UnrolledRecurrent):
    """tanh(x · w + h · r + b) for each step → RNN(x, w, r, b, h)

    Why: 16 and 32 steps of one sequence take 0.2 to 0.8 of the time. Eight sequences with a hidden
    size of 64 or more take up to 2 times as long. The pattern
    refuses a hidden size above 256 for one sequence, batch · hidden size above 128 for several, and
    a batch of unknown size. The kernel computes Tanh with an absolute error of 1e-7, even if the
    result is small.
    """

    exactness = "approximate"  # the kernel's Tanh has an absolute error of 1e-7
    operator = "RNN"

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        return read_rnn(g, hidden)

    def results(self, g: GraphView, tanh: Node) -> list[str]:
        return [*tanh.output]

    def is_faster(self, shape: Shape) -> bool:
        batch, size = shape
        if not isinstance(batch, int) or not isinstance(size, int):
            return False
        return batch * size <= (_MAX_HIDDEN_SIZE if batch == 1 else _MAX_ELEMENTS)

    examples = Example.only(
        "agraph (float[2,2,1] x, float[2,2] h) => (float[2,2] y, float[2,2] s) "
        "<float[1,2] w = {1, 2}, float[2,2] r = {3, 4, 5, 6}, float[2] k = {7, 8}, "
        "int64 zero = {0}, int64 one = {1}> { v = MatMul(x, w) u = Add(v, k) "
        "p = Gather <axis = 1> (u, zero) a = MatMul(h, r) b = Add(p, a) y = Tanh(b) "
        "q = Gather <axis = 1> (u, one) c = MatMul(y, r) d = Add(q, c) s = Tanh(d) }",
        "<float[1,2,1] w = {1, 2}, float[1,2,2] r = {3, 5, 4, 6}, float[1,4] k = {7, 8, 0, 0}, "
        "int64[1] z = {0}, int64[1] o = {1}, int64 zero = {0}, int64 one = {1}> { "
        "t = Transpose <perm = [1, 0, 2]> (x) i = Unsqueeze(h, z) "
        "p = RNN <hidden_size = 2> (t, w, r, k, , i) e = Squeeze(p, o) "
        "y = Gather(e, zero) s = Gather(e, one) }",
    )
