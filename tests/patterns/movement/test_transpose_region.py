"""Models whose channels come last keep the Transposes at their border alone."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import parse, run, same_results, types
from xoptim import optimize

BOTH = "TransposeRegion+TransposeRegionSum+TransposeTranspose"
CHANNELS = 4


class Network:
    """Writes layers of images whose channels come last, with two Transposes around each
    convolution.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def op(self, op_type: str, *operands: Any, **attributes: Any) -> str:
        names = [
            operand if isinstance(operand, str) else self.store(operand) for operand in operands
        ]
        self.nodes.append(helper.make_node(op_type, names, [f"r{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def store(self, value: Any) -> str:
        array = np.asarray(value, dtype=np.int64 if isinstance(value, list) else np.float32)
        self.stored.append(numpy_helper.from_array(array, f"c{len(self.stored)}"))
        return str(self.stored[-1].name)

    def conv(self, x: str, bias: bool = True) -> str:
        weight = self.random.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 6
        y = self.op("Conv", self.op("Transpose", x, perm=[0, 3, 1, 2]), weight, pads=[1, 1, 1, 1])
        y = self.op("Transpose", y, perm=[0, 2, 3, 1])
        return (
            self.op("Add", y, self.random.standard_normal(CHANNELS).astype(np.float32))
            if bias
            else y
        )

    def model(self, *outputs: str) -> onnx.ModelProto:
        image: list[str | int | None] = ["n", 8, 6, CHANNELS]
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.stored,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def residual(net: Network) -> str:
    """Two blocks whose sums skip convolutions, so that the region lies on both sides of nodes that
    stay.
    """
    x = net.op("Relu", net.conv("x"))
    for _ in range(2):
        y = net.op("Relu", net.conv(x))
        x = net.op("Relu", net.op("Add", net.conv(y), x))
    return x


def weighted(net: Network) -> str:
    """Channels weighted by what the mean of the image says."""
    x = net.op("Clip", net.conv("x"), np.float32(0), np.float32(6))
    s = net.op("ReduceMean", x, [1, 2])
    return net.conv(net.op("Mul", x, net.op("Sigmoid", net.conv(net.op("Relu", net.conv(s))))))


def joined(net: Network) -> str:
    """Images of two sizes joined along the channels, and a border."""
    x = net.conv("x")
    pooled = net.op(
        "MaxPool", net.op("Transpose", x, perm=[0, 3, 1, 2]), kernel_shape=[2, 2], strides=[2, 2]
    )
    small = net.conv(net.op("Transpose", pooled, perm=[0, 2, 3, 1]))
    wide = net.op("Resize", small, "", np.array([1, 2, 2, 1], np.float32), mode="nearest")
    both = net.op("Concat", wide, x, axis=3)
    cut = net.op("Slice", both, [1], [5], [-1])
    return net.conv(net.op("Pad", cut, [0, 1, 1, 0, 0, 1, 1, 0]))


@pytest.mark.parametrize("network", [residual, weighted, joined])
def test_transposes_at_the_border_stay_alone(network: Any) -> None:
    net = Network()
    before = net.model(network(net))
    after = optimize(before, patterns=BOTH, strict=True)
    left = [node for node in after.graph.node if node.op_type == "Transpose"]
    assert len(left) == 2
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 8, 6, CHANNELS)).astype(np.float32)}
    same_results(before, after, feeds)
    assert optimize(after, patterns=BOTH, strict=True) == after


def test_a_bias_comes_to_its_convolution() -> None:
    """One Transpose is left in either layout: the bias can be merged in one of them."""
    net = Network()
    y = net.op("Softmax", net.op("Relu", net.conv("x")), axis=-1)
    after = optimize(net.model(y), strict=True)
    assert types(after) == ["Transpose", "Conv", "Relu", "Transpose", "Softmax"]


