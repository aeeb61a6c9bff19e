"""Recurrent operators with a static number of steps, as the formulas of their cells."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional

from ._lowering import _Lowering

_FLOAT: Final = frozenset((TensorProto.FLOAT,))
_MAX_STEPS: Final = 128
"""Maximum number of steps: each step becomes up to 20 nodes."""
_SIMPLE: Final = frozenset(("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"))
"""Activations that are operators without attributes."""
_DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""For each value of ``direction``: whether its directions go backwards."""
_ATTRIBUTES: Final = frozenset(
    ("activations", "direction", "hidden_size", "layout", "linear_before_reset", "input_forget")
)


class _Form(NamedTuple):
    """The attributes and sizes of a recurrent operator.

    Attributes:
        length: the number of steps.
        size: the size of a state.
        is_backwards: for each direction, whether the steps go backwards.
        activations: the activations of all directions.
        is_batch_first: whether the batch is the first axis.
        resets_after: the attribute ``linear_before_reset`` of a GRU: the reset gate multiplies the
            result of the MatMul, instead of the state before it.
    """

    length: int
    size: int
    is_backwards: tuple[bool, ...]
    activations: tuple[str, ...]
    is_batch_first: bool
    resets_after: bool


class _Cell(NamedTuple):
    """One direction of an operator.

    Attributes:
        activations: the operators of the activations.
        weights: the transposed weights of the recurrence. A GRU may have two matrices, for its
            first two gates and for the last one.
        bias: the bias of the recurrence, for a GRU with ``linear_before_reset``; otherwise empty.
        peephole: the three peephole vectors of an LSTM; empty for none.
        size: the size of a state.
    """

    activations: Sequence[str]
    weights: Sequence[str]
    bias: str
    peephole: Sequence[str]
    size: int

    def activated(self, g: PatternRewriter, place: int, x: str) -> str:
        """The result of the activation number ``place``."""
        return str(g.op[self.activations[place]](x))


