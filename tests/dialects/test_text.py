"""Rules in text form: parsing, matches, replacements, and refusals."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from tests.dialects.rules import PRODUCT, RELU, SQUARE, pair, rule
from tests.match.matching import find, refusals, rewrite
from tests.support import parse, run, types
from xoptim import optimize
from xoptim.dialects import filters
from xoptim.dialects.filters import BUILT_IN, register_filter
from xoptim.dialects.text import SETTINGS, parse_rules
from xoptim.facts.errors import TextRuleError

# -------------------------------------------------------------------- files


def test_a_file_with_comments() -> None:
    first, second = parse_rules("""# Rules { of } ours = (
<domain: "First", opset_import: ["" : 18], doc_string: "Relu → Abs

What: { y = Relu(x) }">
# f (x) => (y) {
match (x) => (y) { # y = Abs(x)
  y = Relu (x) }
<domain: "First", opset_import: ["" : 18]>   replace (x) => (y) { y = Abs (x) }

<domain: "SecondPattern", opset_import: ["" : 18]>
replace (x) => (y) { y = Cos (x) }
<domain: "SecondPattern", opset_import: ["" : 18]>
match (x) => (y) { y = Sin (x) }
""")
    assert [cls.name() for cls in (first, second)] == ["First", "Second"]
    assert [cls.__name__ for cls in (first, second)] == ["FirstPattern", "SecondPattern"]
    assert (first.arrow(), first.__doc__) == ("Relu → Abs", "Relu → Abs\n\nWhat: { y = Relu(x) }")
    assert second.arrow() == "Sin(x) → Cos(x)"
    assert [cls.priority for cls in (first, second)] == [0, 1]
    assert {(cls.exactness, cls.phase, cls.interior, cls.examples) for cls in (first, second)} == {
        ("rounding", "canonicalize", "refuse", ())
    }
    assert types(rewrite(first(), "{ t = Relu(x) y = Sin(t) }")) == ["Abs", "Sin"]
    assert types(rewrite(second(), "{ t = Relu(x) y = Sin(t) }")) == ["Relu", "Cos"]


def test_an_empty_file() -> None:
    assert parse_rules("") == []
    assert parse_rules("# nothing\n") == []


def test_settings() -> None:
    (cls,) = parse_rules(
        pair("""match (x) => (y) {
    s = rule.settings <exactness = "finite", phase = "target", priority = 7, interior = "keep",
      status = "preview"> ()
    t = rule.settings <min_opset = 13, max_opset = 20, tags = ["x", "y"], providers = "cuda",
      former_names = ["Old"]> ()
    u = rule.settings <anchors = ["Relu"]> ()
    y = Relu (x)
}""")
    )
    found = {name: getattr(cls, name) for name in SETTINGS if name != "keep_names"}
    assert found == {
        "exactness": "finite", "phase": "target", "priority": 7, "interior": "keep",
        "status": "preview", "min_opset": 13, "max_opset": 20, "tags": ("x", "y"),
        "providers": ("cuda",), "former_names": ("Old",), "anchors": ("Relu",),
    }  # fmt: skip


def test_operator_sets_that_the_replacement_needs() -> None:
    pattern = rule(RELU, "f (x) => (y) { y = Gelu (x) }")
    assert pattern.min_opset == 20
    assert rule(RELU, "f (x) => (y) { y = Gelu (x) }", min_opset=21).min_opset == 21
    assert types(rewrite(pattern, "{ y = Relu(x) }", 18)) == ["Relu"]
    assert types(rewrite(pattern, "{ y = Relu(x) }", 20)) == ["Gelu"]
    other = rule(RELU, "f (x) => (y) { y = com.microsoft.QuickGelu <alpha = 2.0> (x) }")
    assert other.produces == ("com.microsoft",)
    after = rewrite(other, "{ y = Relu(x) }")
    assert {o.domain for o in after.opset_import} == {"", "com.microsoft"}
    assert after.graph.node[0].domain == "com.microsoft"


# -------------------------------------------------------------------- constants


@pytest.mark.parametrize(
    "text",
    [
        "{ c = Constant <value_float = 2.0> () y = Pow(x, c) }",
        "{ c = Constant <value_int = 2> () y = Pow(x, c) }",
        "{ c = Constant <value = float[1] {2}> () y = Pow(x, c) }",
        "{ a = Constant <value_int = 2> () c = Cast <to = 1> (a) y = Pow(x, c) }",
        "agraph (float[N,3] x) => (y) <float[1,1] c = {2}> { y = Pow(x, c) }",
        "agraph (float16[N,3] x) => (y) <float16 c = {16384}> { y = Pow(x, c) }",
    ],
)
def test_a_number_in_every_form(text: str) -> None:
    assert find(rule(SQUARE, PRODUCT), text) is not None
    assert types(rewrite(rule(SQUARE, PRODUCT), text)) == ["Mul"]


@pytest.mark.parametrize("value", ["3.0", "2.00001", "-2.0"])
def test_another_number(value: str) -> None:
    (refusal,) = refusals(
        rule(SQUARE, PRODUCT), f"{{ c = Constant <value_float = {value}> () y = Pow(x, c) }}"
    )
    assert refusal.reason.endswith(" 2.0")


def test_a_number_as_it_is_written() -> None:
    """0.1 in 32 bits is not 0.1 in 64; what was written is meant."""
    pattern = rule("f (x) => (y) { c = Constant <value_float = 0.1> () y = Mul (x, c) }")
    assert (
        find(pattern, "agraph (double[2] x) => (y) <double c = {0.1}> { y = Mul(x, c) }")
        is not None
    )
    assert (
        find(pattern, "agraph (float[2] x) => (y) <float c = {0.1}> { y = Mul(c, x) }") is not None
    )
    assert (
        find(pattern, "agraph (float16[2] x) => (y) <float16 c = {11878}> { y = Mul(x, c) }")
        is not None
    )
    assert (
        find(pattern, "agraph (float[2] x) => (y) <float c = {0.0999756}> { y = Mul(x, c) }")
        is None
    )
    exact = rule(
        "f (x) => (y) { c = Constant <value = double {0.7978845608028654}> () y = Mul (x, c) }"
    )
    assert (
        find(
            exact, "agraph (double[2] x) => (y) <double c = {0.7978845608028654}> { y = Mul(x, c) }"
        )
        is not None
    )
    assert (
        find(exact, "agraph (double[2] x) => (y) <double c = {0.7978845608}> { y = Mul(x, c) }")
        is None
    )


def test_an_array() -> None:
    pattern = rule("f (x) => (y) { c = Constant <value = float[2] {1, 2}> () y = Mul (x, c) }")
    assert (
        find(pattern, "agraph (float[3,2] x) => (y) <float[2] c = {1, 2}> { y = Mul(c, x) }")
        is not None
    )
    assert (
        find(pattern, "agraph (float[2,2] x) => (y) <float[2,1] c = {1, 2}> { y = Mul(c, x) }")
        is None
    )
    assert (
        find(pattern, "agraph (float[3,2] x) => (y) <float[2] c = {1, 3}> { y = Mul(c, x) }")
        is None
    )


def test_a_constant_that_is_read_twice() -> None:
    """In the model it may be two constants."""
    pattern = rule(
        "f (x) => (y) { c = Constant <value_float = 2.0> () t = Mul (x, c) y = Add (t, c) }"
    )
    assert find(
        pattern,
        "{ a = Constant <value_float = 2.0> () b = Constant <value_float = 2.0> () t = Mul(x, a) "
        "y = Add(t, b) }",
    )


@pytest.mark.parametrize("dtype", ["float", "double", "float16", "int32"])
def test_numbers_of_replacements_take_the_type_of_their_neighbours(dtype: str) -> None:
    pattern = rule(
        PRODUCT,
        "f (x) => (y) { two = Constant <value_float = 2.0> () t = Abs (x) y = Mul (two, t) }",
    )
    after = rewrite(pattern, f"agraph ({dtype}[2] x) => ({dtype}[2] y) {{ y = Mul(x, x) }}")
    (two,) = after.graph.initializer
    assert two.data_type == after.graph.input[0].type.tensor_type.elem_type
    assert onnx.numpy_helper.to_array(two).shape == ()
    assert onnx.numpy_helper.to_array(two) == 2
    assert types(after) == ["Abs", "Mul"]


def test_arrays_of_replacements_stay_as_they_are() -> None:
    pattern = rule(
        RELU,
        """f (x) => (y)
          { a = Constant <value = int8[2] {1, 2}> () c = Constant <value_floats = [1.0, 2.0]> ()
            d = Cast <to = 1> (a) e = Add (c, d) f = Add (c, x) y = Mul (e, f) }""",
    )
    after = rewrite(pattern, "agraph (float[3,2] x) => (float[3,2] y) { y = Relu(x) }")
    stored = [onnx.numpy_helper.to_array(tensor) for tensor in after.graph.initializer]
    assert sorted((a.dtype.name, a.tolist()) for a in stored) == [
        ("float32", [1.0, 2.0]),
        ("int8", [1, 2]),
    ]
    (result,) = run(after, {"x": np.ones((3, 2), np.float32)})
    np.testing.assert_array_equal(result, [[4.0, 12.0]] * 3)


def test_strings_of_replacements() -> None:
    words = 'words = Constant <value_strings = ["p", "q"]> ()'
    pattern = rule(
        "f (x) => (y) { y = StringNormalizer (x) }",
        f"f (x) => (y) {{ {words} y = StringConcat (x, words) }}",
    )
    after = rewrite(
        pattern, "agraph (string[2] x) => (string[2] y) { y = StringNormalizer(x) }", 20
    )
    assert types(after) == ["StringConcat"]
    assert run(after, {"x": np.array(["a", "b"], dtype=object)})[0].tolist() == ["ap", "bq"]


def test_a_string_that_is_no_attribute() -> None:
    word = 'word = Constant <value_string = "p"> ()'
    pads = "pads = Constant <value_ints = [0, 0]> ()"
    pattern = rule(
        "f (x) => (y) { y = StringNormalizer (x) }",
        f"f (x) => (y) {{ {word} {pads} y = Pad (x, pads, word) }}",
    )
    text = "agraph (string[2] x) => (string[2] y) { y = StringNormalizer(x) }"
    assert types(rewrite(pattern, text)) == ["Pad"]


def test_a_constant_as_a_result() -> None:
    pattern = rule(
        "f (x) => (y) { y = Size (x) }", "f (x) => (y) { y = Constant <value_int = 6> () }"
    )
    after = rewrite(pattern, "agraph (float[2,3] x) => (int64 y) { y = Size(x) }")
    np.testing.assert_array_equal(run(after, {"x": np.ones((2, 3), np.float32)})[0], 6)


def test_an_operand_as_a_result() -> None:
    for replace in ("f (x) => (y) { y = Identity (x) }", "f (x) => (x) { }"):
        pattern = rule("f (x) => (y) { t = Neg (x) y = Neg (t) }", replace)
        assert types(rewrite(pattern, "{ a = Neg(x) b = Neg(a) y = Relu(b) }")) == ["Relu"]


# -------------------------------------------------------------------- attributes

ELU = "f <alpha: float = 3.0> (x) => (y) { y = custom.Elu <alpha: float = @alpha> (x) }"
TO_ELU = "f <alpha: float = 3.0> (x) => (y) { y = ThresholdedRelu <alpha: float = @alpha> (x) }"


@pytest.mark.parametrize(("written", "expected"), [("<alpha = 2.0>", 2.0), ("", 3.0)])
def test_attributes_are_handed_over(written: str, expected: float) -> None:
    after = rewrite(rule(ELU, TO_ELU), f"{{ y = custom.Elu {written} (x) }}", domains={"custom": 1})
    (node,) = after.graph.node
    assert (node.op_type, [a.f for a in node.attribute]) == ("ThresholdedRelu", [expected])


def test_the_default_of_the_schema_comes_first() -> None:
    pattern = rule(ELU.replace("custom.", ""), TO_ELU)
    (node,) = rewrite(pattern, "{ y = Elu (x) }").graph.node
    assert [a.f for a in node.attribute] == [1.0]


def test_an_attribute_without_default_must_be_there() -> None:
    pattern = rule(ELU.replace(": float = 3.0", "", 1), TO_ELU.replace(": float = 3.0", "", 1))
    domains = {"custom": 1}
    assert find(pattern, "{ y = custom.Elu <alpha = 2.0> (x) }", domains=domains) is not None
    assert find(pattern, "{ y = custom.Elu (x) }", domains=domains) is None


def test_an_attribute_that_is_written_twice() -> None:
    match = "f <a: float = 1.0> (x) => (y) { t = c.F <a = @a> (x) y = c.F <a = @a> (t) }"
    pattern = rule(match, "f <a: float = 1.0> (x) => (y) { y = c.G <a = @a> (x) }")
    for first, second, fits in ((2, 2, True), (2, 3, False)):
        found = find(
            pattern,
            f"{{ t = c.F <a = {first}.0> (x) y = c.F <a = {second}.0> (t) }}",
            domains={"c": 1},
        )
        assert (found is not None) == fits
    for text, fits in (("<a = 1.0>", True), ("<a = 2.0>", False)):
        found = find(pattern, f"{{ t = c.F (x) y = c.F {text} (t) }}", domains={"c": 1})
        assert (found is not None) == fits


def test_attributes_that_are_not_mentioned_have_their_default() -> None:
    pattern = rule(
        "f (x, w, b) => (y) { y = Gemm (x, w, b) }", "f (x, w, b) => (y) { y = Sum (x, w, b) }"
    )
    assert find(
        pattern,
        "agraph (float[2,2] x, float[2,2] w, float[2] b) => (y) { "
        "y = Gemm <alpha = 1.0> (x, w, b) }",
    )
    for attributes in ("transA = 1", "alpha = 2.0"):
        body = f"{{ y = Gemm <{attributes}> (x, w, b) }}"
        (refusal,) = refusals(
            pattern, f"agraph (float[2,2] x, float[2,2] w, float[2] b) => (y) {body}"
        )
        assert "default" in refusal.reason


def test_a_tensor_as_an_attribute() -> None:
    pattern = rule(
        "f (x) => (y) { y = ConstantOfShape <value = int64[1] {3}> (x) }",
        "f (x) => (y) { y = Cast <to = 7> (x) }",
    )
    graph = "agraph (int64[1] x) => (y) { y = ConstantOfShape <value = %s> (x) }"
    assert find(pattern, graph % "int64[1] {3}") is not None
    assert find(pattern, graph % "int64[1] {4}") is None
    assert find(pattern, graph % "int32[1] {3}") is None


def test_strings_of_a_tensor_as_an_attribute() -> None:
    encoder = "y = ai.onnx.ml.LabelEncoder <keys_tensor = string[1] {%s}> (x)"
    pattern = rule(f"f (x) => (y) {{ {encoder} }}" % '"low"', "f (x) => (y) { y = Identity (x) }")
    graph = f"agraph (string[1] x) => (y) {{ {encoder} }}"
    assert find(pattern, graph % '"low"') is not None
    assert find(pattern, graph % '"top"') is None


AXES = (
    "axes = Constant <value_ints = [-1]> () t = ReduceMean (x, axes)",
    "t = ReduceMean <axes = [-1]> (x)",
)


@pytest.mark.parametrize("match", AXES)
@pytest.mark.parametrize("replace", AXES)
@pytest.mark.parametrize(("opset", "model"), [(13, AXES[1]), (18, AXES[0])])
def test_attributes_that_became_inputs(match: str, replace: str, opset: int, model: str) -> None:
    pattern = rule(
        f"f (x) => (y) {{ {match} y = Neg (t) }}", f"f (x) => (y) {{ {replace} y = Abs (t) }}"
    )
    before = parse(f"agraph (float[2,3] x) => (float[2,1] y) {{ {model} y = Neg (t) }}", opset)
    after = optimize(before, patterns=[pattern], constant_folding=False)
    assert [t for t in types(after) if t != "Constant"] == ["ReduceMean", "Abs"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(run(after, {"x": x})[0], -run(before, {"x": x})[0])


def test_numbers_that_became_inputs() -> None:
    low = "low = Constant <value_float = 0.1> () high = Constant <value_float = 6.0> ()"
    pattern = rule(
        f"f (x) => (y) {{ {low} y = Clip (x, low, high) }}",
        "f (x) => (y) { t = Clip <min = 0.1, max = 6.0> (x) y = Neg (t) }",
    )
    for opset, text in (
        (10, "agraph (float[2] x) => (float[2] y) { y = Clip <min = 0.1, max = 6.0> (x) }"),
        (
            13,
            (
                "agraph (float[2] x) => (float[2] y) <float a = {0.1}, float b = {6}> { "
                "y = Clip(x, a, b) }"
            ),
        ),
        (
            13,
            (
                "agraph (float16[2] x) => (float16[2] y) <float16 a = {11878}, "
                "float16 b = {17920}> { y = Clip(x, a, b) }"
            ),
        ),
    ):
        after = optimize(parse(text, opset), patterns=[pattern], constant_folding=False, max_iter=1)
        assert types(after) == ["Clip", "Neg"]
        assert len(after.graph.node[0].input) == (1 if opset == 10 else 3)
    for body in ("y = Clip(x, , b)", "y = Clip(x, a)", "y = Clip(x, b, a)", "y = Clip(x)"):
        assert (
            find(
                pattern,
                f"agraph (float[2] x) => (y) <float a = {{0.1}}, float b = {{6}}> {{ {body} }}",
            )
            is None
        )


def test_an_operand_that_is_omitted() -> None:
    pattern = rule("f (x, m) => (y) { y = Clip (x, , m) }", "f (x, m) => (y) { y = Min (x, m) }")
    assert find(pattern, "{ y = Clip(x, , z) }") == {"x": "x", "m": "z", "y": "y"}
    assert find(pattern, "{ y = Clip(x, z, z) }") is None


# -------------------------------------------------------------------- results and names


def test_several_results() -> None:
    pattern = rule(
        "f (x) => (a, b) { a, i = TopK <k = 2> (x) b = Neg (a) }",
        "f (x) => (p, q) { t = Abs (x) p, i = TopK <k = 2> (t) q = Neg (p) }",
    )
    after = rewrite(
        pattern,
        "agraph (float[4] x) => (a, b) { a, i = TopK <k = 2> (x) b = Neg (a) }",
        9,
        max_iter=1,
    )
    assert types(after) == ["Abs", "TopK", "Neg"]
    assert [o.name for o in after.graph.output] == ["a", "b"]
    assert (
        find(pattern, "agraph (float[4] x) => (a, b, i) { a, i = TopK <k = 2> (x) b = Neg (a) }", 9)
        is None
    )


def test_results_that_are_read_elsewhere() -> None:
    match = "f (x) => (y) { t = Abs (x) y = Neg (t) }"
    text = "agraph (float[2] x) => (y, z) { t = Abs(x) y = Neg(t) z = Exp(t) }"
    assert find(rule(match), text) is None
    kept = rewrite(rule(match, interior="keep"), text)
    assert sorted(types(kept)) == ["Abs", "Exp", "Relu"]


NAMED = "agraph (float[2] x) => (float[2] y) { [first] t = Abs(x) [second] y = Neg(t) }"


def _named_model() -> onnx.ModelProto:
    model = parse(NAMED)
    for node in model.graph.node:
        node.metadata_props.add(key="source", value=f"line of {node.name}")
    return model


def _names(model: onnx.ModelProto) -> list[tuple[str, str, str]]:
    return [
        (n.op_type, n.name, {p.key: p.value for p in n.metadata_props}.get("source", ""))
        for n in model.graph.node
    ]


def test_names_that_are_kept() -> None:
    match, replace = (
        "f (x) => (y) { t = Abs (x) y = Neg (t) }",
        "f (x) => (z) { u = Exp (x) z = Log (u) }",
    )
    pattern = rule(match, replace, value_name_pairs=[("u", "t"), ("z", "y")])
    after = optimize(_named_model(), patterns=[pattern])
    assert _names(after) == [("Exp", "first", "line of first"), ("Log", "second", "line of second")]
    crossed = rule(match, replace, value_name_pairs=[("z", "t"), ("u", "t")])
    exp, log = _names(optimize(_named_model(), patterns=[crossed]))
    assert log == ("Log", "first", "line of first")
    assert exp[1] not in ("", "first", "second")
    assert exp[2] == "line of first"


@pytest.mark.parametrize("pairs", [[("q", "t")], [("u", "q")], [("x", "t")]])
def test_pairs_of_unknown_results(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(TextRuleError, match=r"value_name_pairs: .*'[qx]' .*'(match|replace)'"):
        rule(
            "f (x) => (y) { t = Abs (x) y = Neg (t) }",
            "f (x) => (z) { u = Exp (x) z = Log (u) }",
            value_name_pairs=pairs,
        )


def test_names_that_are_kept_when_asked() -> None:
    match = "match (x) => (y) { %s t = Abs (x) y = Neg (t) }"
    replace = "replace (x) => (y) { t = Exp (x) y = Log (t) }"
    (asked,) = parse_rules(pair(match % "s = rule.settings <keep_names = 1> ()", replace))
    assert [name for _, name, _ in _names(optimize(_named_model(), patterns=[asked]))] == [
        "first",
        "second",
    ]
    (silent,) = parse_rules(pair(match % "", replace))
    assert silent.rule.origins == {}


def test_the_name_of_a_node_that_stays_is_not_given_away() -> None:
    pattern = rule(
        "f (x) => (y) { t = Abs (x) y = Neg (t) }", "f (x) => (y) { u = Exp (x) y = Log (u) }",
        value_name_pairs=[("u", "t"), ("y", "y")], interior="keep",
    )  # fmt: skip
    model = parse(
        "agraph (float[2] x) => (y, z) { [first] t = Abs(x) [second] y = Neg(t) z = Exp(t) }"
    )
    names = {node.output[0]: node.name for node in optimize(model, patterns=[pattern]).graph.node}
    assert names["t"] == "first"
    assert names["y"] == "second"
    assert len(set(names.values())) == 4


# -------------------------------------------------------------------- filters

FILTERS: dict[str, tuple[list[str], list[str]]] = {
    "is_constant": (["(c)", "(c, k)"], ["(x)", "(c, x)"]),
    "is_variable": (["(x)", "(x, y)"], ["(c)", "(x, c)"]),
    "is_constant_scalar": (["(k)", "<value = 2.0> (k)"], ["(c)", "(x)", "<value = 3.0> (k)"]),
    "has_type": (["(x)", '<types = ["float"]> (x)'], ["(u)", '<types = ["double", "int64"]> (x)']),
    "is_float": (["(x)", "(x, c)"], ["(i)", "(u)"]),
    "is_integer": (["(i)"], ["(x)", "(u)", "(i, x)"]),
    "has_rank": (["(x)", "<rank = 2> (x)"], ["<rank = 3> (x)", "(u)"]),
    "has_shape": (
        ["(x)", "<shape = [-1, 3]> (x)", "<shape = [3]> (c)"],
        ["(u)", "<shape = [3]> (x)", "<shape = [2, 3]> (x)"],
    ),
    "static_shape": (["(c)"], ["(x)", "(u)", "(c, x)"]),
    "same_shape": (["(x, i)", "(x, i, x)"], ["(x, c)", "(u, u)", "(x, i, c)"]),
    "same_rank": (["(x, i)"], ["(x, c)", "(u, u)"]),
    "same_type": (["(x, c)"], ["(x, i)", "(u, u)", "(x, c, i)"]),
    "is_exclusive": (["(i)"], ["(x)", "(y)"]),
    "is_output": (["(y)"], ["(x)", "(y, x)"]),
    "is_no_output": (["(x, c)"], ["(y)", "(x, y)"]),
    "equal": (["<a = @f, b = 2.0> ()"], ["<a = @f, b = 3.0> ()"]),
    "differ": (["<a = @f, b = 3.0> ()"], ["<a = @f, b = 2.0> ()"]),
}
FILTERED = """agraph (float[N,3] x, int64[N,3] i, u) => (float[N,3] y) <float[3]
  c = {1, 2, 3}, float k = {2}>
    { a = Add(x, x) t = c.F <f = 2.0> (x, c, k, i, u) s = Add(t, x) y = Relu(s) z = Neg(y) }"""


def test_all_filters_are_tried() -> None:
    assert FILTERS.keys() == BUILT_IN.keys()


@pytest.mark.parametrize("name", BUILT_IN)
def test_filters(name: str) -> None:
    fitting, others = FILTERS[name]
    for asked, fits in [*((text, True) for text in fitting), *((text, False) for text in others)]:
        match = (
            "t = c.F <f = @f> (x, c, k, i, u) s = Add (t, x) y = Relu (s) "
            f"ok = filter.{name} {asked}"
        )
        pattern = rule(
            f"f <f> (x, c, k, i, u) => (y) {{ {match} }}",
            "f <f> (x, c, k, i, u) => (y) { y = Neg (x) }",
        )
        assert (find(pattern, FILTERED, domains={"c": 1}) is not None) == fits, asked


def test_a_filter_that_says_no_is_named() -> None:
    pattern = rule(
        "f (x, z) => (y) {\n"
        " y = Pow (x, z)\n"
        " ok = filter.same_shape (x, z)\n"
        " also = filter.is_float (x) }",
        "f (x, z) => (y) { y = Sum (x, z) }",
    )
    (refusal,) = refusals(pattern, "agraph (float[2] x, float[1] z) => (y) { y = Pow(x, z) }")
    assert refusal.exit_point == "pattern:3"
    assert " same_shape(x, z) " in refusal.reason
    (refusal,) = refusals(pattern, "agraph (int64[2] x, int64[2] z) => (y) { y = Pow(x, z) }")
    assert " is_float(x) " in refusal.reason


@pytest.fixture
def _registry() -> Iterator[None]:
    before = dict(filters._REGISTERED)
    yield
    filters._REGISTERED.clear()
    filters._REGISTERED.update(before)


@pytest.mark.usefixtures("_registry")
def test_filters_of_ones_own() -> None:
    calls: list[tuple[Any, ...]] = []

    def longer(g: Any, m: Any, x: str, *, than: int) -> bool:
        calls.append((m["x"], m.alpha, x, than))
        return bool(g.get_shape(x)[-1] > than)

    register_filter("longer", longer)
    pattern = rule(
        "f <alpha> (x) => (y) { t = Abs (x) y = Elu <alpha = @alpha> (t) "
        "ok = filter.longer <than = 4> (t) }",
        "f <alpha> (x) => (y) { y = Relu (x) }",
    )
    assert find(pattern, "agraph (float[2,5] a) => (y) { t = Abs(a) y = Elu(t) }") is not None
    assert find(pattern, "agraph (float[2,4] a) => (y) { t = Abs(a) y = Elu(t) }") is None
    assert calls == [("a", 1.0, "t", 4)] * 2
    register_filter("longer", lambda g, m, x, than: True)
    for name, error in (("is_float", "built in"), ("two words", "cannot be the name")):
        with pytest.raises(ValueError, match=error):
            register_filter(name, longer)


def test_filters_in_python() -> None:
    asked: list[str] = []

    def first(g: Any, m: Any) -> bool:
        asked.append("first")
        return bool(g.has_type(m.x))

    def second(g: Any, m: Any) -> bool:
        asked.append("second")
        return bool(m.x != "x")

    pattern = rule(RELU, PRODUCT, filters=[first, second])
    assert find(pattern, "{ y = Relu(x) }") is None
    assert find(pattern, "{ y = Relu(z) }") is not None
    assert asked == ["first", "second"] * 2
    (refusal,) = refusals(pattern, "{ y = Relu(x) }")
    assert " second " in refusal.reason
