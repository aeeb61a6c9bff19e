"""Seed 004, the subgraph rewriter of TorchScript: its examples and rules of behaviour, said in ONNX
text.

The sections are those of the document: rewriting subgraphs, lexing, building the subgraph,
matching, replacing, trying it out.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import load, parse, run, same_results, types
from xoptim import optimize, read_rules, rewrite_rule
from xoptim.api.rules import SubgraphRewriter
from xoptim.dialects.text import parse_rules
from xoptim.dialects.text_function import parse_functions, read_function
from xoptim.facts.errors import TextRuleError
from xoptim.match.view import GraphView

RULES = Path(__file__).parents[2] / "examples" / "rules"
SQUARE = "graph (x) => (out) { const_2 = Constant <value = float {2}> ()  out = Pow (x, const_2) }"
PRODUCT = "graph (x) => (out) { out = Mul (x, x) }"


def matches(pattern: Any, text: str, domains: dict[str, int] | None = None) -> list[list[str]]:
    """Operators' results of each match, in the order of the anchors."""
    graph = load(text, domains=domains).graph
    view = GraphView(graph)
    found = (pattern.match(view, node, []) for node in graph.nodes)
    return [[n.output[0] for n in match.nodes] for match in found if match is not None]


# ------------------------------------------------------ rewriting subgraphs (子图重写)


def test_unpack_addmm() -> None:
    """The excerpt of Torch-TensorRT: addmm(b, x, w, beta, alpha) is a Gemm, beta and alpha are its
    attributes.
    """
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        """graph <beta, alpha> (b, x, w) => (out) {
             out = Gemm <alpha: float = @alpha, beta: float = @beta> (x, w, b) }""",
        """graph <beta, alpha> (b, x, w) => (out) {
             a = Constant <value_float: float = @alpha> ()
             c = Constant <value_float: float = @beta> ()
             mm = MatMul (x, w)  scaled = Mul (mm, a)
             bias = Mul (b, c)
             out = Add (scaled, bias) }""",
        name="UnpackAddMM",
    )
    model = parse(
        "agraph (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y) { "
        "y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b) }"
    )
    after = rewriter.run(model)
    assert types(after) == ["MatMul", "Mul", "Mul", "Add"]
    random = np.random.default_rng(0)
    same_results(
        model,
        after,
        {
            "x": random.random((2, 3), "f"),
            "w": random.random((3, 4), "f"),
            "b": random.random(4, "f"),
        },
    )


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", ["MatMul", "Add"]),
        ("alpha = 2.0", ["MatMul", "Mul", "Mul", "Add"]),
        ("transA = 1", ["Gemm"]),
        ("transB = 1", ["Gemm"]),
    ],
)
def test_our_example_of_addmm(attributes: str, expected: list[str]) -> None:
    rewriter_rules = read_rules(RULES / "addmm.onnxtxt")
    model = parse(
        "agraph (float[3,3] x, float[3,3] w, float[3] b) => (float[3,3] y) { "
        f"y = Gemm <{attributes}> (x, w, b) }}".replace("<>", "")
    )
    from_rules = _run(rewriter_rules, model)
    assert types(from_rules) == expected
    random = np.random.default_rng(0)
    same_results(
        model,
        from_rules,
        {
            "x": random.random((3, 3), "f"),
            "w": random.random((3, 3), "f"),
            "b": random.random(3, "f"),
        },
    )


def _run(rules: list[Any], model: onnx.ModelProto) -> onnx.ModelProto:
    return optimize(model, patterns=rules, constant_folding=False, merge=False)


# -------------------------------------------------------------------- lexing (词法分析)


