"""``xopt explain --matches``."""

import re

from tests.cli.command import TRANSPOSES, Xopt, write
from tests.support import values_in


def test_matches(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("explain", "model.onnx", "TransposeTranspose", "--matches")
    rows = [re.split(r"\s{2,}", line.strip()) for line in outcome.out.splitlines()]
    assert (outcome.code, rows[0]) == (0, ["node", "matched", "captured"])
    assert rows[1][:2] == ["#1 Transpose 'u'", "#0 Transpose, #1 Transpose"]
    assert rows[1][2].startswith("x=x, ")
    assert values_in(rows[2][0]) == ["1"]
    (found,) = xopt("explain", "model.onnx", "TransposeTranspose", "--matches", "--json").json
    assert (found["status"], found["anchor"]["outputs"], found["bindings"]["x"]) == (
        "matches",
        ["u"],
        "x",
    )
    assert [place["position"] for place in found["matched"]] == [0, 1]


def test_a_search_without_matches_points_to_the_explanation(xopt: Xopt) -> None:
    write("agraph (float[a] x) => (float[a] y) { y = Relu(x) }")
    out = xopt("explain", "model.onnx", "NotNot", "--matches").out
    assert values_in(out) == ["xopt explain model.onnx NotNot"]
