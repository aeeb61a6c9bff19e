"""Numbers that a model compares with sizes: those that meet an open axis or a position, and no
others.
"""

import numpy as np
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.verification.inputs.size_bounds import size_bounds
from xoptim.verification.inputs.sized import SizedModel

HEAD = "agraph (float[batch,seq,8] x, int64[batch,seq] ids) => (float y)"
CONSTANTS = """<int64 z = {0}, int64 one = {1}, int64[1] z1 = {0}, int64[1] one1 = {1},
  int64[1] two1 = {2}, int64[1] e = {5},
    int64 most = {300}, float mostf = {300}, int64[1] many = {40}>"""
LENGTH = "s = Shape(x) n = Gather(s, one)"


def bounds(body: str, head: str = HEAD) -> list[tuple[int, list[str] | None]]:
    model = parse(f"{head} {CONSTANTS} {{ {body} }}")
    tables = {"words": (9000, 8), "places": (77, 8), "mask": (1, 1, 88, 88)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ones(s, np.float32), n) for n, s in tables.items()
    )
    return [
        (bound.size, bound.dims and sorted(bound.dims))  # type: ignore[misc]
        for bound in size_bounds(SizedModel(model, None))
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Slice(x, z1, e, one1)", [(5, ["seq"])]),
        ("y = Slice(x, z1, e, z1)", [(5, ["batch"])]),
        ("y = Slice(x, z1, e, two1)", []),  # an axis of fixed length
        ("y = TopK(x, many)", []),
        ("t = Transpose <perm = [2, 0, 1]> (x) y, i = TopK(t, many)", [(40, ["seq"])]),
        (f"{LENGTH} y = Min(n, most)", [(300, ["seq"])]),
        (f"{LENGTH} f = Cast <to = 1> (n) y = Clip(f, mostf, mostf)", [(300, ["seq"])]),
        (f"{LENGTH} r = Range(z, n, one) y = Less(r, most)", [(300, ["seq"])]),
        (f"{LENGTH} m = Mul(n, most) y = Min(m, one)", []),
        ("n = Size(x) y = Min(n, most)", [(300, ["batch", "seq"])]),
        (f"{LENGTH} r = Range(z, n, one) y = Gather(places, r)", [(77, ["seq"])]),
        (f"{LENGTH} f = Cast <to = 1> (n) l = Log(f) y = Min(l, mostf)", [(2400, ["seq"])]),
        ("c = CumSum(ids, one) y = Gather(places, c)", [(77, ["seq"])]),
        (
            (
                f"{LENGTH} u = Unsqueeze(n, z1) v = Concat <axis = 0> (u, u) "
                "a = Concat <axis = 0> (two1, e) w = Slice(mask, z1, u, two1) y = Identity(w)"
            ),
            [(88, ["seq"])],
        ),
        ("y = Gather(words, ids)", []),  # a vocabulary
        ("s = Shape(ids) i = Reshape(ids, s) y = Gather(words, i)", []),
        ("y = Add(words, words)", []),
        ("p = Less(ids, most) y = Cast <to = 1> (p)", []),  # a token, not a length
        ("h = Constant <value_ints = [0, 0, 2, 4]> () y = Reshape(x, h)", []),  # heads
        (
            (
                "h = Constant <value_ints = [-1, 4]> () t = Reshape(x, h) "
                "i = Constant <value_ints = [-1, 2, 2]> () y = Reshape(t, i)"
            ),
            [],
        ),
        # one element is left of four
        (
            ("r = Constant <value_floats = [1.0, 0.3, 0.5]> () y = Resize(x, , r)"),
            [(4, ["seq"])],
        ),
        ("r = Constant <value_floats = [1.0, 2.0, 0.5]> () y = Resize(x, , r)", []),
        # 300 of boxes that overlap are kept
        (
            ("b = Slice(x, z1, many, two1) n = NonMaxSuppression(b, b, most) y = Identity(n)"),
            [(2400, ["seq"])],
        ),
        # windows of two positions
        ("h = Constant <value_ints = [0, -1, 16]> () y = Reshape(x, h)", [(16, ["batch", "seq"])]),
    ],
)
def test_where_numbers_meet_sizes(body: str, expected: list[tuple[int, list[str]]]) -> None:
    assert bounds(body) == expected


def test_sizes_inside_subgraphs_and_functions() -> None:
    text = f"""{LENGTH} b = Less(n, one) y = If(b) <then_branch = t () => (int64 p) {{
      p = Min(n, most) }},
        else_branch = e () => (int64 q) {{ q = Identity(n) }}>"""
    assert (300, ["seq"]) in bounds(text)
    model = parse(
        """agraph (float[n] x) => (float[n] y) { y = local.f(x) }
        <domain: "local",
          opset_import: ["" : 18]> f (u) => (v)
          { k = Constant<value_int = 17>() s = Shape(u) m = Min(s, k)
        v = Expand(u, m) }""",
        domains={"local": 1},
    )
    assert [(bound.size, bound.dims) for bound in size_bounds(SizedModel(model, None))] == [
        (17, None)
    ]
    same_names = parse(
        """agraph (float[n] u) => (float[n] y) <float
          k = {40}> { a = local.f(u) b = Neg(u) y = Add(b, k) }
        <domain: "local", opset_import: ["" : 18]> f (u) => (v) { v = Neg(u) }""",
        domains={"local": 1},
    )
    assert size_bounds(SizedModel(same_names, None)) == []


def test_a_size_of_unknown_origin() -> None:
    """A result of a rank that nothing tells, as of an operator that is not known."""
    model = parse(
        "agraph (float[n] x) => (float y) <int64[1] z = {0}, int64[1] e = {50}> { "
        "t = other.Unknown(x) y = Slice(t, z, e) }",
        domains={"other": 1},
    )
    assert [(bound.size, bound.dims) for bound in size_bounds(SizedModel(model, None))] == [
        (50, None)
    ]