def test_no_transpose_comes_between_a_pair_of_quantization_and_its_operator() -> None:
    """The pair would no longer make onnxruntime compute with integers."""
    text = (
        "agraph (float[2,3,4,4] x, float[2,3,4,4] u) "
        "=> (y, z) <float s = {0.1}, uint8 o = {128}> { t = Transpose <perm = [0, 2, 3, 1]> (x) "
        "v = Transpose <perm = [0, 2, 3, 1]> (u) a = Add(t, v) q = QuantizeLinear(a, s, o) "
        "y = DequantizeLinear(q, s, o) b = Relu(a) z = Transpose <perm = [0, 3, 1, 2]> (b) }"
    )
    after = optimize(parse(text), patterns=BOTH, strict=True)
    perms = {node.op_type: node for node in after.graph.node}
    assert types(after).count("Transpose") <= 2
    producer = {name: node.op_type for node in after.graph.node for name in node.output}
    assert producer[perms["QuantizeLinear"].input[0]] != "Transpose"


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose <perm = [0, 2, 1]> (x) a = Add(t, z) y = Relu(a)",
        "a = Relu(x) y = Transpose <perm = [0, 2, 1]> (a)",
        "t = Transpose <perm = [0, 2, 1]> (x) a = Mul(t, z) b = Neg(t) y = MatMul(a, b)",
    ],
)
def test_a_transpose_does_not_move_for_nothing(body: str) -> None:
    before = parse("agraph (float[3,4,4] x, float[3,4,4] z) => (float[3,4,4] y) { " + body + " }")
    assert types(optimize(before, patterns=BOTH, strict=True)) == types(before)


def test_a_transpose_moves_to_the_smaller_tensor() -> None:
    before = parse(
        "agraph (float[2,9,4] x) => (float[2,1,9] y) <int64[1] a = {1}> "
        "{ t = Transpose <perm = [0, 2, 1]> (x) e = Exp(t) y = ReduceMax(e, a) }"
    )
    after = optimize(before, patterns=BOTH, strict=True)
    assert types(after) == ["Exp", "ReduceMax", "Transpose"]


def test_a_matrix_comes_to_its_product() -> None:
    before = parse(
        "agraph (float[n,4] x, float[n,3] w) => (float[4,3] y) { t = Transpose(x) r = Relu(t) "
        "y = MatMul(r, w) }"
    )
    assert types(optimize(before, strict=True)) == ["Relu", "Gemm"]


def test_a_transpose_between_two_values_of_a_region() -> None:
    """It leaves the region and enters it again, so that it reads a value that may be gone."""
    before = parse(
        "agraph (float[5,2,2] x) => (float[5,2,2] y) { t = Transpose <perm = [2, 0, 1]> (x) "
        "v = Exp(t) r = Transpose <perm = [2, 1, 0]> (v) s = Sub(v, r) "
        "y = Transpose <perm = [1, 2, 0]> (s) }"
    )
    after = optimize(before, patterns=BOTH, strict=True)
    assert types(after) == ["Exp", "Transpose", "Sub"]
    same_results(
        before, after, {"x": np.random.default_rng(2).standard_normal((5, 2, 2)).astype(np.float32)}
    )


def test_a_bias_stays_behind_its_convolution() -> None:
    """Of two layouts that take as many Transposes, the one of the convolution is kept."""
    text = (
        "agraph (float[2,4,5,6] x, float[4,4,1,1] w) "
        "=> (float[2,6,4,5] y, float[2,4,5,6] z) <float[4,1,1] b = {1,2,3,4}, float k = {2}> { "
        "c = Conv(x, w) a = Add(c, b) m = Mul(a, k) y = Transpose <perm = [0, 3, 1, 2]> (m) "
        "z = Exp(c) }"
    )
    before = parse(text)
    assert types(optimize(before, patterns=BOTH, strict=True)) == types(before)


def test_a_tensor_that_many_nodes_read_is_transposed_once() -> None:
    """The region does not grow through it, and takes its Transpose into account."""
    products = " ".join(
        f"m{i} = Mul(z, t{i}) t{i + 1} = Transpose <perm = [0, 2, 1]> (m{i})" for i in range(70)
    )
    before = parse(
        f"agraph (float[2,3,3] t0, float[2,3,3] z) => (float[2,3,3] t70) {{ {products} }}"
    )
    after = optimize(before, patterns=BOTH, strict=True)
    assert types(after).count("Transpose") <= 3
    random = np.random.default_rng(3)
    same_results(
        before,
        after,
        {name: random.uniform(0.9, 1.1, (2, 3, 3)).astype(np.float32) for name in ("t0", "z")},
    )


