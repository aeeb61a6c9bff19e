# mypy: disable-error-code="comparison-overlap"
"""Patterns in one line: OpSub, OpRemove, PatternSub."""

import re
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from tests.match.matching import find, refusals, rewrite
from tests.support import load, node_of, parse, same_results, types, values_in
from xoptim import Example, optimize
from xoptim.catalogue.discovery import patterns_of
from xoptim.dialects import OpRemove, OpSub, PatternSub
from xoptim.dialects.shortcuts import capture
from xoptim.match import ANY
from xoptim.match.trace import AnyOf
from xoptim.testing import check_example

X = "agraph (float[N,3] x, float[N,3] z) => (float[N,3] y)"
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) + 1, "z": np.full((2, 3), 2, np.float32)}


def refusal(pattern: Any, text: str, opset: int = 18) -> str:
    """The reason of all refusals."""
    (reason,) = {found.reason for found in refusals(pattern(), text, opset)}
    return reason


# ---------------------------------------------------------------- OpSub and OpRemove


def test_op_sub_keeps_operands_attributes_and_results() -> None:
    after = rewrite(OpSub("Elu", "LeakyRelu")(), f"{X} {{ y = Elu <alpha = 0.5> (x) }}")
    (node,) = after.graph.node
    assert (node.op_type, node.input, node.output, node.attribute[0].f) == (
        "LeakyRelu",
        ["x"],
        ["y"],
        0.5,
    )
    text = "agraph (float[4] x) => (float[m] y, float[m] z) { y, z = Split <num_outputs = 2> (x) }"
    after = rewrite(OpSub("Split", "acme::Cut")(), text)
    (node,) = after.graph.node
    assert (node.op_type, node.domain, node.output) == ("Cut", "acme", ["y", "z"])
    assert [o.domain for o in after.opset_import] == ["", "acme"]
    back = rewrite(
        OpSub("acme::Cut", "ai.onnx::Split")(),
        text.replace("Split", "acme.Cut"),
        domains={"acme": 1},
    )
    (node,) = back.graph.node
    assert (node.op_type, node.domain, node.output, node.attribute[0].i) == (
        "Split",
        "",
        ["y", "z"],
        2,
    )


def test_op_sub_with_operands_and_results_omitted() -> None:
    after = rewrite(OpSub("Clip", "acme::Limit")(), f"{X} <float k = {{1}}> {{ y = Clip(x, , k) }}")
    assert after.graph.node[0].input == ["x", "", "k"]


def test_op_sub_refuses_what_the_other_operator_does_not_take() -> None:
    assert re.match(
        "Relu .*'alpha'", refusal(OpSub("Elu", "Relu"), "{ y = Elu <alpha = 0.5> (x) }")
    )
    assert types(rewrite(OpSub("Elu", "Relu")(), f"{X} {{ y = Elu(x) }}")) == ["Relu"]
    text = "{ c = Cast <to = 9> (x) y = Where(c, x, z) }"
    assert re.match("Add .* 3 operands", refusal(OpSub("Where", "Add"), text))
    text = "agraph (float[4] x) => (y) { y, z = Split <num_outputs = 2> (x) }"
    assert re.match("Relu .* 2 results", refusal(OpSub("Split", "Relu"), text))
    assert types(rewrite(OpSub("Max", "Sum")(), f"{X} {{ y = Max(x, z, x) }}")) == ["Sum"]


def test_op_remove() -> None:
    assert types(rewrite(OpRemove("Relu")(), f"{X} {{ a = Relu(x) y = Neg(a) }}")) == ["Neg"]
    assert types(
        rewrite(
            OpRemove("acme::Probe")(),
            f"{X} {{ a = acme.Probe(x) y = Neg(a) }}",
            domains={"acme": 1},
        )
    ) == ["Neg"]
    text = (
        "agraph (float[2] x, float[2] z) => (float[2] y) { a, b = acme.Pair(x, z) y = Sub(b, a) }"
    )
    after = rewrite(OpRemove("acme::Pair")(), text, domains={"acme": 1})
    assert [(node.op_type, node.input) for node in after.graph.node] == [("Sub", ["z", "x"])]


def test_op_remove_refuses() -> None:
    assert values_in(refusal(OpRemove("Add"), "{ y = Add(x, z) }")) == ["2", "1"]
    assert "another type" in refusal(OpRemove("Cast"), "{ y = Cast <to = 11> (x) }")
    assert "another shape" in refusal(OpRemove("Transpose"), "{ y = Transpose(x) }")
    assert "remove_identity" in refusal(OpRemove("Identity"), "{ y = Identity(x) }")
    assert types(rewrite(OpRemove("Cast")(), f"{X} {{ a = Cast <to = 1> (x) y = Neg(a) }}")) == [
        "Neg"
    ]


