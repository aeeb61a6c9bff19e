"""Trees behind an Imputer decide alike for every number and for NaN."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import xoptim
from tests.support import run, types

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
_NUMBERS = (-1.0, 0.0, 1.5)


def test_each_comparison_takes_the_way_of_the_number_that_is_put_in() -> None:
    # A tree for each comparison, number put in (that of its column), and way of NaN before; the fourth column has no Imputer.
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
            "Imputer", ["x"], ["t"], domain="ai.onnx.ml", imputed_value_floats=_NUMBERS, replaced_value_float=float("nan")
        ),
        helper.make_node("Concat", ["t", "z"], ["c"], axis=1),
        helper.make_node("TreeEnsembleRegressor", ["c"], ["y"], domain="ai.onnx.ml", n_targets=count, **tree),
    ]
    sizes = {"x": len(_NUMBERS), "z": 1, "y": count}
    x, z, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in sizes.items())
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(helper.make_graph(nodes, "stumps", [x, z], [y]), opset_imports=imports, ir_version=8)
    after = xoptim.optimize(model, strict=True)
    assert types(after) == ["Concat", "TreeEnsembleRegressor"]
    column = np.array([np.nan, -np.inf, -1, -0.0, 0, 1, np.inf], np.float32)[:, None]
    feeds = {"x": np.repeat(column, len(_NUMBERS), 1), "z": column}
    np.testing.assert_array_equal(run(after, feeds)[0], run(model, feeds)[0])
