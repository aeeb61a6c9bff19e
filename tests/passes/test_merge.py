import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import load, parse, run, same_results, types, verify
from xoptim.api.optimizing import optimize
from xoptim.graph.load import load_model
from xoptim.graph.redirect import can_rename
from xoptim.passes.merge import MergeInitializers, MergeNodes

FEEDS = {"x": np.array([[1, -2, 3]], np.float32), "z": np.array([[2, 2, 2]], np.float32)}
HEAD = "agraph (float[N,3] x, float[N,3] z) => (float[N,3] y)"


def merged(text: str | onnx.ModelProto, opset: int = 18) -> onnx.ModelProto:
    """The model after merging alone."""
    model = parse(text, opset) if isinstance(text, str) else text
    return optimize(model, patterns=None, constant_folding=False)


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        ("a = Neg(x) b = Neg(x) y = Add(a, b)", 2),
        ("a = Add(x, z) b = Add(z, x) y = Sub(a, b)", 2),
        ("a = Sub(x, z) b = Sub(z, x) y = Sub(a, b)", 3),
        ("a = Elu <alpha = 0.5> (x) b = Elu <alpha = 0.5> (x) y = Add(a, b)", 2),
        ("a = Elu <alpha = 0.5> (x) b = Elu <alpha = 0.6> (x) y = Add(a, b)", 3),
        ("a = Neg(x) b = Neg(x) c = Abs(a) d = Abs(b) e = Exp(c) f = Exp(d) y = Add(e, f)", 4),
        ("a = Neg(x) y = Neg(x) b = Abs(a) c = Abs(y) d = Sub(b, c)", 1),
        ("a = RandomNormalLike(x) b = RandomNormalLike(x) y = Sub(a, b)", 3),
        ("a = Dropout(x) b = Dropout(x) y = Sub(a, b)", 3),
        ("a = Clip(x) b = Clip(x, , ) y = Sub(a, b)", 2),
        ("u = ReduceMax <keepdims = 0> (z) a = Clip(x, , u) b = Clip(x, u, ) y = Sub(a, b)", 4),
    ],
)
def test_equal_nodes(nodes: str, count: int) -> None:
    text = f"{HEAD} {{ {nodes} }}"
    after = merged(text)
    assert len(after.graph.node) == count
    if "Random" not in nodes:
        same_results(parse(text), after, FEEDS)


@pytest.mark.parametrize(
    "draw",
    [
        "RandomNormal <shape = [2, 3], {}> ()",
        "RandomUniform <shape = [2, 3], {}> ()",
        "RandomNormalLike <{}> (x)",
        "RandomUniformLike <{}> (x)",
        "Bernoulli <{}> (p)",
    ],
)
def test_equal_seeds_draw_equal_numbers(draw: str) -> None:
    """In each run of a session: the generators of both nodes advance alike."""

    def model(first: str, second: str) -> onnx.ModelProto:
        nodes = f"a = {draw.format(first)} b = {draw.format(second)} y = Sub(a, b)"
        return parse(f"{HEAD} {{ p = Sigmoid(x) {nodes} }}")

    seeded = model("seed = 1.0", "seed = 1.0")
    session = onnxruntime.InferenceSession(seeded.SerializeToString())
    feeds = {name: np.zeros((2, 3), np.float32) for name in "xz"}
    for _ in range(3):
        assert not np.any(session.run(None, feeds)[0])
    operator = draw.partition(" ")[0]
    assert types(merged(seeded)).count(operator) == 1
    assert types(merged(model("seed = 1.0", "seed = 2.0"))).count(operator) == 2
    assert types(merged(model("dtype = 1", "dtype = 1"))).count(operator) == 2, "no seeds"


