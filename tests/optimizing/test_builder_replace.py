"""Replacing one result by another in a builder: who reads it, names of outputs, order, and what is
refused.
"""

import random
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import node_of, parse, run, same_results, text_of, types, verify
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.facts.errors import RewriteError
from xoptim.graph.redirect import substitute

CHAIN = (
    "agraph (float[3] x, float[3] w) => (float[3] y) { a = Neg(x) b = Abs(a) c = Exp(b) "
    "y = Add(b, c) }"
)
FEEDS = {"x": np.array([1, -2, 3], np.float32), "w": np.array([4, 5, 6], np.float32)}


def builder(text: str) -> GraphBuilder:
    """Without patterns, which would change more."""
    return GraphBuilder(parse(text), optimization_options=OptimizationOptions(patterns=None))


def refused(gr: GraphBuilder, old: str, new: str, why: str) -> None:
    """It is refused, and nothing has changed."""
    before = text_of(gr.model)
    with pytest.raises(RewriteError, match=why):
        gr.replace(old, new)
    assert text_of(gr.model) == before
    verify(gr.model)


def test_all_readers_follow() -> None:
    gr = builder(CHAIN)
    gr.replace("b", "w")
    assert [node.input for node in gr.nodes] == [("x",), ("a",), ("w",), ("w", "c")]
    assert gr.next_nodes("b") == []
    assert [node.op_type for node in gr.next_nodes("w")] == ["Exp", "Add"]
    verify(gr.model)
    assert types(gr.to_onnx()) == [
        "Exp",
        "Add",
    ], "what nothing reads goes when the model is optimized"


def test_a_result_that_was_made_since() -> None:
    """New nodes are appended; they come before who reads them now."""
    gr = builder(CHAIN)
    new = gr.op.Sqrt(gr.op.Mul("a", "a"))
    assert [node.op_type for node in gr.nodes][-2:] == ["Mul", "Sqrt"]
    gr.replace("b", new)
    assert [node.op_type for node in gr.nodes] == ["Neg", "Abs", "Mul", "Sqrt", "Exp", "Add"]
    verify(gr.model)
    after = gr.to_onnx()
    assert types(after) == ["Neg", "Mul", "Sqrt", "Exp", "Add"]
    same_results(parse(CHAIN), after, FEEDS)


def test_an_output_keeps_its_name() -> None:
    gr = builder(CHAIN)
    gr.replace("y", gr.op.Sum("b", "c"))
    verify(gr.model)
    assert gr.output_names == ["y"]
    after = gr.to_onnx()
    assert types(after) == ["Neg", "Abs", "Exp", "Sum"]
    assert (
        [value.name for value in after.graph.output] == list(after.graph.node[-1].output) == ["y"]
    )
    same_results(parse(CHAIN), after, FEEDS)


@pytest.mark.parametrize("new", ["x", "k", "b", "w"])
def test_outputs_that_become_copies(new: str) -> None:
    """Of an input, of an initializer, of another output."""
    text = (
        "agraph (float[3] x, float[3] w) => (float[3] a, float[3] b) <float[3] k = {1, 2, 3}> { "
        "a = Neg(x) b = Abs(a) }"
    )
    gr = builder(text)
    if new == "b":
        refused(gr, "a", "b", "depends on")
        gr.replace("b", "a")
    else:
        gr.replace("a", new)
    verify(gr.model)
    assert gr.output_names == ["a", "b"]
    after = gr.to_onnx()
    onnx.checker.check_model(after)
    a, b = run(after, FEEDS)
    values = {"x": FEEDS["x"], "w": FEEDS["w"], "k": np.array([1, 2, 3], np.float32)}
    if new == "b":
        assert a.tolist() == b.tolist() == (-FEEDS["x"]).tolist()
    else:
        assert a.tolist() == values[new].tolist()
        assert b.tolist() == np.abs(values[new]).tolist()


