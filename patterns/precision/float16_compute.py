from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._float16 import (
    OTHERS,
    SUMS,
    Float16Places,
    float16_of,
    float16_places,
    is_read_in_float16,
    recreated,
)


class Float16ComputePattern(PatternOptimization):
    """Cast(MatMul(Cast(x, to=FLOAT), Cast(w, to=FLOAT)), to=FLOAT16) → MatMul(x, w)

    What: computes operators in float16 if their operands and results are float16 tensors with Casts
    to and from float32. The same for most operators.
    Why: GPUs take half of the time or less, according to their vendors. (CPUs compute in float32,
    with a Cast at each end.)
    Refuses when:
    1. a float32 operand or result cannot be float16 in this operator, or the provider has no
       kernel.
    2. an operand loses digits in float16, or another node reads a result in float32.
    """

    priority = -1  # before other patterns move the Casts
    providers = ("cuda",)
    exactness = "approximate"  # float16 rounds large numbers by larger amounts
    min_opset = 13
    tags = ("float16_compute", "extra")
    anchors = (*SUMS, *OTHERS)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        places = float16_places(g, node)
        if places is None:  # (1)
            return self.none(node, msg="an operand or a result cannot be float16")
        results = [node.output[index] for index in places.results]
        losing = any(float16_of(g, node.input[index]) is None for index in places.operands)
        if losing or not all(is_read_in_float16(g, name) for name in results):  # (2)
            return self.none(
                node, msg="an operand would lose precision, or a result is read in float32"
            )
        casts = [cast for name in results for cast in g.next_nodes(name)]
        return MatchResult(self, [node, *casts], partial(self._replace, places))

    def _replace(
        self, places: Float16Places, g: PatternRewriter, node: Node, *casts: Node
    ) -> list[Node]:
        names, results = list(node.input), list(node.output)
        for index in places.operands:
            half = float16_of(g, names[index])
            names[index] = (
                half if isinstance(half, str) else g.make_initializer("", half, source=names[index])
            )
        first = {cast.input[0]: cast for cast in reversed(casts)}
        for index in places.results:
            results[index] = first[results[index]].output[0]
        duplicates = [cast for cast in casts if cast is not first[cast.input[0]]]
        return [
            recreated(g, node, names, results),
            *(
                g.make_node("Identity", [first[copy.input[0]].output[0]], copy.output)
                for copy in duplicates
            ),
        ]

    _three = "agraph (float16[n,2] x, float16[2,2] w) => (float16[n,2] y)"
    _rest = "agraph (float16[n,4] x) => (float16[n,2] y, float16[n,2] z) <int64[2] k = {2, 2}>"
    examples = (
        *Example.pairs(
            f"{_three} {{ a = Cast <to = 1> (x) b = Cast <to = 1> (w) p = MatMul(a, b) "
            "y = Cast <to = 10> (p) }",
            "{ y = MatMul(x, w) }",
            f"{_rest} {{ a = Cast <to = 1> (x) p, q = Split <axis = 1> (a, k) "
            "y = Cast <to = 10> (p) z = Cast <to = 10> (q) }",
            f"{_rest} {{ y, z = Split <axis = 1> (x, k) }}",
            opset=18,
        ),
    )