def test_a_seeded_node_of_a_branch_is_kept() -> None:
    """It runs less often than the node before the If, and so draws other numbers."""
    draw = "RandomNormalLike <seed = 1.0> (x)"
    branch = f"{{ v = {draw} k = Neg(v) }}"
    after = merged(
        f"agraph (float[N,3] x, bool c) => (float[N,3] y) {{ a = {draw} b = If(c) < then_branch = "
        f"t () => (float[N,3] k) {branch}, else_branch = e () => (float[N,3] k) "
        "{ k = Abs(x) }> y = Add(a, b) }"
    )
    (choice,) = [node for node in after.graph.node if node.op_type == "If"]
    branches = {attribute.name: attribute.g for attribute in choice.attribute}
    assert [node.op_type for node in branches["then_branch"].node] == ["RandomNormalLike", "Neg"]


def test_unknown_operators_and_functions_are_not_merged() -> None:
    for call, tail in (
        ("test.Random", ""),
        (
            "l.f",
            (
                ' <domain: "l", opset_import: ["" : 18]> f (u) => (v) { r = RandomNormalLike(u) v ='
                " Add(r, u) }"
            ),
        ),
    ):
        text = f"{HEAD} {{ a = {call}(x) b = {call}(x) y = Sub(a, b) }}{tail}"
        assert len(merged(parse(text, domains={"test": 1, "l": 1})).graph.node) == 3
    known = parse(
        f"{HEAD} {{ a = com.microsoft.Gelu(x) b = com.microsoft.Gelu(x) y = Sub(a, b) }}",
        domains={"com.microsoft": 1},
    )
    assert len(merged(known).graph.node) == 2


def test_nodes_with_several_results() -> None:
    text = """agraph (float[4] x) => (float[2] y, float[2] z) {
      a, b = Split <axis = 0, num_outputs = 2> (x)
      c, d = Split <axis = 0, num_outputs = 2> (x)
      y = Add(a, d) z = Sub(c, b)
    }"""
    after = merged(text)
    assert types(after) == ["Split", "Add", "Sub"]
    same_results(parse(text), after, {"x": np.arange(4, dtype=np.float32)})


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_splits_into_different_numbers_of_parts(opset: int) -> None:
    model = parse(
        "agraph (float[6] x) => (float[a] y, float[b] z) { a, b, c = Split(x) d, e = Split(x) "
        "y = Concat <axis = 0> (c, b, a) z = Concat <axis = 0> (e, d) }",
        opset,
    )
    after = merged(model)
    assert types(after).count("Split") == 2
    same_results(model, after, {"x": np.arange(6, dtype=np.float32)})


def test_training_is_kept_apart_from_inference() -> None:
    after = merged(
        "agraph (float[2,1] x, float[1] s) => (float[2,1] y, float[2,1] z) { "
        "a, m, v, p, q = BatchNormalization(x, s, s, s, s) b = BatchNormalization(x, s, s, s, s) "
        "c = Add(m, v) d = Add(p, q) e = Add(c, d) y = Mul(a, e) z = Neg(b) }",
        13,
    )
    assert types(after).count("BatchNormalization") == 2


def test_results_that_are_omitted() -> None:
    shorter = """agraph (float[1,1,4] x) => (float[1,1,4] y, float[1,1,4] z, int64[1,1,4] i) {
      a, i = MaxPool <kernel_shape = [1]> (x)
      b = MaxPool <kernel_shape = [1]> (x)
      y = Neg(a) z = Abs(b)
    }"""
    feeds = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 4)}
    for text, count in (
        (shorter, 3),
        (shorter.replace("a, i =", "k, i =").replace("b = Max", "a, j = Max"), 4),
    ):
        fixed = (
            text if count == 3 else text.replace("z = Abs(b)", "z = Abs(k)").replace("a, j", "a")
        )
        after = merged(fixed)
        assert types(after).count("MaxPool") == 1
        same_results(parse(fixed), after, feeds)


def test_outputs_keep_their_names() -> None:
    text = """agraph (float[N] x) => (float[N] p, float[N] q, float[N] r) {
      a = Neg(x) p = Neg(x) q = Neg(x) b = Neg(x) r = Add(a, b)
    }"""
    after = merged(text)
    assert [o.name for o in after.graph.output] == ["p", "q", "r"]
    assert types(after) == ["Neg", "Identity", "Add"], "two outputs are two results"
    same_results(parse(text), after, {"x": np.array([1, 2], np.float32)})


