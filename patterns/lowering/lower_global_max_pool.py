from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class LowerGlobalMaxPoolPattern(_Lowering):
    """GlobalMaxPool(x) → MaxPool(x, kernel_shape=[h, w])

    What: pools with a window as large as the image. (ReduceMax would treat NaN differently.)
    Why: some providers have MaxPool only.
    Refuses when:
    1. the axes of the image are not static, or empty.
    """

    min_opset = 8
    derives = ("lengths",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.GlobalMaxPool(x)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        image = (g.try_infer_shape(m.x) or ())[2:]
        lengths = [length for length in image if isinstance(length, int) and length]
        if not image or len(lengths) < len(image):  # (1)
            return self.none(m.nodes[0], msg="the spatial dimensions are not static")
        return m.derive(lengths=lengths)

    def apply_pattern(self, g: PatternRewriter, x: str, lengths: list[int]) -> str:
        return g.op.MaxPool(x, kernel_shape=lengths)

    examples = Example.pairs(
        "agraph (float[n,3,4,5] x) => (float[n,3,1,1] y) { y = GlobalMaxPool(x) }",
        "{ y = MaxPool <kernel_shape = [4, 5]> (x) }",
        "agraph (float[n,c,4] x) => (float[n,c,1] y) { y = GlobalMaxPool(x) }",
        "{ y = MaxPool <kernel_shape = [4]> (x) }",
    )
