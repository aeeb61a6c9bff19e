"""Lowerings run after all other patterns, which would write again what they take apart."""

import numpy as np
import pytest
from onnx import ModelProto, parser

import xoptim
from tests.support import run
from xoptim import Example, installed_patterns, select
from xoptim.testing import make_all_feeds, parse, same_numbers
from xoptim.testing.variant import all_nodes

_LAYER = (
    '<ir_version: 8, opset_import: ["": 18]> agraph (float[a,4] x, float[4] k, float[4] c) =>'
    " (float[a,4] y) { y = LayerNormalization <epsilon = 0.001> (x, k, c) }"
)

EXAMPLES = [
    pytest.param(example, id=f"{pattern.name()}-{number}")
    for pattern in select("lower")
    for number, example in enumerate(pattern.examples, 1)
]


def _operators(patterns: str, text: str = _LAYER) -> list[str]:
    model = parser.parse_model(text)
    return [
        node.op_type for node in xoptim.optimize(model, patterns=patterns, strict=True).graph.node
    ]


def test_they_are_in_no_preset() -> None:
    names = {pattern.name() for pattern in select("all")}
    assert not any(name.startswith("Lower") for name in names)
    assert _operators("default+onnxruntime") == ["LayerNormalization"]


def test_one_next_to_the_pattern_that_undoes_it() -> None:
    wanted = ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]
    assert _operators("LowerLayerNormalization") == wanted
    assert _operators("default+LowerLayerNormalization") == wanted


def test_what_is_fused_first_is_lowered_then() -> None:
    formula = (
        '<ir_version: 8, opset_import: ["": 18]> agraph (float[a,4] x) => (float[a,4] y) <float two'
        " = {2}, float e = {0.001}, int64[1] i = {-1}> { m = ReduceMean(x, i) d = Sub(x, m) q ="
        " Pow(d, two) v = ReduceMean(q, i) w = Add(v, e) s = Sqrt(w) y = Div(d, s) }"
    )
    assert _operators("default", formula) == ["LayerNormalization"]
    assert "LayerNormalization" not in _operators("default+LowerLayerNormalization", formula)


def _run(example: Example, patterns: str) -> ModelProto:
    before = parse(example.before, example.opset, example.domains)
    after = xoptim.optimize(before, patterns=patterns, strict=True)
    numbers = same_numbers(before, after, make_all_feeds(before, example.ranges), "rounding")
    assert numbers.difference == ""
    return after


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_together(example: Example) -> None:
    """Lowerings take apart what others write, and come to an end."""
    after = _run(example, "lower")
    assert xoptim.optimize(after, patterns="lower", strict=True) == after


_FUSED = {
    *(
        ("", "Attention"),
        ("com.microsoft", "MultiHeadAttention"),
        ("", "RotaryEmbedding"),
        ("", "LayerNormalization"),
    ),
    *(
        ("", "RMSNormalization"),
        ("", "SimplifiedLayerNormalization"),
        ("com.microsoft", "SkipLayerNormalization"),
    ),
    *(
        ("com.microsoft", "SkipSimplifiedLayerNormalization"),
        ("com.microsoft", "FusedMatMul"),
        ("", "Gelu"),
    ),
    ("com.microsoft", "LinearAttention"),
    *(("com.microsoft", "Gelu"), ("com.microsoft", "BiasGelu"), ("com.microsoft", "FastGelu")),
    *(
        ("com.microsoft", "QuickGelu"),
        ("", "HardSigmoid"),
        ("", "Softplus"),
        ("", "Softsign"),
        ("", "ThresholdedRelu"),
    ),
}
"""Operators that patterns write, and lowerings take apart in every form."""
_WRITERS = [
    c
    for c in installed_patterns().values()
    if c.phase != "lower" and c.family() in ("attention", "rotary", "activations")
]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [pytest.param(c, id=c.name()) for c in _WRITERS])
def test_all_that_our_patterns_write_is_lowered(pattern: type[xoptim.PatternOptimization]) -> None:
    for example in pattern.examples:
        before = parse(example.after, example.opset, example.domains)
        after = xoptim.optimize(before, patterns="lower", strict=True)
        assert {(node.domain, node.op_type) for node in all_nodes(after)} & _FUSED == set()


def test_a_window_of_attention_stays() -> None:
    for name in ("left", "right"):
        call = f"Attention <{name}_window_size = 1> (q, q, q)"
        text = (
            '<ir_version: 13, opset_import: ["": 25]> agraph (float[1,2,5,4] q) => (float[1,2,5,4]'
            f" y) {{ y = {call} }}"
        )
        assert _operators("LowerAttention", text) == ["Attention"]
        assert "Softmax" in _operators("LowerAttention", text.replace("= 1>", "= -1>"))


def test_two_names_of_an_operator_are_not_written_in_turn() -> None:
    """Alone each does its work, together with the formula this comes first, and of the pair one
    does its work once.
    """
    text = (
        '<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]> agraph (float[a] x) =>'
        " (float[a] y) { y = Gelu(x) }"
    )
    both = "GeluToContrib+GeluToStandard"
    assert _operators("GeluToContrib", text) == ["Gelu"]
    assert "Erf" in _operators("lower", text)
    changed = xoptim.optimize(parser.parse_model(text), patterns=both, strict=True)
    assert changed.graph.node[0].domain == "com.microsoft"
    assert xoptim.optimize(changed, patterns=both, strict=True) == changed


def test_unique_promises_the_same_results_without_nan_only() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> agraph (float[n] x) => '
        "(float[k] y, int64[n] i, int64[k] c) { y, i, c = com.microsoft.Unique(x) }"
    )
    after = xoptim.optimize(model, patterns="LowerContribUnique", strict=True)
    assert not after.graph.node[0].domain
    (pattern,) = select("LowerContribUnique")
    values = np.array([np.nan, 1, np.nan], np.float32)
    results = [run(m, {"x": values})[0] for m in (model, after)]
    assert len(results[0]) == len(results[1]) or pattern.exactness == "finite"


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_after_all_others(example: Example) -> None:
    _run(example, "default+onnxruntime+lower")
