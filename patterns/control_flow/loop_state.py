from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._loop_nodes import LoopNode, copy_source, dependencies, inner_names, loop_node


class LoopStatePattern(PatternOptimization):
    """Loop(..., s) whose body returns s → s; unread states and results → none; the same for Scan

    What: removes a state that does not change; the body reads the initial value from outside. Also
    removes states and scan outputs that no node reads afterwards, if no other result needs them.
    Why: measured 0.91 of the time of a loop of 8 iterations. Each iteration copies a state, and
    nodes of the body cannot be folded with its value.
    Refuses when:
    1. all states change and all results are needed.
    2. the body has sparse or overridable initializers, or defines another value of the same name.
    3. a state does not change, but there is a scan output and may be no iteration. The shape of the
       scan output then depends on what runtimes infer in the body, and they may infer more for a
       value from outside.
    """

    anchors = ("Loop", "Scan")
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Unchanged states come first: the nodes of the body then read the value from outside.
        loop = loop_node(g, node)  # (2)
        constants = self._constants(g, loop)
        needed = self._needed(g, loop, constants)
        dropped = [place for place in range(len(node.output)) if place not in needed]
        if not dropped:  # (1)
            return self.none(node, msg="every state changes and is read")
        return MatchResult(self, [node], partial(self._write, loop, constants, dropped))

    def _constants(self, g: GraphView, loop: LoopNode) -> dict[int, str]:
        """The indices of the states that do not change, with their values."""
        body, inside, defined = loop.body, g.inside(loop.body), set(inner_names(loop.body))
        constants: dict[int, str] = {}
        has_scan_output = any(g.is_used(loop.node.output[place]) for place in loop.scan_outputs())
        if has_scan_output and not loop.runs_at_least_once(g):  # (3)
            return constants
        for place in range(loop.state_count):
            value, state = (
                loop.node.input[loop.first_input + place],
                body.inputs[loop.first_input + place],
            )
            result = copy_source(body, body.outputs[loop.first_output + place])
            stored, returned = g.graph.tensor(value) if value else None, inside.graph.tensor(result)
            is_equal = (
                stored is not None and returned is not None and stored.key() == returned.key()
            )
            if value and value not in defined and (result in (state, value) or is_equal):  # (2)
                constants[place] = value
        return constants

    def _needed(self, g: GraphView, loop: LoopNode, constants: Mapping[int, str]) -> set[int]:
        """The indices of the states and scan outputs that stay."""
        node, body = loop.node, loop.body
        needed = {
            place
            for place, name in enumerate(node.output)
            if name and g.is_used(name) and place not in constants
        }
        while True:
            outputs = [
                *body.outputs[: loop.first_output],
                *(body.outputs[loop.first_output + place] for place in needed),
            ]
            names = dependencies(g, body, outputs)
            states = {
                place
                for place in range(loop.state_count)
                if body.inputs[loop.first_input + place] in names
            } - constants.keys()
            if states <= needed:
                return needed
            needed |= states

    def _write(
        self,
        loop: LoopNode,
        constants: Mapping[int, str],
        dropped: Sequence[int],
        g: PatternRewriter,
        node: Node,
    ) -> list[Node]:
        """The Loop or Scan without the dropped indices, and copies of constant states."""
        first_input, first_output = loop.first_input, loop.first_output
        copies = [
            g.make_node("Identity", [value], [node.output[p]])
            for p, value in constants.items()
            if node.output[p]
        ]
        outputs = [name for place, name in enumerate(node.output) if place not in dropped]
        if not outputs:
            return copies
        states = [place for place in dropped if place < loop.state_count]
        inputs = [
            name
            for place, name in enumerate(node.input)
            if place - first_input not in states or place < first_input
        ]
        if loop.is_loop and len(inputs) == loop.first_input and not inputs[1]:
            # The condition is now the last operand, which cannot be omitted.
            inputs[1] = g.make_initializer("", np.array(True), source="holds")
        body = g.rebuilt(
            loop.body,
            {loop.body.inputs[first_input + place]: value for place, value in constants.items()},
            [first_input + place for place in states],
            [first_output + place for place in dropped],
        )
        return [
            g.make_node(node.op_type, inputs, outputs, body=body, **loop.attributes(dropped)),
            *copies,
        ]

    _head = "agraph (float[a] x, float[a] z, int64 n) => (float[a] y)"
    examples = Example.pairs(
        f"{_head} {{ p, q, r = Loop(n, , x, z, z) < body = round (int64 i, bool d, float[a] s, "
        "float[a] t, float[a] u) => (bool e, float[a] v, float[a] w, float[a] o) { "
        "e = Identity(d) v = Mul(s, t) w = Identity(t) o = Sqrt(u) }> y = Add(p, q) }",
        "{ p = Loop(n, , x) < body = round (int64 i, bool d, float[a] s) "
        "=> (bool e, float[a] v) { e = Identity(d) v = Mul(s, z) }> y = Add(p, z) }",
        "agraph (float[a] x, float[3,a] z) => (float[3,a] y) { "
        "p, y, q = Scan <num_scan_inputs = 1, body = step (float[a] s, float[a] t) "
        "=> (float[a] u, float[a] v, float[a] w) { u = Identity(s) v = Add(s, t) "
        "w = Exp(t) }> (x, z) }",
        "{ y = Scan <num_scan_inputs = 1, body = step (float[a] t) "
        "=> (float[a] v) { v = Add(x, t) }> (z) }",
    )