def test_tokens() -> None:
    """Numbers, text in quotes, identifiers and the signs between them."""
    text = (
        "graph (x_1) => (y) { y = custom.Op <number = 3.14159, whole = -2, "
        'text = "OpenMMLab is so \\"cool\\"!!!"> (x_1) }'
    )
    (source,) = parse_functions(text, "file")
    (call,) = read_function(source, "match").calls
    assert call.attributes == {
        "number": pytest.approx(3.14159),
        "whole": -2,
        "text": 'OpenMMLab is so "cool"!!!',
    }
    assert (call.domain, call.op_type, call.inputs, call.outputs) == (
        "custom",
        "Op",
        ("x_1",),
        ("y",),
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("graph (x => (y) { y = Abs (x) }", "1:10"),
        ("graph (x) -> (y) { y = Abs (x) }", "1:11"),
        ("graph (x) => (y) {\n  y = Abs (x }", "2:14"),
        ("graph (x) => (y) {\n  # comment\n  y Abs (x) }", "3:5"),
        ('graph (x) => (y) { y = Abs <a = "open> (x) }', "1:45"),
    ],
)
def test_an_unexpected_token_is_an_error_with_its_place(text: str, where: str) -> None:
    """``expect(kind)`` fails when the next token is not of that kind."""
    with pytest.raises(TextRuleError, match=rf"^pattern:{where}: "):
        rewrite_rule(text, PRODUCT)


# ------------------------------------------------------ building the subgraph (子图构建)


def test_parse_graph_inputs_operators_and_return() -> None:
    text = """graph (b, x, w) => (out) {
      mm = MatMul (x, w)
      out = custom.add <alpha = 2> (b, mm) }"""
    side = read_function(parse_functions(text, "file")[0], "match")
    assert side.inputs == ("b", "x", "w")
    assert [(c.outputs, c.domain, c.op_type, c.inputs, c.place.line) for c in side.calls] == [
        (("mm",), "", "MatMul", ("x", "w"), 2),
        (("out",), "custom", "add", ("b", "mm"), 3),
    ]
    assert side.outputs == ("out",)


def test_vmap_knows_values_by_their_names() -> None:
    """Operands and returned values are looked up among the names that were defined before."""
    pattern = rewrite_rule(
        "graph (x, w) => (out) { mm = MatMul (x, w)  out = Relu (mm) }",
        "graph (x, w) => (out) { out = MatMul (x, w) }",
    )()
    graph = load(
        "agraph (float[2,2] p, float[2,2] q) => (float[2,2] s) { r = MatMul(p, q) s = Relu(r) }"
    ).graph
    view = GraphView(graph)
    match = next(
        (m for m in (pattern.match(view, node, []) for node in graph.nodes) if m is not None), None
    )
    assert match is not None
    assert match.bindings == {"x": "p", "w": "q", "mm": "r", "out": "s"}
    for body, what in (
        ("out = Relu (mm)", "operand 'mm'"),
        ("ou = Relu (x)", "unknown result 'out'"),
    ):
        with pytest.raises(TextRuleError, match=what):
            rewrite_rule(f"graph (x) => (out) {{ {body} }}", PRODUCT)


# -------------------------------------------------------------------- matching (子图匹配)

CHAIN = (
    "graph (x) => (c) { w = Constant <value = float[2] {1, 2}> ()  a = Mul (x, w)  b = Relu (a)  "
    "c = Sigmoid (b) }"
)
FIGURE = """agraph (float[3,2] x) => (float[3,2] n12) <float[2] weight = {1, 2}, float[2]
  other = {1, 3}>
{
    n1 = Mul (x, weight)   n2 = Relu (n1)  n3 = Sigmoid (n2)
    n4 = Mul (n3, other)   n5 = Relu (n4)  n6 = Sigmoid (n5)
    n7 = Neg (n6)  n8 = Exp (n7)  n9 = Mul (n8, weight)  n10 = Relu (n9)  n11 = Tanh (n10)
    n12 = Sigmoid (n11)
}"""


def test_the_figure() -> None:
    """Each node is the anchor once.

    Node 6 fails because of the weight, node 12 because of what is before it.
    """
    pattern = rewrite_rule(CHAIN, "graph (x) => (c) { c = Tanh (x) }")()
    assert matches(pattern, FIGURE) == [["n1", "n2", "n3"]]


