import re

import onnx
import pytest

from tests.support import parse, values_in
from xoptim.api.optimizing import optimize
from xoptim.diagnose import hints
from xoptim.diagnose.hints import OpsetHint, opset_hint, option_hints
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import ModelError
from xoptim.passes.opsets import newest

GELU = """agraph (float[2,8] x) => (float[2,8] y) {
    r = Constant <value = float {1.4142135381698608}> () o = Constant <value = float {1.0}> ()
    h = Constant <value = float {0.5}> ()
    d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)
}"""
IN_A_BRANCH = """agraph (float[2,8] x, bool c) => (float[2,8] y) {
    y = If (c) <then_branch = g () => (float[2,8] p) {
            r = Constant <value = float {1.4142135381698608}> ()
              o = Constant <value = float {1.0}> ()
            h = Constant <value = float {0.5}> ()
            d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) p = Mul(m, h) },
        else_branch = k () => (float[2,8] q) { q = Neg(x) }>
}"""
OPTIONS = OptimizationOptions()


def optimized(text: str, opset: int) -> onnx.ModelProto:
    """The model that the hint is about."""
    return optimize(parse(text, opset), OPTIONS)


@pytest.mark.parametrize("text", [GELU, IN_A_BRANCH])
def test_the_hint_comes_true(text: str) -> None:
    proto = optimized(text, 17)
    before = proto.SerializeToString(deterministic=True)
    hint = opset_hint(proto, OPTIONS)
    assert hint is not None
    assert (hint.present, hint.opset, sum(hint.patterns.values())) == (17, 20, 1)
    assert hint.nodes == sum(hint.patterns.values()) * 4
    assert proto.SerializeToString(deterministic=True) == before
    applied: dict[str, int] = {}
    optimize(
        parse(text, 17),
        OPTIONS,
        opset=hint.opset,
        report=lambda report: applied.update(report.applied),
    )
    assert hint.patterns.items() <= applied.items()


def test_the_result_is_loaded_without_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Such as of declared sizes that the result, which computes less, contradicts."""
    stale = GELU.replace("float[2,8] y", "float[3,8] y")
    assert opset_hint(parse(stale, 17), OPTIONS) is not None
    assert not caplog.records


def test_the_text() -> None:
    hint = OpsetHint(17, 40, 23, {"Gelu": 4, "RMSNormalization": 9})
    assert re.match("about 40 .* opset=23 .* 17", str(hint))
    assert hint.to_json() == {
        "opset": 23,
        "patterns": {"Gelu": 4, "RMSNormalization": 9},
        "nodes": 40,
    }


@pytest.mark.parametrize(
    ("text", "opset", "changes"),
    [
        (GELU, 20, {}),
        (
            GELU.replace(
                "o = Constant <value = float {1.0}>", "o = Constant <value = float {2.0}>"
            ),
            17,
            {},
        ),
        (GELU, 17, {"patterns": "default-Gelu-GeluErf"}),
        (GELU, 17, {"patterns": None}),
        ("agraph (float[n] x) => (float[n] y) { y = Relu(x) }", 17, {}),
    ],
)
def test_nothing_to_hint_at(text: str, opset: int, changes: dict[str, str | None]) -> None:
    options = OptimizationOptions(**changes)  # type: ignore[arg-type]
    assert opset_hint(optimize(parse(text, opset), options), options) is None


def test_a_set_that_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "newest_for", lambda model, provider: 19)
    assert opset_hint(optimized(GELU, 17), OPTIONS) is None


def test_no_copy_is_made_of_a_model_without_such_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = optimized("agraph (float[n] x) => (float[n] y) { y = Relu(x) }", 17)
    monkeypatch.setattr(hints, "Optimizer", None)
    monkeypatch.setattr(hints, "newest_for", None)
    assert opset_hint(proto, OPTIONS) is None


def test_a_node_that_cannot_be_raised_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: object, target: int) -> int:
        raise ModelError("refused")

    monkeypatch.setattr(newest, "raise_model", refuse)
    assert opset_hint(optimized(GELU, 17), OPTIONS) is None


def test_a_model_without_the_standard_set() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["com.microsoft" : 1]>
        agraph (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }""")
    assert opset_hint(proto, OPTIONS) is None


def test_patterns_that_apply_as_it_is_want_no_assumption() -> None:
    """As in a model that was not optimized before."""
    model = parse("agraph (float[n,2] x) => (float[n,2] y) { a = Neg(x) y = Neg(a) }", 17)
    assert all(hint.option for hint in option_hints(model, OPTIONS, {}))


def test_the_hint_is_exact_where_the_original_is_known() -> None:
    original = parse(GELU, 17)
    hint = opset_hint(optimize(original, OPTIONS), OPTIONS, original=original)
    assert hint is not None
    assert hint.is_exact
    newer = optimize(original, OPTIONS, opset=hint.opset)
    before = optimize(original, OPTIONS)
    assert hint.nodes == len(before.graph.node) - len(newer.graph.node) > 0
    assert values_in(str(hint)) == [str(hint.nodes), "20", "17"]
