"""Pairs of Transpose, Squeeze and Unsqueeze, with and without a known rank."""

from itertools import permutations, product

import numpy as np
import pytest

from tests.support import parse, types
from xoptim import optimize
from xoptim.patterns.movement._movement import NEW, axes_after, axes_movement


def moved(x: np.ndarray, op_type: str, numbers: list[int]) -> np.ndarray:
    """A movement by numpy."""
    if op_type == "Transpose":
        return x.transpose(numbers)
    return x.squeeze(tuple(numbers)) if op_type == "Squeeze" else np.expand_dims(x, tuple(numbers))


def lists(op_type: str, rank: int) -> list[list[int]]:
    """All permutations, or lists of one axis, for a tensor of some rank."""
    if op_type == "Transpose":
        return [list(perm) for perm in permutations(range(rank))]
    low, end = (-rank, rank) if op_type == "Squeeze" else (-rank - 1, rank + 1)
    return [[axis] for axis in range(low, end)]


OPERATORS = ("Transpose", "Squeeze", "Unsqueeze")


@pytest.mark.parametrize("pair", [*product(OPERATORS, repeat=2)], ids="-".join)
def test_movements_compose(pair: tuple[str, str]) -> None:
    """What is written for two movements gives the shape and the order of both."""
    written = 0
    for shape in ((), (1,), (3,), (1, 3), (3, 1), (1, 1, 2), (2, 1, 3), (3, 2, 1)):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        for inner in lists(pair[0], x.ndim):
            middle_axes = axes_after(pair[0], inner, range(x.ndim))
            assert middle_axes is not None
            if pair[0] == "Squeeze" and shape[inner[0]] != 1:
                continue
            middle = moved(x, pair[0], inner)
            assert middle.shape == tuple(1 if axis == NEW else shape[axis] for axis in middle_axes)
            for outer in lists(pair[1], middle.ndim):
                if pair[1] == "Squeeze" and middle.shape[outer[0]] != 1:
                    continue
                axes = axes_after(pair[1], outer, middle_axes)
                assert axes is not None
                movement = axes_movement(axes, x.ndim)
                if movement is not None:
                    written += 1
                    result = moved(x, *movement) if movement[0] else x
                    np.testing.assert_array_equal(result, moved(middle, pair[1], outer))
    assert written > 0


@pytest.mark.parametrize(
    ("op_type", "numbers"),
    [
        ("Transpose", [0, 0]),
        ("Transpose", [0]),
        ("Transpose", [-1, 0]),
        ("Squeeze", [2]),
        ("Unsqueeze", [3]),
        ("Unsqueeze", [1, 1]),
    ],
)
def test_lists_that_are_not_valid(op_type: str, numbers: list[int]) -> None:
    assert axes_after(op_type, numbers, range(2)) is None


ANY_RANK = "agraph (float x) => (float y) <int64[{}] i = {{{}}}, int64[{}] j = {{{}}}> "


@pytest.mark.parametrize(
    ("pair", "inner", "outer", "result"),
    [
        ("SqueezeSqueeze", [1], [1], ("Squeeze", [1, 2])),
        ("SqueezeSqueeze", [1], [-1], None),
        ("SqueezeSqueeze", [1, 1], [0], ("Squeeze", [0, 1])),
        ("UnsqueezeUnsqueeze", [1], [0], ("Unsqueeze", [0, 2])),
        ("UnsqueezeUnsqueeze", [1], [-1], None),
        ("SqueezeUnsqueeze", [-1], [-1], ("", [])),
        ("SqueezeUnsqueeze", [1], [-1], None),
        ("SqueezeUnsqueeze", [1], [0], None),
        ("UnsqueezeSqueeze", [-1], [-1], ("", [])),
        ("UnsqueezeSqueeze", [0, 2], [0], ("Unsqueeze", [1])),
        ("UnsqueezeSqueeze", [0], [0, 2], ("Squeeze", [1])),
        ("UnsqueezeSqueeze", [0, 2], [0, 1], ("", [])),
        ("UnsqueezeSqueeze", [0], [2], None),
    ],
)
def test_a_rank_that_is_not_known(
    pair: str, inner: list[int], outer: list[int], result: tuple[str, list[int]] | None
) -> None:
    first = "Squeeze" if pair.startswith("Squeeze") else "Unsqueeze"
    second = pair.removeprefix(first)
    numbers = (len(inner), ", ".join(map(str, inner)), len(outer), ", ".join(map(str, outer)))
    model = parse(
        ANY_RANK.format(*numbers) + f"{{ t = {first}(x, i) u = {second.capitalize()}(t, j) "
        "y = Relu(u) }"
    )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    optimized = optimize(model, patterns=pair)
    if result is None:
        assert types(optimized) == [first, second, "Relu"]
        return
    op_type, axes = result
    assert types(optimized) == [*([op_type] if op_type else []), "Relu"]
    stored = [list(np.frombuffer(t.raw_data, np.int64)) for t in optimized.graph.initializer]
    assert stored == ([axes] if op_type else [])


def test_transposes_of_a_rank_that_is_not_known() -> None:
    model = parse(
        "agraph (float x) => (float y) { t = Transpose <perm = [1, 2, 0]> (x) "
        "y = Transpose <perm = [1, 0, 2]> (t) }"
    )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    (node,) = optimize(model, patterns="TransposeTranspose").graph.node
    assert (node.op_type, list(node.attribute[0].ints)) == ("Transpose", [2, 1, 0])
