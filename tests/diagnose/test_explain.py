"""Why a pattern does not match, from Python."""

import json
import re
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.engine.rules import NegNegPattern, chain, renaming
from tests.support import parse, types, values_in
from xoptim import (
    EasyPatternOptimization,
    GraphBuilder,
    ModelError,
    UnknownPatternError,
    XoptimError,
    apply_at,
    explain,
    find_matches,
)
from xoptim.diagnose.explanation import NoMatchError
from xoptim.match import (
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)
from xoptim.match.refusal import listener
from xoptim.match.rewrite import ModelPass

IF = (
    "agraph (bool c, float[a] x) => (float[a] y) { k = Neg(x) y = If (c) <then_branch = t () =>"
    " (float[a] u) { v = Neg(x) u = Neg(v) }, else_branch = e () => (float[a] w) { w = local.f(k)"
    ' }> } <domain: "local", opset_import: ["" : 18]> f (p) => (q) { r = Abs(p) q = Neg(r) }'
)


class QuietPattern(PatternOptimization):
    """Abs(Neg(x)) → Abs(x), by hand, and some of its refusals without a word"""

    anchors = ("Abs",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        before = g.node_before(node.input[0])
        if before is None:
            return None
        if before.op_type != "Neg":
            return self.none(before, msg="no Neg")
        if not g.has_shape(node.input[0]):
            return self.none(node, msg=lambda: "no shape")
        return MatchResult(self, [before, node], self.apply)

    def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
        return [nodes[0], g.make_node("Abs", nodes[0].input, nodes[1].output)]


class EverywherePattern(PatternOptimization):
    """x → x, and it is offered every node"""

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        if node.op_type != "Abs":
            return self.none(node, msg="no Abs")
        return self.none(node, msg="never")


class AbsOfSumPattern(EasyPatternOptimization):
    """Abs(Add(x, 1)) → Abs(x), on CUDA"""

    providers = ("cuda",)
    max_opset = 20

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(g.op.Add(x, 1.0))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Abs(x)


def test_all_graphs_are_searched() -> None:
    found = explain(parse(IF, domains={"local": 1}), NegNegPattern)
    places = [(e.status, e.anchor.graph, e.anchor.position, e.anchor.outputs) for e in found]
    assert sorted(places, key=lambda place: place[2]) == [
        ("refused", "", 0, ("k",)),
        ("refused", "y.then_branch", 2, ("v",)),
        ("matches", "y.then_branch", 3, ("u",)),
        ("refused", "local::f", 6, ("q",)),
    ]
    assert found[-1].matches
    assert "in y.then_branch" in str(found[-1])


def test_what_is_told() -> None:
    model = parse("agraph (float[a,3] x) => (float[a,3] y) { t = Relu(x) y = Neg(t) }")
    (found,) = explain(model, NegNegPattern)
    assert (found.pattern, found.status) == ("NegNeg", "refused")
    assert re.search("Neg.* Relu$", found.reason)
    assert found.culprit is not None
    assert (found.culprit.op_type, found.anchor.op_type, found.total) == ("Relu", "Neg", 2)
    assert [place.outputs for place in found.matched] == [("y",)]
    assert [(v.name, v.dtype, v.shape) for v in found.values] == [
        ("x", "float", ("a", 3)),
        ("t", "float", ("a", 3)),
    ]
    source = Path(found.file).read_text().splitlines()
    assert "g.op.Neg(g.op.Neg(x))" in source[found.line - 1]
    assert found.exit_point == f"{found.file}:{found.line}"
    assert str(found).splitlines()[0] == found.headline
    assert json.loads(json.dumps(found.to_json()))["values"][0]["shape"] == ["a", 3]
    with pytest.raises(FrozenInstanceError):
        found.reason = ""  # type: ignore[misc]


def test_nothing_listens_afterwards_and_the_model_stays() -> None:
    model = parse(chain("Neg", "Neg", "Relu"))
    given = model.SerializeToString()
    builder = GraphBuilder(model)
    explain(builder, NegNegPattern)
    find_matches(builder, NegNegPattern)
    explain(builder, NegNegPattern, after="default")
    assert listener() is None
    assert model.SerializeToString() == given
    assert len(builder.nodes) == 3


def test_patterns_by_hand() -> None:
    model = parse(
        "agraph (float[a] x, float[] z) => (float[a] y, float[a] y2, float[] y3, float[a] y4) "
        "{ y = Abs(x) t = Relu(x) y2 = Abs(t) n = Neg(z) y3 = Abs(n) m = Neg(x) y4 = Abs(m) }"
    )
    found = explain(model, QuietPattern())
    assert [(e.anchor.outputs[0], e.status, e.reason) for e in found] == [
        ("y3", "refused", "no shape"),
        ("y2", "refused", "no Neg"),
        ("y", "refused", ""),
        ("y4", "matches", ""),
    ]
    assert "no reason given" in found[2].headline
    assert found[2].file == __file__
    assert [place.outputs for place in found[3].matched] == [("m",), ("y4",)]
    assert found[0].values[0].shape is None
    assert "'n' float[...]" in str(found[0])


def test_a_pattern_without_anchors_tells_the_best_only() -> None:
    model = parse(chain(*["Relu"] * 30, "Abs"))
    found = explain(model, EverywherePattern)
    assert (len(found), found[0].reason, found[1].reason) == (20, "never", "no Abs")
    assert [e.anchor.position for e in found[:3]] == [30, 0, 1]
    assert len(explain(model, EverywherePattern, limit=40)) == 31
    assert len(explain(model, EverywherePattern, limit=2)) == 2
    assert len(explain(model, EverywherePattern, "#3")) == 1


def test_at_a_node() -> None:
    model = parse(
        "agraph (float[a] x) => (float[a] y) { [first] t = Neg(x) [second] u = Relu(t) [third] "
        "y = Neg(u) }"
    )
    for at in ("third", "y", "#2"):
        (found,) = explain(model, NegNegPattern, at)
        assert (found.anchor.name, found.anchor.position) == ("third", 2)
    # no anchor, but the node on which the search failed
    (found,) = explain(model, NegNegPattern, "second")
    assert (found.anchor.name, found.culprit and found.culprit.name) == ("third", "second")
    (found,) = explain(parse(chain("Neg", "Relu")), NegNegPattern, "#1")
    assert "starts at Neg, " in found.reason
    with pytest.raises(ModelError, match=r"'secnd'.* 'second'"):
        explain(model, NegNegPattern, "secnd")
    with pytest.raises(ModelError, match=r"'#7'.* #0 to #2"):
        explain(model, NegNegPattern, "#7")


def test_what_is_not_used_at_all() -> None:
    text = (
        "agraph (float[a] x) => (float[a] y, float[a] y2) <float one = {1}> { t = Add(x, one) "
        "y = Abs(t) y2 = Abs(x) }"
    )
    new, old = parse(text, 21), parse(text)
    best, other = explain(new, AbsOfSumPattern, provider="cuda")
    assert (best.status, values_in(best.reason)) == ("refused", ["20", "21"])
    assert "max_opset = 20" in Path(best.file).read_text().splitlines()[best.line - 1]
    assert [place.outputs for place in best.matched] == [("t",), ("y",)]
    assert (other.reason, values_in(other.others[0].reason)) == (best.reason, ["x"])
    assert re.search(" cuda, .* cpu", explain(old, AbsOfSumPattern)[0].reason)
    assert (
        "providers"
        in Path(best.file).read_text().splitlines()[explain(old, AbsOfSumPattern)[0].line - 1]
    )
    assert [e.status for e in explain(old, AbsOfSumPattern, provider="cuda")] == [
        "refused",
        "matches",
    ]
    assert not find_matches(new, AbsOfSumPattern, provider="cuda")
    assert not find_matches(old, AbsOfSumPattern)
    assert len(find_matches(old, AbsOfSumPattern, provider="cuda")) == 1
    with pytest.raises(NoMatchError, match=r" cuda, .* cpu") as caught:
        apply_at(old, AbsOfSumPattern, "y")
    assert caught.value.explanations[0].anchor.outputs == ("y",)
    assert types(apply_at(old, AbsOfSumPattern, "y", provider="cuda")) == ["Abs", "Abs"]


def test_constants_of_all_kinds() -> None:
    model = parse(
        "agraph (float[a] x) => (float[a] y) <float16 h = {0}, int64[2,2] m = {1, 2, 3, 4}, "
        "float[9] big = {1,2,3,4,5,6,7,8,9}> { n = Constant <value = float {inf}> () "
        "y = acme.Mix(x, h, m, big, n) }",
        domains={"acme": 1},
    )
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.array(0.1, np.float16), "h")
    )
    (found,) = explain(model, type("P", (EverywherePattern,), {"anchors": ("acme::Mix",)}))
    told = {value.name: (value.shape, value.is_constant, value.value) for value in found.values}
    assert told == {
        "x": (("a",), False, None),
        "h": ((), True, 0.1),
        "m": ((2, 2), True, [[1, 2], [3, 4]]),
        "big": ((9,), True, None),
        "n": ((), True, "inf"),
        "y": (("?",), False, None),
    }
    assert found.anchor.op_type == "acme::Mix"
    assert "'big' float[9] constant" in str(found)


