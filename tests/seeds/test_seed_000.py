# mypy: disable-error-code="no-any-return"
"""The document about optimization patterns of circuits: a layer is a node, a parameter a constant.

Rules for the inside of a chain are tested in ``tests/dialects/test_chain.py``, strategies in
``tests/engine/test_engine_find.py``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.dialects.chains import becomes, chained
from tests.engine.rules import chain, events
from tests.support import load, node_of, parse, same_results, types
from xoptim import GraphBuilderPatternOptimization, Match, MatchResult, PatternRewriter, optimize
from xoptim.dialects import ChainPattern, ChainRegistry
from xoptim.engine.engine import match_patterns
from xoptim.facts.errors import BudgetError

LAYERS = {"acme": 1}
W = "<float[2,2] w = {1,2,3,4}, float[2] bias = {5,6}>"


def layers(nodes: str, outputs: str = "y", weights: str = W) -> onnx.ModelProto:
    """A circuit: layers of the domain acme, with a weight and a bias."""
    text = f"agraph (float[2,2] x, float[2,2] z) => ({outputs}) {weights} {{ {nodes} }}"
    return parse(text, domains=LAYERS)


def found(pattern: type[ChainPattern], model: onnx.ModelProto) -> list[MatchResult]:
    """The matches of one pattern."""
    return match_patterns(model, pattern)[0]


def optimized(model: onnx.ModelProto, *registries: ChainRegistry, **more: Any) -> onnx.ModelProto:
    """A model after all rules, and nothing else but the removal of what is not read."""
    patterns = [pattern for registry in registries for pattern in registry.patterns()]
    quiet: dict[str, Any] = {
        "constant_folding": False,
        "merge": False,
        "strict": True,
        "tag_nodes": False,
        **more,
    }
    return optimize(model, patterns=patterns, **quiet)


def rules(kind: Any, *pairs: tuple[type[ChainPattern], Any]) -> ChainRegistry:
    """A registry with these rules."""
    registry = ChainRegistry(kind)
    for pattern, rule in pairs:
        registry.register(pattern, rule)
    return registry


# -------------------------------------------------------------------- Intro: three optimizations


def test_intro_parameters_fuse_layers_fuse_and_shatter() -> None:
    model = layers(
        "c = Neg(w) d = Neg(c) t = Gemm(x, d) u = Neg(t) v = Neg(u) y = Sinh(v)", "float[2,2] y"
    )
    twice = chained("Neg", "Neg")
    parameter, fuse = rules("parameter", (twice, becomes())), rules("fuse", (twice, becomes()))
    shatter = rules("shatter", (chained("Sinh"), becomes("Sin", "Cos")))
    assert types(optimized(model, parameter)) == ["Gemm", "Neg", "Neg", "Sinh"]
    assert types(optimized(model, fuse)) == ["Neg", "Neg", "Gemm", "Sinh"]
    assert types(optimized(model, shatter)) == ["Neg", "Neg", "Gemm", "Neg", "Neg", "Sin", "Cos"]
    assert types(optimized(model, shatter, fuse, parameter)) == ["Gemm", "Sin", "Cos"]


# --------------------------------------------------------- The match_optimization_patterns Function


def test_match_optimization_patterns_gives_matches_and_roots() -> None:
    model = load(chain("Exp", "Neg", "Abs", "Exp", "Neg"))
    matches, roots = match_patterns(model, [chained("Neg", "Exp"), chained("Abs", "Neg", "Exp")])
    assert [m.pattern.name() for m in matches] == ["ExpNegAbs", "ExpNeg"]
    assert roots == {node_of(model, "Abs"): matches[0], node_of(model, "Neg", 1): matches[1]}
    for root, match in roots.items():
        assert match.bindings is not None
        assert match.bindings["entries"][0] is root, "the first module in the entries list"


# -------------------------------------------------------------------- Base pattern: entries()


def test_entries_are_in_reverse_topological_order() -> None:
    class Reverse(ChainPattern):
        @classmethod
        def entries(cls) -> Sequence[str]:
            return ["acme::LayerType3", "acme::LayerType2"]

    model = layers(
        "a = acme.LayerType1(x) b = acme.LayerType2(a) c = acme.LayerType3(b) "
        "y = acme.LayerType4(c)"
    )
    (match,) = found(Reverse, model)
    assert match.bindings is not None
    assert [node.op_type for node in match.bindings["entries"]] == ["LayerType3", "LayerType2"]
    _, roots = match_patterns(model, Reverse)
    assert [root.op_type for root in roots] == ["LayerType3"]
    assert not found(Reverse, layers("b = acme.LayerType3(x) y = acme.LayerType2(b)"))


# --------------------------------------- Match layer with specific configuration: config_patterns()


def test_the_config_at_a_position_is_that_of_its_entry() -> None:
    pattern = chained("acme::Sum", "acme::Sum", configs=[{"arity": 1}, {"arity": 2}])
    nodes = "t = acme.Sum <arity = {}> (x) y = acme.Sum <arity = {}> (t)"
    assert [
        len(found(pattern, layers(nodes.format(*arities)))) for arities in ((2, 1), (1, 2), (1, 1))
    ] == [1, 0, 0]
    assert not found(pattern, layers("t = acme.Sum(x) y = acme.Sum <arity = 1> (t)")), (
        "no schema gives the other one a value"
    )


# --------------------------------------------------- Matching parameters of a layer: sub_patterns()


class ParameterPatternOne(ChainPattern):
    @classmethod
    def entries(cls) -> list[str]:
        return ["Exp"]


class LayerPatternOne(ChainPattern):
    @classmethod
    def entries(cls) -> Sequence[str]:
        return ["Gemm"]

    @classmethod
    def sub_patterns(cls) -> Sequence[dict[str, type[ChainPattern]]]:
        return [{"B": ParameterPatternOne}]


def test_sub_patterns() -> None:
    """The weight parameter is of a certain type."""
    (match,) = found(LayerPatternOne, layers("weight = Exp(w) y = Gemm(x, weight)"))
    assert match.bindings is not None
    ((name, parameters),) = match.bindings["sub_matches"][0].items()
    assert (name, [m.pattern.name() for m in parameters]) == ("B", ["ParameterPatternOne"])
    assert not found(LayerPatternOne, layers("weight = Abs(w) y = Gemm(x, weight)"))
    assert not found(LayerPatternOne, layers("y = Gemm(x, w)"))


# -------------------------------------------------------------------- Pattern Matching Functions


def test_either_a_match_or_none() -> None:
    model = load(chain("Exp", "Neg"))
    view = GraphBuilderPatternOptimization(model.graph)
    root = node_of(model, "Neg")
    fitting, other = (
        type("Rooted", (chained("Neg", name),), {"anchors": ("Neg",)})() for name in ("Exp", "Log")
    )
    assert isinstance(fitting.match(view, root, []), MatchResult)
    assert other.match(view, root, []) is None


def test_a_malformed_pattern_is_no_error() -> None:
    """There is no guarantee that a node has an input.

    Where it has none, the pattern does not match.
    """
    assert (
        found(
            chained("acme::Sum", "acme::Sum"),
            layers("t = Constant <value_float = 1.0> () y = acme.Sum(t)"),
        )
        == []
    )
    assert found(chained("acme::Sum", "acme::Sum"), layers("t = acme.Sum() y = acme.Neg(t)")) == []


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("c = Exp(w) d = Neg(c) y = Gemm(x, d)", 1),
        ("c = Exp(w) d = Neg(c) e = Abs(c) t = Gemm(x, d) y = Gemm(t, e)", 0),
        ("c = Exp(w) k = Neg(bias) d = Mul(c, k) y = Gemm(x, d)", 0),
        ("c = Exp(w) d = Mul(c, bias) y = Gemm(x, d)", 1),
    ],
)
def test_parameters_follow_the_same_rules(nodes: str, expected: int) -> None:
    operator = "Mul" if "Mul" in nodes else "Neg"
    registry = rules("parameter", (chained(operator, "Exp"), becomes("Sin")))
    (pattern,) = registry.patterns()
    assert len(found(pattern, layers(nodes))) == expected


# -------------------------------------------------------------------- Optimization Rules


def test_any_callable_is_a_rule() -> None:
    class Renamed:
        def __init__(self, operator: str) -> None:
            self.operator = operator

        def __call__(self, g: PatternRewriter, match: Match) -> str:
            return getattr(g.op, self.operator)(*match.inputs)

    fuse = rules(
        "fuse",
        (chained("Neg", "Exp"), Renamed("Sin")),
        (chained("Abs"), lambda g, match: g.op.Cos(*match.inputs)),
    )
    assert types(optimized(parse(chain("Exp", "Neg", "Abs")), fuse)) == ["Sin", "Cos"]


def test_a_rule_uses_what_the_match_stores() -> None:
    def absorb(g: PatternRewriter, match: Match) -> str:
        (parameter,) = match.sub_matches[0]["B"]
        assert parameter.bindings["entries"][0].op_type == "Exp"
        return g.op.GemmExp(
            match.inputs[0],
            *parameter.bindings["inputs"],
            domain="acme",
            **match.entries[0].attribute,
        )

    after = optimized(
        layers("weight = Exp(w) y = Gemm <alpha = 2.0> (x, weight)"),
        rules("fuse", (LayerPatternOne, absorb)),
    )
    (node,) = after.graph.node
    assert (node.op_type, list(node.input), node.attribute[0].f) == ("GemmExp", ["x", "w"], 2.0)


# -------------------------------------------------------------------- Match Optimizer


def test_new_nodes_are_in_topological_order() -> None:
    shatter = rules("shatter", (chained("Neg"), becomes("Sin", "Cos", "Tan")))
    assert types(optimized(parse(chain("Exp", "Neg", "Abs")), shatter)) == [
        "Exp",
        "Sin",
        "Cos",
        "Tan",
        "Abs",
    ]


def test_a_rule_returns_a_tuple() -> None:
    def halves(g: PatternRewriter, match: Match) -> tuple[str, ...]:
        a, b = g.op.Split(g.op.Abs(match.inputs[0]), num_outputs=2, outputs=2)
        return a, b

    model = parse(
        "agraph (float[4] x) => (float[2] y, float[2] z) { t = Neg(x) "
        "y, z = Split <num_outputs = 2> (t) }"
    )
    assert types(optimized(model, rules("fuse", (chained("Split", "Neg"), halves)))) == [
        "Abs",
        "Split",
    ]


# -------------------------------------------------------------------- Optimize Graph Function


def test_nothing_matches_nothing_changes() -> None:
    """Instead of None, the same model."""
    model = parse(chain("Exp", "Abs"))
    assert optimized(model, rules("fuse", (chained("Neg", "Exp"), becomes("Sin")))) == model


def test_entry_and_exit_points() -> None:
    """Layer 1 → (Layer 2 → Layer 3 → Layer 4) → Layer 5 becomes Layer 1 → optimized modules → Layer
    5.
    """
    model = parse(chain("Exp", "Neg", "Abs", "Floor", "Ceil"))
    for made in (["Sin"], ["Sin", "Cos"], ["Sin", "Cos", "Tan", "Sinh"]):
        after = optimized(model, rules("fuse", (chained("Floor", "Abs", "Neg"), becomes(*made))))
        assert types(after) == ["Exp", *made, "Ceil"]
        first, *inner, last = after.graph.node
        assert (first.output[0], inner[0].input[0]) == (
            "t1",
            "t1",
        ), "the entry point reads what it read"
        assert (inner[-1].output[0], last.input[0]) == ("t4", "t4"), "the exit point has its name"


def test_an_output_module_that_is_replaced() -> None:
    model = parse(chain("Exp", "Neg"))
    after = optimized(model, rules("fuse", (chained("Neg", "Exp"), becomes("Sin"))))
    assert [list(node.output) for node in after.graph.node] == [["t2"]]
    assert after.graph.output == model.graph.output


def test_matches_next_to_each_other_are_connected() -> None:
    """The inputs of a module may have been replaced as well."""
    model = parse(chain("Exp", "Neg", "Exp", "Neg", "Abs"))
    after = optimized(model, rules("fuse", (chained("Neg", "Exp"), becomes("Sin"))))
    assert types(after) == ["Sin", "Sin", "Abs"]
    assert events(
        chain("Exp", "Neg", "Exp", "Neg"),
        rules("fuse", (chained("Neg", "Exp"), becomes("Sin"))).patterns(),
    )


def test_replacements_compute_the_same() -> None:
    def product(g: PatternRewriter, match: Match) -> str:
        return g.op.Gemm(*match.inputs[:2], *match.parameters[0])

    model = layers("t = MatMul(x, w) u = Add(bias, t) y = Relu(u)", "float[2,2] y")
    after = optimized(model, rules("fuse", (chained("Add", "MatMul"), product)))
    assert types(after) == ["Gemm", "Relu"]
    feeds = {name: np.array([[1, -2], [3, 4]], np.float32) for name in ("x", "z")}
    same_results(model, after, feeds)


# -------------------------------------------------- Optimizing the Full Circuit (_optimize_circuit)


def test_the_loop_goes_on_while_anything_matches() -> None:
    """In one round, only the most important match of a node is applied."""
    fuse = rules("fuse", (chained("Neg", "Neg", "Neg"), becomes("Neg")))
    assert types(optimized(parse(chain(*["Neg"] * 27)), fuse)) == ["Neg"]


@pytest.mark.parametrize(("steps", "left"), [(0, 27), (1, 9), (2, 3), (3, 1), (9, 1)])
def test_most_optimization_steps(steps: int, left: int) -> None:
    fuse = rules("fuse", (chained("Neg", "Neg", "Neg"), becomes("Neg")))
    assert len(types(optimized(parse(chain(*["Neg"] * 27)), fuse, max_iter=steps))) == left


def test_parameters_first_then_shatter_then_fuse() -> None:
    model = layers("c = Exp(w) d = Neg(c) t = Gemm(x, d) u = Sinh(t) y = Cosh(u)", "float[2,2] y")
    parameter = rules("parameter", (chained("Neg", "Exp"), becomes("Abs")))
    shatter = rules("shatter", (chained("Sinh"), becomes("Sin", "Cos")))
    fuse = rules("fuse", (chained("Cosh", "Cos"), becomes("Tan")))
    patterns = [*fuse.patterns(), *shatter.patterns(), *parameter.patterns()]
    heard: list[Any] = []
    optimize(model, patterns=patterns, constant_folding=False, on_event=heard.append)
    applied = [event.pattern for event in heard if event.kind == "applied"]
    assert applied == ["ParameterExpNeg", "ShatterSinh", "FuseCosCosh"]


def test_a_fusion_that_gives_something_to_shatter_starts_the_loop_again() -> None:
    shatter = rules("shatter", (chained("Sinh"), becomes("Sin", "Cos")))
    fuse = rules("fuse", (chained("Neg", "Exp"), becomes("Sinh")))
    assert types(optimized(parse(chain("Exp", "Neg")), fuse, shatter)) == ["Sin", "Cos"]


def test_rules_that_undo_each_other_do_not_run_for_ever() -> None:
    """The document trusts to the maximum number of steps; without one the two are named."""
    shatter = rules("shatter", (chained("Sinh"), becomes("Exp", "Neg")))
    fuse = rules("fuse", (chained("Neg", "Exp"), becomes("Sinh")))
    with pytest.raises(BudgetError, match="FuseExpNeg and ShatterSinh keep rewriting"):
        optimized(parse(chain("Sinh")), shatter, fuse)
    assert types(optimized(parse(chain("Sinh")), shatter, fuse, max_iter=1)) == ["Exp", "Neg"]


# --------------------------------------------------------- Optimizing Parameters, Optimizing Layers


def test_parameters_of_every_layer_are_optimized() -> None:
    nodes = (
        "c = Neg(w) d = Neg(c) e = Neg(bias) f = Neg(e) t = Gemm(x, d, f) g = Exp(w) h = Neg(g) "
        "k = Neg(h) y = Gemm(t, k)"
    )
    parameter = rules("parameter", (chained("Neg", "Neg"), becomes()))
    assert types(optimized(layers(nodes, "float[2,2] y"), parameter)) == ["Gemm", "Exp", "Gemm"]


def test_rules_for_parameters_leave_layers_alone_and_the_other_way_round() -> None:
    model = layers("c = Neg(w) d = Neg(c) t = Gemm(x, d) u = Neg(t) y = Neg(u)", "float[2,2] y")
    pattern = chained("Neg", "Neg")
    assert types(optimized(model, rules("parameter", (pattern, becomes("Abs"))))) == [
        "Abs",
        "Gemm",
        "Neg",
        "Neg",
    ]
    assert types(optimized(model, rules("shatter", (pattern, becomes("Abs"))))) == [
        "Neg",
        "Neg",
        "Gemm",
        "Abs",
    ]
    assert types(optimized(model, rules("fuse", (pattern, becomes("Abs"))))) == [
        "Neg",
        "Neg",
        "Gemm",
        "Abs",
    ]


def test_folded_parameters_need_no_rules() -> None:
    model = layers("c = Neg(w) d = Neg(c) y = Gemm(x, d)", "float[2,2] y")
    heard: list[Any] = []
    patterns = rules("parameter", (chained("Neg", "Neg"), becomes())).patterns()
    assert types(optimize(model, patterns=patterns, on_event=heard.append)) == ["Gemm"]
    assert not [event for event in heard if event.kind == "applied"]
