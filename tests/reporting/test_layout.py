"""Places of boxes."""

import pytest

from tests.support import load
from xoptim.reporting.drawing import draw, scopes_of
from xoptim.reporting.layout import ENTRY, EXIT, NODE, SCOPE, ScopeBox, arrange

pytest.importorskip("igraph")


def boxes(text: str, *names: str) -> list[ScopeBox]:
    """The boxes of a model whose nodes have these names."""
    model = load(text)
    for node, name in zip(model.graph.nodes, names, strict=False):
        node.name = name
    drawing = draw(model)
    return arrange(drawing, scopes_of(drawing))


def test_layers_follow_the_data() -> None:
    (box,) = boxes(
        "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) y = Add(a, c) }"
    )
    assert [kind for kind, _ in box.items] == [ENTRY, NODE, NODE, NODE, NODE, EXIT]
    assert box.rows == [0, 1, 2, 3, 4, 5]
    assert list(box.edges) == [(0, 1), (1, 2), (2, 3), (1, 4), (3, 4), (4, 5)]
    bends = dict(zip(box.edges, box.bends, strict=True))
    assert bends[1, 4][::2] == [2, 3], "it goes around b and c"
    assert bends[1, 4][1] != box.columns[2]
    assert not bends[0, 1]


def test_parts_do_not_overlap() -> None:
    """igraph mixes up bends when it lays out several parts at once."""
    lines = "".join(f"a{i} = Neg(x{i}) b{i} = Abs(a{i}) y{i} = Add(a{i}, b{i}) " for i in range(9))
    inputs = ", ".join(f"float[n] x{i}" for i in range(9))
    outputs = ", ".join(f"float[n] y{i}" for i in range(9))
    (box,) = boxes(f"agraph ({inputs}) => ({outputs}) {{ {lines} }}")
    taken = list(zip(box.rows, box.columns, strict=True))
    taken += [
        (int(bends[at]), bends[at + 1]) for bends in box.bends for at in range(0, len(bends), 2)
    ]
    assert len(set(taken)) == len(taken)
    assert sum(map(len, box.bends)) == 2 * 9


def test_edges_pass_the_borders_of_scopes() -> None:
    text = "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) y = Add(a, c) }"
    outer, inner = boxes(text, "/s/Neg", "/s/Abs", "/s/Exp", "Add")
    assert [kind for kind, _ in outer.items] == [ENTRY, SCOPE, NODE, EXIT]
    assert {ends: len(values) for ends, values in outer.edges.items()} == {
        (0, 1): 1,
        (1, 2): 2,
        (2, 3): 1,
    }
    assert [kind for kind, _ in inner.items] == [ENTRY, NODE, NODE, NODE, EXIT, EXIT]
    assert {
        row for (kind, _), row in zip(inner.items, inner.rows, strict=True) if kind == EXIT
    } == {4}


def test_scopes_that_need_each_other() -> None:
    text = (
        "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Sin(c) "
        "e = Cos(d) f = Exp(e) g = Abs(c) "
    )
    text += "h = Add(f, g) i = Neg(h) y = Abs(i) }"
    names = ("/s/a", "/s/b", "/s/c", "/t/d", "/t/e", "/t/f", "/s/g", "/s/h", "/s/i", "/s/y")
    outer, _, _ = boxes(text, *names)
    assert (2, 1) in outer.edges, "an edge upwards"
    assert outer.rows == [0, 1, 2, 2]


def test_long_edges_have_no_bends() -> None:
    chain = "".join(f"v{i} = Neg(v{i - 1}) " for i in range(1, 60))
    (box,) = boxes(f"agraph (float[n] v0) => (float[n] y) {{ {chain} y = Add(v1, v59) }}")
    bends = dict(zip(box.edges, box.bends, strict=True))
    assert bends[1, 60] == []
    assert box.rows == list(range(62))
