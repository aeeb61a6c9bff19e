import re
from typing import Any

import numpy as np
import pytest

from tests.passes.opsets.raised import F32, check, numbers, reason

X = {"x": numbers(2, 3, 4)}
REDUCTIONS = ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    "attributes",
    ["", "<axes = [1]>", "<axes = [0, 2], keepdims = 0>", "<axes = [-1]>", "<keepdims = 0>"],
)
@pytest.mark.parametrize("shape", ["[a,b,c]", "[2,3,4]"])
def test_reductions(name: str, attributes: str, shape: str) -> None:
    text = f"agraph (float{shape} x) => (float[] y) {{ y = Reduce{name} {attributes} (x) }}"
    for opset in (11, 12):
        for target in (13, 18, 24):
            assert check(
                text.replace("float[]", "float[d,e,f]" if "keep" not in attributes else "float"),
                opset,
                target,
                X,
            )


def test_reduction_over_an_empty_list_of_axes() -> None:
    text = "agraph (float[a,b,c] x) => (float[d,e,f] y) { y = ReduceSum <axes: ints = []> (x) }"
    assert check(text, 11, 24, X) == ["ReduceSum"]


CASES: list[tuple[str, int, dict[str, Any]]] = [
    (
        "agraph (float[2,1,3,1] x) => (float[a,b] y) { y = Squeeze (x) }",
        11,
        {"x": numbers(2, 1, 3, 1)},
    ),
    (
        "agraph (float[2,1,3,1] x) => (float[a,b,c] y) { y = Squeeze <axes = [1]> (x) }",
        7,
        {"x": numbers(2, 1, 3, 1)},
    ),
    (
        "agraph (float[n,1,3,1] x) => (float[a,b] y) { y = Squeeze <axes = [-1, 1]> (x) }",
        11,
        {"x": numbers(2, 1, 3, 1)},
    ),
    (
        "agraph (float[n,3] x) => (float[a,b,c,d] y) { y = Unsqueeze <axes = [0, 3]> (x) }",
        7,
        {"x": numbers(0, 3)},
    ),
    (
        "agraph (float[n,3] x) => (float[a,b,c] y) { y = Unsqueeze <axes = [-1]> (x) }",
        12,
        {"x": numbers(2, 3)},
    ),
    (
        "agraph (float[4,n] x) => (float[a,b] y, float[c,d] z) { y, z = Split (x) }",
        7,
        {"x": numbers(4, 3)},
    ),
    (
        (
            "agraph (float[n,5] x) => (float[a,b] y, float[c,d] z) { "
            "y, z = Split <axis = 1, split = [2, 3]> (x) }"
        ),
        11,
        {"x": numbers(4, 5)},
    ),
    (
        "agraph (float[n,6] x) => (float[a,b] y, float[c,d] z) { y, z = Split <axis = -1> (x) }",
        13,
        {"x": numbers(0, 6)},
    ),
    (
        "agraph (float[n,0] x) => (float[a,b] y, float[c,d] z) { y, z = Split <axis = 1> (x) }",
        12,
        {"x": numbers(3, 0)},
    ),
    (
        "agraph (float[n,m] x) => (float[a,b] y, float[c,d] z) { y, z = Split <axis = 1> (x) }",
        12,
        {"x": numbers(0, 4)},
    ),
    (
        "agraph (float[n,m] x) => (float[a,b] y, float[c,d] z) { y, z = Split <axis = -1> (x) }",
        13,
        {"x": numbers(3, 0)},
    ),
    (
        "agraph (float[n,m] x) => (float[a,b] y, float[c,d] z) { y, z = Split <axis = -2> (x) }",
        13,
        {"x": numbers(4, 1)},
    ),
    (
        "agraph (float[n,6] x) => (float[a,b] y) { y = Slice <starts = [1], ends = [-1]> (x) }",
        7,
        {"x": numbers(4, 6)},
    ),
    (
        """agraph (float[n,6] x) => (float[a,b] y)
     { y = Slice <axes = [1, 0], starts = [-4, 0], ends = [9223372036854775807, 2]> (x) }""",
        9,
        {"x": numbers(4, 6)},
    ),
    (
        "agraph (float[n,6] x) => (float[a,b] y, int64[a,b] i) { y, i = TopK <k = 2> (x) }",
        9,
        {"x": numbers(4, 6)},
    ),
    (
        (
            "agraph (float[n,6] x) => (float[a,b] y, int64[a,b] i) { "
            "y, i = TopK <k = 2, axis = 0> (x) }"
        ),
        7,
        {"x": numbers(4, 6)},
    ),
    (
        "agraph (float[n] x) => (float[n] y) { y = Clip (x) }",
        7,
        {"x": np.array([-np.inf, 1, np.nan, np.inf], F32)},
    ),
    (
        "agraph (float[n] x) => (float[n] y) { y = Clip <min = 0.0> (x) }",
        7,
        {"x": np.array([-np.inf, 1, -1, np.inf], F32)},
    ),
    (
        "agraph (float[n] x) => (float[n] y) { y = Clip <max = 0.5> (x) }",
        10,
        {"x": np.array([-np.inf, 1, -1, np.inf], F32)},
    ),
    (
        "agraph (float[n,m] x) => (float[a,b] y) { y = Pad <pads = [0, 1, 2, -1]> (x) }",
        7,
        {"x": numbers(2, 3)},
    ),
    (
        (
            "agraph (float[n,m] x) => (float[a,b] y) { "
            "y = Pad <pads = [0, 1, 2, 0], value = 0.5> (x) }"
        ),
        10,
        {"x": numbers(2, 3)},
    ),
    (
        """agraph (float[n,m] x) => (float[a,b] y)
      { y = Pad <mode = "reflect", pads = [1, 1, 1, 0]> (x) }""",
        8,
        {"x": numbers(2, 3)},
    ),
    ("agraph (float[n] x) => (float[n] y) { y = Dropout <ratio = 0.3> (x) }", 7, {"x": numbers(5)}),
    ("agraph (float[n] x) => (float[n] y) { y, unread = Dropout (x) }", 9, {"x": numbers(5)}),
    (
        "agraph (float[n] x) => (float[n] y) { y, unread = Dropout <ratio = 0.3> (x) }",
        11,
        {"x": numbers(5)},
    ),
    ("agraph (float[n,6,1] x) => (float[a,b,c] y) { y = DFT (x) }", 17, {"x": numbers(2, 6, 1)}),
    (
        "agraph (float[n,6,1] x) => (float[a,b,c] y) { y = DFT <onesided = 1> (x) }",
        17,
        {"x": numbers(2, 6, 1)},
    ),
    (
        """agraph (float[n,6,5,2] x) => (float[a,b,c,d] y) { l = Constant <value = int64 {8}> ()
     y = DFT <axis = 2, inverse = 1> (x, l) }""",
        19,
        {"x": numbers(2, 6, 5, 2)},
    ),
]


