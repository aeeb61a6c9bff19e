"""Nodes that scale and shift channels, as one map of these channels."""

import numpy as np
import pytest

from tests.support import load
from xoptim.facts.errors import Declined
from xoptim.match.view import GraphView
from xoptim.patterns._channels import ChannelAffine, affine_above, affine_of

STEPS = ("Mul", "Div", "Add", "Sub", "BatchNormalization")
HEAD = (
    "agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2,1] c = {3, -4}, float d = {2}, "
    "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}>"
)


def view_of(nodes: str) -> GraphView:
    return GraphView(load(f"{HEAD} {{ {nodes} }}").graph)


def affine(line: str) -> ChannelAffine:
    """The map of x that one node computes."""
    g = view_of(line)
    (node,) = g.graph.nodes
    return affine_of(g, node, "x", rank=3, channels=2)


@pytest.mark.parametrize(
    ("line", "scale", "shift", "scales", "shifts"),
    [
        ("y = Add(c, x)", [1, 1], [3, -4], False, True),
        ("y = Sub(x, c)", [1, 1], [-3, 4], False, True),
        ("y = Mul(c, x)", [3, -4], [0, 0], True, False),
        ("y = Div(x, d)", [0.5, 0.5], [0, 0], True, False),
        ("y = BatchNormalization <epsilon = 0.25> (x, s, o, m, v)", [2, 2], [-2, 1], True, True),
    ],
)
def test_one_node(
    line: str, scale: list[float], shift: list[float], scales: bool, shifts: bool
) -> None:
    step = affine(line)
    np.testing.assert_array_equal(step.scale, scale)
    np.testing.assert_array_equal(step.shift, shift)
    assert (step.scales, step.shifts) == (scales, shifts)


@pytest.mark.parametrize("line", ["y = Sub(c, x)", "y = Div(d, x)", "y = Mul(x, x)"])
def test_a_node_without_a_constant_to_apply_maps_nothing(line: str) -> None:
    with pytest.raises(Declined, match="per channel"):
        affine(line)


@pytest.mark.parametrize(("number", "fits"), [(1e18, True), (1e20, False), (0, True)])
@pytest.mark.parametrize("operator", ["Mul", "Div"])
def test_very_large_and_very_small_factors_are_refused(
    operator: str, number: float, fits: bool
) -> None:
    """Conv(x, 1e-30) · 1e30 is finite where x · 1e30 would overflow."""
    text = f"{HEAD[:-1]}, float k = {{{number}}}> {{ y = {operator}(x, k) }}"
    g = GraphView(load(text).graph)
    (node,) = g.graph.nodes
    if fits and (number or operator == "Mul"):
        assert affine_of(g, node, "x", rank=3, channels=2).scales
        return
    with pytest.raises(Declined, match="very" if number else "divisor"):
        affine_of(g, node, "x", rank=3, channels=2)


def test_a_factor_keeps_the_sign_of_a_zero() -> None:
    bias = affine("y = Mul(x, d)").bias(np.array([-0.0, 0.0]), np.dtype(np.float32))
    assert np.signbit(bias).tolist() == [True, False]


def test_a_row_of_nodes() -> None:
    g = view_of(
        "p = Sub(x, c) q = Div(p, d) r = BatchNormalization <epsilon = 0.25> (q, s, o, m, v) "
        "t = Mul(c, r) u = Add(t, d) y = Relu(u)"
    )
    row = affine_above(g, "u", 1, 2, STEPS, shifts=True)
    x, c, d = np.array([5.0, 7.0]), np.array([3.0, -4.0]), 2.0
    expected = ((x - c) / d * 2 + [-2, 1]) * c + d
    np.testing.assert_allclose(row.scale * x + row.shift, expected)
    assert row.source == "x"
    assert [node.op_type for node in row.nodes] == [
        "Add",
        "Mul",
        "BatchNormalization",
        "Div",
        "Sub",
    ]


def test_a_row_without_summands_ends_before_them() -> None:
    g = view_of("p = Add(x, c) q = Mul(p, c) r = Div(q, d) y = Relu(r)")
    row = affine_above(g, "r", 1, 2, STEPS)
    assert row.source == "p"
    np.testing.assert_array_equal(row.scale, [1.5, -2])
