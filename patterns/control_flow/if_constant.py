from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization


class IfConstantPattern(PatternOptimization):
    """If(constant) → the branch that is taken

    What: puts the nodes of the branch in the place of the If.
    Why: nothing can be fused or folded across the border of a subgraph.
    Refuses when:
    1. the condition is not constant.
    2. the branch holds sparse initializers, which stay where they are.
    """

    anchors = ("If",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Only the branch that is taken counts.
        condition = g.get_constant_scalar(node.input[0])
        if condition is None:  # (1)
            return self.none(node, msg="the condition is not constant")
        branch = node.bodies.get("then_branch" if condition else "else_branch")
        if branch is None or not g.can_splice(branch):  # (2)
            return self.none(node, msg="the branch cannot be taken out")
        return MatchResult(self, [node], lambda g, node: g.splice(branch, {}, node.output))

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) <bool c = {1}> { h = Neg(x) y = If(c) < "
        "then_branch = yes () => (float[a] p) { t = Exp(h) p = Relu(t) }, "
        "else_branch = no () => (float[a] q) { t = Sqrt(h) q = Relu(t) }> }",
        "{ h = Neg(x) t = Exp(h) y = Relu(t) }",
    )