@pytest.mark.parametrize(
    "make",
    [lambda: OpSub("", "Add"), lambda: OpSub("Add", 3), lambda: OpRemove("acme::")],  # type: ignore[arg-type]
)
def test_operators_have_names(make: Any) -> None:
    with pytest.raises(TypeError, match="operator"):
        make()


# ---------------------------------------------------------------- PatternSub


def test_variables() -> None:
    cancel = PatternSub(("Div", ("Mul", "x", "y"), "y"), "x")
    for product in ("Mul(x, z)", "Mul(z, x)"):
        after = rewrite(cancel(), f"{X} {{ p = {product} d = Div(p, z) y = Neg(d) }}")
        assert [(node.op_type, node.input) for node in after.graph.node] == [("Neg", ["x"])]
    assert find(cancel(), "{ p = Mul(x, z) y = Div(z, p) }") is None
    assert find(cancel(), "{ p = Mul(x, x) y = Div(p, z) }") is None


def test_a_variable_must_have_the_type_and_shape_of_the_result() -> None:
    cancel = PatternSub(("Sub", ("Add", "a", "b"), "b"), "a")
    assert find(cancel(), "{ s = Add(x, z) y = Sub(s, z) }") is not None
    text = "agraph (float[1] x, float[n] z) => (y) { s = Add(x, z) y = Sub(s, z) }"
    assert re.match("'x' .*shape .*'y'", refusal(cancel, text))
    column = (
        "agraph (bool[2,3] t, float[2,1] x) => (y) { i = NonZero(t) j = Cast <to = 1> (i) "
        "s = Add(x, j)"
    )
    assert re.match("'x' .*shape .*'y'", refusal(cancel, f"{column} y = Sub(s, j) }}"))
    assert find(cancel(), f"{column} y = Sub(s, x) }}") is not None
    cast = PatternSub(("Cast", "x", {"to": 11}), "x")
    assert re.match("'x' .*type", refusal(cast, "{ y = Cast <to = 11> (x) }"))


def test_nested_replacements_and_domains() -> None:
    rule = PatternSub(("acme::Twice", ("Neg", "x")), ("Neg", ("Add", "x", "x")))
    after = rewrite(rule(), f"{X} {{ a = Neg(x) y = acme.Twice(a) }}", domains={"acme": 1})
    assert types(after) == ["Add", "Neg"]
    made = PatternSub(("Add", "x", "x"), ("test::Twice", ("acme::Id", "x")))
    assert made.produces == ("acme", "test")
    assert [node.domain for node in rewrite(made(), f"{X} {{ y = Add(x, x) }}").graph.node] == [
        "acme",
        "test",
    ]


def test_literals() -> None:
    rule = PatternSub(("Add", ("Mul", "x", 2.0), 1), ("Sub", ("Mul", "x", 2), -1.0))
    text = f"{X} <float two = {{2}}, float one = {{1}}> {{ a = Mul(two, x) y = Add(one, a) }}"
    after = rewrite(rule(), text)
    assert types(after) == ["Mul", "Sub"]
    same_results(parse(text), after, {"x": FEEDS["x"], "z": FEEDS["z"]})
    array = np.array([1, 2, 3], np.float32)
    by_array = PatternSub(("Mul", "x", array), ("Mul", ("Neg", "x"), -array))
    text = f"{X} <float[3] k = {{1, 2, 3}}> {{ y = Mul(x, k) }}"
    same_results(parse(text), rewrite(by_array(), text, max_iter=1), FEEDS)
    assert by_array.arrow() == "Mul(x, [1.0, 2.0, 3.0]) → Mul(Neg(x), [-1.0, -2.0, -3.0])"


def test_operands_that_are_absent() -> None:
    rule = PatternSub(("Clip", "x", None, "high"), ("Min", "x", "high"))
    assert types(rewrite(rule(), f"{X} <float k = {{1}}> {{ y = Clip(x, , k) }}")) == ["Min"]
    assert find(rule(), f"{X} <float k = {{1}}> {{ y = Clip(x, k, k) }}") is None
    back = PatternSub(("Min", "x", "high"), ("Clip", "x", None, "high"))
    assert rewrite(back(), f"{X} <float k = {{1}}> {{ y = Min(x, k) }}").graph.node[0].input == [
        "x",
        "",
        "k",
    ]
    assert rule.arrow() == "Clip(x, -, high) → Min(x, high)"


