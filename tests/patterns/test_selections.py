from collections.abc import Sequence

import pytest

from tests.support import load, node_of
from xoptim.match import GraphView
from xoptim.patterns._selections import Selection, joined, selected, slice_of, span_of

OPERANDS = ", ".join(
    f"int64[{text.count(',') + 1}] {name} = {{{text}}}"
    for name, text in {
        "s": "1",
        "e": "-1",
        "one": "1",
        "two": "1, 1",
        "k": "-1",
        "far": "5",
    }.items()
)


def found(line: str, opset: int) -> tuple[tuple[int, int, int] | None, tuple[int, str, str] | None]:
    """The part, by numbers only, and the part by numbers or symbols."""
    constants = f"<{OPERANDS}>" if opset >= 10 else ""
    graph = load(
        f"agraph (float[n,6] x, float[m] z) => (float[a,b] y) {constants} {{ {line} }}", opset
    ).graph
    view, node = GraphView(graph), node_of(graph, "Slice")
    cut, span = slice_of(view, node), span_of(view, node)
    part = None if cut is None else (cut.axis, cut.start, cut.end)
    return part, span and (span[0], str(span[1].start), str(span[1].end))


@pytest.mark.parametrize(
    ("opset", "line"),
    [
        (9, "y = Slice <starts = [1], ends = [-1], axes = [-1]> (x)"),
        (13, "y = Slice(x, s, e, one)"),
        (13, "y = Slice(x, s, e, k, one)"),
    ],
)
def test_a_part_is_found_in_both_forms(opset: int, line: str) -> None:
    assert found(line, opset) == ((1, 1, 5), (1, "1", "5"))


@pytest.mark.parametrize(
    ("opset", "line"),
    [
        (9, "y = Slice <starts = [1, 1], ends = [2, 2], axes = [0, 1]> (x)"),
        (13, "y = Slice(x, two, two)"),
        (9, "y = Slice <starts = [1], ends = [2], axes = [5]> (x)"),
        (13, "y = Slice(x, s, e, far)"),
        (13, "y = Slice(x, s, e, k, far)"),
        (13, "d = Shape(z) y = Slice(x, s, e, d)"),
    ],
)
def test_other_slices_are_not_parts(opset: int, line: str) -> None:
    """Two axes, an axis that is not there, steps, an axis that is not known."""
    assert found(line, opset) == (None, None)


def test_sizes_and_bounds_may_be_symbols() -> None:
    assert found("y = Slice <starts = [0], ends = [2]> (x)", 9) == (None, (0, "0", "2"))
    assert found("d = Shape(z) y = Slice(x, s, d, k)", 13) == (None, (1, "1", "m"))


@pytest.mark.parametrize(
    ("indices", "is_contiguous"),
    [
        ([3, 4, 5], True),
        (range(2, 6), True),
        ([7], True),
        (range(0, 2, 2), False),
        ([4, 2, 0], False),
        ([1, 1], False),
        ([0, 1, 3], False),
    ],
)
def test_a_selection_keeps_the_order_of_its_indices(
    indices: Sequence[int], is_contiguous: bool
) -> None:
    selection = Selection.of(indices)
    assert [*selection.indices] == [*indices]
    assert selection.is_contiguous == is_contiguous


@pytest.mark.parametrize(
    ("line", "axis", "indices", "drops"),
    [
        ("y = Slice(x, s, e, k, two)", 1, [1, 3], False),
        ("y = Slice(x, e, s, k, back)", 1, [5, 4, 3, 2], False),
        ("y = Slice(x, e, before, k, back)", 1, [5, 4, 3, 2, 1, 0], False),
        ("y = Gather <axis = -1> (x, i)", 1, [2, 5], False),
        ("y = Gather <axis = 1> (x, j)", 1, [4], True),
    ],
)
def test_slices_and_gathers_select(line: str, axis: int, indices: list[int], drops: bool) -> None:
    constants = (
        "<int64[1] s = {1}, int64[1] e = {-1}, int64[1] k = {1}, int64[1] two = {2}, "
        "int64[1] back = {-1}, int64[1] before = {-9}, int64[2] i = {2, -1}, int64 j = {4}>"
    )
    graph = load(f"agraph (float[n,6] x) => (float[a,b] y) {constants} {{ {line} }}", 13).graph
    part = selected(GraphView(graph), next(iter(graph.nodes)))
    assert part is not None
    assert (part.source, part.axis, part.size, part.drops) == ("x", axis, 6, drops)
    assert [*part.selection.indices] == indices


@pytest.mark.parametrize(
    ("constants", "line"),
    [
        ("int64[1] s = {1}, int64[1] zero = {0}", "y = Slice(x, s, s, s, zero)"),
        ("int64[1] s = {3}, int64[1] k = {1}", "y = Slice(x, s, s, k)"),
        ("int64[2] s = {1, 1}, int64[1] k = {1}", "y = Slice(x, s, s, k)"),
        ("int64[1] i = {6}", "y = Gather <axis = 1> (x, i)"),
        ("int64[0] i = {}", "y = Gather <axis = 1> (x, i)"),
        ("int64[1] i = {0}", "y = Gather <axis = 0> (x, i)"),
        ("int64[1,1] i = {0}", "y = Gather <axis = 1> (x, i)"),
    ],
)
def test_no_selection_without_constant_indices_within_the_axis(constants: str, line: str) -> None:
    """A step of 0, no index, several bounds, an index out of range, an axis of unknown size."""
    graph = load(f"agraph (float[n,6] x) => (float[a,b] y) <{constants}> {{ {line} }}", 13).graph
    assert selected(GraphView(graph), next(iter(graph.nodes))) is None


@pytest.mark.parametrize(("order", "indices"), [("b, a", [4, 5, 0, 1, 2, 3]), ("a, z", None)])
def test_a_concat_of_parts_selects(order: str, indices: list[int] | None) -> None:
    graph = load(
        "agraph (float[n,6] x, float[n,2] z) => (float[n,6] y) <int64[2] s = {4, 2}> "
        f"{{ a, b = Split <axis = 1> (x, s) y = Concat <axis = 1> ({order}) }}",
        13,
    ).graph
    part = joined(GraphView(graph), node_of(graph, "Concat"))
    assert (None if part is None else [*part.selection.indices]) == indices
