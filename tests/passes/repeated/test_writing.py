"""Operations that are computed together: each operator, towers of them, and the order of lanes."""

import random
from collections import Counter

import numpy as np
import onnx
import pytest

from tests.passes.repeated.towers import STEPS, WIDTH, Sketch, feeds
from tests.support import in_parts, load, parse, run, verify
from xoptim import optimize
from xoptim.passes.repeated import Repeated


def counts(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def folded(
    model: onnx.ModelProto, patterns: str = "repeated", sizes: tuple[int, ...] = (0, 1, 3)
) -> onnx.ModelProto:
    """The model after the pass: valid, equal at several sizes, and the same after a second run."""
    after = optimize(model, patterns=patterns, strict=True)
    onnx.checker.check_model(after)
    for rows in sizes:
        given = feeds(model, rows)
        for expected, got in zip(run(model, given), run(after, given), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    again = optimize(after, patterns=patterns, strict=True)
    assert counts(again) == counts(after), "a second run changes nothing"
    return after


def towers(count: int, steps: list[str], *, shared_input: bool, join: str = "") -> onnx.ModelProto:
    g, rng = Sketch(), random.Random(0)
    common = g.add("Neg", g.input("n", WIDTH))
    x = g.input("n", WIDTH)
    results = []
    for _ in range(count):
        y = x if shared_input else g.input("n", WIDTH)
        for step in steps:
            y = STEPS[step](g, y, common, rng)
        results.append(y)
    if join:
        results = [g.add(join, *results, **({"axis": 1} if join == "Concat" else {}))]
    return g.model(*results)


@pytest.mark.parametrize("step", sorted(STEPS))
@pytest.mark.parametrize("shared_input", [True, False])
def test_each_operation(step: str, shared_input: bool) -> None:
    """Whatever a tower consists of, there is one node for each of its nodes afterwards."""
    before = towers(1, ["linear", step], shared_input=shared_input)
    after = folded(towers(5, ["linear", step], shared_input=shared_input, join="Sum"))
    # One tower, its sum, what brings five inputs together, and the parts of a Gemm or a
    # LayerNormalization.
    more = 1 + (0 if shared_input else 3) + {"gemm": 1, "norm": 2}.get(step, 0)
    # An operand of fewer axes has its new ones written out.
    assert len(after.graph.node) - counts(after)["Unsqueeze"] <= len(before.graph.node) + more


@pytest.mark.parametrize("join", ["Sum", "Mean", "Concat"])
@pytest.mark.parametrize("count", [3, 8, 64])
def test_the_number_of_nodes_does_not_depend_on_the_number_of_towers(count: int, join: str) -> None:
    after = folded(
        towers(count, ["linear", "relu", "linear"], shared_input=True, join=join),
        "default+repeated",
    )
    expected = {
        "MatMul": 2,
        "Add": 2,
        "Relu": 1,
        "Sum": {"ReduceSum": 1},
        "Mean": {"ReduceMean": 1},
    }
    joined = {
        "Sum": {"ReduceSum": 1},
        "Mean": {"ReduceMean": 1},
        "Concat": {"Transpose": 1, "Reshape": 1},
    }[join]
    assert counts(after) == {**{key: expected[key] for key in ("MatMul", "Add", "Relu")}, **joined}


@pytest.mark.parametrize("place", [0, 3, 7])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_towers_side_by_side_of_which_one_differs(place: int, axis: int) -> None:
    """Lanes in a row are one part of the Concat, before and after the tower that is apart."""
    g = Sketch()
    x, results = g.input(3, WIDTH), []
    for lane in range(8):
        y = x
        for _ in range(2):
            y = g.add(
                "Tanh" if lane == place else "Erf", g.add("MatMul", y, g.weight(WIDTH, WIDTH))
            )
        results.append(y)
    after = counts(folded(g.model(g.add("Concat", *results, axis=axis)), sizes=(3,)))
    assert after["Concat"] == 1
    assert after["Gather"] <= 1, "only for the first product of the other tower"
    assert after["Erf"] == after["Tanh"] == 2
    assert after["Reshape"] == (2 if place == 3 else 1)


@pytest.mark.parametrize(
    ("order", "rows"), [((0, 1, 2, 3, 4, 5), 2), ((0, 3, 1, 4, 2, 5), 0), ((0, 1, 3, 4, 5, 2), 1)]
)
def test_lanes_of_several_stacks_side_by_side(order: tuple[int, ...], rows: int) -> None:
    """Lanes of two stacks, in rows of three or more or not, and a value that no stack computes."""
    g = Sketch()
    x = g.input("n", WIDTH)
    lanes = [
        g.add("Tanh" if lane < 3 else "Erf", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
        for lane in range(6)
    ]
    after = counts(
        folded(g.model(g.add("Concat", *(lanes[lane] for lane in order), x, x, x, axis=1)))
    )
    assert (after["MatMul"], after["Tanh"], after["Erf"], after["Concat"]) == (1, 1, 1, 1)
    assert after["Reshape"] == rows


def test_results_that_are_read_alone_are_taken_out() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    parts = [g.add("Relu", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(4)]
    after = folded(g.model(g.add("Sum", *parts), g.add("Erf", parts[2]), parts[1]))
    assert counts(after) == {"MatMul": 1, "Relu": 1, "ReduceSum": 1, "Gather": 2, "Erf": 1}


@pytest.mark.parametrize("kind", ["joined", "each", "one"])
def test_values_between_two_groups_of_a_region(kind: str) -> None:
    """The second group reads lanes of the first one, and values that are computed from them outside
    of the stacks.
    """
    g = Sketch()
    x = g.input("n", WIDTH)
    lanes = [g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(6)]
    start = g.constant(np.array(0))
    if kind == "joined":
        others = [g.add("Sum", *lanes)] * 6
    elif kind == "each":
        others = [g.add("CumSum", lane, start) for lane in lanes]
    else:
        others = [g.add("CumSum", lanes[2], start)] * 6
    second = [
        g.add("Erf", g.add("Add", other, lane)) for other, lane in zip(others, lanes, strict=True)
    ]
    after = counts(folded(g.model(g.add("Sum", *second))))
    assert (after["MatMul"], after["Tanh"], after["Add"], after["Erf"], after["Sum"]) == (
        1,
        1,
        1,
        1,
        0,
    )


def test_weights_that_lanes_share_stay_one() -> None:
    g = Sketch()
    weight = g.weight(WIDTH, WIDTH)
    parts = [g.add("Tanh", g.add("MatMul", g.input("n", WIDTH), weight)) for _ in range(5)]
    after = folded(g.model(g.add("Sum", *parts)))
    assert [list(tensor.dims) for tensor in after.graph.initializer].count([WIDTH, WIDTH]) == 1
    assert counts(after)["MatMul"] == counts(after)["Tanh"] == 1


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_weights_that_some_lanes_share_are_stored_once(kind: str) -> None:
    """An index points to them.

    Where the model has room for copies, folding makes them ahead of time.
    """
    g, size = Sketch(), 32
    weights = [g.weight(size, size) for _ in range(4)]
    attributes = {"transB": 1} if kind == "Gemm" else {}
    parts = [
        g.add("Tanh", g.add(kind, g.input("n", size), weights[lane // 2], **attributes))
        for lane in range(8)
    ]
    model = g.model(g.add("Sum", *parts))
    for max_growth, stored, selections in ((0, 4, 1), (None, 8, 0)):
        after = optimize(model, patterns="repeated", strict=True, max_growth=max_growth)
        assert [[*each.dims] for each in after.graph.initializer if len(each.dims) > 1] == [
            [stored, size, size]
        ]
        assert (counts(after)["MatMul"], counts(after)["Tanh"], counts(after)["Gather"]) == (
            1,
            1,
            selections,
        )
        given = feeds(model, 3)
        np.testing.assert_allclose(run(after, given)[0], run(model, given)[0], rtol=1e-4, atol=1e-5)


def test_lanes_of_several_stacks_are_selected_by_index() -> None:
    """Products of a sum layer of one level and values from before it, in an order of their own."""
    g = Sketch()
    leaves = [g.add("Sigmoid", g.input("n", WIDTH)) for _ in range(6)]
    sums = [g.add("MatMul", leaf, g.weight(WIDTH, WIDTH)) for leaf in leaves]
    products = [g.add("Mul", sums[a], sums[b]) for a, b in ((3, 0), (1, 4), (5, 2), (0, 1), (2, 2))]
    after = folded(g.model(g.add("Concat", *products, axis=0)))
    assert (counts(after)["Sigmoid"], counts(after)["MatMul"], counts(after)["Mul"]) == (1, 1, 1)


@pytest.mark.parametrize("axis", [1, 0])
def test_parts_of_one_value(axis: int) -> None:
    """The parts along the last axis need no Split: they are the axes of the value."""
    g = Sketch()
    x = g.add("Exp", g.input(*(("n", 5 * WIDTH) if axis else (5, WIDTH))))
    parts = [f"p{place}" for place in range(5)]
    g.nodes.append(onnx.helper.make_node("Split", [x], parts, axis=axis, num_outputs=5))
    towers = [g.add("Tanh", g.add("MatMul", part, g.weight(WIDTH, WIDTH))) for part in parts]
    after = counts(folded(g.model(g.add("Sum", *towers)), sizes=(1, 3)))
    assert (after["MatMul"], after["Tanh"], after["Split"], after["Concat"]) == (
        1,
        1,
        1 - axis,
        1 - axis,
    )
    alone = counts(folded(g.model(g.add("Sum", *towers), parts[3]), sizes=(1, 3)))
    assert (alone["MatMul"], alone["Split"]) == (1, 1), "a part is read alone"
    mixed = [
        g.add("Tanh", g.add("MatMul", parts[place], g.weight(WIDTH, WIDTH)))
        for place in (1, 0, 2, 4, 3)
    ]
    assert counts(folded(g.model(g.add("Sum", *mixed)), sizes=(1, 3)))["MatMul"] == 1


def test_parts_that_overlap() -> None:
    """Windows of one value, which no Split takes apart."""
    g = Sketch()
    x = g.add("Exp", g.input("n", 3 * WIDTH))
    windows = [
        g.add(
            "Slice", x, *(g.constant(np.array([each])) for each in (2 * lane, 2 * lane + WIDTH, 1))
        )
        for lane in range(5)
    ]
    towers = [g.add("Tanh", g.add("MatMul", each, g.weight(WIDTH, WIDTH))) for each in windows]
    after = counts(folded(g.model(g.add("Sum", *towers))))
    assert (after["Slice"], after["MatMul"], after["Tanh"]) == (5, 1, 1)


def test_swapped_operands_are_the_same_settings() -> None:
    g = Sketch()
    x, y = g.input("n", WIDTH), g.input("n", WIDTH)
    first = [g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(4)]
    sums = [
        g.add("Add", *((each, y) if place % 2 else (y, each))) for place, each in enumerate(first)
    ]
    assert counts(folded(g.model(g.add("Sum", *sums)))) == {
        "MatMul": 1,
        "Tanh": 1,
        "Add": 1,
        "ReduceSum": 1,
    }


def test_tables_of_one_shape() -> None:
    """Rows of several tables; an index that no table has is an error as before."""
    places = range(6)
    inputs = ", ".join(f"int64[n] i{place}" for place in places)
    rows = " ".join(
        f"g{place} = Gather(t{place}, i{place}) r{place} = Tanh(g{place})" for place in places
    )
    model = parse(
        f"agraph ({inputs}) => (float[n,2] y) {{ {rows} "
        f"y = Sum({', '.join(f'r{place}' for place in places)}) }}"
    )
    numbers = np.random.default_rng(0)
    tables = [numbers.standard_normal((5, 2)).astype(np.float32) for _ in places]
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(table, f"t{place}") for place, table in enumerate(tables)
    )
    after = optimize(model, patterns="repeated", strict=True)
    assert (counts(after)["GatherND"], counts(after)["Gather"]) == (1, 0)
    given = {f"i{place}": numbers.integers(-5, 5, 7) for place in places}
    np.testing.assert_allclose(run(after, given)[0], run(model, given)[0], rtol=1e-6)
    with pytest.raises(Exception, match="nvalid"):
        run(after, {**given, "i2": np.full(7, 5)})


def test_the_tables_of_the_graph_are_right_afterwards() -> None:
    model = load(
        "agraph (float[2,3] x) => (y, z) { a = Relu(x) b = Tanh(a) c = Tanh(x) y = Erf(b) "
        "z = Erf(c) d = Add(y, z) }"
    )
    assert Repeated().run(model) == 0, "they are of different levels"
    g = Sketch()
    parts = [
        g.add("Erf", g.add("MatMul", g.input("n", WIDTH), g.weight(WIDTH, WIDTH))) for _ in range(4)
    ]
    text = onnx.printer.to_text(g.model(g.add("Sum", *parts), parts[3]).graph)
    model = load(text.replace("towers", "agraph", 1))
    assert Repeated().run(model) == 2
    verify(model)


@in_parts("part", 6)
def test_random_towers(part: int) -> None:
    """Towers among nodes that read some of them, joined in every way."""
    for seed in range(10 * part, 10 * part + 10):
        rng, g = random.Random(seed), Sketch(seed)
        steps = [rng.choice(sorted(STEPS)) for _ in range(rng.randint(1, 6))]
        common, x = g.add("Neg", g.input("n", WIDTH)), g.input("n", WIDTH)
        shared_input, results = rng.random() < 0.4, []
        for _ in range(rng.choice((2, 3, 5, 9))):
            y = x if shared_input else g.input("n", WIDTH)
            for step in steps:
                y = STEPS[step](g, y, common, rng)
            results.append(y)
            if rng.random() < 0.3:
                results.append(g.add("Erf", rng.choice(results)))
        joined = (
            g.add(rng.choice(("Sum", "Mean")), *results)
            if rng.random() < 0.6
            else g.add("Concat", *results, axis=0)
        )
        model = g.model(joined, rng.choice(results))
        assert len(folded(model).graph.node) <= len(model.graph.node)
        folded(model, "default+repeated")
