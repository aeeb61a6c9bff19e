from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class IdentityTilePattern(EasyPatternOptimization):
    """Tile(x, ones) → x

    What: drops a Tile that takes everything once.
    Why: it copies the whole tensor.
    Refuses when:
    1. a number of repetitions is not 1 or not constant.
    """

    min_opset = 6

    def match_pattern(self, g: PatternBuilder, x: Symbol, repeats: Constant) -> Symbol:
        return g.op.Tile(x, repeats)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # (1) there are none for a tensor of rank 0
        repeats = g.get_ints(m.repeats)
        if repeats is None or any(times != 1 for times in repeats):
            return self.none(m.nodes[0], msg=lambda: f"the repetitions are {repeats}")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <int64[2] r = {1, 1}> { t = Tile(x, r) y = Relu(t) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
        ),
    )