@pytest.mark.parametrize(
    ("nodes", "outputs", "expected"),
    [
        ("y = MatMul(x, k) z = MatMul(x, k)", "y, z", ["MatMul", "Identity"]),
        (
            "a = MatMul(x, k) y = Exp(a) b = MatMul(x, k) z = Exp(b)",
            "y, z",
            ["MatMul", "Exp", "Identity"],
        ),
        (
            "y = Exp(x) a = Abs(y) z = Exp(x) b = Abs(z) w = Add(a, b)",
            "y, z, w",
            ["Exp", "Abs", "Identity", "Add"],
        ),
        ("y = Exp(x) z = Exp(x) w = Exp(x)", "y, z, w", ["Exp", "Identity", "Identity"]),
        (
            "y, i = TopK(x, n) z, j = TopK(x, n) w = Add(i, j)",
            "y, z, w",
            ["TopK", "Identity", "Add"],
        ),
        ("y, i = TopK(x, n) z, j = TopK(x, n)", "y, i, z, j", ["TopK", "TopK"]),
        ("y = Identity(x) z = Identity(x)", "y, z", ["Identity", "Identity"]),
        (
            "y = RandomNormalLike(x) z = RandomNormalLike(x)",
            "y, z",
            ["RandomNormalLike", "RandomNormalLike"],
        ),
    ],
)
def test_equal_nodes_that_both_give_an_output(
    nodes: str, outputs: str, expected: list[str]
) -> None:
    text = (
        f"agraph (float[2,3] x) => ({outputs}) <float[3,3] k = {{1,2,3,4,5,6,7,8,9}}, "
        f"int64[1] n = {{2}}> {{ {nodes} }}"
    )
    graph = load(text)
    MergeNodes().run_on(graph.graph)
    verify(graph)
    after = merged(text)
    assert types(after) == expected
    assert [value.name for value in after.graph.output] == outputs.split(", ")
    assert merged(after) == after
    if "Random" not in nodes:
        feeds = {"x": np.array([[1, 2, 3], [0, -1, 2]], np.float32)}
        for before, got in zip(run(parse(text), feeds), run(after, feeds), strict=True):
            np.testing.assert_array_equal(got, before)