def test_subgraphs_follow() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) {
      a = Neg(x) b = Abs(a)
      y = If (c) <then_branch = t () => (float[2] p) { p = Exp(b) },
        else_branch = e () => (float[2] q) { q = Identity(b) }>
    }"""
    gr = builder(text)
    gr.replace("b", gr.op.Relu("a"))
    verify(gr.model)
    assert [node.op_type for node in gr.nodes] == ["Neg", "Abs", "Relu", "If"]
    after = gr.to_onnx()
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.array([1, -2], np.float32)}
        assert (
            run(after, feeds)[0].tolist()
            == (np.exp([0, 2]).astype(np.float32) if condition else np.array([0, 2])).tolist()
        )


def test_what_a_new_subgraph_reads_moves_too() -> None:
    text = "agraph (bool c, float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Exp(b) }"
    gr = builder(text)
    gr.op.Relu("a", outputs=["r"])
    body = "agraph () => (float[2] p) { p = Floor(r) }"
    branches: dict[str, Any] = {f"{name}_branch": parse(body).graph for name in ("then", "else")}
    gr.replace("b", str(gr.make_node("If", "c", "new", **branches)))
    assert [node.op_type for node in gr.nodes] == ["Neg", "Abs", "Relu", "If", "Exp"]
    verify(gr.model)


def test_facts_are_put_together() -> None:
    text = (
        "agraph (float[n] x, int64[1] s) => (y) { a = Reshape(x, s) b = Slice(x, i, j) c = Neg(b) "
        "y = Exp(c) }"
    )
    proto = parse(text)
    for name, value in (("i", 0), ("j", 2)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value]), name))
    gr = GraphBuilder(proto)
    gr.make_tensor_input("w", onnx.TensorProto.FLOAT, [2])
    gr.replace("b", "w")
    assert gr.get_shape("c") == gr.get_shape("y") == (2,)
    gr.replace("a", "a")
    verify(gr.model)


def test_contradictions_are_refused() -> None:
    gr = builder(
        "agraph (float[3] x, double[3] d, float[4] l, float[1,3] r) "
        "=> (float[3] y) <float[3] k = {1, 2, 3}>{ a = Neg(x) b = Abs(a) o = Neg(k) y = Add(b, o) }"
    )
    refused(gr, "a", "d", "would change its type from float to double")
    refused(gr, "a", "l", r"would change its shape from \[3\] to \[4\]")
    refused(gr, "a", "r", "would change its shape")
    refused(gr, "a", "b", "'b' depends on 'a'")
    refused(gr, "x", "y", "'y' depends on 'x'")
    refused(gr, "a", "nothing", "'nothing' is not defined here")
    refused(gr, "nothing", "a", "'nothing' is not defined here")
    refused(gr, "k", "x", "the constant 'k' cannot be replaced")
    refused(gr, "o", "x", "the constant 'o' cannot be replaced")
    gr.replace("o", "k")
    assert types(gr.to_onnx()) == ["Neg", "Abs", "Add"]


def test_cycles_through_new_nodes_and_subgraphs_are_refused() -> None:
    gr = builder(
        "agraph (bool c, float[2] x) => (float[2] y) { a = Neg(x) "
        "y = If (c) <then_branch = t () => (float[2] p) { p = Exp(a) }, else_branch = e () "
        "=> (float[2] q) { q = Abs(a) }> }"
    )
    refused(gr, "a", gr.op.Relu("a"), "depends on 'a'")
    refused(gr, "a", gr.op.Relu("y"), "depends on 'a'")
    refused(gr, "a", "y", "depends on 'a'")


def test_what_must_stay() -> None:
    gr = builder("agraph (float[2] x, float[2] w) => (float[2] x, float[2] y) { y = Neg(x) }")
    refused(gr, "x", "w", "that no node computes")
    hidden = builder("""agraph (bool c, float[2] x) => (float[2] y) { a = Neg(x) b = Abs(x)
        y = If (c) <then_branch = t () => (float[2] p) { b = Exp(a) p = Neg(b) },
                    else_branch = e () => (float[2] q) { q = Abs(a) }> }""")
    assert node_of(hidden.graph, "If").bodies["then_branch"].producer("b") is not None
    refused(hidden, "a", "b", "hides 'b'")


def test_random_replacements_keep_the_tables_right() -> None:
    refusals = 0
    for seed in range(30):
        draw = random.Random(seed)
        gr = GraphBuilder(18)
        for name in "xyz":
            gr.make_tensor_input(name, onnx.TensorProto.FLOAT, [2])
        names = ["x", "y", "z"]
        for _ in range(12):
            names.append(
                getattr(gr.op, draw.choice(["Add", "Mul", "Sub"]))(*draw.choices(names, k=2))
            )
        gr.make_tensor_output([names[-1], names[-3]])
        for _ in range(15):
            made = [node.output[0] for node in gr.nodes]
            old = draw.choice(made)
            new = (
                gr.op.Max(*draw.choices(made, k=2))
                if draw.random() < 0.5
                else draw.choice(["x", "y", *made])
            )
            order = [node.output for node in gr.nodes]
            problem = ""
            try:
                gr.replace(old, new)
            except RewriteError as error:
                problem = str(error)
            assert not problem or (
                "depends on" in problem and [node.output for node in gr.nodes] == order
            )
            refusals += bool(problem)
            verify(gr.model)
        onnx.checker.check_model(gr.to_onnx(), full_check=True)
    assert 50 < refusals < 300


def test_neighbours() -> None:
    gr = builder(CHAIN)
    before = gr.node_before("b")
    assert before is not None
    assert before.op_type == "Abs"
    assert gr.node_before("x") is None
    assert [node.op_type for node in gr.next_nodes("b")] == ["Exp", "Add"]


def test_within_a_subgraph() -> None:
    """By the function behind it: the builder replaces in the main graph."""
    text = """agraph (bool c, float[2] x) => (float[2] y) { a = Neg(x)
      v = If (c) <then_branch = t () => (float[2] p) { d = Exp(x) p = Abs(d) },
                  else_branch = e () => (float[2] q) { q = Abs(x) }>
      w = Floor(x) u = Add(v, w) y = Add(u, a) }"""
    gr = builder(text)
    body = node_of(gr.graph, "If").bodies["then_branch"]
    with pytest.raises(RewriteError, match=r"'w' .*subgraph"):
        substitute(body, "d", "w")
    verify(gr.model)
    substitute(body, "d", "a")
    assert [node.input for node in body.nodes] == [("x",), ("a",)]
    substitute(body, "p", "x")
    verify(gr.model)
    after = gr.to_onnx()
    x = np.array([1, -2.5], np.float32)
    for condition, inner in ((True, x), (False, np.abs(x))):
        expected = inner + np.floor(x) - x
        assert run(after, {"c": np.array(condition), "x": x})[0].tolist() == expected.tolist()
