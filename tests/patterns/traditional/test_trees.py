"""Trees decide alike for every number and for NaN, and give the same to targets that no leaf has a
weight for.
"""

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

import xoptim
from tests.support import run, types

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
_NUMBERS = (-1.0, 0.0, 1.5)


def test_each_comparison_takes_the_way_of_the_number_that_is_put_in() -> None:
    # A tree for each comparison, number put in (that of its column), and way of NaN before; the
    # fourth column has no Imputer.
    stumps = list(product(_MODES, range(4), (0, 1)))
    count = len(stumps)
    tree: dict[str, Any] = {
        "nodes_treeids": [place for place in range(count) for _ in range(3)],
        "nodes_nodeids": [0, 1, 2] * count,
        "nodes_featureids": [value for _, column, _ in stumps for value in (column, 0, 0)],
        "nodes_truenodeids": [1, 0, 0] * count,
        "nodes_falsenodeids": [2, 0, 0] * count,
        "nodes_modes": [value for mode, _, _ in stumps for value in (mode, "LEAF", "LEAF")],
        "nodes_values": [0.0] * 3 * count,
        "nodes_missing_value_tracks_true": [value for _, _, way in stumps for value in (way, 0, 0)],
        "target_treeids": list(range(count)),
        "target_nodeids": [1] * count,
        "target_ids": list(range(count)),
        "target_weights": [1.0] * count,
    }
    nodes = [
        helper.make_node(
            "Imputer",
            ["x"],
            ["t"],
            domain="ai.onnx.ml",
            imputed_value_floats=_NUMBERS,
            replaced_value_float=float("nan"),
        ),
        helper.make_node("Concat", ["t", "z"], ["c"], axis=1),
        helper.make_node(
            "TreeEnsembleRegressor", ["c"], ["y"], domain="ai.onnx.ml", n_targets=count, **tree
        ),
    ]
    sizes = {"x": len(_NUMBERS), "z": 1, "y": count}
    x, z, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in sizes.items()
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, "stumps", [x, z], [y]), opset_imports=imports, ir_version=8
    )
    after = xoptim.optimize(model, strict=True)
    assert types(after) == ["Concat", "TreeEnsembleRegressor"]
    column = np.array([np.nan, -np.inf, -1, -0.0, 0, 1, np.inf], np.float32)[:, None]
    feeds = {"x": np.repeat(column, len(_NUMBERS), 1), "z": column}
    np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])


def _stump(ids: str, more: str = "") -> str:
    return (
        "ai.onnx.ml.TreeEnsembleRegressor <nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2],"
        " nodes_featureids = [0, 0, 0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0,"
        ' 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],'
        f" target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = {ids}, target_weights ="
        f" [3.0, 4.0], n_targets = 2 {more}> (x)"
    )


@pytest.mark.parametrize(
    "nodes",
    [
        f"t = {_stump('[0, 1]')} y = Add(t, c)",
        f"t = {_stump('[0, 0]')} y = Add(t, c)",
        (
            f"t = {_stump('[0, 1]', ', base_values = [5.0, 6.0]')} u = {_stump('[1, 0]')} "
            "y = Add(t, u)"
        ),
    ],
)
def test_a_target_without_a_weight_gets_no_base_value(nodes: str) -> None:
    # onnxruntime gives 0 where no leaf that a row reaches has a weight for the target: base values
    # would not be added.
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 1]> '
        f"agraph (float[n,1] x) => (float[n,2] y) <float[2] c = {{10, 20}}> {{ {nodes} }}"
    )
    feeds = {"x": np.array([[0], [1]], np.float32)}
    np.testing.assert_array_equal(
        run(xoptim.optimize(model, strict=True), feeds)[0], run(model, feeds)[0]
    )


@pytest.mark.parametrize(("tree", "count"), [("0", 1), ("-1", 3)])
def test_trees_of_negative_numbers_stay_apart(tree: str, count: int) -> None:
    """Onnxruntime reads them in its own way, which another number would change."""
    second = _stump("[1, 0]")
    for place, numbers in (("nodes", [tree] * 3), ("target", [tree] * 2)):
        second = second.replace(
            f"{place}_treeids = [{', '.join('0' * len(numbers))}]",
            f"{place}_treeids = [{', '.join(numbers)}]",
        )
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 1]> '
        f"agraph (float[n,1] x) => (float[n,2] y) {{ t = {_stump('[0, 1]')} u = {second} y = Add(t,"
        " u) }"
    )
    after = xoptim.optimize(model, strict=True)
    assert len(after.graph.node) == count
    feeds = {"x": np.array([[0], [1]], np.float32)}
    np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])
