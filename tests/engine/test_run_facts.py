"""Facts about results after a run."""

from pathlib import Path

import onnx
import pytest

from tests.support import parse, types, verify
from xoptim import GraphBuilder, OptimizationOptions, optimize

TINY_BERT = Path("examples/models/tiny_bert.onnx")


@pytest.mark.parametrize("patterns", [None, "default", "default+onnxruntime"])
def test_the_table_of_facts_describes_the_values_that_exist_and_nothing_else(
    patterns: str | None,
) -> None:
    builder = GraphBuilder(
        onnx.load(TINY_BERT), optimization_options=OptimizationOptions(patterns=patterns)
    )
    verify(builder.model)
    builder.optimize()
    verify(builder.model)


def test_more_is_known_of_the_results_of_a_node_when_its_subgraph_has_changed() -> None:
    model = parse(
        "agraph (float[2,3] x, float[3,2] z, bool b) "
        "=> (float[d,e] r, int64[2] y) <int64 n = {1}, bool c = {1}, int64[2] w = {3, 2}> { "
        "r = If(b) < then_branch = yes () "
        "=> (float[] p) { u = Loop(n, c, x) < body = round (int64 i, bool d, float[] s) "
        "=> (bool e, float[] t) { e = Identity(d) t = Reshape(s, w) }> "
        "p = Relu(u) }, else_branch = no () => (float[] q) { q = Neg(z) }> k = Shape(r) "
        "l = Mul(k, n) y = Neg(l) }"
    )
    assert types(optimize(model, strict=True)) == ["If", "Constant"]


def test_results_whose_readers_are_folded_are_dropped() -> None:
    model = parse(
        "agraph (float[2,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,1,2] h, int64[4] n) "
        "{ y, h = LSTM <hidden_size = 2> (x, w, r) n = Shape(y) }"
    )
    once = optimize(model, strict=True)
    (node,) = (node for node in once.graph.node if node.op_type == "LSTM")
    assert list(node.output) == ["", "h"]
    assert optimize(once, strict=True).SerializeToString() == once.SerializeToString()
