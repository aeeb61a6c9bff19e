"""Facts about the operators of Acme's runtime: ``xopt model.onnx --include acme`` uses them."""

from typing import Final

import onnx
from onnx.defs import OpSchema

from xoptim.operators import Info, NodeContext, Operator, Results, like, passes


def _schema(name: str, *attributes: OpSchema.Attribute) -> OpSchema:
    """An operator with one operand and one result of the same type."""
    return OpSchema(
        name,
        "acme",
        since_version=1,
        inputs=[OpSchema.FormalParameter("x", "T")],
        outputs=[OpSchema.FormalParameter("y", "T")],
        type_constraints=[("T", ["tensor(float)", "tensor(float16)"], "")],
        attributes=list(attributes),
    )


_LEAKY_SQUARE: Final = """
<domain: "acme", opset_import: ["": 13]>
LeakySquare <slope: float = 0.01> (x) => (y) {
    r = LeakyRelu <alpha: float = @slope> (x)
    y = Mul(r, r)
}
"""
_GLU: Final = """
<domain: "acme", opset_import: ["": 18]>
Glu (x) => (y) {
    a, b = Split <axis = -1, num_outputs = 2> (x)
    s = Sigmoid(b)
    y = Mul(a, s)
}
"""


def _half(ctx: NodeContext) -> Results:
    """The last axis of the result is half as long as that of the operand."""
    x = ctx.input(0)
    if x is None or not x.shape:
        return ()
    return [Info(x.dtype, (*x.shape[:-1], x.shape[-1] // 2))]


OPERATORS: Final = {
    "acme::LeakySquare": Operator(
        schema=_schema(
            "LeakySquare", OpSchema.Attribute("slope", onnx.helper.make_attribute("slope", 0.01))
        ),
        formula=like(0),
        definition=onnx.parser.parse_function(_LEAKY_SQUARE),
        operations=passes(3),
    ),
    "acme::Glu": Operator(
        schema=_schema("Glu"),
        formula=_half,
        definition=onnx.parser.parse_function(_GLU),
        operations=passes(8),
    ),
}
