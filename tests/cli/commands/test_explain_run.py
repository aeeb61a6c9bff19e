"""``xopt explain`` with the options of the run that it explains."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Xopt, write
from tests.integrations.test_genai import folder_with, whole_decoder
from tests.patterns.attention.decoder import SINKS

_ROOT_MEAN_SQUARE = (
    "agraph (float[a,4] x) => (float[a,4] y) <float two = {2}, float e = {0.001}, "
    "int64[1] last = {-1}, float one = {1}> { q = Pow(x, two) m = ReduceMean(q, last) "
    "w = Add(m, e) r = Sqrt(w) s = Div(one, r) y = Mul(x, s) }"
)


def test_a_pattern_of_genai(xopt: Xopt, tmp_path: Path) -> None:
    write(whole_decoder())
    words = ("explain", "model.onnx", "GroupQueryAttention")
    plain = xopt(*words).out.splitlines()
    assert plain == [
        "`--genai FOLDER` shows GroupQueryAttention in the run of `xopt MODEL --genai FOLDER`",
        "GroupQueryAttention matches nowhere: it starts at Attention",
    ]
    folder = folder_with(tmp_path)
    first, second, *_, last = xopt(*words, "--genai", folder).out.splitlines()
    assert first.startswith("assumed: n <= 32, p <= 31, t == p + n, ")
    assert second.startswith("GroupQueryAttention matches at #")
    assert last == "GroupQueryAttention was tried at 1 node: 1 matches"
    (match,) = xopt(*words, "--genai", folder, "--matches", "--json").json
    assert match["bindings"]["past_key"] == "past.0.key"


def test_the_condition_that_failed(xopt: Xopt, tmp_path: Path) -> None:
    """This attention sees later keys."""
    write(whole_decoder("weights = Softmax <axis = -1> (scaled)"))
    folder = folder_with(tmp_path)
    out = xopt("explain", "model.onnx", "GroupQueryAttention", "--genai", folder).out
    assert "the mask may hide more than later keys: assume that it holds ones" in out
    assert out.endswith("GroupQueryAttention was tried at 1 node: 1 refused\n")


def test_further_assumptions(xopt: Xopt, tmp_path: Path) -> None:
    write(whole_decoder())
    words = ("explain", "model.onnx", "GroupQueryAttention", "--genai", folder_with(tmp_path))
    out = xopt(*words, "--assume", "n == 1").out
    assert out.startswith("assumed: n == 1, p <= 31, ")


@pytest.mark.parametrize(
    ("sinks", "reason"),
    [
        (np.ones((1, 1, 1, 1)), "the sinks are not one finite number per head"),
        (np.ones((1, 4, 1, 1)), "SinkGroupQueryAttention matches at"),
    ],
)
def test_a_pattern_before_others(
    sinks: np.ndarray, reason: str, xopt: Xopt, tmp_path: Path
) -> None:
    """FusedMatMul and others change the form later."""
    write(whole_decoder(SINKS, sinks))
    folder = folder_with(tmp_path)
    assert reason in xopt("explain", "model.onnx", "SinkGroupQueryAttention", "--genai", folder).out


@pytest.mark.parametrize("opset", ["newest", "23"])
def test_a_newer_operator_set(opset: str, xopt: Xopt) -> None:
    write(_ROOT_MEAN_SQUARE)
    words = ("explain", "model.onnx", "RMSNormalization")
    assert "min_opset 23, the model has 18" in xopt(*words).out
    assert "RMSNormalization matches at" in xopt(*words, "--opset", opset).out
    assert "RMSNormalization matches at" in xopt(*words, "--opset", opset, "--after", "").out
    assert len(xopt(*words, "--opset", opset, "--matches", "--json").json) == 1


def test_options_that_do_not_fit(xopt: Xopt, tmp_path: Path) -> None:
    write(whole_decoder())
    words = ("explain", "model.onnx", "GroupQueryAttention", "--genai", folder_with(tmp_path))
    assert "--genai has no effect with --target" in xopt(*words, "--target", "webgpu").error
    write(_ROOT_MEAN_SQUARE)
    assert "onnxruntime-genai does not feed the input 'x'" in xopt(*words).error
