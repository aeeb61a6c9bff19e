from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from ._cycles import cycle
from ._rounds import only_step


class ScanOncePattern(PatternOptimization):
    """Scan(x of one step) → the body

    What: puts the nodes of the body in the place of the Scan, between a Squeeze of each tensor that it goes through and an
        Unsqueeze of each that it stacks.
    Why: nothing can be fused or folded across the border of a subgraph. Measured 0.86 to 0.91 of the time.
        Runtimes that compute 16-bit floats in 32 bits round at the border, so the last bit may differ.
    Refuses when:
    1. the number of steps is not known to be 1.
    2. the body holds sparse initializers, which stay where they are.
    """

    anchors = ("Scan",)
    exactness = "rounding"
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # The directions do not matter.
        found = cycle(g, node)  # (2)
        if found.runs(g) != 1:  # (1)
            return self.none(node, msg="not exactly one step")
        return MatchResult(self, [node], partial(only_step, found))

    examples = Example.only(
        "agraph (float[a] x, float[a,1] z) => (float[a] y, float[a,1] w) { y, w = Scan <num_scan_inputs = 1, "
        "scan_input_axes = [1], scan_output_axes = [-1], body = step (float[a] s, float[a] t) => "
        "(float[a] u, float[a] v) { u = Mul(s, t) v = Exp(u) }> (x, z) }",
        "<int64[1] k = {1}, int64[1] l = {-1}> { t = Squeeze(z, k) y = Mul(x, t) v = Exp(y) w = Unsqueeze(v, l) }",
    )