@pytest.mark.parametrize(
    ("match", "model", "fits"),
    [
        ("y = c.F (x, x)", "y = c.F(x, x)", True),
        ("y = c.F (x, x)", "y = c.F(x, z)", False),
        ("y = c.F (x, x)", "y = c.F(x)", False),
        ("y = c.F (x)", "y = c.F(x, x)", False),
        ("y = c.F (x)", "y = c.G(x)", False),
        ("y = c.F (x)", "y = F(x)", False),
        ("y = c.F (x)", "y, q = c.F(x)", True),
        ("y, q = c.F (x)", "y = c.F(x)", False),
        ("y = c.F <a = 1> (x)", "y = c.F <a = 1> (x)", True),
        ("y = c.F <a = 1> (x)", "y = c.F <a = 2> (x)", False),
        ("y = c.F <a = 1> (x)", "y = c.F (x)", False),
        ("y = c.F (x)", "y = c.F <a = 1> (x)", False),
    ],
)
def test_kind_counts_and_attributes_are_compared(match: str, model: str, fits: bool) -> None:
    pattern = rewrite_rule(f"graph (x) => (y) {{ {match} }}", "graph (x) => (y) { y = Neg (x) }")()
    found = matches(pattern, f"agraph (float[2] x, float[2] z) => (y) {{ {model} }}", {"c": 1})
    assert bool(found) == fits


def test_all_matches_are_found() -> None:
    pattern = rewrite_rule(
        "graph (x) => (y) { t = Exp (x)  y = Exp (t) }", PRODUCT.replace("out", "y")
    )()
    text = (
        "agraph (float[2] x) => (float[2] d, float[2] f) { a = Exp(x) b = Exp(a) c = Neg(b) "
        "e = Exp(c) d = Neg(x) f = Exp(e) }"
    )
    assert sorted(matches(pattern, text)) == [["a", "b"], ["e", "f"]]


# -------------------------------------------------------------------- replacing (子图替换)


def test_value_name_pairs() -> None:
    """RegisterRewritePattern takes pairs that map nodes of the replacement to those of the
    pattern.
    """
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(SQUARE, PRODUCT, value_name_pairs=[("out", "out")])
    model = parse(
        "agraph (float[2] x) => (float[2] y) <float two = {2}> { [squared] y = Pow(x, two) }"
    )
    model.graph.node[0].metadata_props.add(key="source", value="rewriter_test.py:5")
    (node,) = rewriter.run(model).graph.node
    assert (node.op_type, node.name) == ("Mul", "squared")
    assert {p.key: p.value for p in node.metadata_props}["source"] == "rewriter_test.py:5"


def test_registration_can_be_repeated_and_order_counts() -> None:
    """A first rule may replace nodes that a later rule would have matched."""
    to_tanh = ("graph (x) => (y) { y = Relu (x) }", "graph (x) => (y) { y = Tanh (x) }")
    to_exp = ("graph (x) => (y) { t = Relu (x)  y = Neg (t) }", "graph (x) => (y) { y = Exp (x) }")
    model = parse("agraph (float[2] x) => (float[2] y) { t = Relu(x) y = Neg(t) }")
    for rules, expected in (((to_tanh, to_exp), ["Tanh", "Neg"]), ((to_exp, to_tanh), ["Exp"])):
        rewriter = SubgraphRewriter()
        for match, replace in rules:
            rewriter.register_rewrite(match, replace)
        assert len(rewriter.patterns) == 2
        assert types(rewriter.run(model)) == expected


@pytest.mark.parametrize(
    ("answers", "expected"), [((True, True), "Mul"), ((True, False), "Pow"), ((False, True), "Pow")]
)
def test_all_filters_must_agree(answers: tuple[bool, bool], expected: str) -> None:
    """Matching and checking: all MatchFilters are satisfied."""
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        SQUARE, PRODUCT, filters=[lambda g, m: answers[0], lambda g, m: answers[1]]
    )
    model = parse("agraph (float[2] x) => (float[2] y) <float two = {2}> { y = Pow(x, two) }")
    assert types(rewriter.run(model)) == [expected]


