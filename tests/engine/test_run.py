"""The phases over all graphs of a model."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from onnx import numpy_helper

from tests.engine.rules import NegNegPattern, chain, renaming, tuned
from tests.support import load, parse, same_results, types, verify
from xoptim.api.optimizing import optimize
from xoptim.doc import demo_mlp_model
from xoptim.engine.environment import DebugSettings
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.errors import ModelError

NESTED = """agraph (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
  a = Neg(x) b = Neg(x) k = Add(w, w)
  y = If (c) <
    then_branch = t () => (float[2] p) {
      d = Exp(a) e = Exp(b) f = Sub(d, e)
      p = If (c) <then_branch = tt () => (float[2] q)
        { m = Mul(k, k) g = Neg(f) h = Neg(g) q = Add(h, m) },
                  else_branch = te () => (float[2] q) { g = Exp(b) q = Sub(f, g) }>
    },
    else_branch = u () => (float[2] p) { g = Neg(a) h = Neg(g) p = Abs(h) }
  >
}"""


def test_what_changes_in_one_graph_helps_the_others() -> None:
    proto = parse(NESTED)
    once = optimize(proto, patterns=NegNegPattern)
    outer = next(node for node in once.graph.node if node.op_type == "If")
    then_branch = next(a.g for a in outer.attribute if a.name == "then_branch")
    assert types(once) == ["Neg", "If"]
    assert types(then_branch) == ["Exp", "Sub", "If"]
    inner = [types(a.g) for a in then_branch.node[2].attribute]
    assert inner == [["Add"], ["Sub"]], "Exp(b) is Exp(a), which the outer branch computes"
    for condition in (True, False):
        same_results(proto, once, {"c": np.array(condition), "x": np.array([1, -2], np.float32)})
    assert optimize(once, patterns=NegNegPattern) == once


def test_folding_and_patterns_take_turns() -> None:
    text = """agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
      a = Exp(w) b = Neg(a) c = Neg(b) d = Add(x, c) e = Add(x, c) f = Neg(d) g = Neg(f)
        y = Add(e, g)
    }"""
    after = optimize(parse(text), patterns=NegNegPattern)
    assert types(after) == ["Add", "Add"]
    same_results(parse(text), after, {"x": np.array([1, -2], np.float32)})


def test_merging_makes_new_matches() -> None:
    text = """agraph (float[2] x) => (float[2] y) {
      a = Neg(x) b = Neg(x) c = Neg(a) d = Neg(b) e = Exp(c) f = Exp(d) y = Add(e, f)
    }"""
    after = tuned(text, NegNegPattern, merge=True)
    assert types(after) == ["Exp", "Add"]


@pytest.mark.parametrize(
    "switch", ["constant_folding", "merge", "remove_unused", "remove_identity"]
)
def test_switches(switch: str) -> None:
    text = """agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
      a = Add(w, w) b = Neg(x) c = Neg(x) d = Add(b, c) e = Identity(d) y = Add(e, a) u = Exp(y)
    }"""
    kept = {
        "constant_folding": "a = Add",
        "merge": "c = Neg",
        "remove_unused": "u = Exp",
        "remove_identity": "e = Identity",
    }
    for option, node in kept.items():
        after = optimize(
            parse(text),
            replace(OptimizationOptions(patterns=None), **{switch: False}),  # type: ignore[arg-type]
        )
        found = {f"{n.output[0]} = {n.op_type}" for n in after.graph.node}
        assert (node in found) == (option == switch), node
    same_results(
        parse(text), optimize(parse(text), patterns=None), {"x": np.array([1, -2], np.float32)}
    )


def test_the_model_is_no_longer_listened_to_afterwards() -> None:
    model = load(chain("Neg", "Neg", "Abs"))
    optimizer = Optimizer(model, OptimizationOptions(patterns=NegNegPattern, debug=DebugSettings()))
    optimizer.run()
    assert model.listeners == []
    assert optimizer.state.counts == {"NegNeg": 1}
    verify(model)
    broken = Optimizer(
        model, OptimizationOptions(patterns=renaming("Abs", "Abs"), debug=DebugSettings())
    )
    with pytest.raises(Exception, match="keeps rewriting"):
        broken.run()
    assert model.listeners == []


def test_old_versions_of_the_format() -> None:
    proto = parse(
        "agraph (bool c, float[2] x) => (float[2] y) { k = Constant <value = float[2] {1, 2}> () "
        "a = Add(x, k) y = If (c) <then_branch = t () "
        "=> (float[2] q) { m = Constant <value = float[2] {3, 4}> () "
        "q = Add(a, m) }, else_branch = e () => (float[2] q) { q = Abs(a) }> }",
        opset=8,
        ir_version=3,
    )
    after = optimize(proto, patterns=None)
    assert (after.ir_version, [v.name for v in after.graph.input]) == (4, ["c", "x"])
    for condition in (True, False):
        same_results(proto, after, {"c": np.array(condition), "x": np.array([1, -2], np.float32)})


def test_damaged_weights_are_noticed_although_nothing_needs_their_numbers() -> None:
    proto = parse(
        "agraph (float[1000] x) => (float[1000] y) { a = Neg(x) b = Neg(a) y = Add(b, w) }"
    )
    weight = numpy_helper.from_array(np.ones(1000, np.float32), "w")
    weight.raw_data = b"12"
    proto.graph.initializer.append(weight)
    with pytest.raises(ModelError, match=r"'w' is damaged: 2 .* 4000 "):
        optimize(proto, patterns=NegNegPattern)


SCRIPT = """
import sys
from xoptim import optimize
from xoptim.doc import demo_mlp_model
sys.stdout.buffer.write(optimize(demo_mlp_model(), patterns="default").SerializeToString())
"""


@pytest.mark.slow
def test_the_same_bytes_whatever_the_hash_seed() -> None:
    results = []
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True
        )
        results.append(done.stdout)
    assert results[0] == results[1] == optimize(demo_mlp_model()).SerializeToString()


OLD = (
    "agraph (float[2,3] x) => (float[a,b,c] y) { t = Clip <min = 0.0> (x) "
    "y = Unsqueeze <axes = [1]> (t) }"
)


@pytest.mark.parametrize("opset", [13, "newest"])
def test_a_model_is_raised_first(opset: Literal["newest"] | int) -> None:
    model = load(OLD, 7)
    optimizer = Optimizer(model, OptimizationOptions(opset=opset))
    rows = optimizer.run()
    assert types(model) == ["Clip", "Unsqueeze"]
    assert model.opsets[""] >= 13
    assert {row["removed"] for row in rows if row["pattern"] == "raise_operator_set"} == {2}
    assert optimizer.grades() == ["rounding"], "another operator set has other kernels"
    assert Optimizer(load(OLD, 7), OptimizationOptions(opset=7)).grades() == []


def test_the_original_is_compared_with_the_raised_result() -> None:
    proto = parse(OLD, 7)
    raised = optimize(proto, patterns=None, opset=24, verify=True)
    assert raised.opset_import[0].version == 24
    with pytest.raises(ModelError, match=r" 7 .* 6\b"):
        optimize(proto, opset=6)


def test_an_optimization_is_a_list_of_passes() -> None:
    options = OptimizationOptions(
        patterns=None, opset=18, outline=True, drop_unused_inputs=True, debug=DebugSettings()
    )
    notes = ["write_guards", "note_growth", "note_assumptions"]
    names = [each.name() for each in Optimizer(load(chain("Neg")), options).passes]
    settled = ["", "remove_initializers", "write_expanded"]
    always = ["remove_guards", *settled, *notes]
    others = ["note_matmuls", "outline", "drop_unused_inputs"]
    assert names == ["remove_guards", "raise_operator_set", *settled, *others, *notes]
    assert [
        each.name()
        for each in Optimizer(load(chain("Neg")), OptimizationOptions(patterns=None)).passes
    ] == always
