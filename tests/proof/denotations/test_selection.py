import numpy as np
import pytest

from tests.proof.denotations.checking import check
from tests.support import parse
from xoptim.proof.proving import prove_models


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int) -> None:
    check(
        f"(float[2,3] x, int64[2,2] i) => (float[A,B] y) {{ y = GatherElements <axis = {axis}> "
        "(x, i) }",
        feeds={"i": np.array([[0, -1], [1, 0]])},
    )


@pytest.mark.parametrize(("x", "i"), [("2,3", "2"), ("3", "2"), ("2,3", "1,2"), ("2,3", "1")])
def test_array_feature_extractor(x: str, i: str) -> None:
    check(
        f"(float[{x}] x, int64[{i}] i) => (float[A,B] y) "
        "{ y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }"
    )


def test_compress() -> None:
    check(
        "(float[2,5] x) => (float[A,B] y) <bool[4] c = {1, 0, 1, 1}> "
        "{ y = Compress <axis = 1> (x, c) }"
    )


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_eye_like(k: int) -> None:
    check(f"(float[2,3] x) => (float[A,B] y) {{ y = EyeLike <k = {k}> (x) }}")


@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot(axis: int) -> None:
    check(
        "(int64[4] i, float[2] v) => (float[A,B] y) <int64 d = {3}> "
        f"{{ y = OneHot <axis = {axis}> (i, d, v) }}",
        exact=False,
        feeds={"i": np.array([0, 2, -1, 5])},
    )


@pytest.mark.parametrize("settings", ["", "<exclusive = 1>", "<reverse = 1>"])
@pytest.mark.parametrize("axis", [0, -1])
def test_cumulative_sum(settings: str, axis: int) -> None:
    check(
        f"(float[2,4] x) => (float[A,B] y) <int64 a = {{{axis}}}> "
        f"{{ y = CumSum {settings} (x, a) }}",
        exact=False,
    )


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pad_with_elements(mode: str) -> None:
    check(
        "(float[2,4] x) => (float[A,B] y) <int64[4] p = {0, 2, 1, 3}> "
        f'{{ y = Pad <mode = "{mode}"> (x, p) }}',
        19,
    )


def test_scatter_nd() -> None:
    check(
        "(float[4,2] x, float[3,2] u) => (float[A,B] y) <int64[3,1] i = {2, 0, -2}> "
        "{ y = ScatterND(x, i, u) }"
    )
    check(
        "(float[2,3] x, float[2] u) => (float[A,B] y) <int64[2,2] i = {1, -1, 0, 1}> "
        "{ y = ScatterND(x, i, u) }"
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(axis: int) -> None:
    check(
        "(float[2,3] x, float[1,2] u) => (float[A,B] y) <int64[1,2] i = {1, -2}> "
        f"{{ y = ScatterElements <axis = {axis}> (x, i, u) }}"
    )


def test_scaler() -> None:
    check(
        "(float[2,3] x) => (float[A,B] y) { y = ai.onnx.ml.Scaler "
        "<offset = [1.0, 0.5, -1.0], scale = [2.0, 0.25, 3.0]> (x) }",
        exact=False,
    )
    check(
        "(float[2,3] x) => (float[A,B] y) "
        "{ y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x) }",
        exact=False,
    )


@pytest.mark.parametrize("axis", [0, -1])
def test_lp_normalization(axis: int) -> None:
    check(
        f"(float[2,3] x) => (float[A,B] y) {{ y = LpNormalization <axis = {axis}> (x) }}",
        exact=False,
    )


def test_shift_of_bits() -> None:
    check(
        "(uint32[3] x) => (uint32[A] y) <uint32 n = {3}> "
        '{ y = BitShift <direction = "LEFT"> (x, n) }'
    )


@pytest.mark.parametrize(
    "equation", ["...ij,jk", "...ij,...jk->...ik", "...i->...", "i...,i->i..."]
)
def test_einsum_with_ellipsis(equation: str) -> None:
    rank = {"...ij,jk": 3, "...ij,...jk->...ik": 3, "...i->...": 2, "i...,i->i...": 3}[equation]
    second = {"...ij,jk": "2,4", "...ij,...jk->...ik": "2,2,3", "i...,i->i...": "2"}.get(equation)
    names = "(x, w)" if second else "(x)"
    more = f", float[{second}] w" if second else ""
    check(
        f"(float[2,3,2] x{more}) => (float[{','.join('ABCD'[:rank])}] y) "
        f'{{ y = Einsum <equation = "{equation}"> {names} }}',
        exact=False,
    )


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("settings", ["axis = 1", "axis = 0", "axis = -1, select_last_index = 1"])
@pytest.mark.parametrize("exact", [False, True])
def test_place_of_an_extreme(op_type: str, settings: str, *, exact: bool) -> None:
    check(
        f"(float[2,4] x) => (int64[A,B] y) {{ y = {op_type} <{settings}> (x) }}",
        exact=exact,
        feeds={"x": np.array([[1, 3, 3, 1], [2, 0, 2, 0]], np.float32)},
    )


@pytest.mark.parametrize(
    ("inputs", "settings"),
    [
        ("(x, , s)", ""),
        ("(x, , s)", '<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">'),
        ("(x, , s)", '<nearest_mode = "round_prefer_ceil">'),
        ("(x, , , z)", ""),
        ("(x, , o)", '<mode = "linear">'),
        ("(x, , o)", '<mode = "cubic">'),
        ("(x, , t)", "<axes = [2, 3]>"),
    ],
)
def test_resize(inputs: str, settings: str) -> None:
    check(
        "(float[1,2,2,3] x) => (float[A,B,C,D] y) <float[4] s = {1, 1, 2, 3}, "
        "float[4] o = {1, 1, 1, 1}, int64[4] z = {1, 2, 6, 6}, float[2] t = {3, 2}> "
        f"{{ y = Resize {settings} {inputs} }}"
    )


def test_upsample() -> None:
    check(
        "(float[1,2,2,3] x) => (float[A,B,C,D] y) <float[4] s = {1, 1, 2, 3}> "
        "{ y = Upsample(x, s) }",
        9,
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = Identity(x)", "y = ScatterND(x, i, u)"),
        ("y = Identity(x)", "y = ScatterElements(x, j, v)"),
        ("y = Gather <axis = 1> (x, k)", "y = ai.onnx.ml.ArrayFeatureExtractor(x, k)"),
    ],
)
def test_indices_that_only_the_result_refuses(before: str, after: str) -> None:
    signature = (
        "(float[3,4] x, float[1,4] u, float[1,1] v, int64[2] k) => (float[A,B] y) "
        "<int64[1,1] i = {5}, int64[1,1] j = {3}>"
    )
    first, second = (
        parse(f"g {signature} {{ {node} }}", 18, domains={"ai.onnx.ml": 1})
        for node in (before, after)
    )
    assert not prove_models(first, second).is_proved
