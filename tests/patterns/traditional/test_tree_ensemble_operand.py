"""Trees behind a Scaler decide alike for every float, whatever is rounded."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import xoptim
from tests.support import run, types

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")


def _stumps(
    limits: list[float], offset: list[float], scale: list[float], steps: str
) -> onnx.ModelProto:
    """Behind a Scaler, an ensemble whose every tree compares one column.

    Its weights show which of them decide for true.
    """
    count = len(limits)
    trees = range(count)
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        ["t"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=count,
        nodes_treeids=[tree for tree in trees for _ in range(3)],
        nodes_nodeids=[0, 1, 2] * count,
        nodes_featureids=[place for tree in trees for place in (tree % len(offset), 0, 0)],
        nodes_truenodeids=[1, 0, 0] * count,
        nodes_falsenodeids=[2, 0, 0] * count,
        nodes_modes=[mode for tree in trees for mode in (_MODES[tree % 4], "LEAF", "LEAF")],
        nodes_values=[value for limit in limits for value in (limit, 0.0, 0.0)],
        target_treeids=list(trees),
        target_nodeids=[1] * count,
        target_ids=list(trees),
        target_weights=[1.0] * count,
    )
    numbers = [
        helper.make_tensor(name, TensorProto.FLOAT, [len(offset)], values)
        for name, values in (("o", offset), ("s", scale))
    ]
    front = {
        "Scaler": [
            helper.make_node(
                "Scaler", ["x"], ["t"], domain="ai.onnx.ml", offset=offset, scale=scale
            )
        ],
        "Sub, Mul": [
            helper.make_node("Sub", ["x", "o"], ["u"]),
            helper.make_node("Mul", ["s", "u"], ["t"]),
        ],
        "Mul, Add": [
            helper.make_node("Mul", ["x", "s"], ["u"]),
            helper.make_node("Add", ["u", "o"], ["t"]),
        ],
    }
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", len(offset)), ("y", count))
    )
    graph = helper.make_graph([*front[steps], ensemble], "stumps", [x], [y], numbers)
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)],
        ir_version=8,
    )


@pytest.mark.parametrize("steps", ["Scaler", "Sub, Mul", "Mul, Add"])
def test_every_float_near_a_threshold_is_decided_alike(steps: str) -> None:
    rng = np.random.default_rng(0)
    columns, count = 5, 80
    offset = (rng.standard_normal(columns) * [1e-3, 1, 1e3, 1e6, 0]).astype(np.float32)
    scale = np.exp(rng.standard_normal(columns) * [1, 1, 1, 1, 20]).astype(np.float32)
    limits = rng.standard_normal(count).astype(np.float32)
    limits[:4] = 0.0
    model = _stumps(limits.tolist(), offset.tolist(), scale.tolist(), steps)
    after = xoptim.optimize(model, strict=True)
    assert types(after) == ["TreeEnsembleRegressor"]
    o, s = offset[np.arange(count) % columns], scale[np.arange(count) % columns]
    near = (limits - o) / s if steps == "Mul, Add" else limits / s + o
    rows = [
        near,
        np.array(
            [np.inf, -np.inf, np.nan, 0, -0.0, np.finfo(np.float32).max, np.finfo(np.float32).min]
        ),
    ]
    for distance in (1, 2, 7):
        moved = near
        for _ in range(distance):
            moved = np.nextafter(moved, np.float32(np.inf))
        rows += [moved, 2 * near - moved]
    x = np.repeat(np.concatenate(rows).astype(np.float32)[:, None], columns, axis=1)
    np.testing.assert_array_equal(run(after, {"x": x})[0], run(model, {"x": x})[0])
