"""Sums that are written as several Adds: joins of lanes, and groups of them."""

import random
from functools import reduce

import numpy as np
import onnx
import pytest

from tests.passes.repeated.test_writing import counts, folded
from tests.passes.repeated.towers import STEPS, WIDTH, Sketch
from tests.support import in_parts, load, parse, run
from xoptim import optimize
from xoptim.passes.repeated.choice import StackRegion
from xoptim.passes.repeated.cost import COSTS
from xoptim.passes.repeated.groups import Sums, arrange, find_groups

FORMS = ["chain", "right", "tree"]


def added(g: Sketch, terms: list[str], form: str = "chain") -> str:
    """The terms added up, two at a time."""
    if form == "tree":
        while len(terms) > 1:
            pairs = [terms[place : place + 2] for place in range(0, len(terms), 2)]
            terms = [g.add("Add", *pair) if len(pair) > 1 else pair[0] for pair in pairs]
        return terms[0]
    return reduce(
        lambda total, term: g.add("Add", *((total, term) if form == "chain" else (term, total))),
        terms,
    )


def sums_of(model: onnx.ModelProto) -> Sums:
    return Sums(load(onnx.printer.to_text(model.graph).replace("towers", "agraph", 1)).graph)


def layers(g: Sketch, count: int) -> list[str]:
    x = g.input("n", WIDTH)
    return [g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(count)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [2, 3, 8, 21])
def test_lanes_that_are_added_up_in_any_order(form: str, count: int) -> None:
    g = Sketch()
    terms = layers(g, count)
    random.Random(count).shuffle(terms)
    assert counts(folded(g.model(added(g, terms, form)))) == {
        "MatMul": 1,
        "Tanh": 1,
        "ReduceSum": 1,
    }


@pytest.mark.parametrize("place", [0, 2, 5])
@pytest.mark.parametrize("form", ["chain", "right"])
def test_other_terms_are_added_behind_the_reduction(form: str, place: int) -> None:
    g = Sketch()
    terms = layers(g, 5)
    terms.insert(place, g.input("n", WIDTH))
    terms.append(g.weight(WIDTH))
    after = counts(folded(g.model(g.add("Erf", added(g, terms, form)))))
    assert after == {"MatMul": 1, "Tanh": 1, "ReduceSum": 1, "Add": 2, "Erf": 1}


