import numpy as np
import pytest

from tests.passes.opsets.raised import F32, check, numbers, reason
from xoptim.passes.opsets import adapters
from xoptim.passes.opsets.adapters import ADAPTERS, Judgement, is_unchanged, judge
from xoptim.passes.opsets.changes import (
    REFUSED,
    SAME_MEANING,
    additions,
    breaks,
    operators,
    versions,
)

STEPS = [(op_type, version) for op_type in operators() for version in versions(op_type)[1:]]
FIRST_SUPPORTED = 7
"""Operator set since which onnxruntime promises to run models."""


def test_every_change_of_every_operator_is_judged() -> None:
    """Only types were added, or a table says that calls mean the same, how they are changed, or why
    they are refused.
    """
    unknown = [step for step in STEPS if step not in REFUSED and judge(*step).refusal]
    assert unknown == []


def test_the_changes_that_are_refused() -> None:
    since = {step for step in REFUSED if step[1] > FIRST_SUPPORTED}
    assert since == {("Scan", 9)}


def test_no_change_is_in_two_tables_and_each_exists() -> None:
    tables = [set(ADAPTERS), set(SAME_MEANING), set(REFUSED)]
    assert len(set.union(*tables)) == sum(map(len, tables))
    assert set.union(*tables) <= set(STEPS)


def test_reviewed_changes_leave_all_calls_valid() -> None:
    assert [step for step in SAME_MEANING if breaks(*step)] == []
    assert [step for step in SAME_MEANING if not additions(*step)] == []


def test_a_change_that_has_not_been_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "SAME_MEANING", {})
    monkeypatch.setattr(adapters, "ADAPTERS", {})
    judged = judge.__wrapped__
    assert ", ".join(additions("Cast", 19)) in judged("Cast", 19).refusal
    assert ", ".join(breaks("TopK", 10)) in judged("TopK", 10).refusal
    assert judged("Relu", 14) == Judgement()


def test_operators_that_stay_as_they_are() -> None:
    assert is_unchanged("Relu", 6, 24)
    assert is_unchanged("Softmax", 13, 24)
    assert not is_unchanged("Softmax", 12, 13)
    assert not is_unchanged("Scan", 8, 24)


def test_scatter() -> None:
    text = """agraph (float[a,b] x, int64[c,d] i,
      float[c,d] u) => (float[a,b] y) { y = Scatter <axis = 1> (x, i, u) }"""
    feeds = {"x": numbers(2, 4), "i": np.array([[0, 3], [2, 1]]), "u": numbers(2, 2, seed=1)}
    for target in (11, 16, 24):
        assert check(text, 9, target, feeds) == ["ScatterElements"]


def test_types_that_an_operator_lost() -> None:
    assert check(
        "agraph (float[n] x) => (float[n] y) { y = Erf (x) }", 9, 24, {"x": np.array([0.5], F32)}
    ) == ["Erf"]
    assert "int32" in reason("agraph (int32[n] x) => (int32[n] y) { y = Erf (x) }", 9, 13)


SAME = [
    ("ArgMax <axis = 1, keepdims = 0>", "float[a,b] x", "int64[c]", 7, {"x": numbers(3, 4)}),
    ("Cast <to = 7>", "float[a] x", "int64[a]", 7, {"x": np.array([1.5, -1.5, 0], F32)}),
    (
        "DepthToSpace <blocksize = 2>",
        "float[1,4,2,2] x",
        "float[a,b,c,d]",
        7,
        {"x": numbers(1, 4, 2, 2)},
    ),
    ("Flatten <axis = 2>", "float[a,b,c] x", "float[d,e]", 7, {"x": numbers(2, 3, 4)}),
    (
        "Reshape",
        "float[a,b] x, int64[2] s",
        "float[c,d]",
        7,
        {"x": numbers(2, 3), "s": np.array([0, -1])},
    ),
    ("Shape", "float[a,b] x", "int64[c]", 7, {"x": numbers(2, 3)}),
    (
        "OneHot <axis = -1>",
        "int64[a] i, int64[b] d, float[2] v",
        "float[e,f]",
        9,
        {"i": np.array([0, -1, 2, 5, -7]), "d": np.array([3]), "v": np.array([0, 1], F32)},
    ),
    (
        "QuantizeLinear",
        "float[a] x, float s, uint8 z",
        "uint8[a]",
        10,
        {
            "x": np.array([0.5, 1.5, 2.5, 300, -5], F32),
            "s": np.array(1, F32),
            "z": np.array(3, np.uint8),
        },
    ),
    (
        "GatherND",
        "float[a,b] x, int64[c,2] i",
        "float[c]",
        11,
        {"x": numbers(2, 3), "i": np.array([[0, -1], [1, 2]])},
    ),
    (
        "Mod",
        "int64[a] x, int64[a] y",
        "int64[a]",
        10,
        {"x": np.array([5, -5, 5, -5]), "y": np.array([3, 3, -3, -3])},
    ),
    (
        "Mod <fmod = 1>",
        "float[a] x, float[a] y",
        "float[a]",
        10,
        {"x": np.array([5, -5, 5, -5], F32), "y": np.array([3, 3, -3, -3], F32)},
    ),
    (
        "Gemm",
        "float[a,b] x, float[b,c] y, float[c] z",
        "float[a,c]",
        7,
        {"x": numbers(2, 3), "y": numbers(3, 4), "z": numbers(4)},
    ),
    (
        "RNN <hidden_size = 2>",
        "float[a,b,3] x, float[1,2,3] w, float[1,2,2] r",
        "float[c,d,e,f]",
        7,
        {"x": numbers(4, 2, 3), "w": numbers(1, 2, 3), "r": numbers(1, 2, 2)},
    ),
    (
        "NonMaxSuppression",
        "float[1,n,4] x, float[1,1,n] s, int64[1] k, float[1] t",
        "int64[a,b]",
        10,
        {
            "x": np.array([[[0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 1, 1, 2]]], F32),
            "s": np.array([[[0.5, 0.9, 0.7]]], F32),
            "k": np.array([3]),
            "t": np.array([1 / 3], F32),
        },
    ),
    (
        "Attention <is_causal = 1, softcap = 2.0>",
        "float[a,b,c,d] x, float[a,b,e,d] k, float[a,b,e,d] v, float[f,g] m",
        "float[h,i,j,l]",
        23,
        {
            "x": numbers(1, 2, 3, 4),
            "k": numbers(1, 2, 5, 4),
            "v": numbers(1, 2, 5, 4),
            "m": numbers(3, 5),
        },
    ),
]


@pytest.mark.parametrize(("call", "inputs", "output", "opset", "feeds"), SAME)
def test_operators_whose_text_changed_compute_the_same(
    call: str, inputs: str, output: str, opset: int, feeds: dict[str, np.ndarray]
) -> None:
    operands = ", ".join(each.split()[-1] for each in inputs.replace("[a,b]", "").split(", "))
    text = f"agraph ({inputs}) => ({output} result) {{ result = {call} ({operands}) }}"
    for target in {*(t for t in (11, 13, 16, 19, 21, 23) if t > opset), 24}:
        assert check(text, opset, target, feeds) == [call.split()[0]]
