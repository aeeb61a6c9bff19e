"""The document on graph optimization, up to its database: global and local rewriters, navigators,
shortcuts.
"""

import random
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run, same_results, types
from xoptim import GraphBuilder, Node, XoptimError, optimize
from xoptim.api.whole_model import global_rewriter
from xoptim.dialects import OpRemove, OpSub, PatternSub, local_rewriter
from xoptim.dialects.local import LocalView
from xoptim.engine.run import ReverseNavigator, TopologicalNavigator

DOCUMENT = "double[n] x, double[n] y, double[n] z"
SIMPLE = (
    f"agraph ({DOCUMENT}) => (double[n] a) {{ p = Mul(y, x) q = Div(p, y) r = Div(z, x) "
    "s = Mul(q, r) a = Add(z, s) }"
)
UNMERGED = (
    f"agraph ({DOCUMENT}) => (double[n] a) {{ b = Add(y, z) c = Add(y, z) p = Mul(b, x) "
    "a = Div(p, c) }"
)
SWAPPED = UNMERGED.replace("c = Add(y, z)", "c = Add(z, y)")
FEEDS = {name: np.array([0.5, 1.5, -2.0]) * (number + 1) for number, name in enumerate("xyz")}


@global_rewriter()
def simplify(builder: GraphBuilder) -> None:
    """The global optimization of the document, line by line."""
    for node in builder.nodes:
        if node.op_type == "Div":
            x, y = node.input
            z = node.output[0]
            owner = builder.node_before(x)
            if owner is not None and owner.op_type == "Mul":
                a, b = owner.input
                if y == a:
                    builder.replace(z, b)
                elif y == b:
                    builder.replace(z, a)


@local_rewriter("Div")
def local_simplify(g: LocalView, node: Node) -> Any:
    """The local optimization of the document, line by line."""
    x, y = node.input
    owner = g.node_before(x)
    if owner is not None and owner.op_type == "Mul":
        a, b = owner.input
        if y == a:
            return [b]
        if y == b:
            return [a]
    return False


