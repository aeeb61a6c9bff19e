import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models

CONSTANTS = "<int64 i = {1}, int64 j = {-1}, int64 two = {2}, int64[3] parts = {1, 2, 2}>"


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "nodes",
    [
        "s = SequenceConstruct(x, z) y = SequenceAt(s, i)",
        "s = SequenceConstruct(x, z, x) y = SequenceAt(s, j)",
        "s = SequenceConstruct(x, z) y = ConcatFromSequence <axis = 1> (s)",
        "s = SequenceConstruct(x, z) y = ConcatFromSequence <axis = -1, new_axis = 1> (s)",
        "s = SplitToSequence <axis = 1> (x, two) y = SequenceAt(s, j)",
        "s = SplitToSequence <axis = 1> (x, parts) y = SequenceAt(s, i)",
        "s = SplitToSequence <axis = -1> (x) y = SequenceAt(s, j)",
        "s = SplitToSequence <axis = 1, keepdims = 0> (x) y = SequenceAt(s, i)",
    ],
)
def test_sequences(nodes: str, *, exact: bool) -> None:
    rank = "A,B,C" if "new_axis" in nodes else "A" if nodes.count("keepdims = 0> (x) ") else "A,B"
    check(
        f"(float[2,5] x, float[2,5] z) => (float[{rank}] y) {CONSTANTS} {{ {nodes} }}", exact=exact
    )


DIFFERENT = (
    ("y = SequenceAt(s, i)", "y = SequenceAt(s, j)"),
    ("y = SequenceAt(s, i)", "y = SequenceAt(s, k)"),
    ("y = ConcatFromSequence <axis = 0> (s)", "y = ConcatFromSequence <axis = 0> (t)"),
    ("y = ConcatFromSequence <axis = 0> (s)", "y = ConcatFromSequence <axis = 1> (s)"),
    ("y = SequenceAt(s, i)", "y = SequenceAt(s, far)"),
    ("y = SequenceAt(s, j)", "y = SequenceAt(s, n)"),
    ("y = Identity(x)", "p = SplitToSequence <keepdims = 0> (x, four) y = SequenceAt(p, i)"),
)


@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_different(before: str, after: str) -> None:
    signature = (
        "(float[4,4] x, float[4,4] z, int64 n) => (float[A,B] y) "
        "<int64 i = {0}, int64 j = {1}, int64 k = {-1}, int64 far = {2}, int64 four = {4}>"
    )
    start = "s = SequenceConstruct(x, z) t = SequenceConstruct(z, x)"
    sides = [parse(f"g {signature} {{ {start} {node} }}") for node in (before, after)]
    assert not prove_models(sides[0], sides[1]).is_proved


def test_a_sequence_that_is_a_result_or_of_several_types() -> None:
    model = parse("g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }")
    assert not prove_models(model, model).is_proved
    text = "g (float[2] x, int64[2] z) => (float[2] y) <int64 i = {0}> "
    mixed = parse(text + "{ s = SequenceConstruct(x, z) y = SequenceAt(s, i) }")
    assert not prove_models(parse(text + "{ y = Identity(x) }"), mixed).is_proved
