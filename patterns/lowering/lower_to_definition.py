from xoptim.match import (
    Example,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
    runs,
)
from xoptim.match.definitions import Definition, write_nodes

from ._definitions import definition_of


class LowerToDefinitionPattern(PatternOptimization):
    """ThresholdedRelu(x) → nodes of the operator's definition: Where(Less(alpha, x), x, 0)

    What: writes the body that the ONNX standard gives for the operator, in the operator set of the
    model. This pattern runs after all other patterns of the phase.
    Why: a runtime may lack the operator, but have the operators of its body.
    Refuses when:
    1. the standard has no body for the operator set of the model. Or an operator of the body has
       other inputs or fewer attributes in the operator set of the model.
    2. the body depends on types that are not known, or on operands that are omitted. Or the body
       has subgraphs.
    3. the body has a Where, and the provider has no kernel of Where for the type.
    """

    phase = "lower"
    exactness = "rounding"
    priority = 9
    min_opset = 13
    # Absent are losses, and operators whose kernels and bodies differ in digits, ranges or
    # broadcasting (Attention, Celu, LayerNormalization, LogSoftmax, Mish, PRelu, RMSNormalization,
    # Shrink, Softplus).
    anchors = (
        "CenterCropPad",
        "Clip",
        "Elu",
        "Gelu",
        "GreaterOrEqual",
        "GroupNormalization",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "LessOrEqual",
        "Relu",
        "Selu",
        "Softmax",
        "Softsign",
        "Swish",
        "ThresholdedRelu",
    )

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        definition = definition_of(g, node)
        if definition is None:  # (1) (2)
            return self.none(node, msg="ONNX defines no function body that applies to this node")

        if any(step.op_type == "Where" for step in definition.steps) and not runs(
            g, "Where", node.input[0]
        ):  # (3)
            return self.none(node, msg="no kernel of Where for this element type")

        def apply(g: PatternRewriter, *nodes: Node) -> list[Node]:
            return _write(g, nodes[0], definition)

        return MatchResult(self, [node], apply)

    examples = Example.pairs(
        "agraph (float[n] x) => (float[n] y) { y = ThresholdedRelu <alpha = 0.5> (x) }",
        "<float a = {0.5}, float o = {0}> { t = Less(a, x) y = Where(t, x, o) }",
        "agraph (int64[n,4] x, int64[4] z) => (bool[n,4] y) { y = GreaterOrEqual(x, z) }",
        "{ s = Greater(x, z) t = Equal(x, z) y = Or(s, t) }",
        "agraph (float[n] x) => (float[n] y) <float a = {-0.5}, float b = {0.5}> { "
        "y = Clip(x, a, b) }",
        "<float a = {-0.5}, float b = {0.5}> { t = Less(x, a) u = Where(t, a, x) v = Less(b, u) "
        "y = Where(v, b, u) }",
    )


def _write(g: PatternRewriter, call: Node, definition: Definition) -> list[Node]:
    operands = [*call.input, *[""] * (len(definition.inputs) - len(call.input))]
    results = [name or g.unique_name("unused") for name in call.output]
    results += [g.unique_name("unused") for _ in definition.outputs[len(results) :]]
    values = {"": "", **dict(zip(definition.inputs, operands, strict=True))}
    values |= dict(zip(definition.outputs, results, strict=True))
    write_nodes(
        g,
        definition.steps,
        values,
        named=lambda _, name: g.unique_name(name.lower()),
        stored=lambda _, array: g.make_initializer("", array),
    )
    return g.created
