import pytest

from tests.support import load
from xoptim.match import GraphView
from xoptim.patterns._nodes import agree_elsewhere


@pytest.mark.parametrize(
    ("shapes", "axis", "agree"),
    [
        (("a,2,b", "a,3,b"), 1, True),
        (("a,2,b", "c,3,b"), 1, False),
        (("a", "a,3"), 1, False),
        (("a,3", "a"), 1, False),
        (("a", "a"), 1, False),
    ],
)
def test_shapes_agree_but_for_an_axis_that_all_have(
    shapes: tuple[str, str], axis: int, agree: bool
) -> None:
    """An invalid Concat of tensors of different ranks does not agree."""
    first, second = shapes
    graph = load(f"agraph (float[{first}] x, float[{second}] z) => () {{ }}").graph
    assert agree_elsewhere(GraphView(graph), ["x", "z"], axis) == agree
