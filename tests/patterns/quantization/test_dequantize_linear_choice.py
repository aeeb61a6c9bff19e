"""All 8-bit integers, for each operator that chooses among them."""

import numpy as np
import onnxruntime
import pytest

import xoptim
from patterns.quantization.dequantize_linear_choice import _CHOICES, DequantizeLinearChoicePattern
from tests.support import parse, types

_OPERATORS = {
    "Relu": "r = Relu(d)",
    "Clip": "r = Clip(d, low, high)",
    "Max": "r = Max(d, k, e)",
    "Min": "r = Min(k, d)",
    "Where": "r = Where(c, d, k)",
    "Pad": "r = Pad(d, p)",
    "Pad edge": 'r = Pad <mode = "edge"> (d, p)',
    "Pad value": "r = Pad(d, p, high)",
    "ReduceMax": "r = ReduceMax(d, one)",
    "ReduceMin": "r = ReduceMin <keepdims = 0> (d, one)",
    "ReverseSequence": "r = ReverseSequence <batch_axis = 0, time_axis = 1> (d, lengths)",
    "GatherElements": "r = GatherElements <axis = 1> (d, i)",
    "DepthToSpace": "r = DepthToSpace <blocksize = 2> (d)",
    "SpaceToDepth": "r = SpaceToDepth <blocksize = 2> (d)",
    "TopK": "r, places = TopK <axis = 1> (d, three)",
}
_CONSTANTS = (
    "float low = {-3.05}, float high = {2.55}, float[4,1,1] k = {-inf, 0.75, -1.05, inf}, "
    "int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}, int64[1] one = {1}, int64[1] three = {3}, "
    "int64[4] lengths = {1, 2, 3, 4}, int64[4,1,4,4] i = {" + ", ".join("0123" * 16) + "}"
)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("key", _OPERATORS)
def test_all_integers_are_the_same(key: str, kind: str) -> None:
    integers = np.arange(256).astype(kind).reshape(4, 4, 4, 4)
    condition = np.arange(256).reshape(4, 4, 4, 4) % 3 == 0
    for scale, zero in ((0.1, 3), (0.0125, -5 if kind == "int8" else 200), (2.0, 0)):
        model = parse(
            f"agraph ({kind}[4,4,4,4] x, {kind}[4,4,4,4] w, bool[4,4,4,4] c) => ({kind} y) "
            f"<{_CONSTANTS}, float s = {{{scale}}}, {kind} z = {{{zero}}}> "
            f"{{ d = DequantizeLinear(x, s, z) e = DequantizeLinear(w, s, z) {_OPERATORS[key]} "
            "y = QuantizeLinear(r, s, z) }"
        )
        result = xoptim.optimize(model, patterns=[DequantizeLinearChoicePattern])
        assert "QuantizeLinear" not in types(result), key
        feeds = {"x": integers, "w": np.flip(integers), "c": condition}
        first, second = (
            onnxruntime.InferenceSession(proto.SerializeToString()).run(
                None, {name: feeds[name] for name in _names(proto)}
            )[0]
            for proto in (model, result)
        )
        assert np.array_equal(first, second), (key, scale, zero)


def _names(model: object) -> list[str]:
    return [value.name for value in model.graph.input]  # type: ignore[attr-defined]


def test_each_operator_is_tested() -> None:
    assert {key.partition(" ")[0] for key in _OPERATORS} == set(_CHOICES)


@pytest.mark.parametrize(
    "operators",
    [
        "r = Relu(d) y = QuantizeLinear(r, t, z)",
        "r = Neg(d) y = QuantizeLinear(r, s, z)",
        "r = Max(d, f) y = QuantizeLinear(r, s, z)",
        "r = Max(d, n) y = QuantizeLinear(r, s, z)",
        "r = Relu(d) v = QuantizeLinear(r, s, z) y = Cast <to = 1> (r)",
    ],
)
def test_other_numbers_are_kept(operators: str) -> None:
    model = parse(
        "agraph (uint8[4] x, float[4] f) => (y) <float s = {0.1}, float t = {0.2}, uint8 z = {9}, "
        f"float n = {{nan}}> {{ d = DequantizeLinear(x, s, z) {operators} }}"
    )
    result = xoptim.optimize(model, patterns=[DequantizeLinearChoicePattern])
    assert "DequantizeLinear" in types(result)
