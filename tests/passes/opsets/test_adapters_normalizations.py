import re

import numpy as np
import pytest

from tests.passes.opsets.raised import check, numbers, raised, reason
from tests.support import parse, run
from xoptim.graph.export import export_model

KINDS = ("Softmax", "LogSoftmax", "Hardmax")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2])
@pytest.mark.parametrize("shape", ["[2,3,4]", "[a,b,c]", ""])
def test_softmax_over_several_axes(kind: str, axis: int | None, shape: str) -> None:
    """An unknown rank comes from a Reshape whose shape is an input."""
    attributes = "" if axis is None else f"<axis = {axis}>"
    text = (
        "agraph (float[a,b,c] given, int64[r] s) => (float[d,e,f] y) { x = Reshape(given, s) "
        f"y = {kind} {attributes} (x) }}"
    )
    feeds = {"given": numbers(2, 3, 4), "s": np.array([2, 3, 4])}
    if shape:
        text = f"agraph (float{shape} x) => (float[d,e,f] y) {{ y = {kind} {attributes} (x) }}"
        feeds = {"x": numbers(2, 3, 4)}
    for target in (13, 14, 24) if shape == "[2,3,4]" else (14, 24):
        operators = check(text, 11, target, feeds)
        assert ("Flatten" in operators) == (axis != -1 and (not shape or axis != 2))


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (1, 5), (1, 1), (2, 1, 4)])
def test_softmax_over_one_long_axis(shape: tuple[int, ...]) -> None:
    text = (
        f"agraph (float[{','.join(map(str, shape))}] x) "
        f"=> (float[{','.join('abcd'[: len(shape)])}] y) {{ y = Softmax (x) }}"
    )
    for opset in (7, 11):
        assert check(text, opset, 24, {"x": numbers(*shape)}) == ["Softmax"]


@pytest.mark.parametrize("shape", [(2, 0, 4), (0, 3, 4), (2, 3, 0)])
@pytest.mark.parametrize("axis", [1, 2])
def test_softmax_of_nothing(shape: tuple[int, ...], axis: int) -> None:
    text = f"agraph (float[a,b,c] x) => (float[d,e,f] y) {{ y = Softmax <axis = {axis}> (x) }}"
    check(text, 11, 24, {"x": numbers(*shape)})


@pytest.mark.parametrize(
    ("declared", "axis", "shapes"),
    [
        ("a,b,4", 1, [(0, 3, 4), (2, 0, 4), (0, 0, 4), (2, 3, 4)]),
        ("a,3,4,5", 2, [(0, 3, 4, 5), (2, 3, 4, 5)]),
        ("2,b,4", 0, [(2, 0, 4), (2, 3, 4)]),
        ("2,b,4", -3, [(2, 0, 4), (2, 3, 4)]),
    ],
)
def test_sizes_that_reshape_copies_if_they_are_0(
    declared: str, axis: int, shapes: list[tuple[int, ...]]
) -> None:
    """In operator set 13, Reshape reads 0 as: copy the size."""
    dims = ",".join("cdef"[: declared.count(",") + 1])
    text = (
        f"agraph (float[{declared}] x) => (float[{dims}] y) {{ y = Softmax <axis = {axis}> (x) }}"
    )
    for shape in shapes:
        assert "Flatten" in check(text, 11, 13, {"x": numbers(*shape)})


@pytest.mark.parametrize(
    ("declared", "axis"), [("a,b,c", 1), ("a,b,4", 0), ("2,b,4,5", 2), ("2,0,4,5", 2), ("0,3,4", 0)]
)
def test_sizes_that_reshape_would_replace_if_they_are_0(declared: str, axis: int) -> None:
    dims = ",".join("cdef"[: declared.count(",") + 1])
    text = (
        f"agraph (float[{declared}] x) => (float[{dims}] y) {{ y = Softmax <axis = {axis}> (x) }}"
    )
    assert re.search(r" 0, .*Reshape .* 14$", reason(text, 11, 13))
    check(
        text,
        11,
        14,
        {"x": numbers(*(int(each) if each.isdigit() else 0 for each in declared.split(",")))},
    )


STATISTICS = "float[3] s, float[3] b, float[3] m, float[3] v"


def test_batch_normalization() -> None:
    text = f"""agraph (float[a,3,c] x, {STATISTICS}) => (float[a,3,c] y)
        {{ y = BatchNormalization <momentum = 0.8> (x, s, b, m, v) }}"""
    feeds = {
        "x": numbers(2, 3, 4),
        **{name: abs(numbers(3, seed=i)) for i, name in enumerate("sbmv")},
    }
    for target in (9, 14, 15, 24):
        assert check(text, 7, target, feeds) == ["BatchNormalization"]
        assert check(text.replace("momentum = 0.8", "spatial = 1"), 7, target, feeds) == [
            "BatchNormalization"
        ]


def test_batch_normalization_of_elements() -> None:
    text = (
        f"agraph (float[a,3] x, {STATISTICS}) => (float[a,3] y) {{ "
        "y = BatchNormalization <spatial = 0> (x, s, b, m, v) }"
    )
    text = text.replace("[3]", "[3,2]").replace("[a,3]", "[a,3,2]")
    feeds = {
        "x": numbers(2, 3, 2),
        **{name: abs(numbers(3, 2, seed=i)) for i, name in enumerate("sbmv")},
    }
    after = export_model(raised(text, 7, 24))
    np.testing.assert_allclose(
        run(after, feeds)[0], run(parse(text, 7), feeds)[0], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("opset", [7, 9])
def test_a_training_step(opset: int) -> None:
    text = (
        f"agraph (float[a,3] x, {STATISTICS}) => (float[a,3] y, float[3] n) {{ "
        "y, n = BatchNormalization (x, s, b, m, v) }"
    )
    assert "training step" in reason(text, opset, 14)


@pytest.mark.parametrize("shape", ["[2,6,4]", "[a,b,c]", "[a,6,c]"])
def test_group_normalization(shape: str) -> None:
    text = f"""agraph (float{shape} x, float[3] s, float[3] b) => (float[a,b,c] y)
        {{ y = GroupNormalization <num_groups = 3, epsilon = 0.01> (x, s, b) }}"""
    feeds = {"x": numbers(2, 6, 4), "s": numbers(3), "b": numbers(3, seed=1)}
    after = export_model(raised(text, 18, 24))
    np.testing.assert_allclose(
        run(after, feeds)[0], run(parse(text, 18), feeds)[0], rtol=1e-5, atol=1e-6
    )


def test_group_normalization_keeps_its_precision() -> None:
    text = """agraph (float16[a,b,c] x, float16[3] s, float16[3] b) => (float16[a,b,c] y)
        { y = GroupNormalization <num_groups = 3> (x, s, b) }"""
    model = raised(text, 18, 21)
    assert [node.attribute["stash_type"] for node in model.graph.of_type("GroupNormalization")] == [
        10
    ]
    function = """agraph (float[a,b,c] x, float[3] s) => (float[a,b,c] y) { y = own.f (x, s) }
        <domain: "own", opset_import: ["" : 18]> f (x,
          s) => (y) { y = GroupNormalization <num_groups = 3> (x, s, s) }"""
    assert "precision" in reason(function, 18, 21, domains={"own": 1})