def test_attributes() -> None:
    rule = PatternSub(
        ("Neg", ("Softmax", "x", {"axis": capture("a")})),
        ("LogSoftmax", "x", {"axis": capture("a")}),
    )
    after = rewrite(rule(), f"{X} {{ s = Softmax <axis = 0> (x) y = Neg(s) }}")
    assert [(n.op_type, n.attribute[0].i) for n in after.graph.node] == [("LogSoftmax", 0)]
    assert rule.arrow() == "Neg(Softmax(x, axis=a)) → LogSoftmax(x, axis=a)"
    for wanted, found in (
        (1, False), (0, True), (AnyOf((0, 2)), True), (lambda axis: axis < 0, False), (ANY, True),
        (capture("a", lambda axis: axis == 0), True), (capture("a", lambda axis: axis == 1), False),
    ):  # fmt: skip
        pattern = PatternSub(("Softmax", "x", {"axis": wanted}), ("Hardmax", "x"))
        assert (find(pattern(), "{ y = Softmax <axis = 0> (x) }") is not None) == found
    plain = PatternSub(("Softmax", "x"), ("Hardmax", "x"))
    assert find(plain(), "{ y = Softmax <axis = 0> (x) }") is None, (
        "an attribute that is not mentioned has its default"
    )
    assert find(plain(), "{ y = Softmax <axis = -1> (x) }") is not None
    assert (
        PatternSub(("Softmax", "x", {"axis": AnyOf((0, 2))}), "x").arrow()
        == "Softmax(x, axis=0|2) → x"
    )


def test_all_attributes_at_once() -> None:
    rest = {"attributes": capture("rest")}
    rule = PatternSub(("Relu", ("Conv", "x", "w", rest)), ("acme::ConvRelu", "x", "w", rest))
    conv = "Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)"
    text = f"agraph (float[1,3,8,8] x, float[4,3,3,3] w) => (y) {{ c = {conv} y = Relu(c) }}"
    (node,) = rewrite(rule(), text).graph.node
    assert {a.name: list(a.ints) for a in node.attribute} == {
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
    }
    assert rule.arrow() == "Relu(Conv(x, w)) → acme::ConvRelu(x, w)"


def test_what_became_an_input_is_an_attribute() -> None:
    rule = PatternSub(
        ("Neg", ("ReduceSum", "x", {"axes": capture("axes")})),
        ("ReduceMean", "x", {"axes": capture("axes")}),
    )
    for opset in (13, 18):
        text = f"{X[:-3]}t) <int64[1] k = {{1}}> {{ s = ReduceSum(x, k) t = Neg(s) }}"
        after = rewrite(rule(), text, opset)
        assert types(after) == ["ReduceMean"]
        assert len(after.graph.node[0].input) == (1 if opset == 13 else 2)


def test_constraints_on_results() -> None:
    seen: list[str] = []

    def is_small(g: Any, name: str) -> bool:
        seen.append(name)
        return bool(g.get_rank(name) == 2)

    inner = {"pattern": ("Neg", {"pattern": "x", "constraint": is_small}), "constraint": is_small}
    rule = PatternSub(("Abs", inner), ("Abs", "x"))
    assert types(rewrite(rule(), f"{X} {{ n = Neg(x) y = Abs(n) }}")) == ["Abs"]
    assert {"n", "x"} <= set(seen)
    flat = "agraph (float[N] x) => (float[N] y) { n = Neg(x) y = Abs(n) }"
    assert "constraint on x" in refusal(rule, flat)
    whole = PatternSub(
        {"pattern": ("Neg", "x"), "constraint": lambda g, name: name == "y"}, ("Floor", "x")
    )
    assert types(rewrite(whole(), f"{X} {{ n = Neg(x) y = Neg(n) }}")) == ["Neg", "Floor"]
    assert whole.arrow() == "Neg(x) → Floor(x)"


def test_a_constraint_that_is_refused_makes_the_search_go_on() -> None:
    rule = PatternSub(
        ("Add", {"pattern": "a", "constraint": lambda g, name: name == "z"}, "b"), ("Sub", "a", "b")
    )
    assert rewrite(rule(), f"{X} {{ y = Add(x, z) }}").graph.node[0].input == ["z", "x"]


def test_a_constraint_on_the_whole() -> None:
    rule = PatternSub(
        ("Mul", "x", "y"), "x", constraint=lambda g, m: g.is_constant_scalar(m.y, 1.0)
    )
    assert types(rewrite(rule(), f"{X} <float one = {{1}}> {{ a = Mul(x, one) y = Neg(a) }}")) == [
        "Neg"
    ]
    assert "the constraint " in refusal(rule, "{ y = Mul(x, z) }")


