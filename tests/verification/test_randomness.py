"""Outputs that depend on random operators without a seed."""

import re

import onnx
import pytest

from tests.support import parse
from xoptim import verify
from xoptim.verification.judging.randomness import may_drop, random_output

RANDOM = {
    "an operator": "r = RandomNormalLike(x) y = Add(x, r)",
    "a subgraph": """c = Constant <value = bool {1}> ()
        y = If (c) <then_branch = t () => (float[n] a) { a = RandomNormalLike(x) },
                    else_branch = e () => (float[n] b) { b = Identity(x) }>""",
    "a capture": """r = RandomUniformLike(x) c = Constant <value = bool {1}> ()
        y = If (c) <then_branch = t () => (float[n] a) { a = Identity(r) },
                    else_branch = e () => (float[n] b) { b = Identity(x) }>""",
}
STEADY = {
    "with a seed": "r = RandomNormalLike <seed = 1.0> (x) y = Add(x, r)",
    "only its shape": "r = RandomNormalLike(x) s = Shape(r) f = Cast <to = 1> (s) y = Add(x, f)",
    "nothing reads it": "r = RandomNormalLike(x) y = Neg(x)",
}


def model(nodes: str) -> onnx.ModelProto:
    return parse(f"agraph (float[n] x) => (float[n] y) {{ {nodes} }}")


@pytest.mark.parametrize("nodes", RANDOM.values(), ids=RANDOM)
def test_equal_models_that_drew_the_same_numbers(nodes: str) -> None:
    """ONNX Runtime seeds such operators by their position in the graph."""
    report = verify(model(nodes), model(nodes))
    assert report.ok
    assert re.match("output 'y': Random.*Like .*; both ", report.notes[-1])


@pytest.mark.parametrize("nodes", STEADY.values(), ids=STEADY)
def test_outputs_that_are_not_random(nodes: str) -> None:
    assert random_output(model(nodes)) == ""
    report = verify(model(nodes), model(nodes))
    assert report.ok
    assert not report.notes


def test_other_outputs_are_still_compared() -> None:
    text = """agraph (float[n] x) => (float[n] y, float[n] z) {
        r = RandomNormalLike(x) y = Add(x, r) z = Neg(x) }"""
    report = verify(parse(text), parse(text.replace("Neg", "Abs")))
    assert report.status == "not verified"
    assert random_output(parse(text)).startswith("output 'y': RandomNormalLike ")


def test_functions_that_draw() -> None:
    text = """<ir_version: 10, opset_import: ["": 20, "l": 1]>
        agraph (float[n] x) => (float[n] z, float[n] y) { z = l.plain(x) y = l.outer(x) }
        <domain: "l", opset_import: ["": 20, "l": 1]> outer (u) => (v) { v = l.noisy(u) }
        <domain: "l", opset_import: ["": 20]> noisy (u) => (v) { v = RandomNormalLike(u) }
        <domain: "l", opset_import: ["": 20]> plain (u) => (v) { v = Neg(u) }"""
    found = random_output(onnx.parser.parse_model(text))
    assert found.startswith("output 'y': RandomNormalLike ")
    named = text.replace("noisy", "RandomNormalLike").replace("v = RandomNormalLike", "v = Abs")
    assert random_output(onnx.parser.parse_model(named)) == "", "a function takes precedence"


def test_sections() -> None:
    text = "r = RandomNormalLike(x) t = Neg(r) y = Add(x, t)"
    report = verify(model(text), model(text), sections=True)
    assert report.ok
    assert "both models drew" in report.notes[-1]


def test_elements_that_a_dropout_drops_are_no_noise() -> None:
    """Only some values of the ratio drop elements: noise would excuse the difference."""
    text = """agraph (float[n,4] x, float ratio) => (float[n,4] y) <bool t = {1}>
    { y = Dropout <seed = 3> (x, ratio, t) }"""
    original = parse(text)
    changed = parse(text.replace("Dropout <seed = 3> (x, ratio, t)", "Identity(x)"))
    assert may_drop(original)
    assert not may_drop(changed)
    assert verify(original, changed).status != "equal"
