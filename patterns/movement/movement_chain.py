from functools import partial

from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import permutation
from .._operators import BROADCASTING, ELEMENTWISE, POSITIONAL
from .._shapes import Movement, moved, movement_between
from ._movement import (
    MOVEMENTS,
    Link,
    MovementPlan,
    chain_above,
    follow,
    may_be_one,
    may_come_first,
    plans,
)

_MAX_MOVEMENTS = 12


class MovementChainPattern(PatternOptimization):
    """Reshape, Transpose, Squeeze, Unsqueeze, Flatten in a row → the fewest that do the same

    What: follows the factors of all axes through the chain, and writes the rearrangement with the
    fewest nodes: none, a Reshape, a Transpose, or both. Elementwise operators in between then come
    first.
    Why: each Transpose copies the tensor. Exporters merge and split batch axes around each MatMul
    of an attention.
    Refuses when:
    1. a shape is unknown, or it is unknown how a Reshape splits and merges axes.
    2. another node reads an intermediate result. (The chain begins there.)
    3. the result has as many nodes as before, or a Reshape with a computed target.
    4. a computed size may be 0 at run time: Reshape reads a 0 as "copy the size of the operand".
    5. it has more than 12 movements. (A longer chain is shortened in pieces, so that the time stays
       proportional to its length.)
    6. a scalar constant in between has more axes than the tensor at its new place.
    7. there is a Transpose, and in between an operator that onnxruntime rounds differently at the
       end of a tensor.
    """

    anchors = MOVEMENTS
    near = (*MOVEMENTS, *sorted(ELEMENTWISE), *BROADCASTING)
    priority = 1  # at 0, a ViT keeps the biases of its keys
    min_opset = 5
    radius = 6

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        chain = chain_above(g, node, _MAX_MOVEMENTS)  # (1) (2) (4) (5)
        starts = [position for position, link in enumerate(chain) if link.moves]
        for start in starts[:-1]:  # the longest chain first
            links = chain[start:]
            steps = self._shorter(g, links)
            if steps is not None:
                return MatchResult(
                    self, [link.node for link in links], partial(self._write, steps, links)
                )
        return self.none(
            node, msg="no chain of Reshapes, Transposes, ... that ends here can be shortened"
        )

    def _shorter(self, g: GraphView, chain: list[Link]) -> list[Movement] | None:
        source, result = g.get_shape(chain[0].source), g.get_shape(chain[-1].node.output[0])
        moves = [link.node for link in chain if link.moves]
        # (7)
        if any(link.node.op_type in POSITIONAL for link in chain) and any(
            node.op_type == "Transpose" for node in moves
        ):
            return None
        if not may_come_first(g, chain, len(source)):  # (6)
            return None
        # This cheap test rules out most pairs.
        if len(moves) == 2 and not may_be_one(g, moves, source, result):
            return None
        order = follow(
            source, [(permutation(g, node), g.get_shape(node.output[0])) for node in moves]
        )
        # (1) (3)
        for plan in plans(order, source, result, len(moves) - 1) if order is not None else ():
            steps = self._steps(g, plan, source, result)
            if steps is not None:
                return steps
        return None

    def _steps(
        self, g: GraphView, plan: MovementPlan, source: Shape, result: Shape
    ) -> list[Movement] | None:
        middle = source if plan.before is None else plan.before
        transposed = middle if plan.perm is None else tuple(middle[axis] for axis in plan.perm)
        before = [] if plan.before is None else [movement_between(g, source, middle)]
        after = [movement_between(g, transposed, result)] if plan.after else []
        steps = [*before, *([] if plan.perm is None else [("Transpose", plan.perm)]), *after]
        movements = [step for step in steps if step is not None]
        return movements if len(movements) == len(steps) else None  # (3)

    def _write(
        self, steps: list[Movement], chain: list[Link], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        # Elementwise operators commute with movements, so all of them can come first.
        name = chain[0].source
        for link in chain:
            if not link.moves:
                inputs = [*link.node.input]
                inputs[link.place] = name
                name = getattr(g.op, link.node.op_type)(*inputs, **link.node.attribute)
        for op_type, numbers in steps:
            name = moved(g, name, op_type, numbers)
        return [*g.created, g.make_node("Identity", [name], nodes[-1].output)]

    examples = Example.pairs(
        "agraph (float[b,3,6,64] x) => (float[b,3,64,6] y) <int64[3] t = {-1, 6, 64}, "
        "int64[3] d = {3, 64, 6}> { r = Reshape(x, t) p = Transpose <perm = [0, 2, 1]> (r) "
        "i = Shape <start = 0, end = 1> (x) u = Concat <axis = 0> (i, d) y = Reshape(p, u) }",
        "{ y = Transpose <perm = [0, 1, 3, 2]> (x) }",
        "agraph (float[a,1,6] x) => (float[a,2,3] y) <int64[3] t = {0, 2, 3}> { "
        "p = Transpose <perm = [1, 0, 2]> (x) q = Transpose <perm = [1, 0, 2]> (p) "
        "y = Reshape(q, t) }",
        "<int64[3] t = {0, 2, 3}> { y = Reshape(x, t) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float two = {2}> "
        "{ p = Transpose(x) r = Sigmoid(p) m = Mul(two, r) y = Transpose(m) }",
        "<float two = {2}> { r = Sigmoid(x) y = Mul(two, r) }",
    )
