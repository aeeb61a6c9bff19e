import pytest

from tests.proof.denotations.checking import check

PAIR = "(float[2,3] a, float[3] b) => (float[A,B] y)"

REAL = (
    "y = Add(a, b)",
    "y = Sub(a, b)",
    "y = Mul(a, b)",
    "y = Div(a, b)",
    "y = Sum(a, b, a)",
    "y = Mean(a, b, a, b)",
    "y = Neg(a)",
    "y = Reciprocal(a)",
    "t = Abs(a) y = Sqrt(t)",
    "t = Mul(a, b) y = Exp(t)",
    "y = Sigmoid(a)",
    "y = Relu(a)",
    "y = Max(a, b, a)",
    "y = Min(a, b)",
    "m = Max(a, b) y = Max(m, a)",
    "s = Sub(a, b) y = Tanh(s)",
    "y = PRelu(a, b)",
    "y = LeakyRelu <alpha = 0.3> (a)",
)


@pytest.mark.parametrize("nodes", REAL)
def test_arithmetic_of_real_numbers(nodes: str) -> None:
    check(f"{PAIR} {{ {nodes} }}", exact=False)


@pytest.mark.parametrize("nodes", REAL[:-2])
def test_arithmetic_of_bits(nodes: str) -> None:
    check(f"{PAIR} {{ {nodes} }}", exact=True)


@pytest.mark.parametrize("exponent", ["2", "3", "-1", "-2", "0.5", "-0.5", "0", "1.7"])
@pytest.mark.parametrize("dtype", ["float", "int64"])
def test_powers(exponent: str, dtype: str) -> None:
    if dtype == "int64" and "." in exponent:
        return
    check(
        f"""(float[2,3] a) => (float[A,B] y) <{dtype} e = {{{exponent}}}> {{
        t = Abs(a) y = Pow(t, e) }}""",
        exact=False,
    )


@pytest.mark.parametrize("limits", ["(a, l, h)", "(a, l)", "(a, , h)", "(a)"])
def test_clip(limits: str) -> None:
    constants = "<float l = {-0.5}, float h = {0.7}>"
    check(f"(float[4,3] a) => (float[A,B] y) {constants} {{ y = Clip{limits} }}", exact=False)


def test_clip_of_attributes() -> None:
    check("(float[9] a) => (float[A] y) { y = Clip <min = -0.25, max = 0.5> (a) }", 6, exact=False)


@pytest.mark.parametrize("op_type", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
@pytest.mark.parametrize("exact", [False, True])
def test_comparisons(op_type: str, *, exact: bool) -> None:
    check(f"(float[2,3] a, float[3] b) => (bool[A,B] y) {{ y = {op_type}(a, b) }}", exact=exact)
    check(f"(int64[2,3] a, int64[3] b) => (bool[A,B] y) {{ y = {op_type}(a, b) }}", exact=exact)


def test_choices() -> None:
    check("(bool[2,3] c, float[3] a, float[2,1] b) => (float[A,B] y) { y = Where(c, a, b) }")
    check("(bool[2,3] c, float[3] a) => (float[A,B] y) { y = Where(c, a, a) }")


@pytest.mark.parametrize("exact", [False, True])
def test_truth_values(*, exact: bool) -> None:
    check(
        """(bool[2,3] a, bool[3] b) => (bool[A,B] y, bool[C,D] z) {
        c = And(a, b) d = Or(a, b) e = Xor(c, d) f = Not(e) y = Or(f, b) z = Xor(a, a) }""",
        exact=exact,
    )
    check(
        """(bool[2,3] c, int64[3] a) => (int64[A,B] y) <int64 k = {5}> {
        w = Where(c, a, k) y = Add(w, w) }""",
        exact=exact,
    )


ACTIVATIONS = (
    *("Celu", "Elu", "Selu", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax", "Mish"),
    *("Shrink", "Softplus", "Softsign", "ThresholdedRelu"),
)


@pytest.mark.parametrize("op_type", ACTIVATIONS)
def test_definitions(op_type: str) -> None:
    check(f"(float[2,3] a) => (float[A,B] y) {{ y = {op_type}(a) }}", exact=False)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(op_type: str, dtype: str) -> None:
    check(f"({dtype}[2,3] a, {dtype}[2,3] b) => ({dtype}[A,B] y) {{ y = {op_type}(a, b) }}")
    check(
        f"""({dtype}[2,3] a, {dtype}[2,3] b) => ({dtype}[A,B] y) {{
        t = {op_type}(a, b) u = Neg(t) y = Max(u, a) }}"""
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float", 11),
        ("double", 1),
        ("float", 10),
        ("float16", 1),
        ("int32", 7),
        ("int64", 1),
        ("uint8", 1),
        ("bool", 6),
        ("float", 6),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_casts(source: str, target: int, *, exact: bool) -> None:
    name = {11: "double", 1: "float", 10: "float16", 7: "int64", 6: "int32"}[target]
    check(f"({source}[2,3] a) => ({name}[A,B] y) {{ y = Cast <to = {target}> (a) }}", exact=exact)


def test_integers_that_wrap_around_are_no_longer_the_sum() -> None:
    check(
        """(int32[2,3] a) => (int64[A,B] y) <int32 c = {2147483647}> {
        t = Add(a, c) y = Cast <to = 7> (t) }"""
    )