def test_a_branch_that_returns_one_value_twice() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y, float[2] z) {
      y, z = If (c) <then_branch = t () => (float[2] p, float[2] q) { p = Exp(x) q = Exp(x) },
                     else_branch = u () => (float[2] r, float[2] s) { r = Abs(x) s = Exp(r) }>
    }"""
    after = merged(text)
    assert types(after.graph.node[0].attribute[0].g) == ["Exp", "Identity"]
    for condition in (True, False):
        same_results(
            parse(text), after, {"c": np.array(condition), "x": np.array([1, 2], np.float32)}
        )


def test_a_sequence_that_is_two_outputs_is_made_twice() -> None:
    text = (
        "agraph (float[2] x) => (seq(float[2]) y, seq(float[2]) z) { y = SequenceConstruct(x) "
        "z = SequenceConstruct(x) }"
    )
    assert types(merged(text)) == ["SequenceConstruct", "SequenceConstruct"]


def test_captured_results() -> None:
    text = """agraph (bool c, float[N] x) => (float[N] y, float[N] z) {
      a = Neg(x) b = Neg(x) z = Abs(a)
      y = If (c) <then_branch = t () => (float[N] p) { d = Exp(a) e = Exp(b) p = Add(d, e) },
                  else_branch = u () => (float[N] p) { p = Floor(b) }>
    }"""
    after = merged(text)
    assert types(after) == ["Neg", "Abs", "If"]
    assert [len(a.g.node) for a in after.graph.node[2].attribute] == [2, 1]
    for condition in (True, False):
        same_results(
            parse(text), after, {"c": np.array(condition), "x": np.array([1, 2], np.float32)}
        )


def test_integers_that_are_the_same_expression_of_dimensions() -> None:
    text = """agraph (float[N,3] x, float[N,3] z) => (float[N,3] y) <int64 zero = {0}, int64
      three = {3}, int64[1] axis = {0}> {
      s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, axis)
      t = Shape <start = 0, end = 1> (z)
      k = Unsqueeze(three, axis) a = Concat <axis = 0> (u, k) b = Concat <axis = 0> (t, k)
      p = Reshape(x, a) q = Reshape(z, b) y = Add(p, q)
    }"""
    after = merged(text)
    assert types(after) == ["Shape", "Reshape", "Reshape", "Add"]
    same_results(parse(text), after, FEEDS)


@pytest.mark.parametrize("outputs", ["y, u", "y, u, i, j"])
def test_sizes_of_equal_results_are_equal(outputs: str) -> None:
    """Each NonZero has a count of its own; the nodes after the second one then have the first
    count, so that patterns compare it in the same run. The second of two outputs is a copy.
    """
    model = load_model(
        parse(
            f"agraph (float[a,b] x, bool[a,b] m) => ({outputs}) {{ n = NonZero(m) "
            "i = Transpose(n) y = GatherND(x, i) o = NonZero(m) j = Transpose(o) s = Shape(j) "
            "u = ConstantOfShape(s) }"
        )
    )
    graph = model.graph
    assert graph.info_of("i").shape != graph.info_of("u").shape
    assert MergeNodes().run_on(graph) == 2
    assert graph.info_of("i").shape == graph.info_of("u").shape


def test_pinned_results_stay() -> None:
    model = load(f"{HEAD} {{ a = Neg(x) b = Neg(x) y = Add(a, b) }}")
    model.graph.pinned.update("ab")
    assert MergeNodes().run_on(model.graph) == 0
    verify(model)


# ------------------------------------------------------------------ initializers


def weighted(*tensors: TensorProto, extra: Any = ()) -> onnx.ModelProto:
    names = [t.name for t in tensors]
    nodes = [helper.make_node("Neg", [name], [f"y{i}"]) for i, name in enumerate(names)]
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(names))]
    graph = helper.make_graph(nodes, "g", [], outputs, [*tensors, *extra])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def kept(model: onnx.ModelProto) -> list[str]:
    loaded = load_model(model)
    count = MergeInitializers().run_on(loaded.graph)
    verify(loaded)
    assert count == len(model.graph.initializer) - len(loaded.graph.initializers)
    return list(loaded.graph.initializers)


@pytest.mark.parametrize("size", [1, 3, 33, 1000])
def test_equal_initializers_in_different_storage(size: int) -> None:
    values = np.linspace(0, 1, size, dtype=np.float32)
    raw = numpy_helper.from_array(values, "a")
    typed = helper.make_tensor("b", TensorProto.FLOAT, [size], values.tolist())
    other = numpy_helper.from_array(values + 1, "c")
    shaped = numpy_helper.from_array(values.reshape(1, size), "d")
    wider = numpy_helper.from_array(values.astype(np.float64), "e")
    assert kept(weighted(raw, typed, other, shaped, wider)) == ["a", "c", "d", "e"]
    assert kept(weighted(typed, raw)) == ["b"]


def test_initializers_that_differ_in_one_place() -> None:
    base = np.zeros(5000, np.float32)
    tensors = [numpy_helper.from_array(base, "a")]
    for index, place in enumerate((0, 100, 2500, 3333, 4999)):
        changed = base.copy()
        changed[place] = 1
        tensors.append(numpy_helper.from_array(changed, f"b{index}"))
    tensors.append(numpy_helper.from_array(-base, "minus"))
    tensors.append(numpy_helper.from_array(base, "same"))
    assert kept(weighted(*tensors)) == ["a", "b0", "b1", "b2", "b3", "b4", "minus"]


def test_initializers_that_must_stay() -> None:
    same = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in "abcd"]
    model = weighted(*same)
    model.graph.input.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [3]))
    model.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [3]))
    assert kept(model) == ["a", "b", "c"], "b may be given by the caller, c is an output"


def test_strings() -> None:
    def text(name: str, *values: str) -> TensorProto:
        return TensorProto(
            name=name, data_type=8, dims=[len(values)], string_data=[v.encode() for v in values]
        )

    assert kept(weighted(text("a", "x", "y"), text("b", "x", "y"), text("c", "y", "x"))) == [
        "a",
        "c",
    ]


def test_initializers_of_subgraphs() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2]
      v = {1, 2}> {
      a = Add(x, v)
      y = If (c) <then_branch = t () => (float[2] p) <float[2] k = {1, 2}, float[2] m = {1, 2}> {
        b = Mul(k, m) d = Mul(v, w) p = Add(b, d) },
                  else_branch = u () => (float[2] p) { p = Add(a, w) }>
    }"""
    after = merged(text)
    assert [t.name for t in after.graph.initializer] == ["w"]
    for condition in (True, False):
        same_results(
            parse(text), after, {"c": np.array(condition), "x": np.array([1, 2], np.float32)}
        )