def test_a_match_does_not_use_what_an_earlier_match_used() -> None:
    """Matching and checking: no node is in two matches."""
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        "graph (x) => (y) { t = Exp (x)  y = Exp (t) }", "graph (x) => (y) { y = Cos (x) }"
    )
    model = parse("agraph (float[2] x) => (float[2] c) { a = Exp(x) b = Exp(a) c = Exp(b) }")
    assert sorted(types(rewriter.run(model))) == ["Cos", "Exp"]


def test_the_replacement_stands_where_it_can_run() -> None:
    """Matching and checking: the insertion point comes after all operands, and before all
    readers.
    """
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        "graph (x, w) => (p, q) { p = Exp (x)  q = Mul (x, w) }",
        "graph (x, w) => (p, q) { t = Concat <axis = 0> (x, w)  p, q = custom.Both (t) }",
    )
    body = (
        "agraph (float[2] x, float[2] z) => (r, q) { p = Exp(x) r = Neg(p) w = Abs(z) "
        "q = Mul(x, w) }"
    )
    after = rewriter.run(parse(body, domains={"custom": 1}))
    assert sorted(types(after)) == ["Abs", "Both", "Concat", "Neg"]
    defined = {"x", "z"}
    for node in after.graph.node:
        assert set(node.input) <= defined
        defined |= set(node.output)
    # Here w is computed from p: there is no such place.
    body = "agraph (float[2] x) => (q) { p = Exp(x) w = Abs(p) q = Mul(x, w) }"
    assert types(rewriter.run(parse(body, domains={"custom": 1}))) == ["Exp", "Abs", "Mul"]


def test_rewriting_and_deleting() -> None:
    """Readers of the old results read the new ones, the old nodes are gone, inputs and outputs are
    as they were.
    """
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(SQUARE, PRODUCT)
    model = parse(
        "agraph (float[2] x) => (float[2] y, float[2] z) <float two = {2}> { y = Pow(x, two) "
        "t = Neg(y) z = Add(t, y) }"
    )
    after = rewriter.run(model)
    assert types(after) == ["Mul", "Neg", "Add"]
    assert [list(node.input) for node in after.graph.node[1:]] == [["y"], ["t", "y"]]
    assert not after.graph.initializer
    assert (after.graph.input, after.graph.output) == (model.graph.input, model.graph.output)
    same_results(model, after, {"x": np.array([3, -4], np.float32)})


# -------------------------------------------------------------------- trying it out (试一试)

POWERS = """agraph (float[1,2,3,4] x_1) => (float[1,2,3,4] r4)
{
    r1 = Constant <value = int64 {2}> ()
    x = Pow (x_1, r1)
    r3 = Constant <value = int64 {3}> ()
    r4 = Pow (x, r3)
}"""


def test_squares_become_products_and_cubes_stay() -> None:
    rewriter = SubgraphRewriter()
    rewriter.register_rewrite(
        """
    graph (x) => (out)
    {
        const_2 = Constant <value = int64 {2}> ()
        out = Pow (x, const_2)
    }
""",
        """
    graph (x) => (out)
    {
        out = Mul (x, x)
    }
""",
    )
    model = parse(POWERS)
    after = rewriter.run(model)
    assert types(after) == ["Mul", "Constant", "Pow"]
    assert list(after.graph.node[0].input) == ["x_1", "x_1"]
    same_results(model, after, {"x_1": np.random.default_rng(0).random((1, 2, 3, 4), "f")})


def test_our_example_of_squares() -> None:
    (rule,) = parse_rules((RULES / "square.onnxtxt").read_text(encoding="utf-8"), "square.onnxtxt")
    after = _run([rule], parse(POWERS))
    assert types(after) == ["Mul", "Constant", "Pow"]
    x = np.random.default_rng(0).random((1, 2, 3, 4), "f")
    np.testing.assert_allclose(run(after, {"x_1": x})[0], x**6, rtol=1e-5)
