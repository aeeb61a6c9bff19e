import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.support import parse
from xoptim.verification.inputs.dims import InputSpec
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feed_values import make_feeds
from xoptim.verification.inputs.input_kinds import InputKind
from xoptim.verification.inputs.landmarks import landmarks, steers


def test_bounds_of_both_models_count_those_of_one_first() -> None:
    head = "agraph (float[n] x) => (float[n] y)"
    before = parse(
        f"{head} <float low = {{-3}}, float high = {{500}}> {{ y = Clip(x, low, high) }}"
    )
    after = parse(
        f"{head} <float low = {{-3}}, float high = {{400}}> {{ a = Max(x, low) y = Min(a, high) }}"
    )
    found = landmarks(before, after)
    # a number between two bounds shows which one holds
    assert found.all == (400.0, 500.0, 450.0, -3.0)
    assert found.floats == (400.0, 500.0, 450.0)
    assert found.integers == ()
    assert found.is_new
    assert not landmarks(before, before).is_new
    assert landmarks(before).all == landmarks(before, before).all


def test_integers_attributes_and_limits_of_types() -> None:
    model = parse("""agraph (int64[n] i, float[n] x) => (int8[n] y, float[n] z) <int64 top = {77}>
        { a = Min(i, top) y = Cast <to = 3> (a) z = ThresholdedRelu <alpha = 2.5> (x) }""")
    found = landmarks(
        model, parse("agraph (int64[n] i, float[n] x) => (int64[n] y) { y = Neg(i) }")
    )
    assert found.floats == (2.5,)
    assert found.integers == (77.0, 127.0, 102.0)


def test_strings_of_the_model() -> None:
    model = parse(
        'agraph (string[n] s) => (bool[n] y) <string[1] word = {"stop"}> { y = Equal(s, word) }'
    )
    assert landmarks(model).words == ("stop",)


def test_a_longer_table_is_new() -> None:
    def table(rows: int) -> onnx.ModelProto:
        model = parse("agraph (int64[n] i) => (float[n,2] y) { y = Gather(t, i) }")
        model.graph.initializer.append(numpy_helper.from_array(np.ones((rows, 2), np.float32), "t"))
        return model

    assert landmarks(table(512), table(511)).is_new
    assert not landmarks(table(512), table(512)).is_new


def test_damaged_constants_are_no_landmarks() -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { y = Max(x, c) }")
    model.graph.initializer.append(
        TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[1], raw_data=b"\\1")
    )
    assert landmarks(model).all == ()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Expand(x, i)", True),
        ("s = Shape(x) y = Expand(x, s)", False),
        ("a = Add(i, i) y = Reshape(x, a)", True),
        ("a = Add(i, i) f = Cast <to = 1> (a) y = Mul(x, f)", False),
        ("q = Div(i, i) f = Cast <to = 1> (q) y = Mul(x, f)", True),
    ],
)
def test_values_that_steer_sizes(body: str, expected: bool) -> None:
    assert (
        steers(parse(f"agraph (float[1] x, int64[1] i) => (float[k] y) {{ {body} }}")) == expected
    )


def test_values_that_steer_sizes_within_a_body() -> None:
    branches = (
        "then_branch = t () => (float[k] u) { "
        "u = Expand(x, i) }, else_branch = e () => (float[k] v) { v = Neg(x) }"
    )
    body = f"y = If (c) <{branches}>"
    assert steers(parse(f"agraph (float[1] x, int64[1] i, bool c) => (float[k] y) {{ {body} }}"))


_ML = {"ai.onnx.ml": 4}


def _clip(high: float) -> str:
    return (
        f"g (float[N] x) => (float[N] y) <float l = {{0}}, float h = {{{high}}}> {{ "
        "y = Clip(x, l, h) }"
    )


def test_numbers_between_changed_ones_are_tried() -> None:
    found = landmarks(parse(_clip(0.5)), parse(_clip(0.75)))
    assert found.floats == (0.5, 0.75, 0.625)
    assert not landmarks(parse(_clip(0.5)), parse(_clip(0.5))).floats


def test_thresholds_of_traditional_models_count() -> None:
    text = "g (float[N,2] x) => (float[N,2] y) {{ y = ai.onnx.ml.{} (x) }}"
    imputer = "Imputer <imputed_value_floats = [3.0], replaced_value_float = -999.0>"
    for operator, number in (("Binarizer <threshold = 7.5>", 7.5), (imputer, -999.0)):
        assert number in landmarks(parse(text.format(operator), domains=_ML)).all


def test_each_odd_number_comes_in_some_run() -> None:
    """A tensor of two elements has room for two of NaN and the infinities."""
    spec, use = InputSpec("x", 1, (2,)), InputKind("free")
    feeds = [
        make_feeds([spec], {"x": use}, {}, 0, Style(run=run, numbers="holes"))["x"]
        for run in range(3)
    ]
    joined = np.concatenate([np.asarray(each) for each in feeds])
    assert np.isnan(joined).any()
    assert {np.inf, -np.inf} <= {*joined.tolist()}


def test_delimiters_are_words() -> None:
    text = """agraph (string[n] x) => (string[n,m] y, int64[n] k)
    { y, k = StringSplit <delimiter = ";", maxsplit = 1> (x) }"""
    assert landmarks(parse(text, 20)).words == (";",)
