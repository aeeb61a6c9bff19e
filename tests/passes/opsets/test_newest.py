import onnx
import onnxruntime
import pytest

from tests.support import load
from xoptim.facts.lazy import lazy_module
from xoptim.facts.operators import has_kernel
from xoptim.graph.export import export_model
from xoptim.passes.opsets import newest
from xoptim.passes.opsets.newest import newest_for, newest_that_loads, raise_model

RELU = "agraph (float[n] x) => (float[n] y) { y = Relu(x) }"


def test_the_newest_set_that_loads() -> None:
    assert 21 <= newest_that_loads() <= onnx.defs.onnx_opset_version()
    assert newest._loads(newest_that_loads())
    if newest_that_loads() < onnx.defs.onnx_opset_version():
        assert not newest._loads(newest_that_loads() + 1)


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(newest, "_onnxruntime", lazy_module("a_package_that_is_not_installed"))
        assert newest_that_loads.__wrapped__() == 0
    monkeypatch.setattr(newest, "newest_that_loads", lambda: 0)
    assert newest_for(load(RELU, 17), "cpu") == 17


def test_no_operator_loses_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels: all operators have one for every set, but Relu and Attention each lack one."""
    lacking = {("Relu", 14), ("Attention", 24)}
    monkeypatch.setattr(newest, "newest_that_loads", lambda: 25)
    monkeypatch.setattr(
        newest,
        "has_kernel",
        lambda provider, domain, op_type, dtype, opset: (op_type, opset) not in lacking,
    )
    assert newest_for(load(RELU, 11), "cpu") == 13
    assert newest_for(load(RELU, 17), "cpu") == 23, "fusions write Attention"
    assert newest_for(load(RELU, 25), "cpu") == 25
    lacking.clear()
    assert newest_for(load(RELU, 11), "cpu") == 25


def test_a_deprecated_operator_does_not_count() -> None:
    text = (
        "agraph (float[1,1,2,2] x) => (float[a,b,c,d] y) { "
        "y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }"
    )
    assert newest_for(load(text, 8), "cpu") == newest_for(load(RELU, 8), "cpu") > 20


def test_the_installed_kernels() -> None:
    """On a processor, GlobalLpPool has no kernel of operator set 22."""
    assert has_kernel("cpu", "", "GlobalLpPool", 1, 21)
    if has_kernel("cpu", "", "GlobalLpPool", 1, 22) is False:
        text = "agraph (float[1,2,3] x) => (float[a,b,c] y) { y = GlobalLpPool(x) }"
        assert newest_for(load(text, 11), "cpu") == 21


def test_an_operator_that_runs_as_a_function_is_a_bound() -> None:
    """onnxruntime loads Selu of 64 bits, which has no kernel, in operator set 18 but not in 21."""
    text = "agraph (double[n] x) => (double[n] y) { y = Selu(x) }"
    assert newest_for(load(text, 18), "cpu") == (
        18 if has_kernel("cpu", "", "Selu", 11, 18) is False else newest_that_loads()
    )
    assert newest_for(load(text.replace("Selu", "Tanh"), 18), "cpu") > 20
    assert newest_for(load(text.replace("double", "float"), 18), "cpu") > 20


def test_an_operator_within_a_function_is_a_bound() -> None:
    """Bernoulli draws numbers with RandomUniformLike, which has no kernel of operator set 22."""
    text = "agraph (float[n] x) => (float[n] y) { y = Bernoulli(x) }"
    if has_kernel("cpu", "", "RandomUniformLike", 1, 22) is False:
        assert newest_for(load(text, 18), "cpu") == 21


def test_a_slower_kernel_is_a_bound() -> None:
    text = (
        "agraph (float[1,2,9,9] x) => (float[a,b,c,d] y) { "
        "y = AveragePool <kernel_shape = [3, 3]> (x) }"
    )
    assert newest_for(load(text, 11), "cpu") == 18
    assert newest_for(load(text, 11), "cuda") > 18
    assert newest_for(load(text, 19), "cpu") > 19, "it is slow already"


def test_nodes_that_cannot_be_raised_are_a_bound() -> None:
    text = "agraph (float[n] x) => (float[n] y, bool[n] m) { y, m = Dropout (x) }"
    assert newest_for(load(text, 10), "cpu") == 11


def test_a_function_of_an_older_set_in_a_model_that_has_the_newest_one() -> None:
    text = """agraph (float[2] x) => (float[2] y, float[2] m) { y, m = own.f (x) }
        <domain: "own", opset_import: ["" : 9]> f (x) => (y, m) { y, m = Dropout (x) }"""
    model = load(text, newest_that_loads(), domains={"own": 1})
    assert raise_model(model, newest_for(model, "cpu")) == 0


def test_a_model_that_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "newest_that_loads", lambda: 17)
    assert newest_for(load(RELU, 18), "cpu") == 18


def test_an_operator_of_integers_without_a_kernel_stays() -> None:
    """The same of Relu of 64-bit integers, which runs as the function that ONNX defines."""
    text = "agraph (int64[n] x) => (int64[n] y) { y = Relu(x) }"
    assert newest_for(load(text, 18), "cpu") == (
        18 if has_kernel("cpu", "", "Relu", 7, 18) is False else newest_that_loads()
    )
    assert newest_for(load(text.replace("int64", "float"), 18), "cpu") > 20


MOVED = """agraph (float[n] x) => (float[n] y) <float s = {0.5}, int8 z = {0}, int64[1] k = {-1}> {
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) r = Reshape(d, k) y = Sin(r) }"""


@pytest.mark.parametrize(
    ("text", "is_bound"),
    [
        (MOVED, True),
        (MOVED.replace("Reshape(d, k)", "Abs(d)"), False),
        (
            MOVED.replace("Reshape(d, k)", "Reshape(i, k)").replace("r =", "i = Identity(d) r ="),
            True,
        ),
        (MOVED.replace("Reshape(d, k)", 'Einsum <equation = "i->i"> (d)'), True),
        (
            MOVED.replace("Reshape(d, k)", "Reshape(m, k)").replace("r =", "m = MatMul(d, d) r ="),
            False,
        ),
        (MOVED.replace("int8", "uint8"), False),
        (MOVED.replace("DequantizeLinear(q, s, z)", "DequantizeLinear(q, s)"), False),
        (
            MOVED.replace("int8 z", "int8[1] w = {7}, int8 z").replace(
                "DequantizeLinear(q,", "DequantizeLinear(w,"
            ),
            False,
        ),
    ],
    ids=[
        "int8",
        "not moved",
        "later",
        "replaced",
        "multiplied",
        "uint8",
        "no zero point",
        "weights",
    ],
)
def test_moved_numbers_of_signed_integers(
    text: str, is_bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime 1.32 does not load such models of operator set 21."""
    model = load(text, 19)
    monkeypatch.setattr(newest, "_loads_moved_signed", lambda: False)
    assert (newest_for(model, "cpu") == 20) == is_bound
    monkeypatch.setattr(newest, "_loads_moved_signed", lambda: True)
    assert newest_for(model, "cpu") > 20


def test_the_result_of_the_newest_set_loads() -> None:
    model = load(MOVED, 19)
    raise_model(model, newest_for(model, "cpu"))
    onnxruntime.InferenceSession(export_model(model).SerializeToString())