local_simplify_1 = PatternSub(
    ("Div", ("Mul", "x", "y"), "y"), "x", name="LocalSimplify1", interior="keep"
)
local_simplify_2 = PatternSub(
    ("Div", ("Mul", "x", "y"), "x"), "y", name="LocalSimplify2", interior="keep"
)
WAYS: dict[str, Any] = {
    "global": simplify,
    "navigator": TopologicalNavigator(local_simplify),
    "reverse navigator": ReverseNavigator(local_simplify),
    "local": local_simplify,
    "pattern": local_simplify_1,
    "patterns in a navigator": TopologicalNavigator(local_simplify_1, local_simplify_2),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def expression(model: onnx.ModelProto) -> str:
    """The expression of the first output, as the document prints it."""
    producers = {name: node for node in model.graph.node for name in node.output}

    def text(name: str) -> str:
        node = producers.get(name)
        return (
            name if node is None else f"{node.op_type.lower()}({', '.join(map(text, node.input))})"
        )

    found = text(model.graph.output[0].name)
    return (
        found.removeprefix("identity(").removesuffix(")")
        if found.startswith("identity(")
        else found
    )


def alone(text: str, way: Any, **options: Any) -> onnx.ModelProto:
    """The model after this rewriter, without anything else that would help."""
    chosen = {"strict": True, "merge": False, "constant_folding": False, **options}
    return optimize(parse(text), patterns=[way], **chosen)


# ---------------------------------------------------------------- one simplification rule


@each_way
def test_the_rule(way: Any) -> None:
    before = parse(SIMPLE)
    assert expression(before) == "add(z, mul(div(mul(y, x), y), div(z, x)))"
    after = alone(SIMPLE, way)
    assert expression(after) == "add(z, mul(x, div(z, x)))"
    same_results(before, after, FEEDS)


@each_way
def test_both_orders_of_the_factors(way: Any) -> None:
    """One pattern is enough where the document needs two: Mul is known to be commutative."""
    for product, kept in (("Mul(x, y)", "x"), ("Mul(y, x)", "x"), ("Mul(y, y)", "y")):
        assert (
            expression(
                alone(
                    f"agraph ({DOCUMENT}) => (double[n] a) {{ p = {product} a = Div(p, y) }}", way
                )
            )
            == kept
        )


@each_way
def test_equal_parts_must_be_merged_first(way: Any) -> None:
    """``add(y, z) != add(y, z)`` until both are one node.

    That is done first unless it is switched off.
    """
    assert expression(alone(UNMERGED, way)) == "div(mul(add(y, z), x), add(y, z))"
    merged = optimize(parse(UNMERGED), patterns=None)
    assert (expression(merged), types(merged)) == (
        "div(mul(add(y, z), x), add(y, z))",
        ["Add", "Mul", "Div"],
    )
    assert expression(alone(UNMERGED, way, merge=True)) == "x"


def test_merging_knows_that_addition_is_commutative() -> None:
    """The document's does not: there, add(x, y) and add(y, x) stay different."""
    assert types(optimize(parse(SWAPPED), patterns=None)) == ["Add", "Mul", "Div"]
    assert expression(alone(SWAPPED, simplify, merge=True)) == "x"
    subtracted = SWAPPED.replace("Add", "Sub")
    assert types(alone(subtracted, simplify, merge=True)) == ["Sub", "Sub", "Mul", "Div"]


@each_way
def test_many_instances(way: Any) -> None:
    for seed in range(5):
        text = _random_model(seed)
        before, after = parse(text), alone(text, way)
        left = [
            node for node in after.graph.node if node.op_type == "Div" and _cancels(after, node)
        ]
        assert left == []
        assert len(after.graph.node) < len(before.graph.node)
        feeds = {name: np.random.default_rng(seed).uniform(0.5, 2, 4) for name in "xyz"}
        for expected, got in zip(run(before, feeds), run(after, feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9)


def _random_model(seed: int) -> str:
    """Sums of expressions in which x * y / y occurs again and again, nested in each other."""
    draw = random.Random(seed)
    names = ["x", "y", "z"]
    lines: list[str] = []

    def add(op: str, a: str, b: str) -> str:
        lines.append(f"t{len(lines)} = {op}({a}, {b})")
        return f"t{len(lines) - 1}"

    for _ in range(15):
        a, b = draw.choices(names, k=2)
        if draw.random() < 0.6:
            product = add("Mul", *draw.sample([a, b], 2))
            names.append(add("Div", product, draw.choice([a, b])))
        else:
            names.append(add("Add", a, b))
    total = names[-1]
    for name in names[3:-1]:
        total = add("Add", total, name)
    return (
        "agraph (double[4] x, double[4] y, double[4] z) "
        f"=> (double[4] {total}) {{ {' '.join(lines)} }}"
    )


def _cancels(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    owner = next((n for n in model.graph.node if node.input[0] in n.output), None)
    return owner is not None and owner.op_type == "Mul" and node.input[1] in owner.input


# ---------------------------------------------------------------- what they are


def test_a_rewriter_can_be_used_by_itself() -> None:
    """``simplify.optimize(e)``: nothing but the rewriter, then what nothing reads is swept."""
    builder = GraphBuilder(parse(SIMPLE))
    assert simplify().rewrite(builder) == 1
    assert "Div" in {node.op_type for node in builder.nodes}
    assert expression(builder.to_onnx(optimize=False)) == "add(z, mul(x, div(z, x)))"
    assert TopologicalNavigator(local_simplify).run(GraphBuilder(parse(SIMPLE)).model) == 1


def test_none_removes_a_result_that_nothing_reads() -> None:
    @local_rewriter("Split")
    def first_half(g: LocalView, node: Node) -> Any:
        return [g.op.Slice(node.input[0], starts=[0], ends=[2], axes=[0]), None]

    text = "agraph (float[4] x) => (float[m] y) { a, b = Split <num_outputs = 2> (x) y = Neg(a) }"
    after = alone(text, first_half)
    assert types(after) == ["Slice", "Neg"]
    same_results(parse(text), after, {"x": np.arange(4, dtype=np.float32)})
    read = text.replace("Neg(a)", "Add(a, b)")
    with pytest.raises(XoptimError, match="'b' is removed but still read"):
        alone(read, first_half)
    assert types(alone(read, first_half, strict=False)) == ["Split", "Add"]


# ---------------------------------------------------------------- shortcuts


def test_op_remove() -> None:
    text = (
        f"agraph ({DOCUMENT}) => (double[n] a) {{ i = Identity(x) j = Identity(i) a = Add(j, y) }}"
    )
    remove_identity = OpRemove("Identity")
    for way in (remove_identity, TopologicalNavigator(remove_identity)):
        assert expression(alone(text, way)) == "add(x, y)"
    kept = alone(text, remove_identity, remove_identity=False)
    assert types(kept) == ["Identity", "Identity", "Add"], "an option says that they are to stay"
    dropout = "agraph (float[n] x) => (float[n] y) { a = Dropout(x) y = Abs(a) }"
    assert types(alone(dropout, OpRemove("Dropout"))) == ["Abs"]


def test_shortcuts_go_where_local_rewriters_go() -> None:
    after = alone(
        SIMPLE, TopologicalNavigator(local_simplify, OpSub("Div", "Sub"), local_simplify_2)
    )
    assert expression(after) == "add(z, mul(x, sub(z, x)))"