def test_names_that_a_subgraph_hides() -> None:
    """onnxruntime refuses a name that occurs twice.

    The format allows it where the outer one is not visible.
    """
    text = """agraph (bool c, float[2] x) => (float[2] y, float[2] z) {
      a = Neg(x)
      y = If (c) <then_branch = t () => (float[2] q) { z = Exp(x) q = Add(z, a) },
                  else_branch = e () => (float[2] q) { q = Abs(x) }>
      z = Identity(a)
    }"""
    proto = parse(text)
    after = merged(proto)
    assert after == proto
    model = load(text)
    assert not can_rename(model.graph, "a", "z")
    assert can_rename(model.graph, "a", "x")
    verify(model)


def test_what_reads_an_output_that_took_over_is_merged_at_once() -> None:
    """``a`` becomes ``y``.

    What read ``a`` and what reads ``y`` are equal nevertheless, in the same sweep.
    """
    nodes = "a = Relu(x) b = Exp(a) y = Relu(x) c = Exp(y) w = Add(b, c)"
    model = load(f"{HEAD.replace(' y)', ' y, float[N,3] w)')} {{ {nodes} }}")
    assert MergeNodes().run_on(model.graph) == 2
    verify(model)
    assert types(model) == ["Relu", "Exp", "Add"]


def test_an_output_that_took_over_stands_for_its_value() -> None:
    nodes = "s = Shape(x) y = Shape(x) t = Shape(x) a = Neg(t) b = Neg(s) w = Add(a, b)"
    model = load(f"agraph (float[N,3] x) => (int64[2] y, int64[2] w) {{ {nodes} }}")
    assert MergeNodes().run_on(model.graph) == 3
    verify(model)
    assert types(model) == ["Shape", "Neg", "Add"]


# ------------------------------------------------------------------ subgraphs

BOTH = (
    "agraph (bool c, float[2,2] x, float[2,2] z, float[2] o) "
    "=> (float[2,2] y, float[2,2] w) <float[2] o = {1, 2}>"
)


