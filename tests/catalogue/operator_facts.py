"""Facts about custom operators, as packs state them."""

import onnx

from xoptim.operators import Operator, like

_TWICE = '<domain: "acme", opset_import: ["": 13]> Twice (x) => (y) { y = Add(x, x) }'
OPERATORS = {
    "acme::Twice": Operator(definition=onnx.parser.parse_function(_TWICE), formula=like(0))
}
STANDARD = {"Relu": Operator()}
TEXT = "acme::Twice"
ZERO: dict[str, Operator] = {}
