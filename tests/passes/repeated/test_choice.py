"""Operations that are not computed together."""

import numpy as np
import onnx
import pytest

from tests.passes.repeated.test_writing import counts, folded
from tests.passes.repeated.towers import WIDTH, Sketch
from tests.support import load, parse, run
from xoptim import optimize
from xoptim.graph.load import load_model
from xoptim.passes.repeated import Repeated, choice
from xoptim.passes.repeated.groups import Sums, find_groups
from xoptim.passes.repeated.writing import stacked_bytes

TWO = "a = {0} b = {1} c = Tanh(a) d = Tanh(b) y = Sum(c, d)"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Softmax <axis = 0> (x)", "Softmax <axis = 1> (z)"),
        ("Relu(x)", "Abs(z)"),
        ("LeakyRelu <alpha = 0.1> (x)", "LeakyRelu <alpha = 0.2> (z)"),
        ("RandomNormalLike(x)", "RandomNormalLike(z)"),
    ],
    ids=["axis", "operator", "attribute", "random"],
)
def test_settings_that_differ(first: str, second: str) -> None:
    model = parse(
        f"agraph (float[n,4] x, float[n,4] z) => (float[n,4] y) {{ {TWO.format(first, second)} }}"
    )
    after = optimize(model, patterns="repeated", strict=True)
    assert counts(after)[first.partition("(")[0].partition(" ")[0]] >= 1
    assert len(after.graph.node) == len(model.graph.node)


@pytest.mark.parametrize("other", ["float[m,4]", "float[n,5]", "double[n,4]", "float[1,n,4]"])
def test_shapes_and_types_that_differ(other: str) -> None:
    nodes = "a = Relu(x) c = Relu(z) b = Tanh(a) d = Tanh(c) y = Erf(b) v = Erf(d)"
    model = parse(f"agraph (float[n,4] x, {other} z) => (y, v) {{ {nodes} }}")
    assert len(optimize(model, patterns="repeated", strict=True).graph.node) == len(
        model.graph.node
    )


def test_towers_that_depend_on_each_other() -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    for _ in range(4):
        x = g.add("Softplus", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
    assert counts(folded(g.model(x))) == {"MatMul": 4, "Softplus": 4}


def test_dependence_through_an_operator_that_is_not_stacked() -> None:
    """The second tower reads the first one through a CumSum: they have equal settings, and
    different levels.
    """
    g = Sketch()
    x = g.input("n", WIDTH)
    first = g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
    start = g.add("CumSum", first, g.constant(np.array(0)))
    second = g.add("Tanh", g.add("MatMul", start, g.weight(WIDTH, WIDTH)))
    assert counts(folded(g.model(g.add("Sum", first, second))))["MatMul"] == 2


def test_levels_that_depend_on_each_other() -> None:
    """As before, with so many towers on both levels that one stack of all of them would save
    nodes.
    """
    g = Sketch()
    x, results = g.input("n", WIDTH), []
    for _ in range(2):
        towers = [g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH))) for _ in range(5)]
        results += towers
        x = g.add("CumSum", g.add("Sum", *towers), g.constant(np.array(0)))
    after = counts(folded(g.model(g.add("Max", *results))))
    assert (after["MatMul"], after["Tanh"], after["CumSum"]) == (2, 2, 1)


def test_random_operators() -> None:
    """Each lane draws numbers of its own, by its own seed if it has one."""
    g = Sketch()
    drawn = [g.add("RandomNormalLike", g.add("Erf", g.input(2, WIDTH))) for _ in range(6)]
    model = g.model(g.add("Sum", *(g.add("Tanh", each) for each in drawn)))
    after = counts(optimize(model, patterns="repeated", strict=True))
    assert (after["RandomNormalLike"], after["Erf"], after["Tanh"]) == (6, 6, 1)


def test_operands_of_types_that_differ() -> None:
    """Their results have one type."""
    lanes = range(6)
    inputs = ", ".join(f"{'int32' if lane % 2 else 'float'}[n,4] x{lane}" for lane in lanes)
    nodes = " ".join(
        f"a{lane} = Cast <to = 11> (x{lane}) b{lane} = Tanh(a{lane})" for lane in lanes
    )
    total = ", ".join(f"b{lane}" for lane in lanes)
    model = parse(f"agraph ({inputs}) => (double[n,4] y) {{ {nodes} y = Sum({total}) }}")
    after = optimize(model, patterns="repeated", strict=True)
    onnx.checker.check_model(after, full_check=True)
    given = {
        f"x{lane}": np.full((2, 4), lane + 1, np.int32 if lane % 2 else np.float32)
        for lane in lanes
    }
    np.testing.assert_allclose(run(after, given)[0], run(model, given)[0], rtol=1e-6)
    assert counts(after)["Cast"] in (2, 6)


