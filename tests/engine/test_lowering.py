from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support import in_parts, load, parse, same_results, types
from xoptim.api.optimizing import optimize
from xoptim.catalogue.selection import select
from xoptim.engine.lowering import older_set
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.errors import ModelError
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import Example, Rewrite
from xoptim.testing.variant import parse as parse_example

MODELS = Path(__file__).parents[2] / "examples" / "models"
GELU = "agraph (float[n,4] x) => (float[n,4] y) { y = Gelu (x) }"
X = {"x": np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)}


def test_the_older_set() -> None:
    model = load(GELU, 20)
    assert older_set(model, 17) == 17
    for target in (20, 23, "newest", None, True):
        assert older_set(model, target) is None


def test_patterns_write_operators_that_the_set_does_not_have() -> None:
    proto = parse(GELU, 20)
    after = optimize(proto, opset=17, verify=True)
    assert types(after) == ["Mul", "Erf", "Add", "Mul", "Mul"]
    assert after.ir_version == 8
    same_results(proto, after, X)


def test_functions_of_onnx_replace_the_others() -> None:
    text = """agraph (float[1,2,3,4] q, float[1,2,5,4] k) => (float[1,2,3,4] y)
    { y = Attention <softcap = 2.0> (q, k, k) }"""
    proto = parse(text, 23)
    after = optimize(proto, opset=13, verify=True)
    assert "Softmax" in types(after)
    assert "Attention" not in types(after)
    assert "Identity" not in types(after), "the result is simplified"


def test_computed_operands_become_constant_first() -> None:
    text = """agraph (float[2,4] x) => (float[a,b] y) <int64[1] i = {2}, int64[1] j = {1}>
    { k = Sub (j, i) y = ReduceMean (x, k) }"""
    proto = parse(text, 18)
    for patterns in (None, "default"):
        after = optimize(proto, patterns=patterns, opset=13)
        assert types(after) == ["ReduceMean"]


def test_no_pattern_writes_a_newer_operator() -> None:
    """The operators of Gelu stay, although the set of the model has Gelu."""
    lowered = optimize(parse(GELU, 20), opset=17)
    spelled = parse(GELU, 20)
    spelled.graph.CopyFrom(lowered.graph)
    assert types(optimize(spelled)) == ["Gelu"]
    assert types(optimize(spelled, opset=17)) == types(lowered)
    used = {
        each.name() for each in Optimizer(load(GELU, 20), OptimizationOptions(opset=17)).rewrites
    }
    assert "GeluErf" not in used


def test_only_standard_operators_are_written() -> None:
    """A pattern of the phase writes RMSNormalization under the name that onnxruntime has for it."""
    text = "agraph (float[n,4] x, float[4] s) => (float[n,4] y) { y = RMSNormalization (x, s) }"
    after = optimize(parse(text, 23), opset=17)
    onnx.checker.check_model(after)
    assert {entry.domain for entry in after.opset_import} == {""}


def test_a_pattern_that_is_dropped() -> None:
    """The function of ONNX takes its place, which divides by a root."""
    after = optimize(
        parse(GELU, 20), patterns=None, opset=17, drop=("LowerGelu", "LowerToDefinition")
    )
    assert "Erf" in types(after)
    assert types(after) != types(optimize(parse(GELU, 20), patterns=None, opset=17))


def test_the_grade_and_the_statistics() -> None:
    optimizer = Optimizer(load(GELU, 20), OptimizationOptions(patterns=None, opset=17))
    rows = optimizer.run()
    assert {"apply_LowerGelu", "lower_operator_set"} <= {row["pattern"] for row in rows}
    assert optimizer.grades() == ["rounding"]


def test_the_node_of_the_model_is_named() -> None:
    text = """agraph (bfloat16[1,2,3,4] q, bfloat16[1,2,5,4] k) => (bfloat16[1,2,3,4] y)
    { [attend] y = Attention <is_causal = 1> (q, k, k) }"""
    with pytest.raises(ModelError) as error:
        optimize(parse(text, 23), opset=13)
    said = str(error.value)
    assert "'attend' (Attention)" in said
    assert "tensor(bfloat16)" in said
    assert "\n" not in said


def test_a_set_that_is_too_old_is_refused_at_once() -> None:
    seen: list[object] = []
    with pytest.raises(ModelError, match=r" 7 .* 6\b"):
        optimize(parse(GELU, 20), opset=6, on_event=seen.append)
    assert seen == []


def test_the_given_model_stays_as_it_was() -> None:
    proto = parse(GELU, 20)
    before = proto.SerializeToString(deterministic=True)
    optimize(proto, opset=17)
    unknown = parse("agraph (float[n] x) => (int32[n] y) { y = BitCast <to = 6> (x) }", 26)
    given = unknown.SerializeToString(deterministic=True)
    with pytest.raises(ModelError, match=r"BitCast .* 17: "):
        optimize(unknown, opset=17)
    assert proto.SerializeToString(deterministic=True) == before
    assert unknown.SerializeToString(deterministic=True) == given


def test_subgraphs_and_local_functions() -> None:
    text = """agraph (float[n,4] x, bool c) => (float[n,4] y)
    { z = own.f (x) y = If (c) <then_branch = one () => (float[n,4] p) { p = Gelu (x) },
                                else_branch = two () => (float[n,4] q) { q = Add (z, x) }> }
    <domain: "own", opset_import: ["" : 24]> f (x) => (y) { y = Swish (x) }"""
    proto = parse(text, 24, domains={"own": 1})
    after = optimize(proto, opset=17)
    onnx.checker.check_model(after)
    assert [entry.version for entry in after.functions[0].opset_import if not entry.domain] == [17]
    for given in (True, False):
        same_results(proto, after, X | {"c": np.array(given)})


@pytest.mark.parametrize("target", [17, 13, 11])
def test_the_model_that_is_shipped(target: int) -> None:
    proto = onnx.load(MODELS / "tiny_bert.onnx")
    newer = optimize(proto, opset=23)
    after = optimize(newer, opset=target)
    again = optimize(after, opset=23)
    assert [each.opset_import[0].version for each in (newer, after, again)] == [23, target, 23]
    random = np.random.default_rng(0)
    feeds = {
        "input_ids": random.integers(0, 50, (2, 9)),
        "attention_mask": np.ones((2, 9), np.int64),
    }
    for other in (after, again):
        same_results(newer, other, feeds)


def lowered(proto: onnx.ModelProto, target: int) -> onnx.ModelProto | str:
    """The lowered model, or the error."""
    try:
        return optimize(proto, patterns=None, opset=target)
    except ModelError as error:
        return str(error)


def examples() -> list[tuple[Rewrite, Example]]:
    """The examples of operator sets that are newer than 17, with their patterns."""
    patterns = [each for each in select("all") if isinstance(each, PatternOptimization)]
    return [(each, example) for each in patterns for example in each.examples if example.opset > 17]


@in_parts("part", 16)
def test_the_examples_of_patterns(part: int) -> None:
    """Both sides of an example are lowered, or refused with a reason."""
    for pattern, example in examples()[part::16]:
        name, unchecked = pattern.name(), pattern.unchecked
        for text in (example.before, example.after):
            proto = parse_example(text, example.opset, example.domains)
            after = lowered(proto, 17)
            if isinstance(after, str):
                assert "cannot be lowered to operator set 17: " in after, name
            elif not unchecked and "Simplified" not in text:
                onnx.checker.check_model(after)
