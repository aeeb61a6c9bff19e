"""The comparisons of an ensemble of trees."""

from typing import Final, NamedTuple

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match import Node

from .._folding import Array

TREES: Final = {"TreeEnsembleClassifier": 2, "TreeEnsembleRegressor": 1}
"""The ensembles, and how many results each has."""

LOOSE: Final = ("BRANCH_LEQ", "BRANCH_GT")
STRICT: Final = ("BRANCH_LT", "BRANCH_GTE")
STUMP: Final = (
    "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0],"
    ' nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], nodes_modes = ["BRANCH_LEQ",'
    ' "LEAF", "LEAF"], target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],'
    " target_weights = [3.0, 4.0], n_targets = 1"
)
"""One comparison of the second column with a number, for examples.

The numbers, ``nodes_values``, are not among it.
"""


class Comparisons(NamedTuple):
    """The inner nodes of all trees.

    Attributes:
        inner: the places of the inner nodes among all nodes.
        columns: the column that each inner node compares.
        modes: how.
        all_limits: the numbers of all nodes, leaves included, as 32-bit floats; finite for inner
            nodes.
    """

    inner: Array
    columns: Array
    modes: Array
    all_limits: Array


def comparisons(node: Node, size: int) -> Comparisons:
    """The comparisons of an ensemble whose operand has this many columns.

    Raises:
        Declined: when one is neither < nor <=, > or >= of 32-bit floats.
    """
    columns, modes = (
        np.array(node.attribute.get(f"nodes_{each}", [])) for each in ("featureids", "modes")
    )
    limits = np.array(node.attribute.get("nodes_values", []), np.float32)
    if limits.shape == modes.shape == columns.shape:
        inner = np.flatnonzero(modes != "LEAF")
        fits = np.isin(modes[inner], LOOSE + STRICT).all() and np.isfinite(limits[inner]).all()
        if fits and ((columns[inner] >= 0) & (columns[inner] < size)).all():
            return Comparisons(inner, columns[inner], modes[inner], limits)
    raise Declined("a tree node is not an order comparison with a finite float32")


def decisions(found: Comparisons, values: Array) -> Array:
    """Whether each comparison is true of a number."""
    limits = found.all_limits[found.inner]
    ways = [values <= limits, values < limits, values > limits, values >= limits]
    return np.select(
        [found.modes == mode for mode in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE")],
        ways,
    )


def scores_every_target(node: Node) -> bool:
    """Whether each row has a weight for each target of an ensemble, as all leaves of some tree have
    one.

    onnxruntime leaves base values out where no leaf that a row reaches has a weight for the target.
    """
    given = node.attribute
    places = zip(
        *(given.get(f"nodes_{each}", []) for each in ("treeids", "nodeids", "modes")), strict=True
    )
    leaves: dict[int, set[int]] = {}
    for tree, place, mode in places:
        leaves.setdefault(tree, set()).update([place] if mode == "LEAF" else [])
    scored: dict[tuple[int, int], set[int]] = {}
    for tree, target, place in zip(
        *(given.get(f"target_{each}", []) for each in ("treeids", "ids", "nodeids")), strict=True
    ):
        scored.setdefault((tree, target), set()).add(place)
    full = {
        target
        for (tree, target), found in scored.items()
        if leaves.get(tree) and leaves[tree] <= found
    }
    return full >= set(range(given.get("n_targets", 1)))