def test_weights_that_a_caller_may_override_are_stacked_at_run_time() -> None:
    text = """agraph (float[n,2] x, float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}) => (y)
        { a = MatMul(x, w) b = MatMul(x, v) c = Tanh(a) d = Tanh(b) e = Erf(c) f = Erf(d) g = Abs(e)
          h = Abs(f)
          y = Sum(g, h) }"""
    model = parse(text)
    after = optimize(model, patterns="repeated", strict=True)
    given = {
        "x": np.ones((3, 2), np.float32),
        "w": np.full((2, 2), 0.1, np.float32),
        "v": np.full((2, 2), -0.2, np.float32),
    }
    np.testing.assert_allclose(run(after, given)[0], run(model, given)[0], rtol=1e-6)
    assert counts(after)["MatMul"] == 1


def test_results_that_a_subgraph_captures() -> None:
    text = """agraph (float[n,4] x, float[n,4] z, float[n,4] v, bool c) => (y)
        { a = Relu(x) b = Relu(z) d = Relu(v) e = Tanh(a) f = Tanh(b) g = Tanh(d) h = Erf(e)
          i = Erf(f) j = Erf(g)
          k = Exp(h) l = Exp(i) m = Exp(j) s = Sum(k, l, m)
          t = If (c) <then_branch = one () => (float[n,4] o) { o = Neg(e) },
                      else_branch = two () => (float[n,4] p) { p = Abs(f) }>
          y = Add(s, t) }"""
    model = parse(text)
    after = optimize(model, patterns="repeated", strict=True)
    assert counts(after)["Tanh"] == 1
    numbers = np.random.default_rng(0)
    for chosen in (True, False):
        given = {name: numbers.standard_normal((2, 4)).astype(np.float32) for name in "xzv"} | {
            "c": np.array(chosen)
        }
        np.testing.assert_allclose(run(after, given)[0], run(model, given)[0], rtol=1e-6)


def test_weights_above_the_limit_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Sketch()
    x = g.input("n", WIDTH)
    parts = [
        g.add("Erf", g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))) for _ in range(4)
    ]
    model = g.model(g.add("Sum", *parts))
    assert counts(folded(model))["MatMul"] == 1
    monkeypatch.setattr(choice, "LARGEST", 4 * 4 * WIDTH * WIDTH - 1)
    assert counts(folded(model))["MatMul"] == 4


def two_layers() -> onnx.ModelProto:
    """Four towers of two products."""
    g = Sketch()
    x, parts = g.input("n", WIDTH), []
    for _ in range(4):
        y = g.add("Tanh", g.add("MatMul", x, g.weight(WIDTH, WIDTH)))
        parts.append(g.add("Erf", g.add("MatMul", y, g.weight(WIDTH, WIDTH))))
    return g.model(g.add("Sum", *parts))


def test_the_limit_is_for_all_weights_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = Sums(load_model(two_layers()).graph)
    monkeypatch.setattr(choice, "LARGEST", 6 * 4 * WIDTH * WIDTH)
    found = choice.Choice(sums, find_groups(sums))
    assert [group.first.op_type for group in found.refused] == ["MatMul"]
    assert len(found.groups) == 3