def test_refusals_name_the_line_of_the_call() -> None:
    rule = PatternSub(("Abs", ("Neg", "x")), "x")
    (found,) = refusals(rule(), "{ a = Neg(x) b = Exp(a) y = Abs(b) }")
    assert found.file == __file__
    assert found.pattern == "NegAbs"
    assert re.search("Neg.* Exp$", found.reason)
    with open(__file__, encoding="utf-8") as file:
        assert "rule = PatternSub" in file.read().splitlines()[found.line - 1]


def test_a_constant_takes_the_type_and_shape_of_the_result() -> None:
    zero = PatternSub(("Sub", "x", "x"), 0)
    for dtype in ("float", "double", "int64", "float16"):
        for shape in ("", "2,3"):
            text = (
                f"agraph ({dtype}[{shape}] x) => ({dtype}[{shape}] y) {{ a = Sub(x, x) "
                "y = Add(x, a) }"
            )
            text = text.replace("[]", "")
            after = optimize(parse(text), patterns=zero, strict=True, tag_nodes=False)
            assert types(after) == ["Add"], "one of many elements is computed ahead"
            assert after.graph.initializer[0].dims == ([] if not shape else [2, 3])
    open_shape = f"{X} {{ y = Sub(x, x) }}"
    assert types(rewrite(zero(), open_shape)) == ["Sub"], "nothing tells what to fill"
    half = PatternSub(("Sub", "x", "x"), 0.5)
    assert types(rewrite(half(), "agraph (int64[2] x) => (int64[2] y) { y = Sub(x, x) }")) == [
        "Sub"
    ], "no int64"
    array = PatternSub(("Sub", "x", "x"), np.zeros(2, np.float32))
    assert array.arrow() == "Sub(x, x) → [0.0, 0.0]"
    assert (
        "y"
        in rewrite(array(), "agraph (float[2] x) => (float[2] y) { y = Sub(x, x) }")
        .graph.node[0]
        .output
    )
    truth = PatternSub(("Equal", "x", "x"), True)
    after = optimize(
        parse("agraph (int64[2] x) => (bool[2] y) { a = Equal(x, x) y = Not(a) }"),
        patterns=truth,
        strict=True,
    )
    assert types(after) == ["Constant"], "the output depends on a constant only"
    assert onnx.numpy_helper.to_array(after.graph.node[0].attribute[0].t).tolist() == [False, False]


def test_results_in_between_that_are_read_elsewhere() -> None:
    text = f"{X[:-1]}, float[N,3] p) {{ p = Mul(x, z) a = Div(p, z) y = Neg(a) }}"
    refusing = PatternSub(("Div", ("Mul", "x", "y"), "y"), "x")
    keeping = PatternSub(("Div", ("Mul", "x", "y"), "y"), "x", interior="keep")
    assert types(rewrite(refusing(), text)) == ["Mul", "Div", "Neg"]
    assert types(rewrite(keeping(), text)) == ["Mul", "Neg"]