def test_one_pattern_is_asked_for() -> None:
    class Whole(ModelPass):
        """x → y"""

    model = parse(chain("Neg"))
    for pattern, message in (
        ("default", "'default' selects"),
        ("NotThere", "unknown pattern, tag or preset 'NotThere'"),
        (Whole, "rewrites the whole model"),
    ):
        with pytest.raises(UnknownPatternError, match=message):
            explain(model, pattern)


def test_a_pattern_that_raises() -> None:
    class Raising(QuietPattern):
        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            if node.output[0] == "y":
                raise ValueError("oh")
            return super().match(g, node, matched)

    model = parse(
        "agraph (float[a] x) => (float[a] y, float[a] z) { t = Neg(x) y = Abs(x) z = Abs(t) }"
    )
    found = explain(model, Raising)
    assert [(e.status, e.anchor.outputs[0]) for e in found] == [("failed", "y"), ("matches", "z")]
    assert found[0].reason.endswith(" ValueError: oh")
    assert (
        'raise ValueError("oh")' in Path(found[0].file).read_text().splitlines()[found[0].line - 1]
    )
    with pytest.raises(XoptimError, match="ValueError: oh"):
        find_matches(model, Raising)
    with pytest.raises(XoptimError, match="'Abs': ValueError: oh"):
        apply_at(model, Raising, "y")
    assert types(apply_at(model, Raising, "z")) == ["Abs", "Abs"]


