"""Lowerings run after all other patterns, which would write again what they take apart."""

from onnx import parser

import xoptim
from xoptim import select

_LAYER = (
    '<ir_version: 8, opset_import: ["": 18]> agraph (float[a,4] x, float[4] k, float[4] c) => (float[a,4] y) '
    "{ y = LayerNormalization <epsilon = 0.001> (x, k, c) }"
)


def _operators(patterns: str, text: str = _LAYER) -> list[str]:
    model = parser.parse_model(text)
    return [node.op_type for node in xoptim.optimize(model, patterns=patterns, strict=True).graph.node]


def test_they_are_in_no_preset() -> None:
    names = {pattern.name() for pattern in select("all")}
    assert not any(name.startswith("Lower") for name in names)
    assert _operators("default+onnxruntime") == ["LayerNormalization"]


def test_one_beside_the_pattern_that_undoes_it() -> None:
    wanted = ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]
    assert _operators("LowerLayerNormalization") == wanted
    assert _operators("default+LowerLayerNormalization") == wanted


def test_what_is_fused_first_is_lowered_then() -> None:
    formula = (
        '<ir_version: 8, opset_import: ["": 18]> agraph (float[a,4] x) => (float[a,4] y) '
        "<float two = {2}, float e = {0.001}, int64[1] i = {-1}> { m = ReduceMean(x, i) d = Sub(x, m) q = Pow(d, two) "
        "v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) y = Div(d, s) }"
    )
    assert _operators("default", formula) == ["LayerNormalization"]
    assert "LayerNormalization" not in _operators("default+LowerLayerNormalization", formula)
