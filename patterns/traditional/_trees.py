"""The comparisons of a tree ensemble."""

from typing import Final, NamedTuple

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match import Node

from .._folding import Array

TREES: Final = {"TreeEnsembleClassifier": 2, "TreeEnsembleRegressor": 1}
"""The tree ensembles, and the number of outputs of each."""

LOOSE: Final = ("BRANCH_LEQ", "BRANCH_GT")
"""The comparisons whose branch depends on ``x <= threshold``: ``<=`` and ``>``."""
STRICT: Final = ("BRANCH_LT", "BRANCH_GTE")
"""The comparisons whose branch depends on ``x < threshold``: ``<`` and ``>=``."""
STUMP: Final = (
    "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0],"
    ' nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_modes = ["BRANCH_LEQ",'
    ' "LEAF", "LEAF"], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],'
    " target_weights = [3.0, 4.0], n_targets = 1"
)
"""A tree with one comparison, of the second column, for examples. It lacks ``nodes_values``."""


class Comparisons(NamedTuple):
    """The inner nodes of all trees.

    Attributes:
        inner: the indices of the inner nodes among all nodes.
        columns: the column that each inner node compares.
        modes: the comparison of each inner node.
        all_limits: the float32 thresholds of all nodes, leaves included; finite for inner nodes.
    """

    inner: Array
    columns: Array
    modes: Array
    all_limits: Array


def comparisons(node: Node, size: int) -> Comparisons:
    """The comparisons of an ensemble whose operand has ``size`` columns.

    Raises:
        Declined: if a comparison is not <, <=, > or >= with a finite float32.
    """
    columns, modes = (
        np.array(node.attribute.get(f"nodes_{key}", [])) for key in ("featureids", "modes")
    )
    limits = np.array(node.attribute.get("nodes_values", []), np.float32)
    if limits.shape == modes.shape == columns.shape:
        inner = np.flatnonzero(modes != "LEAF")
        fits = np.isin(modes[inner], LOOSE + STRICT).all() and np.isfinite(limits[inner]).all()
        if fits and ((columns[inner] >= 0) & (columns[inner] < size)).all():
            return Comparisons(inner, columns[inner], modes[inner], limits)
    raise Declined("a tree node is not an order comparison with a finite float32")


def decisions(nodes: Comparisons, values: Array) -> Array:
    """Whether each comparison is true for its element of ``values``."""
    limits = nodes.all_limits[nodes.inner]
    results = [values <= limits, values < limits, values > limits, values >= limits]
    return np.select(
        [nodes.modes == mode for mode in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE")],
        results,
    )


def scores_every_target(node: Node) -> bool:
    """Whether each target has a tree all of whose leaves have a weight for this target.

    onnxruntime omits the base value of a target if no leaf that a row reaches has a weight for it.
    """
    attributes = node.attribute
    nodes = zip(
        *(attributes.get(f"nodes_{key}", []) for key in ("treeids", "nodeids", "modes")),
        strict=True,
    )
    leaves: dict[int, set[int]] = {}
    for tree, index, mode in nodes:
        leaves.setdefault(tree, set()).update([index] if mode == "LEAF" else [])
    scored: dict[tuple[int, int], set[int]] = {}
    for tree, target, index in zip(
        *(attributes.get(f"target_{key}", []) for key in ("treeids", "ids", "nodeids")), strict=True
    ):
        scored.setdefault((tree, target), set()).add(index)
    full = {
        target
        for (tree, target), scored_leaves in scored.items()
        if leaves.get(tree) and leaves[tree] <= scored_leaves
    }
    return full >= set(range(attributes.get("n_targets", 1)))