@pytest.mark.parametrize(("text", "opset", "feeds"), CASES)
def test_attributes_that_became_operands(text: str, opset: int, feeds: dict[str, Any]) -> None:
    for target in {*(t for t in (11, 13, 18, 20) if t > opset), 24, 26}:
        check(text, opset, target, feeds)


def test_a_bound_of_unknown_type_is_converted_at_run_time() -> None:
    function = """agraph (float[n] x) => (float[n] y) { y = own.f (x) }
        <domain: "own", opset_import: ["" : 7]> f (x) => (y)
        { z = Clip <min = 0.1> (x) y = Pad <pads = [0, 0], value = 2.0> (z) }"""
    feeds = {"x": numbers(5)}
    options = {"domains": {"own": 1}}
    assert check(function, 7, 24, feeds, **options) == ["CastLike", "Clip", "CastLike", "Pad", "f"]
    assert "type of 'x'" in reason(function, 7, 13, **options)


def test_default_bounds_are_omitted() -> None:
    text = (
        "agraph (float[n] x) => (float[n] y) { "
        "y = Clip <min = 0.0, max = 3.4028234663852886e38> (x) }"
    )
    assert check(text, 7, 24, {"x": np.array([-1, 1e38, np.inf], F32)}) == ["Clip"]


@pytest.mark.parametrize("opset", [7, 10])
def test_a_mask_that_is_read(opset: int) -> None:
    kind = "float" if opset < 10 else "bool"
    text = f"agraph (float[n] x) => (float[n] y, {kind}[n] m) {{ y, m = Dropout (x) }}"
    assert re.search("Dropout .*'y' .* mask ", reason(text, opset, 24))


def test_a_mask_that_a_branch_reads() -> None:
    text = """agraph (float[n] x, bool c) => (float[n] y) { d, m = Dropout (x)
        y = If (c) <then_branch = g () => (float[n] p) { p = Add(d, m) },
                    else_branch = h () => (float[n] q) { q = Neg(d) }> }"""
    assert " mask " in reason(text, 7, 24)


def test_an_attribute_of_the_caller() -> None:
    text = """agraph (float[n] x) => (float[n] y) { y = own.f <axes = [0]> (x) }
        <domain: "own", opset_import: ["" : 11]> f <axes> (x) => (y)
        { n = Unsqueeze <axes: ints = @axes> (x) y = Squeeze(n) }"""
    message = reason(text, 11, 13, domains={"own": 1})
    assert re.search(r"Unsqueeze .*'n' .*'f' .* 13: .* axes .* caller ", message)
