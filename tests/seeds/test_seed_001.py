"""The document about folding circuits, as far as it is about groups of nodes: what is grouped, in
which order, where it goes.

Nodes that compute the same are merged by the optimizer itself. Folding layers with different
parameters into one is a rewrite of several roots, written here as anybody could: the pattern looks
for the group, its `apply` is the fold group function.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, same_results, types, verify
from xoptim import (
    GraphBuilder,
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    OptimizationOptions,
    PatternOptimization,
    PatternRewriter,
    optimize,
)
from xoptim.engine.engine import match_patterns
from xoptim.match.refusal import Refusal, listening

View = GraphBuilderPatternOptimization
RNG = np.random.default_rng(0)
FEEDS = {name: RNG.standard_normal((2, 3)).astype(np.float32) for name in ("x", "z")}
WEIGHTS: dict[str, np.ndarray] = {
    **{name: RNG.standard_normal((3, 3)).astype(np.float32) for name in ("u", "v", "w")},
    "thin": RNG.standard_normal((3, 1)).astype(np.float32),
    "double": RNG.standard_normal((3, 3)),
}


def circuit(nodes: str, outputs: str = "float[2,3] y") -> onnx.ModelProto:
    """Layers over two inputs, with the weights above."""
    model = parse(f"agraph (float[2,3] x, float[2,3] z) => ({outputs}) {{ {nodes} }}")
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()
    )
    return model


def levels(g: View) -> dict[Node, int]:
    """Layer-wise topological ordering: how many nodes come before each one, at most."""
    found: dict[Node, int] = {}
    for node in g.iter_nodes():
        before = (g.node_before(name) for name in node.input)
        found[node] = max((found[each] + 1 for each in before if each is not None), default=0)
    return found


def fold_settings(g: View, node: Node) -> tuple[Any, ...] | None:
    """The conditions that nodes of one group share: operator, config, types and shapes of inputs
    and of parameters.
    """
    infos = [g.info(name) for name in node.input]
    if (
        g.is_constant(node.input[0])
        or not g.is_constant(node.input[1])
        or any(info.static_shape is None for info in infos)
    ):
        return None
    config = tuple(sorted(node.attribute.items()))
    return node.op_type, config, *((info.dtype, info.static_shape) for info in infos)


def group_foldable(g: View) -> list[list[Node]]:
    """Nodes that can be computed together, by a mapping of conditions.

    Groups and members in the order of the graph.
    """
    groups: dict[Any, list[Node]] = {}
    for node, level in levels(g).items():
        settings = fold_settings(g, node) if node.op_type in ("MatMul", "Add") else None
        if settings is not None:
            groups.setdefault((level, settings), []).append(node)
    return list(groups.values())


class FoldMatMulsPattern(PatternOptimization):
    """MatMul(x, v), MatMul(z, w) → one MatMul of all inputs and all weights, each stacked along a
    new axis
    """

    anchors = ("MatMul",)
    exactness = "rounding"

    def match(self, g: View, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """At the first of a group, all of it."""
        group = next((group for group in group_foldable(g) if group[0] is node), [])
        if len(group) < 2 or any(g.info(each.input[0]).rank != 2 for each in group):
            return self.none(node, msg=lambda: f"nothing to compute together with {node.output[0]}")
        return MatchResult(self, group, partial(self.fold_group))

    def fold_group(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
        """The layer that stands for a group; a slice of its result for each member."""
        stacked = np.stack([self._value(g, node.input[1]) for node in nodes])
        inputs = g.op.Concat(*(g.op.Unsqueeze(node.input[0], axes=[0]) for node in nodes), axis=0)
        folded = g.op.MatMul(inputs, g.make_initializer("folded", stacked))
        slices = [
            g.make_node("Gather", [folded, g.make_initializer("i", i)], n.output, axis=0)
            for i, n in enumerate(nodes)
        ]
        return [*g.created, *slices]

    @staticmethod
    def _value(g: PatternRewriter, name: str) -> np.ndarray:
        value = g.get_computed_constant(name)
        assert value is not None
        return value


def groups(nodes: str) -> list[list[str]]:
    """Results of the nodes of each group."""
    view = View(load_circuit(nodes))
    return [[node.output[0] for node in group] for group in group_foldable(view)]


def load_circuit(nodes: str) -> Any:
    return GraphBuilder(circuit(nodes, "y")).model.graph


def folded(nodes: str, outputs: str = "float[2,3] y", **more: Any) -> onnx.ModelProto:
    """A circuit after folding, which computes the same."""
    model = circuit(nodes, outputs)
    after = optimize(model, patterns=FoldMatMulsPattern, strict=True, tag_nodes=False, **more)
    same_results(model, after, FEEDS)
    return after


# -------------------------------------------------------------------- What can we fold?


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = MatMul(x, u) b = MatMul(z, v) y = Mul(a, b)", [["a", "b"]]),
        ("a = MatMul(x, u) b = MatMul(z, thin) y = Mul(a, b)", [["a"], ["b"]]),
        ("a = MatMul(x, u) b = Add(z, v) y = MatMul(a, b)", [["a"], ["b"]]),
        (
            "a = MatMul(x, u) b = MatMul(z, v) c = MatMul(x, w) d = Mul(a, b) y = Mul(c, d)",
            [["a", "b", "c"]],
        ),
        ("a = MatMul(x, u) b = MatMul(z, x) y = Mul(a, b)", [["a"]]),
        ("a = MatMul(x, u) b = MatMul(a, v) y = Mul(a, b)", [["a"], ["b"]]),
        (
            "a = MatMul(x, thin) b = MatMul(x, u) c = MatMul(z, thin) y = Sum(a, b, c)",
            [["a", "c"], ["b"]],
        ),
        (
            (
                "d = Cast <to = 11> (z) a = MatMul(d, double) e = Cast <to = 1> (x) "
                "b = MatMul(e, u) y = Mul(a, b)"
            ),
            [["a"], ["b"]],
        ),
    ],
    ids=[
        "same",
        "parameter shape",
        "operator",
        "three",
        "no parameter",
        "level",
        "two groups",
        "type",
    ],
)
def test_conditions(nodes: str, expected: list[list[str]]) -> None:
    """Inner layers: config and shapes of the parameters; tensors: shape and type.

    ONNX has no gradients.
    """
    assert groups(nodes) == expected


# -------------------------------------------------------------------- Fold Group Function


def test_a_group_becomes_one_layer() -> None:
    """It gets the config of the first one, and the parameters of all, stacked in order."""
    after = folded("a = MatMul(x, v) b = MatMul(z, u) c = MatMul(x, w) d = Mul(a, b) y = Sub(d, c)")
    assert types(after).count("MatMul") == 1
    (stacked,) = [
        onnx.numpy_helper.to_array(t) for t in after.graph.initializer if list(t.dims) == [3, 3, 3]
    ]
    np.testing.assert_array_equal(stacked, np.stack([WEIGHTS[name] for name in "vuw"]))


def test_a_layer_alone_stays() -> None:
    model = circuit("a = MatMul(x, v) y = Neg(a)")
    assert optimize(model, patterns=FoldMatMulsPattern).graph.node == model.graph.node


def test_a_group_function_does_not_look_for_groups() -> None:
    """They are found by `match`; `apply` is given the nodes, and both can be tried alone."""
    graph = load_circuit("a = MatMul(x, v) b = MatMul(z, u) y = Mul(a, b)")
    new = FoldMatMulsPattern().fold_group(PatternRewriter(graph), *graph.of_type("MatMul"))
    assert [node.op_type for node in new] == [
        "Unsqueeze",
        "Unsqueeze",
        "Concat",
        "MatMul",
        "Gather",
        "Gather",
    ]
    assert len(graph.nodes) == 3


# -------------------------------------------------------------------- Fold a Parameter Graph


def test_parameter_graphs_of_several_layers_are_one_graph() -> None:
    """A common subexpression of two of them, or within one, is computed once."""
    parameters = "a = Exp(u) b = Neg(a) c = Exp(u) d = Neg(c) e = Abs(c)"
    nodes = f"{parameters} s = MatMul(x, b) t = MatMul(z, d) r = Add(s, t) y = MatMul(r, e)"
    model = circuit(nodes)
    after = optimize(model, patterns=None, constant_folding=False)
    assert [op for op in types(after) if op in ("Exp", "Neg", "Abs")] == ["Exp", "Neg", "Abs"]
    same_results(model, after, FEEDS)
    assert types(folded(nodes)).count("MatMul") == 2, "of computed weights, too"


# -------------------------------------------------------------------- Finding Potential Fold


def test_groups_come_from_a_mapping_of_conditions() -> None:
    """All matches, one for each group of at least two; they are disjoint by construction."""
    nodes = (
        "a = MatMul(x, thin) b = MatMul(x, u) c = MatMul(z, thin) d = MatMul(z, w) e = Mul(a, c) "
        "f = Mul(b, d) y = Mul(e, f)"
    )
    matches, roots = match_patterns(circuit(nodes), FoldMatMulsPattern)
    found = [[node.output[0] for node in match.nodes if node is not None] for match in matches]
    assert found == [["a", "c"], ["b", "d"]]
    assert [root.output[0] for root in roots] == ["c", "d"]


def test_the_order_is_that_of_the_graph() -> None:
    """Whatever the names are; it decides which slice belongs to which node."""
    parts = [
        f"{name} = MatMul({x}, {w})"
        for name, x, w in (("q", "x", "u"), ("a", "z", "v"), ("k", "x", "w"))
    ]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        nodes = " ".join(parts[i] for i in order) + " s = Sub(q, a) y = Sub(s, k)"
        names = ["qak"[i] for i in order]
        assert groups(nodes) == [names]
        after = folded(nodes)
        assert [node.output[0] for node in after.graph.node if node.op_type == "Gather"] == names
    assert folded(nodes) == folded(nodes)


def test_why_nothing_is_folded() -> None:
    heard: list[Refusal] = []
    view = View(load_circuit("a = MatMul(x, u) b = MatMul(z, thin) y = Mul(a, b)"))
    with listening(heard.append):
        assert [
            FoldMatMulsPattern().match(view, node, []) for node in view.graph.of_type("MatMul")
        ] == [None, None]
    assert [refusal.reason for refusal in heard] == [
        f"nothing to compute together with {name}" for name in "ab"
    ]


# ------------------------------------------------------------------ Main Logic (build_folded_graph)


def test_level_by_level() -> None:
    """Modules of the next level find their inputs in the folded ones."""
    after = folded(
        "a = MatMul(x, u) b = MatMul(z, v) c = Relu(a) d = Abs(b) e = MatMul(c, v) "
        "f = MatMul(d, w) y = Mul(e, f)"
    )
    assert types(after).count("MatMul") == 2
    position = {name: i for i, node in enumerate(after.graph.node) for name in node.output}
    for node in after.graph.node:
        assert all(position.get(name, -1) < position[node.output[0]] for name in node.input)


def test_unfolded_modules_are_found_by_their_names() -> None:
    """There is no index of folds: the slice of a module has the name of its result, outputs of the
    graph included.
    """
    after = folded("a = MatMul(x, u) b = MatMul(z, v)", "float[2,3] a, float[2,3] b")
    gathers = {node.output[0]: node for node in after.graph.node if node.op_type == "Gather"}
    values = {t.name: onnx.numpy_helper.to_array(t) for t in after.graph.initializer}
    assert {name: int(values[node.input[1]]) for name, node in gathers.items()} == {"a": 0, "b": 1}
    assert [output.name for output in after.graph.output] == ["a", "b"]


def test_folding_is_a_pattern_like_others() -> None:
    """It is counted, and dropped by name."""
    model = circuit("a = MatMul(x, u) b = MatMul(z, v) y = Mul(a, b)")
    for drop, expected in (((), {"FoldMatMuls": 1}), (("FoldMatMuls",), {})):
        options = OptimizationOptions(patterns=[FoldMatMulsPattern], drop=drop)
        gr = GraphBuilder(model, optimization_options=options)
        gr.optimize()
        assert gr.report().applied == expected
        verify(gr.model)


def rows(names: Sequence[str]) -> str:
    return " ".join(
        f"{name} = MatMul({'xz'[i % 2]}, {'uvw'[i % 3]})" for i, name in enumerate(names)
    )


def test_many_in_a_group() -> None:
    names = [f"n{i}" for i in range(20)]
    after = folded(f"{rows(names)} y = Sum({', '.join(names)})", merge=False)
    assert types(after).count("MatMul") == 1
    assert types(after).count("Gather") == 20