class _LowerRecurrent(_Lowering):
    """A recurrent operator.

    What: multiplies the inputs of all steps by the weights w in one MatMul for each direction. The
    formula of the cell follows for each step. Without an initial state, the first step has no
    MatMul.
    Why: Qualcomm's QNN, Core ML and others lack recurrent operators.
    Refuses when:
    1. a type is not float32 (checked by the matcher).
    2. the number of steps is not known, or is above 128. Or the size of the state is not known.
    3. sequences may end before the last step.
    4. numbers are clipped, gates are coupled, or an activation has parameters.

    Class attributes:
        operator: its name.
        operands: the names of its operands.
        gates: number of gates.
        defaults: the activations of a direction by default.
    """

    exactness = "finite"  # kernels clip the operands of Sigmoid and Tanh, also NaN and infinity
    min_opset = 11
    operand_types = dict.fromkeys(("x", "w", "r", "b", "h"), _FLOAT)  # (1)
    derives = ("form", "used")
    operator: ClassVar[str]
    operands: ClassVar[str] = "x w r b lengths h"
    gates: ClassVar[int]
    defaults: ClassVar[tuple[str, ...]]

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        operands = [
            g.symbol(name, Symbol if name in ("x", "w", "r") else Optional)
            for name in self.operands.split()
        ]
        return g.op[self.operator](
            *operands, outputs=g.variadic("results"), attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written = m.nodes[0], m.written
        shape, weights = g.try_infer_shape(m.x) or (), g.static_shape(m.r) or ()
        is_batch_first = bool(written.get("layout", 0))
        length = shape[int(is_batch_first)] if len(shape) == 3 else None
        if not isinstance(length, int) or not 0 < length <= _MAX_STEPS or len(weights) != 3:  # (2)
            return self.none(
                node,
                msg="the hidden size is unknown, or the number of steps is unknown or above "
                f"{_MAX_STEPS}",
            )
        lengths = g.get_computed_constant(m.lengths) if m.lengths else np.array(length)
        if lengths is None or not (lengths == length).all():  # (3)
            return self.none(node, msg="sequences may end before the last step")
        directions = _DIRECTIONS.get(written.get("direction", "forward"), ())
        activations = tuple(written.get("activations") or self.defaults * len(directions))
        is_plain = written.keys() <= _ATTRIBUTES and not written.get("input_forget", 0)
        fits = directions and len(activations) == len(self.defaults) * len(directions)
        if not is_plain or not fits or not _SIMPLE.issuperset(activations):  # (4)
            return self.none(
                node, msg="clip or input_forget is set, or an activation has parameters"
            )
        resets_after = bool(written.get("linear_before_reset", 0))
        form = _Form(length, weights[2], directions, activations, is_batch_first, resets_after)
        used = [bool(name) and g.is_used(name) for name in m.results]
        return m.derive(form=form, used=used)

    def apply_pattern(
        self, g: PatternRewriter, x: str, form: _Form, used: list[bool], **m: Any
    ) -> Any:
        steps = g.op.Transpose(x, perm=[1, 0, 2]) if form.is_batch_first else x
        sequences, ends = list[str](), list[list[str]]()
        for number, is_backwards in enumerate(form.is_backwards):
            inputs, cell = self._direction(g, steps, number, form, m)
            state = [_initial(g, m.get(name, ""), number, form) for name in ("h", "c")]
            hidden = dict[int, str]()
            times = range(form.length)
            for time in reversed(times) if is_backwards else times:
                gates = g.op.Gather(inputs, np.array(time), axis=0)
                state = self.step(g, cell, gates, *state)
                hidden[time] = state[0]
            ends.append(state)
            if used[0]:
                sequences.append(_stacked(g, [hidden[time] for time in times], 0))
        axis = int(form.is_batch_first)
        results = [
            _stacked(g, [state[place] for state in ends], axis) if is_used else None
            for place, is_used in enumerate(used[1:])
        ]
        return (_whole(g, sequences, form) if used[0] else None, *results)

    def _direction(
        self, g: PatternRewriter, steps: str, number: int, form: _Form, m: dict[str, Any]
    ) -> tuple[str, _Cell]:
        """The parts of the gates that depend on the inputs, for all steps, and the cell."""
        place, width = np.array(number), self.gates * form.size
        weights, recurrence = (
            g.op.Transpose(g.op.Gather(m[name], place, axis=0), perm=[1, 0]) for name in ("w", "r")
        )
        inputs, bias = g.op.MatMul(steps, weights), ""
        if m["b"]:
            biases = g.op.Gather(m["b"], place, axis=0)
            first, bias = g.op.Split(biases, split=[width, width], axis=0, outputs=2)
            inputs = g.op.Add(inputs, first if form.resets_after else g.op.Add(first, bias))
        peephole: Sequence[str] = ()
        if m.get("p"):
            vectors = g.op.Gather(m["p"], place, axis=0)
            peephole = g.op.Split(vectors, split=[form.size] * 3, axis=0, outputs=3)
        count = len(self.defaults)
        cell = _Cell(
            form.activations[number * count : (number + 1) * count],
            self.recurrence(g, recurrence, form),
            bias if form.resets_after else "",
            peephole,
            form.size,
        )
        return inputs, cell

    def recurrence(self, g: PatternRewriter, weights: str, form: _Form) -> Sequence[str]:
        """The weights by which states are multiplied."""
        return (weights,)

    def step(
        self, g: PatternRewriter, cell: _Cell, gates: str, hidden: str, memory: str
    ) -> list[str]:
        """The states after a step. The names ``hidden`` and ``memory`` are empty for zeros."""
        raise NotImplementedError


class LowerLSTMPattern(_LowerRecurrent):
    """LSTM(x, w, r, ...) → the cell c' = f · c + i · tanh(j), h' = o · tanh(c') for each step"""

    operator = "LSTM"
    operands = "x w r b lengths h c p"
    operand_types = dict.fromkeys(("x", "w", "r", "b", "h", "c", "p"), _FLOAT)  # (1)
    gates = 4
    defaults = ("Sigmoid", "Tanh", "Tanh")

    def step(
        self, g: PatternRewriter, cell: _Cell, gates: str, hidden: str, memory: str
    ) -> list[str]:
        if hidden:
            gates = g.op.Add(gates, g.op.MatMul(hidden, cell.weights[0]))
        i, o, f, candidate = g.op.Split(gates, split=[cell.size] * 4, axis=-1, outputs=4)
        if cell.peephole and memory:
            i = g.op.Add(i, g.op.Mul(cell.peephole[0], memory))
            f = g.op.Add(f, g.op.Mul(cell.peephole[2], memory))
        total = g.op.Mul(cell.activated(g, 0, i), cell.activated(g, 1, candidate))
        if memory:
            total = g.op.Add(g.op.Mul(cell.activated(g, 0, f), memory), total)
        if cell.peephole:
            o = g.op.Add(o, g.op.Mul(cell.peephole[1], total))
        return [g.op.Mul(cell.activated(g, 0, o), cell.activated(g, 2, total)), total]

    examples = Example.pairs(
        "agraph (float[2,b,3] x, float[1,8,3] w, float[1,8,2] r, float[1,16] k) => (float[2,1,b,2] "
        "y) { y = LSTM <hidden_size = 2> (x, w, r, k) }",
        "<int64 a = {0}, int64[2] b = {8, 8}, int64[4] c = {2, 2, 2, 2}, int64 d = {1}, int64[1] e "
        "= {0}, int64[1] f = {1}> { g = Gather <axis = 0> (w, a) h = Transpose <perm = [1, 0]> (g) "
        "i = Gather <axis = 0> (r, a) j = Transpose <perm = [1, 0]> (i) l = MatMul(x, h) m = "
        "Gather <axis = 0> (k, a) n, o = Split <axis = 0> (m, b) p = Add(n, o) q = Add(l, p) s = "
        "Gather <axis = 0> (q, a) t, u, v, z = Split <axis = -1> (s, c) a1 = Sigmoid(t) b1 = "
        "Tanh(z) c1 = Mul(a1, b1) d1 = Sigmoid(u) e1 = Tanh(c1) f1 = Mul(d1, e1) g1 = Gather <axis "
        "= 0> (q, d) h1 = MatMul(f1, j) i1 = Add(g1, h1) j1, k1, l1, m1 = Split <axis = -1> (i1, "
        "c) n1 = Sigmoid(j1) o1 = Tanh(m1) p1 = Mul(n1, o1) q1 = Sigmoid(l1) r1 = Mul(q1, c1) s1 = "
        "Add(r1, p1) t1 = Sigmoid(k1) u1 = Tanh(s1) v1 = Mul(t1, u1) w1 = Unsqueeze(f1, e) x1 = "
        "Unsqueeze(v1, e) y1 = Concat <axis = 0> (w1, x1) y = Unsqueeze(y1, f) }",
        "agraph (float[1,b,3] x, float[1,8,3] w, float[1,8,2] r, float[1,b,2] h, float[1,b,2] c, "
        "float[1,6] p) => (float[1,b,2] i, float[1,b,2] j) { y, i, j = LSTM <hidden_size = 2> (x, "
        "w, r, , , h, c, p) }",
        "<int64 a = {0}, int64[3] b = {2, 2, 2}, int64[4] d = {2, 2, 2, 2}, int64[1] e = {0}> { f "
        "= Gather <axis = 0> (w, a) g = Transpose <perm = [1, 0]> (f) k = Gather <axis = 0> (r, a) "
        "l = Transpose <perm = [1, 0]> (k) m = MatMul(x, g) n = Gather <axis = 0> (p, a) o, q, s = "
        "Split <axis = 0> (n, b) t = Gather <axis = 0> (h, a) u = Gather <axis = 0> (c, a) v = "
        "Gather <axis = 0> (m, a) y = MatMul(t, l) z = Add(v, y) a1, b1, c1, d1 = Split <axis = "
        "-1> (z, d) e1 = Mul(o, u) f1 = Add(a1, e1) g1 = Mul(s, u) h1 = Add(c1, g1) i1 = "
        "Sigmoid(f1) j1 = Tanh(d1) k1 = Mul(i1, j1) l1 = Sigmoid(h1) m1 = Mul(l1, u) n1 = Add(m1, "
        "k1) o1 = Mul(q, n1) p1 = Add(b1, o1) q1 = Sigmoid(p1) r1 = Tanh(n1) s1 = Mul(q1, r1) i = "
        "Unsqueeze(s1, e) j = Unsqueeze(n1, e) }",
    )


class LowerGRUPattern(_LowerRecurrent):
    """GRU(x, w, r, ...) → the cell h' = (1 - z) · tanh(j) + z · h for each step"""

    operator = "GRU"
    gates = 3
    defaults = ("Sigmoid", "Tanh")

    def recurrence(self, g: PatternRewriter, weights: str, form: _Form) -> Sequence[str]:
        if form.resets_after:
            return (weights,)
        sizes = [2 * form.size, form.size]
        return tuple(g.op.Split(weights, split=sizes, axis=1, outputs=2))

    def step(
        self, g: PatternRewriter, cell: _Cell, gates: str, hidden: str, memory: str
    ) -> list[str]:
        sizes = [2 * cell.size, cell.size]
        first_gates, new = g.op.Split(gates, split=sizes, axis=-1, outputs=2)
        own = ""
        if len(cell.weights) == 1:
            product = g.op.MatMul(hidden, cell.weights[0]) if hidden else ""
            if product and cell.bias:
                product = g.op.Add(product, cell.bias)
            product = product or cell.bias
            if product:
                more, own = g.op.Split(product, split=sizes, axis=-1, outputs=2)
                first_gates = g.op.Add(first_gates, more)
        elif hidden:
            first_gates = g.op.Add(first_gates, g.op.MatMul(hidden, cell.weights[0]))
        gate, reset = g.op.Split(
            cell.activated(g, 0, first_gates), split=[cell.size] * 2, axis=-1, outputs=2
        )
        if own:
            new = g.op.Add(new, g.op.Mul(reset, own))
        elif hidden:
            new = g.op.Add(new, g.op.MatMul(g.op.Mul(reset, hidden), cell.weights[1]))
        result = g.op.Mul(g.op.Sub(1.0, gate), cell.activated(g, 1, new))
        return [g.op.Add(result, g.op.Mul(gate, hidden)) if hidden else result, ""]

    examples = Example.pairs(
        "agraph (float[2,b,3] x, float[1,6,3] w, float[1,6,2] r) => (float[1,b,2] h) { y, h = GRU "
        '<hidden_size = 2, direction = "reverse"> (x, w, r) }',
        "<int64 a = {0}, int64[2] b = {4, 2}, int64 c = {1}, int64[2] d = {2, 2}, float e = {1}, "
        "int64[1] f = {0}> { g = Gather <axis = 0> (w, a) i = Transpose <perm = [1, 0]> (g) j = "
        "Gather <axis = 0> (r, a) k = Transpose <perm = [1, 0]> (j) l = MatMul(x, i) m, n = Split "
        "<axis = 1> (k, b) o = Gather <axis = 0> (l, c) p, q = Split <axis = -1> (o, b) s = "
        "Sigmoid(p) t, u = Split <axis = -1> (s, d) v = Sub(e, t) y = Tanh(q) z = Mul(v, y) a1 = "
        "Gather <axis = 0> (l, a) b1, c1 = Split <axis = -1> (a1, b) d1 = MatMul(z, m) e1 = "
        "Add(b1, d1) f1 = Sigmoid(e1) g1, h1 = Split <axis = -1> (f1, d) i1 = Mul(h1, z) j1 = "
        "MatMul(i1, n) k1 = Add(c1, j1) l1 = Sub(e, g1) m1 = Tanh(k1) n1 = Mul(l1, m1) o1 = "
        "Mul(g1, z) p1 = Add(n1, o1) h = Unsqueeze(p1, f) }",
        "agraph (float[1,b,3] x, float[1,6,3] w, float[1,6,2] r, float[1,12] k, float[1,b,2] i) => "
        "(float[1,b,2] h) { y, h = GRU <hidden_size = 2, linear_before_reset = 1> (x, w, r, k, , "
        "i) }",
        "<int64 a = {0}, int64[2] b = {6, 6}, int64[2] c = {4, 2}, int64[2] d = {2, 2}, float e = "
        "{1}, int64[1] f = {0}> { g = Gather <axis = 0> (w, a) j = Transpose <perm = [1, 0]> (g) l "
        "= Gather <axis = 0> (r, a) m = Transpose <perm = [1, 0]> (l) n = MatMul(x, j) o = Gather "
        "<axis = 0> (k, a) p, q = Split <axis = 0> (o, b) s = Add(n, p) t = Gather <axis = 0> (i, "
        "a) u = Gather <axis = 0> (s, a) v, y = Split <axis = -1> (u, c) z = MatMul(t, m) a1 = "
        "Add(z, q) b1, c1 = Split <axis = -1> (a1, c) d1 = Add(v, b1) e1 = Sigmoid(d1) f1, g1 = "
        "Split <axis = -1> (e1, d) h1 = Mul(g1, c1) i1 = Add(y, h1) j1 = Sub(e, f1) k1 = Tanh(i1) "
        "l1 = Mul(j1, k1) m1 = Mul(f1, t) n1 = Add(l1, m1) h = Unsqueeze(n1, f) }",
    )


class LowerRNNPattern(_LowerRecurrent):
    """RNN(x, w, r, ...) → the cell h' = tanh(x · wᵀ + h · rᵀ + b) for each step"""

    operator = "RNN"
    gates = 1
    defaults = ("Tanh",)

    def step(
        self, g: PatternRewriter, cell: _Cell, gates: str, hidden: str, memory: str
    ) -> list[str]:
        if hidden:
            gates = g.op.Add(gates, g.op.MatMul(hidden, cell.weights[0]))
        return [cell.activated(g, 0, gates), ""]

    examples = Example.pairs(
        "agraph (float[2,b,3] x, float[2,2,3] w, float[2,2,2] r, float[2,4] k) => (float[2,2,b,2] "
        'y) { y = RNN <hidden_size = 2, direction = "bidirectional"> (x, w, r, k) }',
        "<int64 a = {0}, int64[2] b = {2, 2}, int64 c = {1}, int64[1] d = {0}, int64[1] e = {1}> { "
        "f = Gather <axis = 0> (w, a) g = Transpose <perm = [1, 0]> (f) h = Gather <axis = 0> (r, "
        "a) i = Transpose <perm = [1, 0]> (h) j = MatMul(x, g) l = Gather <axis = 0> (k, a) m, n = "
        "Split <axis = 0> (l, b) o = Add(m, n) p = Add(j, o) q = Gather <axis = 0> (p, a) s = "
        "Tanh(q) t = Gather <axis = 0> (p, c) u = MatMul(s, i) v = Add(t, u) z = Tanh(v) a1 = "
        "Unsqueeze(s, d) b1 = Unsqueeze(z, d) c1 = Concat <axis = 0> (a1, b1) d1 = Gather <axis = "
        "0> (w, c) e1 = Transpose <perm = [1, 0]> (d1) f1 = Gather <axis = 0> (r, c) g1 = "
        "Transpose <perm = [1, 0]> (f1) h1 = MatMul(x, e1) i1 = Gather <axis = 0> (k, c) j1, k1 = "
        "Split <axis = 0> (i1, b) l1 = Add(j1, k1) m1 = Add(h1, l1) n1 = Gather <axis = 0> (m1, c) "
        "o1 = Tanh(n1) p1 = Gather <axis = 0> (m1, a) q1 = MatMul(o1, g1) r1 = Add(p1, q1) s1 = "
        "Tanh(r1) t1 = Unsqueeze(s1, d) u1 = Unsqueeze(o1, d) v1 = Concat <axis = 0> (t1, u1) w1 = "
        "Unsqueeze(c1, e) x1 = Unsqueeze(v1, e) y = Concat <axis = 1> (w1, x1) }",
    )


def _initial(g: PatternRewriter, states: str, number: int, form: _Form) -> str:
    """The initial state of a direction; empty for zeros."""
    axis = int(form.is_batch_first)
    return g.op.Gather(states, np.array(number), axis=axis) if states else ""


def _stacked(g: PatternRewriter, parts: Sequence[str], axis: int) -> str:
    """The parts along a new axis."""
    rows = [g.op.Unsqueeze(part, axes=[axis]) for part in parts]
    return g.op.Concat(*rows, axis=axis) if len(rows) > 1 else rows[0]


def _whole(g: PatternRewriter, sequences: Sequence[str], form: _Form) -> str:
    """The states of all steps: (steps, directions, batch, size), or with the batch first."""
    if not form.is_batch_first:
        return _stacked(g, sequences, 1)
    first = [g.op.Transpose(sequence, perm=[1, 0, 2]) for sequence in sequences]
    return _stacked(g, first, 2)