def branches(model: onnx.ModelProto) -> list[list[str]]:
    return [
        types(attribute.g)
        for node in model.graph.node
        for attribute in node.attribute
        if attribute.HasField("g")
    ]


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        ("w = MatMul(x, z)", "m = MatMul(x, z) p = Exp(m)", ["Exp"]),
        ("w = Add(x, z)", "m = Add(z, x) p = Exp(m)", ["Exp"]),
        ("m = Sin(x) w = Exp(m)", "k = Sin(x) l = Exp(k) p = Neg(l)", ["Neg"]),
        ("w = MatMul(x, z)", "p = MatMul(x, z)", ["Identity"]),
        (
            "k = Constant <value = float[1] {3}> () w = Mul(x, k)",
            "k1 = Constant <value = float[1] {3}> () p = Mul(x, k1)",
            ["Identity"],
        ),
        (
            "k = Constant <value = float[1] {3}> () w = Mul(x, k)",
            "k1 = Constant <value = float[1] {4}> () p = Mul(x, k1)",
            ["Mul"],
        ),
        ("w = Mul(x, o)", "m = Mul(x, o) p = Exp(m)", ["Exp"]),
        (
            "w = Mul(x, o)",
            "k1 = Constant <value = float[2] {1, 2}> () m = Mul(x, k1) p = Exp(m)",
            ["Mul", "Exp"],
        ),
        ("w = Sub(x, z)", "m = Sub(z, x) p = Exp(m)", ["Sub", "Exp"]),
        ("w = MatMul(x, z)", "t = Neg(z) m = MatMul(x, t) p = Exp(m)", ["Neg", "MatMul", "Exp"]),
        (
            "w = RandomNormalLike(x)",
            "m = RandomNormalLike(x) p = Exp(m)",
            ["RandomNormalLike", "Exp"],
        ),
        ("w = Identity(x)", "m = Sqrt(x) p = Identity(x)", ["Identity"]),
    ],
)
def test_a_branch_reads_what_is_computed_before_it(
    before: str, inside: str, expected: list[str]
) -> None:
    text = f"""{BOTH} {{ {before} y = If (c) <then_branch = t () => (float[2,2] p) {{ {inside} }},
        else_branch = e () => (float[2,2] q) {{ q = Abs(x) }}> }}"""
    model = load(text)
    MergeInitializers().run_on(model.graph)
    MergeNodes().run_on(model.graph)
    verify(model)
    after = optimize(parse(text), patterns=None)
    assert branches(after)[0] == expected
    if "Random" not in before:
        x = np.array([[1, -2], [0.5, 3]], np.float32)
        for condition in (True, False):
            same_results(
                parse(text), after, {"c": np.array(condition), "x": x, "z": x.T.copy(), "o": x[0]}
            )


def test_what_stands_behind_a_branch_is_not_read_there() -> None:
    text = f"""{BOTH} {{ y = If (c) <then_branch = t () => (float[2,2] p) {{ m = MatMul(x, z)
      p = Exp(m) }},
        else_branch = e () => (float[2,2] q) {{ q = Abs(x) }}> w = MatMul(x, z) }}"""
    assert branches(merged(text)) == [["MatMul", "Exp"], ["Abs"]]


def test_a_loop_reads_what_is_computed_before_it() -> None:
    text = """agraph (int64 n, float[2,2] x, float[2,2] z) => (float[2,2] y, float[2,2] w) {
      w = MatMul(x, z)
        y = Loop(n, , x) < body = round (int64 i, bool d, float[2,2] s) => (bool e, float[2,2] t) {
        e = Identity(d) m = MatMul(x, z) k = MatMul(s, z) a = Add(m, k)
        t = If (d) <then_branch = g () => (float[2,2] p)
          { j = MatMul(x, z) l = MatMul(s, z) p = Sub(l, j) },
                    else_branch = h () => (float[2,2] q) { q = Add(a, s) }> }> }"""
    model = load(text)
    MergeNodes().run_on(model.graph)
    verify(model)
    after = merged(text)
    body = after.graph.node[1].attribute[0].g
    assert types(body) == ["Identity", "MatMul", "Add", "If"]
    assert [types(attribute.g) for attribute in body.node[3].attribute] == [["Sub"], ["Add"]]
    x = np.array([[1, -2], [0.5, 3]], np.float32)
    for rounds in (0, 1, 3):
        same_results(parse(text), after, {"n": np.array(rounds), "x": x, "z": x.T.copy()})


def test_a_name_that_a_branch_hides_is_not_read_there() -> None:
    text = f"""{BOTH} {{ a = MatMul(x, z) w = Exp(a)
      y = If (c) <then_branch = t () => (float[2,2] p) {{ m = MatMul(x, z) a = Neg(m) p = Exp(a) }},
                  else_branch = e () => (float[2,2] q) {{ q = Abs(x) }}> }}"""
    model = load(text)
    MergeNodes().run_on(model.graph)
    verify(model)
    assert [len(body.nodes) for body in list(model.graph.nodes)[2].bodies.values()] == [3, 1]