@pytest.mark.parametrize("form", FORMS)
def test_lanes_with_a_bias_are_terms_as_a_whole(form: str) -> None:
    """An Add within each tower is not a part of the sum."""
    g = Sketch()
    x = g.input("n", WIDTH)
    biased = [
        g.add("Add", g.add("MatMul", x, g.weight(WIDTH, WIDTH)), g.weight(WIDTH)) for _ in range(5)
    ]
    assert counts(folded(g.model(added(g, biased, form)))) == {
        "MatMul": 1,
        "Add": 1,
        "ReduceSum": 1,
    }
    g = Sketch()
    x = g.input("n", WIDTH)
    residual = [g.add("Add", x, g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(5)]
    assert counts(folded(g.model(added(g, residual, form)))) == {
        "MatMul": 1,
        "Add": 1,
        "ReduceSum": 1,
    }


def test_two_kinds_of_lanes_in_turn() -> None:
    """Each kind is reduced by itself; the last of all may be a term of its own."""
    for in_turn in (False, True):
        g = Sketch()
        x = g.input("n", WIDTH)
        first = [
            g.add("Exp", g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))))
            for _ in range(4)
        ]
        second = [g.add("Sin", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(4)]
        terms = (
            [term for pair in zip(first, second, strict=True) for term in pair]
            if in_turn
            else [*first, *second]
        )
        after = counts(folded(g.model(added(g, terms))))
        assert (after["MatMul"], after["Exp"], after["Sin"], after["ReduceSum"]) == (1, 1, 1, 2)
        assert (after["Add"], after["Gather"]) == (1 + in_turn, in_turn)


@pytest.mark.parametrize("read_by", ["node", "output", "subgraph"])
def test_a_partial_sum_that_is_read_elsewhere_ends_the_sum(read_by: str) -> None:
    g = Sketch()
    terms = layers(g, 8)
    middle = added(g, terms[:4])
    total = added(g, [middle, *terms[4:]])
    results = [total]
    if read_by == "subgraph":
        body = onnx.helper.make_graph(
            [onnx.helper.make_node("Neg", [middle], ["inner"])],
            "body",
            [],
            [onnx.ValueInfoProto(name="inner")],
        )
        g.constant(np.array(True))
        g.nodes.append(
            onnx.helper.make_node(
                "If", [g.constants[-1].name], ["chosen"], then_branch=body, else_branch=body
            )
        )
        results.append(g.add("Abs", "chosen"))
    else:
        results.append(middle if read_by == "output" else g.add("Erf", middle))
    model = g.model(*results)
    if read_by == "subgraph":
        sums = sums_of(model)
        sizes = sorted(len(sums.parts(node)) for node in sums.levels if sums.is_sum(node))
        assert sizes == [3, 4]
    after = counts(folded(model))
    assert (after["MatMul"], after["Tanh"]) == (1, 1)
    assert after["ReduceSum"] == 2
    assert after["Add"] == 1, "the partial sum is a term of the other one"


def test_a_lane_that_is_read_elsewhere_too() -> None:
    g = Sketch()
    terms = layers(g, 6)
    after = counts(folded(g.model(added(g, terms), g.add("Erf", terms[2]), terms[4])))
    assert after == {"MatMul": 1, "Tanh": 1, "ReduceSum": 1, "Gather": 2, "Erf": 1}


def test_a_lane_that_is_added_twice() -> None:
    g = Sketch()
    terms = layers(g, 6)
    after = counts(folded(g.model(added(g, [*terms, terms[2]]))))
    assert after == {"MatMul": 1, "Tanh": 1, "Gather": 1, "ReduceSum": 1}


@pytest.mark.parametrize("form", FORMS)
def test_sums_side_by_side_are_one_reduction(form: str) -> None:
    """A mixture for each of several tasks, over the same experts."""
    g, rng = Sketch(), random.Random(0)
    experts = layers(g, 6)
    tasks = []
    for _ in range(4):
        terms = [g.add("Mul", expert, g.weight(WIDTH)) for expert in experts]
        rng.shuffle(terms)
        tasks.append(g.add("Erf", added(g, terms, form)))
    after = counts(folded(g.model(g.add("Concat", *tasks, axis=1))))
    assert (after["MatMul"], after["Mul"], after["ReduceSum"], after["Erf"], after["Add"]) == (
        1,
        1,
        1,
        1,
        0,
    )


def test_sums_side_by_side_of_open_shapes() -> None:
    """No Reshape can express two sizes that are open: the stacks are added one by one."""
    g = Sketch()
    x = g.input("n", "m", WIDTH)
    experts = [g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(4)]
    sums = [
        g.add("Erf", added(g, [g.add("Mul", each, g.weight(WIDTH)) for each in experts]))
        for _ in range(3)
    ]
    after = counts(folded(g.model(g.add("Sum", *sums))))
    assert (after["Mul"], after["Slice"], after["Add"], after["Erf"], after["ReduceSum"]) == (
        1,
        4,
        3,
        1,
        1,
    )


def test_a_sum_of_lanes_of_several_levels() -> None:
    """It is computed when the last of them is."""
    g = Sketch()
    low = layers(g, 4)
    high = [g.add("Erf", g.add("MatMul", each, g.weight(WIDTH, WIDTH))) for each in low]
    total = g.add("Neg", added(g, [low[0], low[1], *high, low[2], low[3]]))
    after = counts(folded(g.model(total)))
    assert after == {"MatMul": 2, "Tanh": 1, "Erf": 1, "ReduceSum": 2, "Add": 1, "Neg": 1}


@pytest.mark.parametrize("kind", ["int8", "uint8", "uint32", "int32", "int64"])
def test_integers_stay(kind: str) -> None:
    """onnxruntime reduces few types of them, and those as floats: sums are rounded from 2^53 on,
    and do not wrap around.
    """
    inputs = ", ".join(f"{kind}[n,4] x{lane}, {kind}[n,4] z{lane}" for lane in range(6))
    nodes = " ".join(
        f"a{lane} = Mod(x{lane}, z{lane}) b{lane} = Mod(a{lane}, x{lane})" for lane in range(6)
    )
    total = "s = Add(b0, b1) t = Add(s, b2) u = Add(t, b3) v = Add(u, b4) y = Add(v, b5)"
    model = parse(f"agraph ({inputs}) => ({kind}[n,4] y) {{ {nodes} {total} }}")
    after = counts(optimize(model, patterns="repeated", strict=True))
    assert (after["Add"], after["ReduceSum"]) == (5, 0)


def test_sums_of_16_bits() -> None:
    """onnxruntime adds and reduces them in 32 bits: infinities come from single terms."""
    inputs = ", ".join(f"float16[4,8] x{lane}" for lane in range(6))
    nodes = " ".join(
        f"a{lane} = Neg(x{lane}) b{lane} = Abs(a{lane}) c{lane} = Mul(b{lane}, x{lane})"
        for lane in range(6)
    )
    total = "s = Add(c0, c3) t = Add(s, c1) u = Add(t, c2) v = Add(u, c4) y = Add(v, c5)"
    model = parse(f"agraph ({inputs}) => (float16[4,8] y) {{ {nodes} {total} }}")
    after = optimize(model, patterns="repeated", strict=True, verify=True)
    assert counts(after)["ReduceSum"] == 1
    numbers = np.random.default_rng(0)
    given = {
        f"x{lane}": (numbers.standard_normal((4, 8)) * 90).astype(np.float16) for lane in range(6)
    }
    expected, got = run(model, given)[0].astype(np.float32), run(after, given)[0].astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=40)


