import pytest

from tests.support import load, node_of
from xoptim.match import GraphView
from xoptim.patterns._parts import cut_of, span_of

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
    cut, span = cut_of(view, node), span_of(view, node)
    part = None if cut is None else (cut.axis, cut.start, cut.end)
    return part, span and (span[0], str(span[1]), str(span[2]))


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
