"""Options that would make an optimized model smaller: each hint comes true."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.engine.rules import renaming
from tests.support import parse, values_in
from xoptim import optimize, prepare
from xoptim.diagnose import hints as module
from xoptim.diagnose.hints import OptionHint, option_hints
from xoptim.diagnose.unfit import unfit_patterns
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.advice import on_command_line
from xoptim.targets import named

FUSED = (
    "agraph (float[k,n,8] x, float[k,n,8] z) => (y) { t = Transpose <perm = [0, 2, 1]> (z) "
    "y = MatMul(x, t) }"
)
SIZES = """agraph (float[n] x) => (float[n] y) <int64 zero = {0}, int64 one = {1}> {
    s = Shape(x) b = Squeeze(s) r = Range(zero, b, one) f = Cast <to = 1> (r) y = Add(x, f)
}"""
FUNCTION = """<ir_version: 9, opset_import: ["" : 18, "acme" : 1]>
agraph (float[n,m] x) => (float[n,m] y) { t = Transpose(x) y = acme.Turn(t) }
<domain: "acme", opset_import: ["" : 18]> Turn (v) => (u) { u = Transpose(v) }"""
OPTIONS = OptimizationOptions()


@pytest.fixture(autouse=True)
def command() -> Iterator[None]:
    """Hints are printed by the command."""
    with on_command_line():
        yield


def hints(proto: onnx.ModelProto, sizes: dict[str, int] | None = None) -> list[OptionHint]:
    before = proto.SerializeToString(deterministic=True)
    found = option_hints(proto, OPTIONS, sizes or {})
    assert proto.SerializeToString(deterministic=True) == before
    return found


def test_operators_of_onnxruntime() -> None:
    proto = optimize(parse(FUSED))
    (hint,) = hints(proto)
    assert hint.option == "--include onnxruntime"
    assert values_in(str(hint)) == ["1", "--include"]
    after = optimize(parse(FUSED), patterns="default+onnxruntime")
    assert len(proto.graph.node) - len(after.graph.node) == hint.nodes
    assert hints(after) == []


def test_fixed_sizes() -> None:
    proto = optimize(parse(SIZES))
    (hint,) = hints(proto, {"n": 3})
    assert hint.option == "--fix n=1", "the size of a batch in use, not the one of the verification"
    after = optimize(prepare(parse(SIZES), fix={"n": [1]}))
    assert len(proto.graph.node) - len(after.graph.node) == hint.nodes > 0
    assert hints(proto) == [], "no sizes are known with which it runs"


def test_fixed_sizes_are_sizes_in_use_where_the_model_runs_with_them() -> None:
    named = parse(SIZES.replace("[n]", "[seq]"))
    tables = parse(
        SIZES.replace("[n]", "[seq]").replace(
            "y = Add(x, f)", "q = Mul(r, r) e = Gather(table, q) y = Add(x, e)"
        )
    )
    tables.graph.initializer.append(
        onnx.numpy_helper.from_array(np.arange(1600, dtype=np.float32), "table")
    )
    for model, length in ((named, 128), (tables, 32)):
        (hint,) = hints(optimize(model), {"seq": 3})
        assert hint.option == f"--fix seq={length}"
        assert (
            len(optimize(model).graph.node)
            - len(optimize(prepare(model, fix={"seq": [length]})).graph.node)
            == hint.nodes
        )


def test_functions() -> None:
    model = onnx.parser.parse_model(FUNCTION)
    (hint,) = hints(optimize(model))
    assert (hint.option, hint.patterns) == ("--inline", {"TransposeTranspose": 1})
    assert len(optimize(model, inline=True).graph.node) == 1


def test_nothing_to_say() -> None:
    assert hints(parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }"), {"n": 2}) == []


def test_large_models_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 1)
    assert hints(optimize(parse(FUSED))) == []


def test_nodes_of_branches_count(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "agraph (bool c, float[n] x) => (float[n] y) <float half = {0.5}> { "
        "y = If (c) <then_branch = t () => (float[n] p) "
    )
    text += (
        "{ a = Abs(x) p = Pow(a, half) }, else_branch = e () => (float[n] q) { q = Identity(x) }> }"
    )
    model = optimize(parse(text))
    assert hints(model)
    monkeypatch.setattr(module, "MOST_NODES", 2)  # the graph itself has one
    assert hints(model) == []


def test_sizes_that_the_model_does_not_have() -> None:
    assert hints(optimize(parse(SIZES)), {"q": 3}) == []


def test_calls_that_cannot_be_replaced_are_no_error() -> None:
    assert hints(onnx.parser.parse_model(FUNCTION.replace("acme.Turn(t)", "acme.Turn(t, t)"))) == []


def test_patterns_that_assume_finite_numbers() -> None:
    text = (
        "agraph (float[n] x) => (float[n] y) <float half = {0.5}> { a = Abs(x) y = Pow(a, half) }"
    )
    (hint,) = hints(optimize(parse(text)))
    assert (hint.option, hint.patterns) == (
        "--assume finite",
        {"PowHalf": 1},
    )
    assert hints(optimize(parse(text), patterns="default+finite")) == []


def test_patterns_whose_results_are_close() -> None:
    text = (
        "agraph (float[n] x) => (float[n] y) <float one = {1}> { m = Neg(x) e = Exp(m) "
        "p = Add(e, one) y = Div(one, p) }"
    )
    (hint,) = hints(optimize(parse(text)))
    assert (hint.option, hint.patterns) == (
        "--include approximate",
        {"SigmoidExp": 1},
    )


MASKED = (
    "agraph (float[b,s,2,4] x, float[b,2,t,4] k, float[b,2,t,4] v, float[b,1,s,t] mask) "
    "=> (float[b,2,s,4] y) { q = Transpose <perm = [0, 2, 1, 3]> (x) "
    "p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) e = Add(a, mask) "
    "w = Softmax <axis = -1> (e) y = MatMul(w, v) }"
)


def test_assumptions() -> None:
    proto = optimize(parse(MASKED, 23))
    hint = next(each for each in hints(proto) if "--assume 't" in each.option)
    assert values_in(str(hint)) == ["3", "--assume", "t >= 1", "--assume", "finite(mask)"]
    after = optimize(parse(MASKED, 23), assume=["t >= 1", "finite(mask)"], verify=True)
    assert [node.op_type for node in after.graph.node].count("Attention") == 1
    assert len(proto.graph.node) - len(after.graph.node) == hint.nodes
    assert not any("--assume" in each.option for each in hints(after)), "what is assumed is known"


def test_patterns_that_are_not_used_for_a_target() -> None:
    measured = renaming("Neg", "Abs", providers=("cpu",))
    options = OptimizationOptions(patterns=[measured], target="webgpu")
    proto = parse("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Exp(t) y = Neg(u) }")
    (found,) = unfit_patterns(proto, options, named("webgpu"))
    reason = "known to be faster on cpu only"
    assert found.to_json() == {"pattern": "NegToAbs", "count": 2, "reason": reason}
    assert unfit_patterns(proto, options, named("cpu")) == []
    assert unfit_patterns(proto, replace(options, patterns=[]), named("webgpu")) == []
    nowhere = parse("agraph (float[n] x) => (float[n] y) { y = Exp(x) }")
    assert unfit_patterns(nowhere, options, named("webgpu")) == []


def test_no_contrib_operators_for_a_target_of_standard_operators() -> None:
    text = "agraph (float[a,4,8] x, float[a,16,8] z) => (float[a,4,16] y) { "
    proto = parse(text + "t = Transpose <perm = [0, 2, 1]> (z) y = MatMul(x, t) }")
    found = {
        target: [
            each.option for each in option_hints(proto, OptimizationOptions(target=target), {})
        ]
        for target in ("", "onnx")
    }
    assert "--include onnxruntime" in found[""]
    assert "--include onnxruntime" not in found["onnx"]
