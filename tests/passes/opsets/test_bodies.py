import pytest

from tests.passes.opsets.raised import numbers
from tests.support import load, node_of, parse, same_results
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.passes.opsets.bodies import calls_of_body
from xoptim.passes.opsets.call import Refused
from xoptim.passes.opsets.plan import replace_by_calls


@pytest.mark.parametrize(
    ("call", "opset"),
    [
        ("Celu <alpha = 2.0> (x)", 28),
        ("Gelu (x)", 20),
        ('Gelu <approximate = "tanh"> (x)', 20),
        ("HardSwish (x)", 22),
        ("Swish <alpha = 0.5> (x)", 24),
        ("RMSNormalization (x, s)", 23),
        ("LayerNormalization <epsilon = 0.01> (x, s)", 17),
        ("LayerNormalization <epsilon = 0.01> (x, s, s)", 18),
    ],
)
def test_functions_of_operators(call: str, opset: int) -> None:
    text = f"agraph (float[2,4] x, float[4] s) => (float[2,4] y) {{ y = {call} }}"
    before = parse(text, opset)
    model = load_model(before)
    (node,) = model.graph.nodes
    replace_by_calls(node, calls_of_body(node))
    after = export_model(model)
    assert len(after.graph.node) > 1
    same_results(before, after, {"x": numbers(2, 4), "s": numbers(4)})


@pytest.mark.parametrize(
    ("text", "opset", "expected"),
    [
        ("agraph (float[n] x) => (float[n] y) { y = Cos (x) }", 20, "Cos"),
        ("agraph (float[n] x) => (float[n] y) { y = Shrink (x) }", 13, "Shrink"),
        ("agraph (float[n] x) => (float[m] y) { y = Range (x, x, x) }", 18, "subgraphs"),
    ],
)
def test_operators_without_a_usable_function(text: str, opset: int, expected: str) -> None:
    model = load(text, opset)
    with pytest.raises(Refused, match=expected):
        calls_of_body(next(iter(model.graph.nodes)))


def test_types_on_which_a_function_depends() -> None:
    text = """agraph (float[n] x) => (float[n] y) { y = own.f (x) }
    <domain: "own", opset_import: ["" : 20]> f (x) => (y) { y = Gelu (x) }"""
    model = load(text, 20, domains={"own": 1})
    (function,) = model.functions
    with pytest.raises(Refused, match="type of 'x'"):
        calls_of_body(node_of(function.body, "Gelu"))


def test_a_value_that_the_caller_gives() -> None:
    text = """agraph (float[n] x) => (float[n] y) { y = own.f <a = 2.0> (x) }
    <domain: "own",
      opset_import: ["" : 24]> f <a> (x) => (y) { y = Swish <alpha: float = @a> (x) }"""
    model = load(text, 24, domains={"own": 1})
    (function,) = model.functions
    with pytest.raises(Refused, match=r" a .* caller"):
        calls_of_body(node_of(function.body, "Swish"))
