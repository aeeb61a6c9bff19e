"""The relation of the nodes of two models."""

import pytest

from tests.reporting.models import recorded
from tests.support import parse
from xoptim.reporting.drawing import Drawing, draw
from xoptim.reporting.links import FOLDED, KEPT, REPLACED, REWRITTEN, UNREAD, Links, link

pytest.importorskip("igraph")


def linked(text: str, **changes: object) -> tuple[Drawing, Drawing, Links]:
    """The drawings of a model before and after, and their relation."""
    builder, journal = recorded(parse(text), **changes)
    after = draw(builder.model)
    return journal.before, after, link(journal.before, after, journal.steps, journal.folded)


def named(drawing: Drawing, numbers: list[int]) -> list[str]:
    """Names of nodes."""
    return [drawing.nodes[number].name for number in numbers]


def test_what_only_a_rewritten_node_needed() -> None:
    text = """agraph (float[b,s,8] x) => (float[b,s,2,4] y) {
        i = Shape <start = 0, end = 1> (x)
        j = Shape <start = 1, end = 2> (x)
        k = Constant <value = int64[2] {2, 4}> ()
        c = Concat <axis = 0> (i, j, k)
        y = Reshape (x, c)
    }"""
    before, after, links = linked(text)
    assert links.fates == [UNREAD, UNREAD, UNREAD, UNREAD, REWRITTEN]
    assert links.step == [0] * 5
    (change,) = links.changes
    assert change.name == "ShapeBasedReshape"
    assert named(before, change.before) == ["i", "j", "k", "c", "y"]
    assert named(after, change.after) == ["Reshape"]
    assert links.made == [0]


def test_nodes_that_are_rewritten_again() -> None:
    """Each rewrite leads to the nodes of the result, through those that replaced its own."""
    text = """agraph (float[a,b,c] x) => (float[b,c,a] y) {
        p = Transpose <perm = [1, 0, 2]> (x)
        q = Transpose <perm = [0, 2, 1]> (p)
        r = Transpose <perm = [1, 0, 2]> (q)
        y = Transpose <perm = [0, 2, 1]> (r)
    }"""
    before, after, links = linked(text)
    assert len(after.nodes) == 1
    assert len(links.changes) > 1
    assert {number for change in links.changes for number in change.before} == set(range(4))
    assert all(change.after == [0] and not change.is_gone for change in links.changes)
    assert set(links.fates) == {REWRITTEN}
    assert named(before, links.changes[0].before)


def test_kept_folded_and_merged_nodes() -> None:
    text = """agraph (float[2] x) => (float[2] y) {
        k = Constant <value = float {2}> ()
        f = Exp (k)
        a = Sin (x)
        b = Sin (x)
        c = Add (a, b)
        y = Mul (c, f)
    }"""
    _, after, links = linked(text, patterns=None)
    assert links.fates == [UNREAD, FOLDED, KEPT, REPLACED, KEPT, KEPT]
    assert links.twins == [-1, -1, 0, 0, 1, 2], "b was merged with a"
    assert [node.op_type for node in after.nodes] == ["Sin", "Add", "Mul"]
    assert not links.changes


def test_what_leaves_nothing() -> None:
    _, after, links = linked(
        "agraph (float[n] x) => (float[n] y) { a = Sin(x) b = Neg(a) c = Neg(b) y = Exp(c) }"
    )
    (change,) = links.changes
    assert change.is_gone
    assert change.before == [1, 2]
    assert named(after, change.after) == ["y"], "its reader"


def test_what_leaves_nothing_between_nodes_that_are_rewritten() -> None:
    """Where the reader is rewritten as well, what replaced it is marked."""
    _, after, links = linked(
        """agraph (float[n,4,h,w] x) => (float[n,4,h,w] y) {
            scale = Constant <value = float[4] {1, 2, 3, 4}> ()
            shift = Constant <value = float[4,1,1] {1, 2, 3, 4}> ()
            one = Constant <value = float {1}> ()
            a = BatchNormalization (x, scale, scale, scale, scale)
            b = Mul (a, one)
            c = Add (b, shift)
            y = Relu (c)
        }"""
    )
    (neutral,) = (change for change in links.changes if change.name == "NeutralMul")
    assert neutral.is_gone
    assert [after.nodes[number].op_type for number in neutral.after] == ["BatchNormalization"]


def test_the_readers_are_looked_up_once_for_all_rewrites(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    readers = Drawing.readers

    def counted(drawing: Drawing) -> dict[int, list[tuple[int, int]]]:
        calls.append(drawing)
        return readers(drawing)

    monkeypatch.setattr(Drawing, "readers", counted)
    pairs = "".join(f"a{i} = Neg(v{i}) b{i} = Neg(a{i}) v{i + 1} = Sin(b{i}) " for i in range(9))
    _, _, links = linked(f"agraph (float[n] v0) => (float[n] v9) {{ {pairs} }}")
    assert sum(change.is_gone for change in links.changes) == 9
    assert len(calls) == 2
