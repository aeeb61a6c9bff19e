"""Lowerings run after all other patterns, which would write again what they take apart."""

import pytest
from onnx import parser

import xoptim
from xoptim import Example, select
from xoptim.testing import make_all_feeds, parse, same_numbers

_LAYER = (
    '<ir_version: 8, opset_import: ["": 18]> agraph (float[a,4] x, float[4] k, float[4] c) => (float[a,4] y) '
    "{ y = LayerNormalization <epsilon = 0.001> (x, k, c) }"
)

EXAMPLES = [
    pytest.param(example, id=f"{pattern.name()}-{number}")
    for pattern in select("lower")
    for number, example in enumerate(pattern.examples, 1)
]


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


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_together(example: Example) -> None:
    """Lowerings take apart what others write, and come to an end."""
    before = parse(example.before, example.opset, example.domains)
    after = xoptim.optimize(before, patterns="lower", strict=True)
    numbers = same_numbers(before, after, make_all_feeds(before, example.ranges), "rounding")
    assert numbers.difference == ""
    assert xoptim.optimize(after, patterns="lower", strict=True) == after