def test_infinities_and_nan() -> None:
    """A sum is NaN or infinite in any order."""
    g = Sketch()
    inputs = [g.input(2, WIDTH) for _ in range(6)]
    terms = [g.add("Neg", g.add("Abs", g.add("Neg", each))) for each in inputs]
    model = g.model(added(g, terms))
    after = optimize(model, patterns="repeated", strict=True)
    assert counts(after)["ReduceSum"] == 1
    for special in ([np.inf], [np.nan], [np.inf, np.nan], [-0.0] * 6):
        given = {name: np.ones((2, WIDTH), np.float32) for name in inputs}
        given.update(
            {
                name: np.full((2, WIDTH), value, np.float32)
                for name, value in zip(inputs, special, strict=False)
            }
        )
        np.testing.assert_array_equal(run(after, given)[0], run(model, given)[0])


def test_the_estimate_has_the_reduction() -> None:
    """The Adds count among the nodes apart, the reduction among those together."""
    outlooks = []
    for is_chain in (True, False):
        g = Sketch()
        x = g.input(4, WIDTH)
        terms = [g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(8)]
        total = added(g, terms) if is_chain else g.add("Sum", *terms)
        sums = sums_of(g.model(g.add("Exp", total)))
        groups = find_groups(sums)
        arrange(groups)
        outlooks.append(StackRegion(sums, groups).outlook(COSTS["cpu"]))
    chain, single = outlooks
    assert (chain.nodes, single.nodes) == ((16 + 7, 3), (16 + 1, 3))
    assert chain.times is not None
    assert single.times is not None
    assert chain.times[1] == pytest.approx(single.times[1])
    assert chain.times[0] > single.times[0]


def test_levels_of_sums() -> None:
    graph = load(
        "agraph (float[n,4] x, float[n,4] z) => (y) { a = Tanh(x) b = Tanh(z) c = Neg(a) "
        "d = Neg(b) e = Neg(x) s = Add(x, c) t = Add(s, d) u = Add(a, e) y = Add(t, u) }"
    ).graph
    sums = Sums(graph)
    found = {
        node.output[0]: (level, [*sums.terms(node)])
        for node, level in sums.levels.items()
        if node.op_type == "Add"
    }
    assert found == {"t": (3, ["c", "d", "x"]), "u": (2, ["a", "e"]), "y": (4, ["t", "u"])}


def test_long_sums_take_linear_time() -> None:
    """Neither recursion nor copies of all terms at each Add."""
    for form in FORMS:
        g = Sketch()
        terms = [g.add("Neg", g.input("n", WIDTH)) for _ in range(4000)]
        total = added(g, terms, form)
        sums = sums_of(g.model(total))
        (node,) = (node for node in sums.levels if node.op_type == "Add")
        assert sorted(sums.terms(node)) == sorted(terms)


@in_parts("part", 4)
def test_random_sums(part: int) -> None:
    """Towers that are added in part, in every order, among other terms and readers."""
    for seed in range(10 * part, 10 * part + 10):
        rng, g = random.Random(seed), Sketch(seed)
        steps = [STEPS[rng.choice(sorted(STEPS))] for _ in range(rng.randint(1, 4))]
        x, common = g.input("n", WIDTH), g.add("Neg", g.input("n", WIDTH))
        starts = [x] * rng.choice((2, 3, 5, 9))
        if rng.random() < 0.5:
            starts = [g.input("n", WIDTH) for _ in starts]
        parts = [reduce(lambda y, step: step(g, y, common, rng), steps, start) for start in starts]
        results = []
        for _ in range(rng.choice((1, 1, 2, 4))):
            terms = [g.add("Mul", y, g.weight(WIDTH)) if rng.random() < 0.8 else y for y in parts]
            terms += rng.sample(
                [common, x, g.weight(WIDTH), g.add("Erf", rng.choice(parts)), rng.choice(parts)],
                rng.randint(0, 3),
            )
            rng.shuffle(terms)
            results.append(added(g, terms, rng.choice(FORMS)))
            if rng.random() < 0.3:
                results.append(rng.choice(g.nodes).output[0])
        model = g.model(*dict.fromkeys(results))
        assert len(folded(model).graph.node) <= len(model.graph.node)
        folded(model, "default+repeated")
