import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.facts.attributes import constant_value
from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._definitions import Definition, DefinitionStep, definition_of


class LowerToDefinitionPattern(PatternOptimization):
    """ThresholdedRelu(x) → nodes of the operator's definition: Where(Less(alpha, x), x, 0)

    What: writes the body that the ONNX standard gives for the operator, in the operator set of the
    model. The last resort, where no other pattern of this phase matches.
    Why: a runtime may lack the operator, but have those that define it.
    Refuses when:
    1. the standard gives no body for the operator set of the model, or an operator of the body had
       another form in its set.
    2. the body depends on types that are not known or on operands that are omitted, or has
       subgraphs.
    """

    phase = "lower"
    exactness = "rounding"
    priority = 9
    min_opset = 13
    # Without operators whose kernels differ from their bodies in digits, ranges or broadcasting
    # (Attention, Celu, LayerNormalization, LogSoftmax, Mish, PRelu, RMSNormalization, Shrink,
    # Softplus), and without losses.
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
        found = definition_of(g, node)
        if found is None:  # (1) (2)
            return self.none(node, msg="ONNX defines no function body that applies to this node")

        def apply(g: PatternRewriter, *nodes: Node) -> list[Node]:
            return _written(g, nodes[0], found)

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


def _written(g: PatternRewriter, call: Node, found: Definition) -> list[Node]:
    """The nodes of a body for the operands and results of a call."""
    operands = [*call.input, *[""] * (len(found.inputs) - len(call.input))]
    results = [name or g.unique_name("unused") for name in call.output]
    results += [g.unique_name("unused") for _ in found.outputs[len(results) :]]
    names = {"": "", **dict(zip(found.inputs, operands, strict=True))}
    names |= dict(zip(found.outputs, results, strict=True))
    arrays: dict[str, np.ndarray] = {}
    nodes = []
    for step in found.steps:
        first, *others = step.outputs
        array = None if first in found.outputs else _constant(g, step, names, arrays)
        if array is not None:
            arrays[first] = array
            names[first] = g.make_initializer("", array)
            continue
        for name in (first, *others):
            names.setdefault(name, g.unique_name(name.lower()))
        nodes.append(_node(g, step, names))
    return nodes


def _constant(
    g: PatternRewriter, step: DefinitionStep, names: dict[str, str], arrays: dict[str, np.ndarray]
) -> np.ndarray | None:
    """The value of a Constant, and of the constant that a CastLike converts.

    ``None`` for other nodes.
    """
    if step.op_type == "Constant":
        value = constant_value(step.attributes)
        return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
    if step.op_type != "CastLike" or step.inputs[0] not in arrays:
        return None
    dtype = g.try_infer_type(names[step.inputs[1]])
    return arrays[step.inputs[0]].astype(numpy_dtype(dtype)) if dtype else None


def _node(g: PatternRewriter, step: DefinitionStep, names: dict[str, str]) -> Node:
    """A node of a body. A CastLike whose type is known is a Cast."""
    inputs, outputs = ([names[name] for name in each] for each in (step.inputs, step.outputs))
    to = g.try_infer_type(inputs[1]) if step.op_type == "CastLike" else 0
    if to:
        return g.make_node("Cast", inputs[:1], outputs, to=to)
    return g.make_node(step.op_type, inputs, outputs, **step.attributes)