def test_subgraphs_of_functions() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) { y = l.f(c, x) }
      <domain: "l", opset_import: ["" : 18]> f (b, u) => (v) {
      s = Sin(u)
        k = If (b) <then_branch = t () => (p) { m = Sin(u) p = Exp(m) },
        else_branch = e () => (q) { q = Abs(u) }>
      v = Add(k, s) }"""
    proto = parse(text, domains={"l": 1})
    after = merged(proto)
    assert [types(attribute.g) for attribute in after.functions[0].node[1].attribute] == [
        ["Exp"],
        ["Abs"],
    ]
    for condition in (True, False):
        same_results(proto, after, {"c": np.array(condition), "x": np.array([1, 2], np.float32)})


def drawn(
    rng: random.Random, known: list[str], depth: int, fresh: Iterator[int]
) -> tuple[str, list[str]]:
    """Nodes that compute from known names, so few that many are equal, in subgraphs too; and the
    new names.
    """
    lines: list[str] = []
    made: list[str] = []
    for _ in range(rng.randint(2, 6)):
        name, visible = f"r{next(fresh)}", [*known, *made]
        a, b = rng.choice(visible[:4]), rng.choice(visible[:4])
        choice = rng.random()
        if depth < 2 and choice < 0.2:
            (yes, first), (no, second) = (drawn(rng, visible, depth + 1, fresh) for _ in range(2))
            lines.append(
                f"{name} = If (c) <then_branch = t () => (float[2,2] {first[-1]}) {{ {yes} }}, "
                f"else_branch = e () => (float[2,2] {second[-1]}) {{ {no} }}>"
            )
        elif depth < 2 and choice < 0.35:
            i, d, e, s = (f"{letter}{next(fresh)}" for letter in "ides")
            inside, within = drawn(rng, [s, *visible], depth + 1, fresh)
            lines.append(
                f"{name} = Loop(n, , {a}) < body = l (int64 {i}, bool {d}, float[2,2] {s}) => "
                f"(bool {e}, float[2,2] {within[-1]}) {{ {e} = Identity({d}) {inside} }}>"
            )
        else:
            lines.append(
                f"{name} = {rng.choice(['Tanh', 'Sigmoid'])}({a})"
                if choice < 0.6
                else f"{name} = Add({a}, {b})"
            )
        made.append(name)
    return " ".join(lines), made


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_of_subgraphs_in_which_much_is_equal(seed: int) -> None:
    rng = random.Random(seed)
    nodes, made = drawn(rng, ["x", "z"], 0, itertools.count())
    ends = ", ".join(f"float[2,2] {name}" for name in rng.sample(made, min(3, len(made))))
    text = f"agraph (bool c, int64 n, float[2,2] x, float[2,2] z) => ({ends}) {{ {nodes} }}"
    proto = parse(text)
    model = load_model(proto)
    MergeNodes().run_on(model.graph)
    verify(model)
    x = np.array([[1, -2], [0.5, 3]], np.float32)
    for patterns in (None, "default"):
        after = optimize(proto, patterns=patterns, strict=True)
        for condition, rounds in ((True, 0), (False, 2), (True, 1)):
            same_results(
                proto,
                after,
                {"c": np.array(condition), "n": np.array(rounds), "x": x, "z": x.T.copy()},
            )


@pytest.mark.parametrize(("scale", "count"), [("r", 1), ("s", 2)])
def test_constants_that_are_quantized_otherwise(scale: str, count: int) -> None:
    model = parse(
        "agraph (float[2] x) => (float[2] y, float[2] z) <float[2] v = {1, 2}, "
        "float[2] w = {1, 2}, float r = {0.5}, float s = {0.25}> { y = Add(x, v) z = Mul(x, w) }"
    )
    for name, parameter in (("v", "r"), ("w", scale)):
        annotation = model.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=parameter)
    after = merged(model)
    assert len({node.input[1] for node in after.graph.node}) == count
    assert len(after.graph.quantization_annotation) == count
