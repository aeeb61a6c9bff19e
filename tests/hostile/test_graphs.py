"""Invalid graphs, and graphs that are nearly empty."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.command import Xopt, types_in, write
from tests.hostile.cases import (
    PLAIN,
    Case,
    changed,
    check,
    listed,
    not_verified,
    optimized,
    refused,
    text,
)
from tests.support import run
from xoptim import optimize

pytestmark = pytest.mark.slow

LISTED = (
    "agraph (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1,2}> { t = Neg(w) "
    "y = Add(t, x) }"
)
CHAIN = PLAIN.format("t = Identity(x) y = Exp(t)")


def declared(name: str, element_type: int, *dims: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type, dims)


def give(name: str, element_type: int, *dims: int | str) -> Callable[[onnx.ModelProto], None]:
    """A change: what a model says about one of its results."""

    def change(model: onnx.ModelProto) -> None:
        found = [v for v in (*model.graph.input, *model.graph.output) if v.name == name]
        target = found[0] if found else model.graph.value_info.add()
        target.CopyFrom(declared(name, element_type, *dims))

    return change


def no_shapes(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")


def same_names(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.name = "same"


CASES = [
    refused(
        "graph-cycle",
        "two nodes that read each other",
        text("agraph (float[n] x) => (float[n] y) { y = Add(x, u) u = Neg(y) }"),
        "the nodes form a cycle through 'Add'",
    ),
    refused(
        "graph-cycle-one",
        "a node that reads itself",
        text("agraph (float[n] x) => (float[n] y) { y = Add(x, y) }"),
        "the nodes form a cycle",
    ),
    optimized(
        "graph-unsorted",
        "nodes out of order",
        text("agraph (float[n] x) => (float[n] y) { y = Exp(t) t = Abs(x) }"),
        "Abs Exp",
        warnings=("the nodes of graph 'agraph' are not in topological order; they were sorted",),
    ),
    refused(
        "graph-undefined",
        "a node that reads an undefined name",
        text("agraph (float[n] x) => (float[n] y) { y = Add(x, u) }"),
        "'Add' reads 'u', which nothing defines",
    ),
    refused(
        "graph-output-undefined",
        "an output that nothing produces",
        text("agraph (float[n] x) => (float[n] z) { y = Neg(x) }"),
        "graph output 'z' is not produced",
    ),
    refused(
        "graph-output-nameless",
        "an output without a name",
        changed(CHAIN, lambda model: model.graph.output.add()),
        "graph output '' is not produced",
    ),
    refused(
        "graph-result-twice",
        "two results of one name",
        text("agraph (float[n] x) => (float[n] y) { y = Neg(x) y = Abs(x) }"),
        "result 'y' is produced twice",
    ),
    refused(
        "graph-result-input",
        "a result with the name of an input",
        text("agraph (float[n] x) => (float[n] y) { x = Neg(y) y = Abs(x) }"),
        "is produced by a node and is an input",
    ),
    refused(
        "graph-result-initializer",
        "a result with the name of an initializer",
        text("agraph (float[n] x) => (float[n] w) <float[1] w = {1}> { w = Neg(x) }"),
        "is an input or an initializer too",
    ),
    refused(
        "graph-input-twice",
        "an input declared twice",
        text("agraph (float[n] x, float[n] x) => (float[n] y) { y = Neg(x) }"),
        "input 'x' is declared twice",
    ),
    refused(
        "graph-initializer-twice",
        "an initializer defined twice",
        text("agraph () => (float[1] y) <float[1] w = {1}, float[1] w = {2}> { y = Neg(w) }"),
        "initializer 'w' is defined twice",
    ),
    optimized("graph-node-names", "nodes without names", text(CHAIN), "Exp"),
    not_verified(
        "graph-empty",
        "no inputs, no nodes, no outputs",
        text("agraph () => () { }"),
        "onnxruntime cannot load",
        "",
    ),
    optimized(
        "graph-no-nodes",
        "an output that is an input, no nodes",
        text("agraph (float[n] x) => (float[n] x) { }"),
        "",
    ),
    optimized(
        "graph-no-inputs",
        "no inputs",
        text(
            "agraph () => (float[2] y) { t = RandomNormal <shape = [2], seed = 1.0> () "
            "y = Identity(t) }"
        ),
        "RandomNormal",
    ),
    optimized(
        "graph-constants",
        "everything folds to constants",
        text(
            "agraph () => (float[2] y) <float[2] a = {1, 2}> { t = Neg(a) u = Exp(t) "
            "y = Add(u, a) }"
        ),
    ),
    optimized(
        "graph-output-initializer",
        "an output that is an initializer",
        text(
            "agraph (float[2] x) => (float[2] a, float[2] y) <float[2] a = {1, 2}> { y = Neg(x) }"
        ),
        "Neg",
    ),
    optimized(
        "graph-output-input",
        "an output that is an input",
        text("agraph (float[2] x) => (float[2] x, float[2] y) { y = Neg(x) }"),
        "Neg",
    ),
    optimized(
        "graph-output-copied",
        "an output that is a copy of another",
        text("agraph (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Identity(y) }"),
    ),
    optimized(
        "graph-output-twice",
        "an output listed twice",
        text("agraph (float[2] x) => (float[2] y, float[2] y) { y = Neg(x) }"),
        "Neg",
    ),
    optimized(
        "graph-unused-inputs",
        "inputs that nothing reads",
        text("agraph (float[2] x, float[3] z, string s) => (float[2] y) { y = Neg(x) }"),
        "Neg",
    ),
    optimized(
        "graph-unused-results",
        "results that nothing reads",
        text(
            "agraph (float[2] x) => (float[2] y) { u, v = Split <num_outputs = 2> (x) y = Neg(x) }"
        ),
        "Neg",
    ),
    optimized(
        "graph-missing-operands",
        "optional operands that are left out",
        text("agraph (float[n] x) => (float[n] y) <float high = {1}> { y = Clip(x, , high) }"),
        "Clip",
    ),
    optimized(
        "graph-dimension-0",
        "a dimension 0",
        text("agraph (float[0,n] x) => (float[0,n] y) { t = Neg(x) y = Exp(t) }"),
    ),
    optimized(
        "graph-rank-0",
        "rank 0",
        text("agraph (float x) => (float y) { t = Identity(x) y = Exp(t) }"),
        "Exp",
    ),
    optimized("graph-rank-unknown", "unknown ranks", changed(CHAIN, no_shapes), "Exp"),
    optimized(
        "graph-no-output-type",
        "an output without a type",
        text("agraph (float[2] x) => (y) { y = Exp(x) }"),
        "Exp",
    ),
    not_verified(
        "graph-no-types",
        "no types at all",
        text("agraph (x) => (y) { t = Identity(x) y = Neg(t) }"),
        "onnxruntime cannot",
        "Neg",
    ),
    optimized(
        "graph-input-negative", "an input of shape [-3]", changed(CHAIN, give("x", 1, -3)), "Exp"
    ),
    optimized("graph-negative", "a declared shape [-5]", changed(CHAIN, give("t", 1, -5)), "Exp"),
    optimized(
        "graph-contradiction",
        "a declared shape that contradicts the operators",
        changed(CHAIN, give("t", 1, 7)),
        "Exp",
        warnings=("value_info of 't' contradicts the operators; declared shapes are ignored",),
    ),
    optimized(
        "graph-contradiction-output",
        "an output whose declared shape contradicts the operators",
        changed(CHAIN, give("y", 1, 9)),
        "Exp",
        does="optimized, with the right shape; the numbers are equal",
        warnings=("value_info of 'y' contradicts the operators",),
        output="%y[FLOAT, 2]",
    ),
    not_verified(
        "graph-contradiction-type",
        "an output whose declared type contradicts the operators",
        changed(CHAIN, give("y", 7, 2)),
        "onnxruntime cannot load the original",
        "Exp",
        warnings=("value_info of 'y' contradicts the operators",),
    ),
    not_verified(
        "graph-shapes",
        "operands whose shapes do not go together",
        text("agraph (float[2] x, float[3] z) => (float[2] y) { t = Identity(x) y = Add(t, z) }"),
        "onnxruntime cannot",
        "Add",
    ),
    not_verified(
        "graph-permutation",
        "an invalid permutation",
        text(PLAIN.format("t = Identity(x) y = Transpose <perm = [5, 5]> (t)")),
        "onnxruntime cannot",
        "Transpose",
    ),
    not_verified(
        "graph-operand-types",
        "operands of types that the operator does not support",
        text("agraph (string[n] x) => (string[n] y) { t = Identity(x) y = Neg(t) }"),
        "onnxruntime cannot",
        "Neg",
    ),
    not_verified(
        "graph-operands",
        "too few operands",
        text(PLAIN.format("t = Identity(x) y = Add(t)")),
        "onnxruntime cannot",
        "Add",
    ),
    not_verified(
        "graph-attributes",
        "attributes of other types, and unknown ones",
        text(PLAIN.format('t = Identity(x) y = Softmax <axis = "last", axes = 3> (t)')),
        "onnxruntime cannot",
        "Softmax",
    ),
    optimized(
        "graph-listed-3",
        "initializers listed as inputs, version 3 of the format",
        text(LISTED, 8, ir_version=3),
        "Add",
        does="they are constants, and fold; the numbers are equal",
    ),
    optimized(
        "graph-listed-4",
        "initializers listed as inputs, from version 4 on",
        text(LISTED),
        "Neg Add",
        does="they are defaults that a caller may override: nothing folds them",
        options=("--patterns", "Cast"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_graphs(xopt: Xopt, case: Case) -> None:
    check(case, xopt)


@listed(
    "graph-node-names-same",
    "two nodes of one name",
    "optimized; the names become unique, the numbers are equal",
)
def test_nodes_of_one_name(xopt: Xopt) -> None:
    model = text(PLAIN.format("t = Exp(x) y = Exp(t)"))()
    same_names(model)
    write(model)
    assert xopt("model.onnx", "-q") == (0, "", "")
    assert types_in("model.opt.onnx") == ["Exp", "Exp"]
    found = onnx.load("model.opt.onnx").graph.node
    assert found[0].name == model.graph.node[0].name
    assert len({node.name for node in found}) == 2


@listed(
    "graph-overridden",
    "a default that a caller overrides, after optimization",
    "computed with the caller's value",
)
def test_overridden_defaults() -> None:
    feeds = {"x": np.zeros(2, np.float32), "w": np.array([5, 6], np.float32)}
    assert run(optimize(text(LISTED)()), feeds)[0].tolist() == [-5, -6]
    assert run(optimize(text(LISTED)()), {"x": feeds["x"]})[0].tolist() == [-1, -2]


@listed("graph-chain", "a chain of 20,000 nodes", "optimized")
def test_a_long_chain(xopt: Xopt) -> None:
    count = 20_000
    nodes = [
        helper.make_node(("Sin", "Exp", "Identity")[i % 3], [f"x{i}"], [f"x{i + 1}"])
        for i in range(count)
    ]
    graph = helper.make_graph(
        nodes, "chain", [declared("x0", 1, "n")], [declared(f"x{count}", 1, "n")]
    )
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")
    assert len(types_in("model.opt.onnx")) == count - count // 3


@listed("graph-chain-folds", "a chain of 5,000 nodes on a constant", "one constant")
def test_a_long_chain_that_folds(xopt: Xopt) -> None:
    count = 5_000
    nodes = [helper.make_node("Neg", [f"x{i}"], [f"x{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("Add", [f"x{count}", "x"], ["y"]))
    weight = helper.make_tensor("x0", TensorProto.FLOAT, [2], [1.0, 1.0])
    graph = helper.make_graph(
        nodes, "chain", [declared("x", 1, 2)], [declared("y", 1, 2)], [weight]
    )
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")
    assert types_in("model.opt.onnx") == ["Add"]


@listed("graph-reversed", "20,000 nodes in reverse order", "sorted once, with one warning")
def test_nodes_in_reverse(xopt: Xopt) -> None:
    count = 20_000
    nodes = [helper.make_node("Sin", [f"x{i}"], [f"x{i + 1}"]) for i in range(count)][::-1]
    graph = helper.make_graph(
        nodes, "chain", [declared("x0", 1, "n")], [declared(f"x{count}", 1, "n")]
    )
    write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    outcome = xopt("model.onnx", "--no-verify", "-q")
    assert (outcome.code, len(outcome.warnings)) == (0, 1)
    assert onnx.load("model.opt.onnx").graph.node[0].input == ["x0"]
