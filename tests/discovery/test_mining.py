"""The most frequent subgraphs."""

from itertools import combinations

from lab.discovery.mining import Motif, _Links, mine
from tests.support import parse
from xoptim.graph.load import load_model


def forms(*texts: str, size: int = 5) -> dict[str, Motif]:
    return {motif.form: motif for motif in mine([parse(text) for text in texts], size)}


def test_counts() -> None:
    one = (
        "agraph (float[4] x) => (float[4] y) <float two = {2}> { a = Mul(x, two) b = Neg(a) "
        "c = Mul(two, b) y = Neg(c) }"
    )
    found = forms(one, one.replace("Neg", "Abs"))
    assert (found["Neg(Mul(2, a))"].count, found["Neg(Mul(2, a))"].models) == (2, 1)
    assert (found["Mul(2, Neg(Mul(2, a)))"].count, found["Abs(Mul(2, a))"].model) == (1, "model 1")
    assert found["Neg(Mul(2, Neg(Mul(2, a))))"].place == ("a", "b", "c", "y")
    assert max(motif.nodes for motif in forms(one, size=3).values()) == 3


def test_a_place_is_exclusive_when_nothing_else_reads_the_results_inside() -> None:
    body = "{ a = Neg(x) y = Exp(a) z = Abs(a) }"
    found = forms(
        f"agraph (float[4] x) => (float[4] y, float[4] z) {body}",
        f"agraph (float[4] x) => (float[4] y) {body}",
    )
    assert (found["Exp(Neg(a))"].count, found["Exp(Neg(a))"].exclusive) == (2, 0)
    assert found["t1 = Neg(a); Abs(t1); Exp(t1)"].exclusive == 2
    outputs = forms("agraph (float[4] x) => (float[4] y, float[4] a) { a = Neg(x) y = Exp(a) }")
    assert outputs["Exp(Neg(a))"].exclusive == 0
    captured = forms(
        "agraph (float[4] x, bool c) => (float[4] y, float[4] z) { a = Neg(x) y = Exp(a) "
        "z = If (c) <then_branch = t () => (float[4] p) { p = Abs(a) }, else_branch = e () "
        "=> (float[4] q) { q = Log(x) }> }"
    )
    assert captured["Exp(Neg(a))"].exclusive == 0


def test_bodies_are_mined_too() -> None:
    found = forms(
        "agraph (float[4] x, bool c) => (float[4] y) { y = If (c) "
        "<then_branch = t () => (float[4] p) { u = Neg(x) p = Exp(u) }, "
        "else_branch = e () => (float[4] q) { v = Abs(x) q = Log(v) }> }"
    )
    assert found.keys() == {"Exp(Neg(a))", "Log(Abs(a))"}


def test_constants_of_nodes_and_overridable_ones() -> None:
    assert forms(
        "agraph (float[4] x) => (float[4] y) { c = Constant <value_float = 1.0> () t = Add(x, c) "
        "y = Exp(t) }"
    ).keys() == {"Exp(Add(1, a))"}
    given = parse(
        "agraph (float[4] x, float c) => (float[4] y) <float c = {1}> { t = Add(x, c) y = Exp(t) }",
        ir_version=10,
    )
    assert [motif.form for motif in mine([given])] == ["Exp(Add(a, b))"]


def test_all_connected_subgraphs_are_found_once() -> None:
    nodes = " ".join(
        f"v{i} = Add(v{max(i - 1, 0) if i > 1 else 'x'}, v{i // 2 if i > 1 else 'x'})"
        for i in range(1, 9)
    )
    text = f"agraph (float[4] vx) => (float[4] v8) {{ {nodes} }}"
    (graph,) = load_model(parse(text)).graphs()
    links = _Links(graph, {})
    edges = [
        {int(name[1:]) - 1, i}
        for i, node in enumerate(graph.nodes)
        for name in node.input
        if name != "vx"
    ]

    def is_connected(chosen: tuple[int, ...]) -> bool:
        reached = {chosen[0]}
        for _ in chosen:
            reached |= {b for edge in edges if edge & reached for b in edge & {*chosen}}
        return reached == {*chosen}

    expected = [
        each for size in (2, 3, 4) for each in combinations(range(8), size) if is_connected(each)
    ]
    assert sorted(links.subgraphs(4)) == sorted(expected)


def test_hubs_link_nothing() -> None:
    """The number of subgraphs of a graph of n nodes is bounded by a multiple of n."""
    readers = " ".join(f"r{i} = Neg(h)" for i in range(40))
    outputs = ", ".join(f"float[4] r{i}" for i in range(40))
    assert forms(f"agraph (float[4] x) => ({outputs}) {{ h = Exp(x) {readers} }}") == {}
