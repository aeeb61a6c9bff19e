"""One rule, x * y / y = x, as a global rewriter, as a local one with a navigator, and as a pair of
expressions.

python examples/simplify_in_three_ways.py
"""

import xoptim
from xoptim import Node
from xoptim.api.whole_model import global_rewriter
from xoptim.dialects import PatternSub, local_rewriter
from xoptim.doc import pretty_onnx
from xoptim.engine.run import TopologicalNavigator
from xoptim.testing import parse

MODEL = """agraph (double[n] x, double[n] y, double[n] z) => (double[n] a) {
  p = Mul(y, x)
  q = Div(p, y)
  r = Div(z, x)
  s = Mul(q, r)
  a = Add(z, s)
}"""

# The rule is not for the default selection: where y is 0 or x * y overflows, the model gives NaN or
# infinity and x does not.
APPROXIMATE = "approximate"


def other_factor(g: xoptim.GraphBuilder | xoptim.PatternRewriter, node: Node) -> str | None:
    """Return x if the node is the Div of Div(Mul(x, y), y), unless y makes the result larger than
    x.
    """
    x, y = node.input
    owner = g.node_before(x)
    if owner is None or owner.op_type != "Mul" or y not in owner.input:
        return None
    a, b = owner.input
    other = b if y == a else a
    result = node.output[0]
    return (
        other
        if g.has_shape(other) and g.has_shape(result) and g.get_shape(other) == g.get_shape(result)
        else None
    )


@global_rewriter(exactness=APPROXIMATE)
def simplify_all(builder: xoptim.GraphBuilder) -> int:
    """Div(Mul(x, y), y) → x, in the complete graph."""
    count = 0
    for node in builder.nodes:
        other = other_factor(builder, node) if node.op_type == "Div" else None
        if other is not None:
            builder.replace(node.output[0], other)
            count += 1
    return count


@local_rewriter("Div", exactness=APPROXIMATE)
def simplify_here(g: xoptim.PatternRewriter, node: Node) -> str | None:
    """Div(Mul(x, y), y) → x, at one node."""
    return other_factor(g, node)


# One pair of expressions is enough: the matcher tries both orders of the operands of Mul, and
# requires that x has the shape of the result.
Simplify = PatternSub(
    ("Div", ("Mul", "x", "y"), "y"), "x", name="Simplify", interior="keep", exactness=APPROXIMATE
)


def main() -> None:
    """Each form of the rule gives the same model."""
    model = parse(MODEL)
    ways: dict[str, xoptim.Rewrite | type[xoptim.Rewrite]] = {
        "global": simplify_all,
        "local, in topological order": TopologicalNavigator(simplify_here),
        "local, until nothing changes": simplify_here,
        "as expressions": Simplify,
    }
    results = {
        way: xoptim.optimize(model, patterns=[rewriter], tag_nodes=False)
        for way, rewriter in ways.items()
    }
    first = next(iter(results.values()))
    for way, result in results.items():
        print(
            f"{way}: {len(model.graph.node)} nodes became {len(result.graph.node)}, as expected: "
            f"{result == first}"
        )
    print(f"\n{Simplify.name()}: {Simplify.arrow()}\n")
    print(pretty_onnx(first))


if __name__ == "__main__":
    main()
