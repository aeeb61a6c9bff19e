"""Values of two models are equal where the models are; they differ where one of them is changed."""

import numpy as np
import onnx
import pytest

from tests.support import load, parse
from xoptim.graph.load import load_model
from xoptim.proof.chain import Chain
from xoptim.proof.indices import Unproved

BODY = """(float[N] x, bool c) => (float[N] y) { y = If (c) <then_branch = t () => (float[N] p) {
    a = Exp(x) b = Exp(x) s = Add(a, b) p = Neg(s) },
    else_branch = e () => (float[N] q) { q = Abs(x) }> }"""
LOOP = """(float[N] x, int64 n) => (float[N] y) {
    c = Constant <value_int = 1> () t = Cast <to = 9> (c)
    y = Loop (n, t, x) <body = b (int64 i, bool k, float[N] v) => (bool kk, float[N] w) {
    kk = Identity(k) r = RESULT(v) w = Neg(r) }> }"""
SCALED = "(float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}, float s = {3}>"

EQUAL = (
    (
        "dead code and an Identity",
        "(float[N] x) => (float[N] y) { a = Exp(x) d = Neg(a) i = Identity(a) y = Sin(i) }",
        "(float[N] x) => (float[N] y) { b = Exp(x) y = Sin(b) }",
    ),
    (
        "equal nodes, whose operands may be swapped",
        "(float[N] x, float[N] z) => (float[N] y) { a = Add(x, z) b = Add(z, x) y = Mul(a, b) }",
        "(float[N] x, float[N] z) => (float[N] y) { a = Add(x, z) y = Mul(a, a) }",
    ),
    (
        "a constant that is computed",
        SCALED + "{ v = Mul(w, s) u = Neg(v) y = Add(x, u) }",
        "(float[N,4] x) => (float[N,4] y) <float[4] u = {-3, -6, -9, -12}> { y = Add(x, u) }",
    ),
    (
        "a constant that is written as nodes",
        "(float[N,4] x) => (float[N,4] y) <float[4] u = {3, 6, 9, 12}> { y = Add(x, u) }",
        SCALED + "{ u = Mul(w, s) y = Add(x, u) }",
    ),
    (
        "a default that is written",
        "(float[N,4] x) => (float[N,4] y) { y = Softmax(x) }",
        "(float[N,4] x) => (float[N,4] y) { y = Softmax <axis = -1> (x) }",
    ),
    (
        "sizes that are equal polynomials",
        """(float[N,M] x) => (int64[2] y) { s = Shape(x) n = Shape <end = 1> (x)
        m = Shape <start = 1> (x) a = Mul(n, m) b = Add(a, n) y = Concat <axis = 0> (b, m) }""",
        """(float[N,M] x) => (int64[2] y) <int64[1] one = {1}> { n = Shape <end = 1> (x)
        m = Shape <start = 1> (x) a = Add(m, one) b = Mul(a, n) y = Concat <axis = 0> (b, m) }""",
    ),
    (
        "an unread result",
        "(float[N,4] x) => (float[N,1] y) <int64[1] k = {1}> { y, i = TopK(x, k) }",
        "(float[N,4] x) => (float[N,1] y) <int64[1] k = {1}> { y = TopK(x, k) }",
    ),
    (
        "equal nodes of a branch, and the subgraphs without names",
        BODY,
        BODY.replace("b = Exp(x) s = Add(a, b)", "s = Add(a, a)").replace("q", "other"),
    ),
    (
        "a branch that reads a node of the graph",
        BODY,
        """(float[N] x, bool c) => (float[N] y) { a = Exp(x)
        y = If (c) <then_branch = t () => (float[N] p) { s = Add(a, a) p = Neg(s) },
        else_branch = e () => (float[N] q) { q = Abs(x) }> }""",
    ),
    (
        "a loop",
        LOOP.replace("RESULT", "Exp"),
        LOOP.replace("RESULT(v)", "Exp(u)").replace("float[N] v", "float[N] u"),
    ),
    (
        "random numbers of one node",
        "(float[N] x) => (float[N] y) { r = RandomNormalLike(x) d = Sub(r, r) y = Add(x, d) }",
        "(float[N] x) => (float[N] y) { r = RandomNormalLike(x) d = Sub(r, r) y = Add(d, x) }",
    ),
)

