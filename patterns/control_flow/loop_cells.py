"""Loops and Scans of an LSTM or GRU cell that is written as separate nodes."""

from typing import ClassVar

from xoptim.facts.dtypes import Exactness
from xoptim.match import Example, GraphView

from ._cells import Cell, read_gru, read_lstm, weights_of
from ._loop_nodes import LoopNode, copy_source
from ._loops import Step, _RecurrentLoop


class _LoopCells(_RecurrentLoop):
    """A Loop or a Scan of a cell that is written as separate nodes."""

    exactness: ClassVar[Exactness] = "finite"  # the kernels replace NaN by a number
    operator: ClassVar[str]

    def step(self, g: GraphView, loop: LoopNode) -> Step | None:
        inside, body = g.inside(loop.body), loop.body
        old_states = body.inputs[loop.first_input : loop.first_input + loop.state_count]
        outputs = body.outputs[loop.first_output : loop.first_output + loop.state_count]
        new_states = [copy_source(body, name) for name in outputs]
        for place, hidden in enumerate(new_states):
            cell = self.cell(inside, hidden)
            parts = None if cell is None else weights_of(cell, old_states[place])
            if cell is None or parts is None:
                continue
            weights, _, x = parts
            if not weights.are_moderate(inside):
                continue
            places = [place]
            if cell.cell_state:
                pairs = [*zip(old_states, new_states, strict=True)]
                if (cell.cell_state_before, cell.cell_state) not in pairs:
                    continue
                places.append(pairs.index((cell.cell_state_before, cell.cell_state)))
            size = weights.biases[0].size
            attributes = {
                "linear_before_reset": int(cell.resets_after) or None,
                "hidden_size": size,
            }
            return Step(self.operator, attributes, weights, x, hidden, places, size)
        return None

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        """The cell that computes the state ``hidden``, or ``None``."""
        raise NotImplementedError


class LoopLSTMPattern(_LoopCells):
    """Loop of o · tanh(f · c + i · tanh(j)) → LSTM(x, w, r, b, h, c); the same for Scan"""

    operator = "LSTM"

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        return read_lstm(g, hidden)

    examples = Example.only(
        "agraph (float[2,3,1] x, float[3,1] h, float[3,1] c) => "
        "(float[3,1] y, float[3,1] e, float[3,2,1] s) <float[4,1] w = {1, 2, 3, 4}, "
        "float[4,1] r = {5, 6, 7, 8}, float[4] k = {1, 2, 3, 4}, int64[4] sizes = {1, 1, 1, 1}> { "
        "y, e, s = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = step "
        "(float[3,1] hidden, float[3,1] memory, float[3,1] row) => "
        "(float[3,1] after, float[3,1] kept, float[3,1] result) { "
        "a = Gemm <transB = 1> (row, w, k) b = Gemm <transB = 1> (hidden, r, a) "
        "bi, bf, bj, bo = Split <axis = 1> (b, sizes) i = Sigmoid(bi) f = Sigmoid(bf) "
        "j = Tanh(bj) o = Sigmoid(bo) m = Mul(f, memory) n = Mul(i, j) kept = Add(m, n) "
        "t = Tanh(kept) after = Mul(o, t) result = Identity(after) }> (h, c, x) }",
        "<float[1,4,1] w = {1, 4, 2, 3}, float[1,4,1] r = {5, 8, 6, 7}, "
        "float[1,8] k = {1, 4, 2, 3, 0, 0, 0, 0}, int64[1] z = {0}, int64[1] one = {1}> { "
        "i = Unsqueeze(h, z) j = Unsqueeze(c, z) "
        "p, f, g = LSTM <hidden_size = 1> (x, w, r, k, , i, j) y = Squeeze(f, z) "
        "e = Squeeze(g, z) q = Squeeze(p, one) s = Transpose <perm = [1, 0, 2]> (q) }",
    )


class LoopGRUPattern(_LoopCells):
    """Loop of (1 - z) · tanh(j) + z · h → GRU(x, w, r, b, h); the same for Scan"""

    operator = "GRU"

    def cell(self, g: GraphView, hidden: str) -> Cell | None:
        return read_gru(g, hidden)

    examples = Example.only(
        "agraph (float[3,2,1] x, float[3,1] h) => (float[3,1] y, float[2,3,1] s) "
        "<int64 n = {2}, bool go = {1}, float[3,1] w = {1, 2, 3}, float[3,1] r = {4, 5, 6}, "
        "float[3] k = {1, 2, 3}, int64[3] sizes = {1, 1, 1}> { y, s = Loop(n, go, h) <body = step "
        "(int64 i, bool c, float[3,1] before) => (bool d, float[3,1] after, float[3,1] result) { "
        "d = Identity(go) row = Gather <axis = 1> (x, i) a = Gemm <transB = 1> (row, w, k) "
        "ar, az, an = Split <axis = 1> (a, sizes) b = Gemm <transB = 1> (before, r) "
        "br, bz, bn = Split <axis = 1> (b, sizes) r1 = Add(ar, br) z1 = Add(az, bz) "
        "f1 = Sigmoid(r1) g1 = Sigmoid(z1) m1 = Mul(f1, bn) n1 = Add(an, m1) j1 = Tanh(n1) "
        "d1 = Sub(before, j1) s1 = Mul(d1, g1) after = Add(s1, j1) result = Identity(after) }> }",
        "<float[1,3,1] w = {2, 1, 3}, float[1,3,1] r = {5, 4, 6}, "
        "float[1,6] k = {2, 1, 3, 0, 0, 0}, int64[1] z = {0}, int64[1] one = {1}> { "
        "t = Transpose <perm = [1, 0, 2]> (x) i = Unsqueeze(h, z) p, f = GRU "
        "<hidden_size = 1, linear_before_reset = 1> (t, w, r, k, , i) y = Squeeze(f, z) "
        "s = Squeeze(p, one) }",
    )
