"""Which activations between operators can be quantized, and which operators read them."""

import numpy as np
import onnx
import pytest

from xoptim.precision.activations import Activations, find_activations

HEAD = '<ir_version: 10, opset_import: ["" : 20]> agraph'


def found(text: str, *without_range: str) -> Activations:
    """The activations of a model, where all tensors but some have a range."""
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    names = {name for node in model.graph.node for name in node.output}
    names |= {value.name for value in model.graph.input}
    return find_activations(model, names - {*without_range})


def quantized(activations: Activations, *weighted: str) -> set[str]:
    return activations.useful(activations.copies.keys(), (), weighted)


def test_a_bias_belongs_to_the_matmul_before_it() -> None:
    activations = found("""(float[2,4] x) => (float[2,4] y)
        <float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4] b = {1,2,3,4}> {
            m = MatMul(x, w) s = Add(m, b) y = LayerNormalization(s, b) }""")
    assert quantized(activations, "m") == {"x", "s"}


def test_a_formula_of_one_activation_is_quantized_on_both_sides() -> None:
    activations = found("""(float[2,4] a, float[2,4] b) => (float[2,4] y)
        <float one = {1}> {
            x = Add(a, b) e = Erf(x) p = Add(e, one) g = Mul(x, p) y = Add(g, a) }""")
    assert quantized(activations) == {"a", "b", "x", "g"}


def test_movement_has_the_scale_of_what_it_moves() -> None:
    activations = found("""(float[2,3,4] a, float[2,3,4] b) => (float[2,3,3] y) {
        x = Add(a, b) t = Transpose <perm = [0, 2, 1]> (x) y = MatMul(a, t) }""")
    assert activations.copies["x"] == ("x", "t")
    assert quantized(activations) == {"a", "b", "x"}


def test_a_softmax_reads_float32_and_masks_stay_in_float32() -> None:
    activations = found("""(float[2,3,3] q, float[2,3,3] k, int64[3] mask) => (float[2,3,3] y) {
        s = MatMul(q, k) c = Cast <to = 1> (mask) m = Add(s, c) p = Softmax(m)
        y = MatMul(p, k) }""")
    assert quantized(activations) == {"q", "k", "p"}


@pytest.mark.parametrize("operator", ["Add(x, c)", "Where(mask, x, a)"])
def test_what_a_mask_changes_is_not_quantized(operator: str) -> None:
    activations = found(f"""(float[3,3] a, float[3,3] b, bool[3,3] mask) => (float[3,3] y) {{
        x = Add(a, b) c = Cast <to = 1> (mask) m = {operator} y = MatMul(b, m) }}""")
    assert "m" not in activations.copies


def test_a_sum_with_numbers_that_samples_do_not_show_is_not_quantized() -> None:
    text = """(float[3,3] x, float[3,3] mask, float[3,3] b) => (float[3,3] y) {
        s = Add(x, mask) y = MatMul(b, s) }"""
    assert quantized(found(text)) == {"x", "mask", "s", "b"}
    assert quantized(found(text, "mask")) == set()


def test_weights_that_stay_in_float32_read_float32() -> None:
    activations = found("""(float[2,4] a, float[2,4] b) => (float[2,4] y)
        <float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> { x = Add(a, b) y = MatMul(x, w) }""")
    assert quantized(activations, "y") == {"a", "b", "x"}
    assert quantized(activations) == set()


def test_an_operator_without_a_quantized_result_reads_float32() -> None:
    activations = found("""(float[2,4] a, float[2,4] b, float[2,4] c) => (float[2,2] y) {
        x = Add(a, b) n = Mul(x, c) t = Transpose(n) y = MatMul(x, t) }""")
    assert quantized(activations) == {"a", "b", "c", "x", "n"}
    assert activations.useful({"a", "b", "c", "x"}, (), ()) == set()
    assert activations.useful({"a", "b", "x"}, {"c", "n"}, ()) == {"a", "b", "x"}


def test_what_a_softmax_reads_may_be_the_result_of_a_quantized_sum() -> None:
    activations = found("""(float[2,4] a, float[2,4] b) => (float[2,4] y) {
        s = Add(a, b) y = Softmax(s) }""")
    assert quantized(activations) == {"a", "b", "s"}


def test_rows_of_an_embedding_are_an_activation() -> None:
    model = onnx.parser.parse_model(f"""{HEAD} (int64[n] words, float[n,64] x) => (float[n,64] y)
        <float[64] few> {{ e = Gather(table, words) g = Gather(few, words) f = Unsqueeze(g, words)
            s = Add(e, x) y = Mul(s, f) }}""")
    table = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "table")
    model.graph.initializer.append(table)
    activations = find_activations(model, {"e", "f", "g", "s", "x", "y"})
    assert activations.copies.keys() == {"e", "s", "x"}


def test_a_quantized_model_has_none() -> None:
    activations = found("""(float[4] x, float[4] z) => (float[4] y)
        <float s = {0.5}, uint8 o = {128}> {
            q = QuantizeLinear(x, s, o) d = DequantizeLinear(q, s, o) y = Add(d, z) }""")
    assert activations == Activations({}, ())
