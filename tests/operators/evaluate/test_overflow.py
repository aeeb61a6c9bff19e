"""Elements of integer types stand for what a runtime computes, sums and products that wrap around
included.
"""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tests.operators.inference.context import infer, infer_model
from tests.operators.inference.oracle import I32, I64, F, ints, scalar, tensor, vector
from tests.support import run
from xoptim.facts.dims import Dim, SymbolicDim, as_integer, evaluate, named
from xoptim.facts.shapes import Info
from xoptim.operators.registry import operator_of

N, M, S = named("n"), named("m"), named("s")
CASES = {
    "products": "w = Mul (s, k) y = Add (w, s)",
    "sums": "w = Mul (s, k) v = Add (w, w) y = Sub (v, s)",
    "opposites": "w = Mul (s, k) v = Neg (w) y = Add (v, k)",
    "squares": "w = Mul (s, s) v = Mul (w, w) u = Mul (v, v) y = Mul (u, s)",
    "quotients": "w = Mul (s, k) y = Div (w, k)",
    "remainders": "w = Mul (s, k) y = Mod (w, s)",
    "comparisons": "w = Mul (s, k) z = Less (w, s) y = Cast <to = 7> (z)",
    "narrowed": "w = Mul (s, k) i = Cast <to = 6> (w) j = Mul (i, i) y = Cast <to = 7> (j)",
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_values_hold_in_runs(body: str, bits: int) -> None:
    dtype, factor, code = ("int32", 2**20 + 1, I32) if bits == 32 else ("int64", 2**58 + 1, I64)
    if bits == 32:
        body = body.replace("i = Cast <to = 6> (w)", "i = Identity (w)")
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (uint8[n] x) => (y) <{dtype}[1]
          k = {{{factor}}}> {{ t = Shape (x) s = Cast <to = {code}> (t) {body} }}"""
    model = onnx.parser.parse_model(text)
    known = infer_model(model)["y"].data
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in (3, 2**11 + 1, 70001):
        (expected,) = session.run(None, {"x": np.zeros(size, np.uint8)})
        if known is not None and isinstance(known[0], SymbolicDim) and not known[0].is_anonymous:
            assert evaluate(known[0], {"n": size}) == expected[0]
        elif known is not None and type(known[0]) is int:
            assert known[0] == expected[0]


def test_nothing_cancels_that_may_have_wrapped() -> None:
    for dtype, factor in ((I32, 2**20), (I64, 2**62)):
        bits = 32 if dtype == I32 else 64
        k = np.array([factor], np.int32 if bits == 32 else np.int64)
        (size,) = infer("Cast", [vector(N)], {"to": dtype})
        (scaled,) = infer("Mul", [size, k])
        (quotient,) = infer("Div", [scaled, k])
        assert quotient.data != size.data
        assert infer("Less", [scaled, np.zeros_like(k)])[0].data is None
        assert infer("Equal", [scaled, size])[0].data is None
        assert infer("Abs", [scaled])[0].data is None


def test_sizes_and_small_factors_are_followed() -> None:
    (scaled,) = infer("Mul", [vector(N), ints(4096)])
    assert scaled.data == (4096 * N,)
    assert infer("Div", [scaled, ints(4096)])[0].data == (N,)
    assert infer("Div", [infer("Size", [tensor("n", "m", 8)])[0], ints(8)])[0].data == (N * M,)
    assert infer("Less", [scaled, ints(0)])[0].data == (0,)


def test_a_square_of_a_number_of_elements_may_wrap() -> None:
    (size,) = infer("Size", [tensor("n", "m")])
    (square,) = infer("Mul", [size, size])
    assert square.data == (as_integer(N * N * M * M, 64),)
    assert infer("Div", [square, size])[0].data != size.data


def test_what_reductions_round_is_a_symbol_of_its_own() -> None:
    def reduced(op_type: str, *elements: Dim, dtype: int = I64) -> Dim | None:
        data = infer(op_type, [vector(*elements, dtype=dtype)], {"keepdims": 0}, opset=18)[0].data
        return None if data is None else data[0]

    assert reduced("ReduceSum", N, M) == N + M
    assert reduced("ReduceProd", N, 7) == 7 * N
    rounded = reduced("ReduceProd", N, M)
    assert isinstance(rounded, SymbolicDim)
    assert rounded.is_anonymous
    assert rounded is reduced("ReduceProd", N, M)
    assert rounded is not reduced("ReduceProd", M, N)
    assert reduced("ReduceSum", as_integer(N, 32), 5, dtype=I32) != as_integer(N, 32) + 5
    assert reduced("ReduceProd", 2**40, 2**40) is None


def test_reshape_finds_the_sizes_that_are_meant() -> None:
    def shape(source: Info, *target: Dim) -> tuple[Dim, ...] | None:
        return infer("Reshape", [source, vector(*target)])[0].shape

    narrow = as_integer(N, 32), as_integer(M, 32)
    assert shape(tensor("n", "m", 6), *narrow, 6) == (N, M, 6)
    assert shape(tensor("n", "m", 6), narrow[0], 2, narrow[1], 3) == (N, 2, M, 3)
    assert shape(tensor(N * M, 6), *narrow, 6) == (N, M, 6)
    assert shape(tensor("n", "m", "s"), as_integer(N * M, 64), as_integer(6 * S, 32)) != (
        N * M,
        6 * S,
    )
    assert shape(tensor("n", "m", "s"), -1, as_integer(M * S, 64)) == (N, M * S)
    # One that became small leaves more to the other.
    found = shape(tensor("n", "m", 6), -1, narrow[1], 6)
    assert found is not None
    assert found[:1] != (N,)
    assert found[1:] == (narrow[1], 6)
    assert shape(tensor("n", "m"), *reversed(narrow)) == (M, N)


def test_remainders_as_in_c_are_exact_up_to_the_precision_of_doubles() -> None:
    assert infer("Mod", [vector(N), ints(4)], {"fmod": 1})[0].data == (N % 4,)
    assert infer("Mod", [vector(N * 64), ints(7)], {"fmod": 1})[0].data is None


@pytest.mark.parametrize("opset", [11, 13, 21])
def test_squeeze_reads_an_empty_list_of_axes_as_none(opset: int) -> None:
    """As onnxruntime does: the formula, the kernel and a run agree."""
    x = np.zeros((1, 3, 1), np.float32)
    node = onnx.helper.make_node("Squeeze", ["x", "axes"] if opset >= 13 else ["x"], ["y"])
    if opset < 13:
        node.attribute.append(
            onnx.helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS)
        )
    values = [onnx.helper.make_tensor_value_info("x", F, (1, 3, 1))]
    weights = [onnx.numpy_helper.from_array(ints(), "axes")] if opset >= 13 else []
    graph = onnx.helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name="y")], weights)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=7
    )
    (expected,) = run(model, {"x": x})
    assert expected.shape == (3,)
    attributes: dict[str, list[int]] = {} if opset >= 13 else {"axes": []}
    operands = [x, ints()] if opset >= 13 else [x]
    assert infer("Squeeze", [tensor(1, 3, 1), *operands[1:]], attributes, opset=opset)[0].shape == (
        3,
    )

    class Squeeze:
        op_type, domain, num_outputs = "Squeeze", "", 1

        def __init__(self) -> None:
            self.opset = opset

        def attribute(self, name: str, default: object = None) -> object:
            return attributes.get(name, default)

    squeeze = operator_of("", "Squeeze").kernel
    assert squeeze is not None
    computed = squeeze(Squeeze(), [*operands])
    assert computed is not None
    assert computed[0].shape == (3,)


def test_scalars_of_32_bits() -> None:
    assert infer("Sub", [scalar(5, dtype=I32), infer("Cast", [scalar(N)], {"to": I32})[0]])[
        0
    ].data == (as_integer(5 - N, 32),)
