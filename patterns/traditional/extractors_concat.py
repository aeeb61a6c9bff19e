from functools import partial

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import axis_of
from ._columns import DOMAIN, Extraction, extraction_of


class ExtractorsConcatPattern(PatternOptimization):
    """[ArrayFeatureExtractor(x, i), ArrayFeatureExtractor(x, j)] → ArrayFeatureExtractor(x, [i, j])

    What: takes all columns at once where the operands are side by side.
    Why: measured 0.55 of the time of three and two columns (1,000 rows) to 0.87 (one row).
    Refuses when:
    1. no two operands side by side are columns of one matrix at constant places.
    2. something else reads one of them: it would be taken twice.
    """

    anchors = ("Concat",)
    near = ("ai.onnx.ml::ArrayFeatureExtractor",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if axis_of(g, node) != 1:
            return self.none(node, msg="the Concat is not along the columns")
        runs: list[list[Extraction | None]] = []
        for name in node.input:
            found = extraction_of(g, name) if g.is_exclusive(name) else None  # (2)
            last = runs[-1][-1] if runs else None
            if found is not None and last is not None and last.x == found.x:
                runs[-1].append(found)
            else:
                runs.append([found])
        if len(runs) == len(node.input):  # (1)
            return self.none(node, msg="no two adjacent operands are columns of one matrix")
        taken = [each.node for run in runs if len(run) > 1 for each in run if each is not None]
        return MatchResult(self, [*taken, node], partial(self._joined, runs))

    def _joined(
        self, runs: list[list[Extraction | None]], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        names, place = [], 0
        for run in runs:
            found = [each for each in run if each is not None]
            if len(found) > 1:
                places = np.concatenate([each.places for each in found])
                names.append(g.op.ArrayFeatureExtractor(found[0].x, places, domain=DOMAIN))
            else:
                names.append(nodes[-1].input[place])
            place += len(run)
        whole = g.op.Concat(*names, axis=1) if len(names) > 1 else names[0]
        return [*g.created, g.make_node("Identity", [whole], nodes[-1].output)]

    _start = "agraph (float[a,4] x, float[a,2] z) => (float[a,5] y)"
    examples = Example.only(
        f"{_start} <int64[1] i = {{3}}, int64[2] j = {{0, 2}}> {{ "
        "p = ai.onnx.ml.ArrayFeatureExtractor(x, i) q = ai.onnx.ml.ArrayFeatureExtractor(x, j) "
        "y = Concat <axis = 1> (p, q, z) }",
        "<int64[3] i = {3, 0, 2}> { p = ai.onnx.ml.ArrayFeatureExtractor(x, i) "
        "y = Concat <axis = 1> (p, z) }",
    )