def test_an_axis_that_expand_adds_has_no_place_in_its_operand() -> None:
    before = parse(
        "agraph (float[3,4,4] x) => (float[3,2,4,4] y) <int64[4] s = {2, 1, 1, 1}> "
        "{ e = Expand(x, s) y = Transpose <perm = [1, 0, 2, 3]> (e) }"
    )
    assert types(optimize(before, patterns=BOTH, strict=True)) == ["Expand", "Transpose"]


def test_operators_of_onnxruntime_come_after_the_layout() -> None:
    """A region does not carry them: a QuickGelu or FusedMatMul that came first would keep the
    Transposes.
    """
    model = parse(
        "agraph (float[n,4,8] x, float[n,5,4] w) => (float[n,5,8] y) { "
        "t = Transpose <perm = [0, 2, 1]> (x) s = Sigmoid(t) m = Mul(t, s) "
        "u = Transpose <perm = [0, 2, 1]> (m) y = MatMul(w, u) }",
        opset=17,
    )
    after = optimize(model, patterns="default+onnxruntime")
    assert types(after) == ["QuickGelu", "MatMul"]
    numbers = np.random.default_rng(0)
    feeds = {
        name: numbers.standard_normal(shape).astype(np.float32)
        for name, shape in (("x", (2, 4, 8)), ("w", (2, 5, 4)))
    }
    same_results(model, after, feeds)


@pytest.mark.parametrize("factor", ["", "f = Mul(t, half)"])
def test_a_swap_that_runtimes_merge_into_the_product_stays(factor: str) -> None:
    """Otherwise the scores, which are larger than the keys for many queries, would be
    transposed.
    """
    model = parse(
        "agraph (float[b,s,4,64] x, float[b,4,512,64] k) "
        "=> (float[b,4,s,512] y) <float half = {0.5}> { q = Transpose <perm = [0, 2, 1, 3]> (x) "
        f"t = Transpose <perm = [0, 1, 3, 2]> (k) {factor} "
        f"m = MatMul(q, {'f' if factor else 't'}) y = Softmax(m) }}",
        opset=18,
    )
    assert types(optimize(model, patterns="default-MatMulMul-MulMatMul", strict=True)) == types(
        model
    )


@pytest.mark.parametrize(
    ("perm", "is_moved"), [([1, 0, 2], False), ([1, 2, 0], False), ([2, 0, 1], True)]
)
@pytest.mark.parametrize("before", ["", "Relu", "Neg"])
def test_batches_stay_behind_a_cast(perm: list[int], is_moved: bool, before: str) -> None:
    """onnxruntime 1.32 ends the process where a Transpose of batches and a Cast come before a
    product by a matrix.
    """
    model = parse(
        "agraph (float16[n,4,4] x, float[4,5] w) => (float[a,b,5] y) { "
        f"r = {before or 'Identity'}(x) c = Cast <to = 1> (r) t = Transpose <perm = {perm}> (c) "
        "y = MatMul(t, w) }"
    )
    made = optimize(model, patterns=BOTH)
    above = types(made)[types(made).index("Cast") - 1] if types(made)[0] != "Cast" else ""
    assert (above == "Transpose") <= is_moved
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((4, 4, 4)).astype(np.float16),
        "w": rng.standard_normal((4, 5)).astype(np.float32),
    }
    expected, actual = (
        run(each, feeds, optimized=is_optimized)[0]
        for each, is_optimized in ((model, False), (made, True))
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_cast_that_the_provider_drops_stays_in_its_place() -> None:
    """onnxruntime's CPU provider computes the MatMul in float32, and does not round before it."""
    model = parse(
        "agraph (float[2,m,k] x, float[2,m,n] w) => (float16[2,k,n] y) { "
        "t = Transpose <perm = [0, 2, 1]> (x) c = Cast <to = 10> (t) d = Cast <to = 10> (w) "
        "y = MatMul(c, d) }"
    )
    moved = {
        provider: types(optimize(model, patterns=BOTH, provider=provider)).index("Transpose")
        for provider in ("cpu", "cuda")
    }
    assert moved == {"cpu": 0, "cuda": 1}