DIFFERENT = (
    (
        "swapped operands",
        "(float[N] x, float[N] z) => (float[N] y) { y = Sub(x, z) }",
        "(float[N] x, float[N] z) => (float[N] y) { y = Sub(z, x) }",
    ),
    (
        "the operands of a Max, which decide whether the maximum of 0 and -0 is 0",
        "(float[N] x, float[N] z) => (float[N] y) { y = Max(x, z) }",
        "(float[N] x, float[N] z) => (float[N] y) { y = Max(z, x) }",
    ),
    (
        "an attribute",
        "(float[N,N] x) => (float[N,N] y) { y = Softmax <axis = 0> (x) }",
        "(float[N,N] x) => (float[N,N] y) { y = Softmax <axis = 1> (x) }",
    ),
    (
        "a constant of the same name",
        SCALED + "{ v = Mul(w, s) y = Add(x, v) }",
        "(float[N,4] x) => (float[N,4] y) <float[4] v = {3, 6, 9, 13}> { y = Add(x, v) }",
    ),
    (
        "the sign of a zero",
        "(float[N] x) => (float[N] y) <float z = {0}> { y = Add(x, z) }",
        "(float[N] x) => (float[N] y) <float z = {-0.0}> { y = Add(x, z) }",
    ),
    (
        "sizes",
        "(float[N,M] x) => (int64[1] y) { y = Shape <end = 1> (x) }",
        "(float[N,M] x) => (int64[1] y) { y = Shape <start = 1> (x) }",
    ),
    (
        "the element types of equal integers",
        "(float[N,4] x) => (int64[1] y) <int64[1] a = {1}> { y = Identity(a) }",
        "(float[N,4] x) => (int32[1] y) <int32[1] a = {1}> { y = Identity(a) }",
    ),
    ("the body of a branch", BODY, BODY.replace("Abs", "Relu")),
    (
        "the branches in the other order",
        BODY,
        BODY.replace("then_", "_").replace("else_", "then_").replace("<_", "<else_"),
    ),
    ("the body of a loop", LOOP.replace("RESULT", "Exp"), LOOP.replace("RESULT", "Sin")),
    (
        "two random numbers",
        "(float[N] x) => (float[N] y) { r = RandomNormalLike(x) y = Sub(r, r) }",
        """(float[N] x) => (float[N] y) { r = RandomNormalLike(x) s = RandomNormalLike(x)
        y = Sub(r, s) }""",
    ),
    (
        "the number of parts",
        "(float[12] x) => (float[A] y) { y, b = Split(x) }",
        "(float[12] x) => (float[A] y) { y, b, c = Split(x) }",
    ),
    (
        "another input",
        "(float[N] x, float[N] z) => (float[N] y) { y = Exp(x) }",
        "(float[N] x, float[N] z) => (float[N] y) { y = Exp(z) }",
    ),
)


def _differing(before: str, after: str, opset: int = 17) -> list[str]:
    return Chain(load(before, opset)).differing(load(after, opset))


@pytest.mark.parametrize(("title", "before", "after"), EQUAL, ids=[case[0] for case in EQUAL])
def test_equal(title: str, before: str, after: str) -> None:
    assert _differing(f"g {before}", f"g {after}") == [], title


@pytest.mark.parametrize(
    ("title", "before", "after"), DIFFERENT, ids=[case[0] for case in DIFFERENT]
)
def test_different(title: str, before: str, after: str) -> None:
    assert _differing(f"g {before}", f"g {after}", 12 if "parts" in title else 17) == ["y"], title


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[N] x, float[M] z) => (float[N] y, int64[1] s) { a = own.Twice(x) b = own.Twice(z)
    y = Exp(a) s = Shape(b) }
    <domain: "own", opset_import: ["" : 17]> Twice (v) => (w) { w = Add(v, v) }"""


def _function(text: str = FUNCTION) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def test_a_call_is_the_body_of_its_function() -> None:
    plain = "g (float[N] x, float[M] z) => (float[N] y, int64[1] s) { a = Add(x, x) y = Exp(a) "
    chain = Chain(load_model(_function()))
    assert chain.differing(load(plain + "b = Add(z, z) s = Shape(b) }", 17)) == []
    assert chain.differing(load(plain + "b = Add(x, x) s = Shape(b) }", 17)) == ["s"]


def test_attributes_of_functions_are_not_read() -> None:
    text = FUNCTION.replace("Twice (v)", "Twice <axis> (v)")
    text = text.replace("own.Twice(", "own.Twice <axis = 1> (")
    with pytest.raises(Unproved, match=r"Twice .*attributes"):
        Chain(load_model(_function(text)))


def test_a_default_of_an_input_counts() -> None:
    def chain(number: int) -> onnx.ModelProto:
        model = parse("g (float[N] x, float s) => (float[N] y) { y = Mul(x, s) }")
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array(number, np.float32), "s")
        )
        return model

    assert Chain(load_model(chain(1))).differing(load_model(chain(1))) == []
    assert Chain(load_model(chain(1))).differing(load_model(chain(2))) == ["y"]


def test_other_outputs_differ() -> None:
    text = "g (float[N] x) => (float[N] y, float[N] z) { y = Exp(x) z = Sin(x) }"
    swapped = text.replace("float[N] y, float[N] z", "float[N] z, float[N] y")
    assert Chain(load(text)).differing(load(swapped)) == ["y", "z"]
