import numpy as np

from tests.support import parse
from xoptim.validate.dims import InputSpec
from xoptim.validate.feed_values import Style, make_feeds
from xoptim.validate.input_kinds import InputKind
from xoptim.validate.landmarks import landmarks

_ML = {"ai.onnx.ml": 4}


def _clip(high: float) -> str:
    return f"g (float[N] x) => (float[N] y) <float l = {{0}}, float h = {{{high}}}> {{ y = Clip(x, l, h) }}"


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
    feeds = [make_feeds([spec], {"x": use}, {}, 0, Style(run=run, numbers="holes"))["x"] for run in range(3)]
    joined = np.concatenate([np.asarray(each) for each in feeds])
    assert np.isnan(joined).any()
    assert {np.inf, -np.inf} <= {*joined.tolist()}
