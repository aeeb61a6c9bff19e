"""Matrix multiplications of uint8 by int8 are exact in the runs of verification on every CPU."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from tests.support import parse, run
from xoptim.facts.protos import every_node
from xoptim.verification.runs.exact_integers import has_inexact, saturates, with_exact_integers
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings
from xoptim.verification.verify import verify_models

DOMAINS = {"com.microsoft": 1}
WEIGHTS = "int8[4,2] w = {127, -128, 127, -128, 3, -5, 100, -100}"
MODERATE = "int8[4,2] w = {64, -64, 64, -60, 3, -5, 100, -100}"
ONES = "float s = {1}, uint8 u = {7}, int8 v = {-3}"
LARGE = np.array([[255, 255, 0, 255], [1, 2, 3, 4]], np.uint8)
CASES: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "MatMulInteger": (
        f"agraph (uint8[n,4] x) => (int32[n,2] y) <{WEIGHTS}, {ONES}> {{ "
        "y = MatMulInteger(x, w, u, v) }",
        {"x": LARGE},
    ),
    "without zero points": (
        f"agraph (uint8[n,4] x) => (int32[n,2] y) <{WEIGHTS}> {{ y = MatMulInteger(x, w) }}",
        {"x": LARGE},
    ),
    "two computed operands": (
        "agraph (uint8[n,4] x, int8[4,2] z) => (int32[n,2] y) { y = MatMulInteger(x, z) }",
        {"x": LARGE, "z": np.full((4, 2), 127, np.int8)},
    ),
    "MatMulIntegerToFloat": (
        f"agraph (uint8[n,4] x) => (float[n,2] y) <{WEIGHTS}, {ONES}> {{ "
        "y = com.microsoft.MatMulIntegerToFloat(x, w, s, s, u, v) }",
        {"x": LARGE},
    ),
    "DynamicQuantizeMatMul": (
        f"agraph (float[n,4] x) => (float[n,2] y) <{MODERATE}, {ONES}> {{ "
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, s) }",
        {"x": LARGE.astype(np.float32)},
    ),
    "QLinearMatMul": (
        f"agraph (uint8[n,4] x) => (uint8[n,2] y) <{WEIGHTS}, {ONES}, float r = {{900}}, "
        "uint8 m = {128}> { y = QLinearMatMul(x, s, u, w, s, v, r, m) }",
        {"x": LARGE},
    ),
    "QLinearConv": (
        "agraph (uint8[n,4,1] x) => (uint8[n,2,1] y) <int8[2,4,1] w = {127, 127, 3, 100, -128, "
        f"-128, -5, -100}}, {ONES}, float r = {{900}}, uint8 m = {{128}}> {{ "
        "y = QLinearConv(x, s, u, w, s, v, r, m) }",
        {"x": LARGE[:, :, None]},
    ),
    "ConvInteger": (
        "agraph (int8[n,4,1] x) => (int32[n,2,1] y) <uint8[2,4,1] w = {255, 255, 0, 255, 1, 2, 3, "
        "4}> { y = ConvInteger(x, w) }",
        {"x": np.full((1, 4, 1), 127, np.int8)},
    ),
    "in a branch": (
        f"agraph (uint8[n,4] x, bool c) => (int32[n,2] y) <{WEIGHTS}> {{ y = If (c) <then_branch = "
        "a () => (int32[n,2] p) { p = MatMulInteger(x, w) }, else_branch = b () => (int32[n,2] q) "
        "<int32 k = {2}> { t = MatMulInteger(x, w) q = Mul(t, k) }> }",
        {"x": LARGE, "c": np.array(True)},
    ),
}


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in every_node(model.graph.node)]


def exactly(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result in an exact session, as on a CPU that saturates."""
    (result,) = run(with_exact_integers(model), {**feeds})
    return np.asarray(result)


@pytest.mark.parametrize("name", CASES)
def test_uint8_by_uint8_gives_the_same_numbers(name: str) -> None:
    """The sums are small enough for every kernel, so that the plain model is right as well."""
    text, feeds = CASES[name]
    model = parse(text, 21, domains=DOMAINS)
    moderate = {
        key: value if value.dtype == bool else (value / 3).astype(value.dtype)
        for key, value in feeds.items()
    }
    (plain,) = run(model, moderate)
    assert has_inexact(model)
    np.testing.assert_array_equal(exactly(model, moderate), plain)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # the first sum is 248 · 130 + 248 · 130 - 7 · 6 + 248 · 103
        ("MatMulInteger", [[89982, -86042], [-1763, 1674]]),
        ("without zero points", [[90270, -90780], [790, -799]]),
        ("two computed operands", [[97155, 97155], [1270, 1270]]),
        ("MatMulIntegerToFloat", [[89982, -86042], [-1763, 1674]]),
        ("in a branch", [[90270, -90780], [790, -799]]),
    ],
)
def test_large_sums_are_exact_by_hand(name: str, expected: list[list[int]]) -> None:
    text, feeds = CASES[name]
    assert exactly(parse(text, 21, domains=DOMAINS), feeds).tolist() == expected


def test_a_session_is_exact_where_kernels_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    text, feeds = CASES["without zero points"]
    model = parse(text, 21)
    monkeypatch.setattr("xoptim.verification.runs.session.saturates", lambda: True)
    session = Session(model, SessionSettings(exact_integers=True))
    assert np.asarray(session.run(feeds)[0]).tolist() == [[90270, -90780], [790, -799]]


def test_what_a_saturating_kernel_does() -> None:
    """Two products are added in 16 bits: 255 · 127 + 255 · 127 is 32767 there, and not 64770."""
    text, feeds = CASES["without zero points"]
    (plain,) = run(parse(text, 21), {**feeds})
    saturated = [[32767 + 25500, -32768 - 25500], [790, -799]]
    exact = [[90270, -90780], [790, -799]]
    assert np.asarray(plain).tolist() == (saturated if saturates() else exact)


def test_other_operators_stay() -> None:
    text = (
        "agraph (uint8[n,4] x) => (int32[n,2] y) <uint8[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { "
        "y = MatMulInteger(x, w) }"
    )
    model = parse(text, 21)
    assert ops(with_exact_integers(model)) == ["MatMulInteger"]
    assert not has_inexact(parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }", 21))


def test_a_lowering_is_judged_against_exact_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The original saturates on some CPUs; the float form of it is right all the same."""
    before = parse(
        CASES["without zero points"][0]
        .replace("int32[n,2] y", "float[n,2] y")
        .replace("y = MatMulInteger(x, w)", "i = MatMulInteger(x, w) y = Cast <to = 1> (i)"),
        21,
    )
    after = parse(
        f"agraph (uint8[n,4] x) => (float[n,2] y) <{WEIGHTS}> {{ a = Cast <to = 1> (x) "
        "b = Cast <to = 1> (w) y = MatMul(a, b) }",
        21,
    )
    assert verify_models(before, after).status == "equal"
    monkeypatch.setattr("xoptim.verification.runs.session.saturates", lambda: True)
    assert verify_models(before, after).status == "equal"