def test_apply_once() -> None:
    model = parse(chain(*["Neg"] * 6))
    smaller = apply_at(model, NegNegPattern, "t4")
    assert types(smaller) == ["Neg"] * 4
    assert len(model.graph.node) == 6
    builder = GraphBuilder(model)
    assert apply_at(builder, NegNegPattern, "#5") is builder
    assert builder.report().applied == {"NegNeg": 1}
    assert builder.report().exactness == "exact"
    assert len(builder.nodes) == 4
    assert isinstance(apply_at(model.SerializeToString(), NegNegPattern, "#5"), bytes)


def test_apply_in_a_subgraph_and_at_any_node_of_the_match() -> None:
    model = parse(IF, domains={"local": 1})
    after = apply_at(model, NegNegPattern, "v")
    assert types(after.graph.node[1].attribute[0].g) in ([], ["Identity"])
    onnx.checker.check_model(after)
    with pytest.raises(NoMatchError, match="NegNeg refused at #0 Neg 'k'"):
        apply_at(model, NegNegPattern, "k")


def test_a_rewrite_that_would_break_the_graph() -> None:
    class Losing(renaming("Neg", "Abs")):  # type: ignore[misc]
        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return []

    with pytest.raises(XoptimError, match="still read"):
        apply_at(parse(chain("Neg", "Relu")), Losing, "#0")
