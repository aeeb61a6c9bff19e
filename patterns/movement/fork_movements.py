from functools import partial
from typing import Final

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._operators import BROADCASTING, ELEMENTWISE
from ._movement import MOVEMENTS, VIEWS, Link, main_operand, may_come_first

_LIMIT: Final = 8
"""Maximum number of branches, and of nodes of a branch."""


class ForkMovementsPattern(PatternOptimization):
    """Unsqueeze(f(x)), Unsqueeze(g(x)) → f(Unsqueeze(x)), g(Unsqueeze(x))

    What: moves the tensor once, before the elementwise operators f and g, instead of their results.
    The same for Reshape, Squeeze and Flatten.
    Why: one node fewer for each function but the first. Rotary embeddings compute Cos and Sin of
    the same angles this way. The pattern runs last, so that patterns that recognize rotary
    embeddings match the original angles.
    Refuses when:
    1. a consumer of the tensor does not lead through elementwise operators to the same movement, or
       there are more than eight consumers.
    2. another node reads the tensor, or a result in between.
    3. an operand of the movement is not constant: it may be computed after the tensor.
    4. a scalar constant in between has more axes than the tensor before or after the movement.
    """

    anchors = VIEWS
    near = (*sorted(ELEMENTWISE), *BROADCASTING)
    phase = "target"
    priority = 9
    min_opset = 5
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Go up to the first tensor with several consumers, and from there down all branches."""
        name, steps = node.input[0], 0
        while g.is_exclusive(name) and steps < _LIMIT:
            producer = g.node_before(name)
            index = (
                None
                if producer is None or producer.op_type in MOVEMENTS
                else main_operand(g, producer)
            )
            if producer is None or index is None:
                break
            name, steps = producer.input[index], steps + 1
        readers = g.next_nodes(name)
        # (1) (2)
        if not steps or not 1 < len(readers) <= _LIMIT or not g.is_used_only_by(name, *readers):
            return self.none(node, msg="no preceding tensor has several consumers")
        if not all(map(g.is_constant, node.input[1:])):  # (3)
            return self.none(node, msg="an operand is computed at run time")
        branches = [
            branch
            for reader in readers
            if (branch := self._branch(g, reader, name, node)) is not None
        ]
        ranks = [
            rank for tensor in (name, node.output[0]) if (rank := g.info(tensor).rank) is not None
        ]
        if len(branches) < len(readers) or len(ranks) < 2:  # (1) (2)
            return self.none(node, msg="not all consumers lead to the same Reshape, Transpose, ...")
        if not all(may_come_first(g, branch, min(ranks)) for branch in branches):  # (4)
            return self.none(node, msg="a scalar has more axes than the tensor")
        return MatchResult(
            self,
            [link.node for branch in branches for link in branch],
            partial(self._hoisted, name, branches),
        )

    @staticmethod
    def _branch(g: GraphView, node: Node, name: str, like: Node) -> list[Link] | None:
        """The nodes from a consumer of ``name`` down to a movement that is equal to ``like``.

        ``None`` if they do not lead to one.
        """
        links: list[Link] = []
        here: Node | None = node
        while here is not None and len(links) <= _LIMIT:
            place = main_operand(g, here)
            if place is None or here.input[place] != name or not g.has_shape(here.output[0]):
                return None
            links.append(Link(here, place))
            if (
                here.op_type == like.op_type
                and here.input[1:] == like.input[1:]
                and here.same_attributes(like)
            ):
                return links
            if here.op_type in MOVEMENTS or not g.is_exclusive(here.output[0]):
                return None
            name, here = here.output[0], g.next_node(here.output[0])
        return None

    def _hoisted(
        self, name: str, branches: list[list[Link]], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        last = branches[0][-1].node
        moved = g.make_node(last.op_type, [name, *last.input[1:]], **last.attribute)
        new = [moved]
        for branch in branches:
            (*links, end), here = branch, moved.output[0]
            for link in links:
                inputs = [
                    here if place == link.place else operand
                    for place, operand in enumerate(link.node.input)
                ]
                output = end.node.output if link is links[-1] else 1
                new.append(g.make_node(link.node.op_type, inputs, output, **link.node.attribute))
                here = new[-1].output[0]
            if not links:
                new.append(g.make_node("Identity", [here], end.node.output))
        return new

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,1,b] y, float[a,1,b] z) <int64[1] k = {1}, "
        "float h = {0.5}> { c = Cos(x) d = Mul(c, h) y = Unsqueeze(d, k) s = Sin(x) "
        "z = Unsqueeze(s, k) }",
        "<int64[1] k = {1}, float h = {0.5}> { u = Unsqueeze(x, k) c = Cos(u) y = Mul(c, h) "
        "z = Sin(u) }",
    )