def test_associative_operators() -> None:
    rule = PatternSub(
        ("Add", "a", ("Neg", "b"), "c", {"associative": True}), ("Sub", ("Add", "a", "c"), "b")
    )
    text = (
        "agraph (float[3] x, float[3] z, float[3] w) => (float[3] y) { n = Neg(z) s = Add(n, w) "
        "y = Add(x, s) }"
    )
    assert types(rewrite(rule(), text, max_iter=1)) == ["Add", "Sub"]
    assert rule.arrow() == "Add(a, Neg(b), c) → Sub(Add(a, c), b)"


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ((), "x", "looks for an operator|begins with an operator"),
        ("x", "x", "looks for an operator with operands"),
        (("Add", "x", "y"), "z", "'z' is not a variable of the expression to match"),
        (("Add", "x", "y"), ("Neg", "z"), "'z' is not a variable"),
        (("Add", "x", ()), "x", "begins with an operator"),
        (("Add", "x", (3, "y")), "x", "begins with an operator"),
        (("Add", "x", ("l::", "y")), "x", "begins with an operator"),
        (("Add", "x y", "y"), "y", "'x y' is not the name of a variable"),
        (("Add", {"axis": 1}, "y"), "y", "attributes stand at the end"),
        (("Add", "x", object()), "x", "cannot stand in an expression"),
        (("Add", "x", {1: 2}), "x", "1 is not the name of an attribute"),
        (("Add", "x", "y"), {"pattern": "x", "constraint": len}, "only an expression to match"),
        (("Add", "x", {"pattern": "y"}), "x", "an expression with a constraint is"),
        (
            ("Add", "x", {"pattern": 2, "constraint": len}),
            "x",
            "an expression with a constraint is",
        ),
        (
            ("Add", "x", {"pattern": "y", "constraint": 3}),
            "x",
            "an expression with a constraint is",
        ),
        (("Neg", "x"), ("Softmax", "x", {"axis": capture("a")}), "'a' is not captured"),
        (
            ("Neg", "x"),
            ("Softmax", "x", {"axis": ANY}),
            "attribute 'axis' of Softmax needs a value",
        ),
        (("Neg", "x"), ("Softmax", "x", {"axis": AnyOf((1, 2))}), "needs a value"),
        (("Neg", "x"), None, "cannot stand in an expression"),
    ],
)
def test_mistakes(left: Any, right: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        PatternSub(left, right)


def test_mistakes_in_metadata() -> None:
    with pytest.raises(TypeError, match=r"'colour'; .* after, anchors, "):
        OpSub("Add", "Mul", colour="red")
    with pytest.raises(TypeError, match=r"exactness .*'fine'"):
        OpRemove("Add", exactness="fine")
    with pytest.raises(TypeError, match=r"tags .*\('mine',\)"):
        PatternSub(("Neg", "x"), "x", tags="mine")
    with pytest.raises(TypeError, match="phase"):
        PatternSub(("Neg", "x"), "x", phase="late")
    with pytest.raises(TypeError, match=r"interior .*'keep' .*'refuse'"):
        PatternSub(("Neg", "x"), "x", interior="maybe")  # type: ignore[arg-type]


# ---------------------------------------------------------------- they are patterns


def test_names_and_metadata() -> None:
    assert OpSub("Add", "acme::Mul").__name__ == "AddToMulPattern"
    assert OpSub("Add", "acme::Mul").produces == ("acme",)
    assert OpSub("Add", "Mul").arrow() == "Add(...) → Mul(...)"
    assert OpRemove("Identity").name() == "RemoveIdentity"
    assert PatternSub(("Div", ("Mul", "x", "y"), "y"), "x").name() == "MulDiv"
    assert PatternSub(("Div", ("Mul", "x", "y"), "y"), "x").arrow() == "Div(Mul(x, y), y) → x"
    for made in (OpSub("Add", "Mul"), OpRemove("Add"), PatternSub(("Neg", "x"), "x")):
        assert made.exactness == "rounding"
        assert made.__module__ == __name__
    chosen = PatternSub(
        ("Neg", "x"), "x", name="MinePattern", phase="specialize", priority=3, exactness="finite",
        tags=["mine"], min_opset=13, max_opset=20, providers=("cuda",), status="preview",
    )  # fmt: skip
    assert chosen.name() == "Mine"
    assert (chosen.phase, chosen.priority, chosen.exactness, chosen.tags) == (
        "specialize",
        3,
        "finite",
        ("mine",),
    )
    assert (chosen.min_opset, chosen.max_opset, chosen.providers, chosen.status) == (
        13,
        20,
        ("cuda",),
        "preview",
    )


def test_a_pack_may_hold_them_at_module_level() -> None:
    module = ModuleType("acme_pack")
    source = "from xoptim.dialects import *\n"
    source += (
        "Cancel = PatternSub(('Div', ('Mul', 'x', 'y'), 'y'), 'x')\nOther = OpSub('Add', 'Mul')\n"
    )
    exec(source, vars(module))
    assert {cls.name() for cls in patterns_of(module)} == {"MulDiv", "AddToMul"}


def test_examples_are_proved() -> None:
    example = Example(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) u = Neg(t) y = Abs(u) }",
        "agraph (float[a] x) => (float[a] y) { y = Abs(x) }",
    )
    rule = PatternSub(("Neg", ("Neg", "x")), "x", exactness="exact", examples=[example])
    assert rule.examples == (example,)
    check_example(rule, example)


def test_two_patterns_of_one_form_do_not_share_what_is_compiled() -> None:
    first, second = PatternSub(("Neg", "x"), ("Abs", "x")), PatternSub(("Neg", "x"), ("Floor", "x"))
    assert types(rewrite(first(), f"{X} {{ y = Neg(x) }}")) == ["Abs"]
    assert types(rewrite(second(), f"{X} {{ y = Neg(x) }}")) == ["Floor"]
    model = load(f"{X} {{ y = Neg(x) }}")
    assert first().anchor_keys() == {("", node_of(model, "Neg").op_type)}