def test_the_limit_is_for_all_runs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that one run has stacked leave less room for the next one."""
    model = two_layers()
    monkeypatch.setattr(choice, "LARGEST", 6 * 4 * WIDTH * WIDTH)
    loaded = load_model(model)
    assert Repeated().run(loaded)
    assert stacked_bytes(loaded) == 4 * 4 * WIDTH * WIDTH
    assert not Repeated().run(loaded)
    assert counts(optimize(model, patterns="repeated", strict=True))["MatMul"] == 5


@pytest.mark.parametrize("attributes", [{"alpha": 2.0}, {"beta": 0.5}, {"transA": 1}], ids=str)
def test_forms_of_gemm_that_stay(attributes: dict[str, float]) -> None:
    g = Sketch()
    x = g.input(WIDTH, WIDTH)
    parts = [
        g.add("Tanh", g.add("Gemm", x, g.weight(WIDTH, WIDTH), g.weight(WIDTH), **attributes))
        for _ in range(6)
    ]
    after = folded(g.model(g.add("Sum", *parts)), sizes=(0,))
    assert (counts(after)["Gemm"], counts(after)["Tanh"]) == (6, 1)


@pytest.mark.parametrize(
    ("kind", "node"),
    [
        ("Gather", "Gather <axis = 1> (x{0}, i)"),
        ("LayerNormalization", "LayerNormalization <axis = 0> (x{0}, s)"),
        ("MatMul", "MatMul(x{0}, v{0})"),
        ("Gemm", "Gemm(x{0}, z{0})"),
        ("ReduceSum", "ReduceSum <noop_with_empty_axes = 1> (x{0})"),
    ],
    ids=["Gather", "LayerNormalization", "MatMul", "Gemm", "ReduceSum"],
)
def test_forms_that_a_stack_cannot_express(kind: str, node: str) -> None:
    lanes = range(6)
    inputs = ", ".join(
        f"float[4,4] x{lane}, float[4] v{lane}, float[4,4] z{lane}" for lane in lanes
    )
    nodes = " ".join(f"e{lane} = Tanh(a{lane})" for lane in lanes)
    nodes = " ".join(f"a{lane} = {node.format(lane)}" for lane in lanes) + " " + nodes
    total = ", ".join(f"e{lane}" for lane in lanes)
    scale = ", ".join(["2"] * 16)
    text = (
        f"agraph ({inputs}) => (y) <int64[2] i = {{1, 3}}, float[4,4] s = {{{scale}}}> {{ {nodes} "
        f"y = Sum({total}) }}"
    )
    graph = load(text).graph
    assert kind not in [group.first.op_type for group in find_groups(Sums(graph))]


def test_operators_of_other_domains() -> None:
    """Only names that the standard operators have too could be mistaken."""
    lanes = range(6)
    inputs = ", ".join(f"float[n,4] x{lane}" for lane in lanes)
    nodes = " ".join(
        f"a{lane} = com.microsoft.Gelu(x{lane}) b{lane} = Tanh(a{lane})" for lane in lanes
    )
    total = ", ".join(f"b{lane}" for lane in lanes)
    text = f"agraph ({inputs}) => (float[n,4] y) {{ {nodes} y = Sum({total}) }}"
    after = optimize(
        parse(text, opset=20, domains={"com.microsoft": 1}), patterns="repeated", strict=True
    )
    assert [node.domain for node in after.graph.node if node.op_type == "Gelu"] == [
        "com.microsoft"
    ] * 6
    assert counts(after)["Tanh"] == 1


def test_parameters_that_are_computed() -> None:
    """A shape that follows from an input is known, but not stored unless constants are folded."""
    lanes = range(5)
    inputs = ", ".join(f"float[2,4] x{lane}" for lane in lanes)
    nodes = " ".join(
        f"a{lane} = Reshape(x{lane}, s) b{lane} = Tanh(a{lane}) c{lane} = Erf(b{lane})"
        for lane in lanes
    )
    total = ", ".join(f"c{lane}" for lane in lanes)
    model = parse(
        f"agraph ({inputs}) => (float[2,4] y) {{ s = Shape(x0) {nodes} y = Sum({total}) }}"
    )
    apart = optimize(model, patterns="repeated", strict=True, constant_folding=False)
    assert sum("s" in node.input for node in apart.graph.node) == 5
    assert counts(apart)["Tanh"] == 1
    assert counts(optimize(model, patterns="repeated", strict=True))["Reshape"] == 2


def test_nothing_is_done_where_it_saves_no_nodes() -> None:
    model = parse("agraph (float[n,4] x, float[n,4] z) => (y, v) { y = Relu(x) v = Relu(z) }")
    assert len(optimize(model, patterns="repeated", strict=True).graph.node) == 2


def test_the_same_bytes_again() -> None:
    g = Sketch()
    parts = [
        g.add("Tanh", g.add("MatMul", g.input("n", WIDTH), g.weight(WIDTH, WIDTH)))
        for _ in range(6)
    ]
    model = g.model(g.add("Sum", *parts))
    first, second = (
        optimize(model, patterns="repeated").SerializeToString(deterministic=True) for _ in range(2)
    )
    assert first == second
    assert onnx.ModelProto.FromString(first).graph.output[0].name == model.graph.output[0].name
