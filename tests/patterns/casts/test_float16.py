"""Casts where onnxruntime's CPU provider computes float16 operators in float32."""

import pytest

from tests.support import parse, types
from xoptim import optimize, verify

_START = "agraph (float[n,n] x, float[n,n] z) =>"
_HALVES = "c = Cast <to = 10> (x) d = Cast <to = 10> (z)"


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        (f"(float16[n,n] y) {{ {_HALVES} y = Add(c, d) }}", ["Add", "Cast"]),
        (f"(float16[n,n] y) {{ {_HALVES} s = Mul(c, d) y = Neg(s) }}", ["Mul", "Cast", "Neg"]),
        (f"(float[n,n] y) {{ {_HALVES} s = Add(c, d) y = Cast <to = 1> (s) }}", None),
        (f"(float16[n,n] y, float16[n,n] w) {{ {_HALVES} y = Add(c, d) w = Neg(c) }}", None),
        (f"(float16[n,n] y) {{ {_HALVES} y = Div(c, d) }}", None),
    ],
)
def test_two_casts_become_one(text: str, operators: list[str] | None) -> None:
    """Unless a Cast reads the result: there, the provider does not round to float16."""
    model = parse(f"{_START} {text}")
    result = optimize(model, patterns="CastsElementwise")
    assert types(result) == (types(model) if operators is None else operators)
    assert verify(model, result).ok


def test_a_broadcast_operand_stays_where_float16_is_computed() -> None:
    text = f"{_START} (float16[n,n] y) {{ {_HALVES} y = Add(c, d) }}"
    row = parse(text.replace("float[n,n] z", "float[n] z"))
    assert types(optimize(row, patterns="CastsElementwise")) == ["Add", "Cast"]
    assert types(optimize(row, patterns="CastsElementwise", provider="cuda")) == types(row)
    square = optimize(parse(text), patterns="CastsElementwise", provider="cuda")
    assert types(square) == ["Add", "Cast"]


def test_a_cast_of_the_same_type_stays_before_an_output_that_is_rounded() -> None:
    text = (
        "agraph (float16[n,k] x, float16[k,m] w) => (float[n,m] y, float16[n,m] z) "
        "{ p = MatMul(x, w) y = Cast <to = 1> (p) z = Cast <to = 10> (p) }"
    )
    model = parse(text)
    result = optimize(model)
    assert types(result) == ["MatMul", "Cast", "Cast"]
    assert verify(model, result).ok
    alone = text.replace("float[n,m] y, ", "").replace("y = Cast <to = 1> (p) ", "")
    assert types(optimize(parse(alone))) == ["MatMul"]


@pytest.mark.parametrize("casts", [True, False])
def test_a_region_is_computed_in_float32_where_that_saves_casts(casts: bool) -> None:
    """Two weights in float16 would need as many Casts as the region has around it."""
    weights = "float[4,4] v, float[4,4] w" if casts else "float16[4,4] e, float16[4,4] f"
    lowered = "e = Cast <to = 10> (v) f = Cast <to = 10> (w)" if casts else ""
    model = parse(
        f"agraph (float[n,4] x, {weights}) => (float[n,4] y) {{ c = Cast <to = 10> (x) {lowered} "
        "p = MatMul(c, e) q = Relu(p) r = MatMul(q, f) y = Cast <to = 1> (r) }"
    )
    result = optimize(model, patterns="Float16Region")
    assert types(result) == (["MatMul", "Relu", "MatMul"] if casts else types(model))
    assert verify(model, result).ok
    assert types(optimize(model, patterns="Float16Region", provider="cuda")) == types(model)


def test_a_result_of_a_region_that_is_read_in_float16_is_rounded() -> None:
    model = parse(
        "agraph (float[n,4] x, float[4,4] w) => (float[n,4] y, float16[n,4] z, float16[4,n] t) { "
        "c = Cast <to = 10> (x) d = Cast <to = 10> (w) z = MatMul(c, d) y = Cast <to = 1> (z) "
        "k = Sigmoid(z) t = Transpose(k) }"
    )
    result = optimize(model, patterns="Float16Region")
    assert types(result).count("Cast") == 2
    assert verify(model, result).ok


def test_an_operand_of_unknown_type_may_be_float16() -> None:
    model = parse(
        "agraph (float[2,2] x, float[2,2] w) => (float16[2,2] y) { a = acme.Make(x) "
        "b = Cast <to = 10> (w) p = MatMul(a, b) q = Cast <to = 1> (p) r = Sin(q) "
        "y = Cast <to = 10> (r) }",
        domains={"acme": 1},
    )
    assert types(optimize(model, patterns="Float16Region", strict=True)) == types(model)
