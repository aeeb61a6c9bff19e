"""Rules without Python: pairs of ONNX functions, in a file or a string, run alone or with the
patterns.

python examples/rewrite_by_text.py

On the command line: xopt MODEL --rewrite examples/rules/square.onnxtxt
"""

from pathlib import Path

import onnx

from xoptim import optimize, read_rules
from xoptim.api.rules import SubgraphRewriter

RULES = Path(__file__).parent / "rules"
MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
agraph (float[4,8] x, float[8,2] w, float[2] b) => (float[4,2] y)
{
    two = Constant <value_float = 2.0> ()
    three = Constant <value_float = 3.0> ()
    squared = Pow (x, two)
    cubed = Pow (squared, three)
    y = Gemm <alpha = 0.5> (cubed, w, b)
}"""


def main() -> None:
    """Run two files of rules, then a rule of our own on the result."""
    rules = read_rules(RULES / "square.onnxtxt", RULES / "addmm.onnxtxt")
    for rule in rules:
        print(f"{rule.name()}: {rule.arrow()}")
    model = optimize(onnx.parser.parse_model(MODEL), patterns=rules)
    print(*(node.op_type for node in model.graph.node))

    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        "f (x) => (y) { three = Constant <value_float = 3.0> ()  y = Pow (x, three) }",
        "f (x) => (y) { t = Mul (x, x)  y = Mul (t, x) }",
        filters=[lambda g, m: g.has_shape(m.x)],
        value_name_pairs=[("y", "y")],
    )
    print(*(node.op_type for node in rewriter.run(model).graph.node))


if __name__ == "__main__":
    main()
