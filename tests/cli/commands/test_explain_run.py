"""``xopt explain`` with the options of the run that it explains."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Xopt, write
from tests.integrations.test_genai import folder_with, whole_decoder
from tests.patterns.attention.decoder import SINKS
from tests.support import values_in

_ROOT_MEAN_SQUARE = (
    "agraph (float[a,4] x) => (float[a,4] y) <float two = {2}, float e = {0.001}, "
    "int64[1] last = {-1}, float one = {1}> { q = Pow(x, two) m = ReduceMean(q, last) "
    "w = Add(m, e) r = Sqrt(w) s = Div(one, r) y = Mul(x, s) }"
)


def test_a_pattern_of_genai(xopt: Xopt, tmp_path: Path) -> None:
    write(whole_decoder())
    words = ("explain", "model.onnx", "GroupQueryAttention")
    hint, _ = xopt(*words).out.splitlines()
    assert values_in(hint) == ["--genai FOLDER", "xopt MODEL --genai FOLDER"]
    folder = folder_with(tmp_path)
    first, second, *_, last = xopt(*words, "--genai", folder).out.splitlines()
    assert first.startswith("assumed: n <= 32, p <= 31, t == p + n, ")
    assert second.startswith("GroupQueryAttention matches at #")
    assert last.endswith(": 1 matches")
    (match,) = xopt(*words, "--genai", folder, "--matches", "--json").json
    assert match["bindings"]["past_key"] == "past.0.key"


def test_the_condition_that_failed(xopt: Xopt, tmp_path: Path) -> None:
    """This attention sees later keys."""
    write(whole_decoder("weights = Softmax <axis = -1> (scaled)"))
    folder = folder_with(tmp_path)
    words = ("explain", "model.onnx", "GroupQueryAttention", "--genai", folder, "--json")
    (refused,) = xopt(*words).json["explanations"]
    assert refused["status"] == "refused"
    assert "mask" in refused["reason"]


def test_further_assumptions(xopt: Xopt, tmp_path: Path) -> None:
    write(whole_decoder())
    words = ("explain", "model.onnx", "GroupQueryAttention", "--genai", folder_with(tmp_path))
    out = xopt(*words, "--assume", "n == 1").out
    assert out.startswith("assumed: n == 1, p <= 31, ")


@pytest.mark.parametrize(
    ("sinks", "status"),
    [(np.ones((1, 1, 1, 1)), "refused"), (np.ones((1, 4, 1, 1)), "matches")],
)
def test_a_pattern_before_others(
    sinks: np.ndarray, status: str, xopt: Xopt, tmp_path: Path
) -> None:
    """FusedMatMul and others change the form later."""
    write(whole_decoder(SINKS, sinks))
    words = ("explain", "model.onnx", "SinkGroupQueryAttention", "--genai", folder_with(tmp_path))
    first, *_ = xopt(*words, "--json").json["explanations"]
    assert first["status"] == status
    assert status == "matches" or "sinks" in first["reason"]


@pytest.mark.parametrize("opset", ["newest", "23"])
def test_a_newer_operator_set(opset: str, xopt: Xopt) -> None:
    write(_ROOT_MEAN_SQUARE)
    words = ("explain", "model.onnx", "RMSNormalization")
    assert re.search("min_opset 23, .* 18", xopt(*words).out)
    for options in ((), ("--after", "")):
        assert "RMSNormalization matches " in xopt(*words, "--opset", opset, *options).out
    assert len(xopt(*words, "--opset", opset, "--matches", "--json").json) == 1


def test_options_that_do_not_fit(xopt: Xopt, tmp_path: Path) -> None:
    write(whole_decoder())
    words = ("explain", "model.onnx", "GroupQueryAttention", "--genai", folder_with(tmp_path))
    assert values_in(xopt(*words, "--target", "webgpu").error) == ["--genai", "--target"]
    write(_ROOT_MEAN_SQUARE)
    assert "'x'" in xopt(*words).error
