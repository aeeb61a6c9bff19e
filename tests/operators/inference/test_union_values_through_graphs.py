"""Shapes computed inside a model: what is known of every intermediate result, against runs."""

import numpy as np
import onnx
import pytest

from tests.operators.inference.context import infer_model
from tests.operators.inference.oracle import ASSIGNMENTS, check_run, random_array, session
from xoptim.facts.dims import dim_max, dim_min, evaluate, named
from xoptim.facts.shapes import Info

n, m = named("n"), named("m")


def _check(text: str, opset: int = 18) -> dict[str, Info]:
    """Facts about every result of a graph in ONNX text form, after running it under each assignment
    of the symbols.
    """
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')
    known = infer_model(model)
    onnx.checker.check_model(model, full_check=True)
    outputs = {value.name for value in model.graph.output}
    for name in sorted({name for node in model.graph.node for name in node.output} - outputs):
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    runner = session(model)
    names = [value.name for value in runner.get_outputs()]
    for assignment in ASSIGNMENTS:
        values = dict(assignment)
        feeds = {}
        for value in model.graph.input:
            info = known[value.name]
            feeds[value.name] = random_array(
                info.dtype, [evaluate(d, values) for d in info.shape or ()]
            )
        results: dict[str, np.ndarray] = dict(zip(names, runner.run(names, feeds), strict=True))
        # in order: a new symbol gets its number where it first occurs
        for node in model.graph.node:
            for name in node.output:
                check_run(known[name], results[name], values)
    return known


def test_split_of_heads() -> None:
    known = _check("""
        g (float[n, m, 64] x) => (float[a, b, c, d] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[2] tail = {8, -1},
          int64[1] eight = {8}>
        {
            s = Shape (x)
            batch = Gather (s, zero)
            length = Gather (s, one)
            batch1 = Unsqueeze (batch, axis)
            length1 = Unsqueeze (length, axis)
            target = Concat <axis = 0> (batch1, length1, tail)
            heads = Reshape (x, target)
            y = Transpose <perm = [0, 2, 1, 3]> (heads)
        }""")
    assert known["target"].data == (n, m, 8, -1)
    assert known["y"].shape == (n, 8, m, 8)


def test_expansion_with_wildcards() -> None:
    known = _check("""
        g (float[n, 1] x, float[n, m] like) => (float[a, b] y)
        <int64[2] wish = {-1, -1}, int64[1] minus = {-1}, int64[1] two = {2}>
        {
            s = Shape (like)
            ones = ConstantOfShape <value = int64[1] {1}> (two)
            keep = Equal (wish, minus)
            chosen = Where (keep, s, wish)
            y = Expand (x, chosen)
        }""")
    assert known["chosen"].data == (n, m)
    assert known["y"].shape == (n, m)


def test_causal_mask() -> None:
    known = _check("""
        g (float[1, 1, 32, 32] mask, float[2, n, m] x) => (float[a, b, c, d] y)
        <int64 one = {1}, int64[1] first = {0}, int64[1] zero = {0}, int64[1] axis = {3},
          int64 limit = {32}>
        {
            s = Shape <start = 1> (x)
            length = Gather (s, one)
            short = Min (length, limit)
            end = Unsqueeze (short, first)
            y = Slice (mask, zero, end, axis)
        }""")
    assert known["y"].shape == (1, 1, 32, dim_min(m, 32))


def test_last_positions() -> None:
    known = _check("""
        g (float[n, m] x) => (float[a, b] y)
        <int64[1] one = {1}, int64[1] axis = {1}, int64[1] far = {9223372036854775807},
          int64[1] zero = {0}>
        {
            s = Shape (x)
            size = Slice (s, one, far, zero)
            rest = Sub (size, one)
            y = Slice (x, one, far, axis)
            z = Slice (x, zero, rest, axis)
        }""")
    assert known["rest"].data == (m - 1,)
    assert known["y"].shape == (n, dim_max(m - 1, 0))


def test_flattening_by_a_product() -> None:
    known = _check("""
        g (float[n, m, 4] x) => (float[a, b] y)
        <int64[1] four = {4}, int64[2] ends = {0, 1}>
        {
            s = Shape (x)
            lead = Gather (s, ends)
            size = ReduceProd <keepdims = 1> (lead)
            target = Concat <axis = 0> (size, four)
            y = Reshape (x, target)
            back = Reshape (y, s)
            total = Size (x)
            rows = Div (total, four)
        }""")
    assert known["y"].shape == (n * m, 4)
    assert known["back"].shape == (n, m, 4)
    assert known["rows"].data == (n * m,)


def test_positions() -> None:
    known = _check(
        """
        g (float[n, m] x) => (int64[a, b] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}>
        {
            s = Shape (x)
            first, last = Split <num_outputs = 2> (s)
            size = Squeeze (last, axis)
            numbers = Range (zero, size, one)
            row = Unsqueeze (numbers, axis)
            y = Expand (row, s)
        }""".replace("parts = Split", "first, parts = Split")
    )
    assert known["numbers"].shape == (m,)
    assert known["y"].shape == (n, m)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_numbers_through_floating_point(opset: int) -> None:
    known = _check(
        """
        g (float[n, 3, 8, 8] x) => (int64[a] y)
        <float[1] two = {2.0}, int64[1] begin = {2}, int64[1] end = {4}, int64[1] axis = {0}>
        {
            s = Shape (x)
            spatial = Slice (s, begin, end, axis)
            real = Cast <to = 1> (spatial)
            larger = Mul (real, two)
            whole = Floor (larger)
            y = Cast <to = 7> (whole)
        }""",
        opset,
    )
    assert known["y"].data == (16, 16)


def test_unknown_parts_do_not_hide_known_ones() -> None:
    known = _check("""
        g (float[n, m] x, int64[1] given) => (float[a, b, c] y)
        <int64[1] zero = {0}, int64[1] one = {1}>
        {
            s = Shape (x)
            rows = Gather (s, zero)
            target = Concat <axis = 0> (rows, one, given)
            y = ConstantOfShape (target)
            back = Shape (y)
        }""")
    assert known["target"].data is not None
    assert known["target"].data[:2] == (n, 1)
    assert known["y"].shape == known["target"].data == known["back"].data


def test_tile_and_pad_by_computed_amounts() -> None:
    known = _check("""
        g (float[n, m] x) => (float[a, b] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] eight = {8}, int64[2] zeros = {0, 0}>
        {
            s = Shape (x)
            width = Gather (s, one)
            over = Mod (width, eight)
            missing = Sub (eight, over)
            pads = Concat <axis = 0> (zeros, zero, missing)
            wide = Pad (x, pads)
            times = Concat <axis = 0> (one, width)
            y = Tile (wide, times)
            half = Div (width, eight)
            bigger = Greater (eight, over)
            number = Cast <to = 7> (bigger)
        }""")
    assert known["wide"].shape == (n, m + 8 - m % 8)
    assert known["number"].data == (1,)
    assert known["half"].data == (m // 8,)


@pytest.mark.parametrize(
    "nodes", ["y = Mul(s, one)", "y = Mul(one, s)", "y = Add(s, zero)", "y = Sub(s, zero)"]
)
def test_neutral_numbers_leave_a_product_of_sizes_as_it_is(nodes: str) -> None:
    """The operand has room for it, which bounds of its factors do not show."""
    known = _check(
        "agraph (float[n,m] x) => (int64[1] y) <int64[1] t = {-1}, int64 one = {1}, "
        f"int64 zero = {{0}}> {{ r = Reshape(x, t) s = Shape(r) {nodes} }}"
    )
    assert known["y"].data == known["s"].data == (n * m,)
