from functools import partial

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import axis_of
from ._columns import DOMAIN, Extraction, extraction_of


class ExtractorsConcatPattern(PatternOptimization):
    """[ArrayFeatureExtractor(x, i), ArrayFeatureExtractor(x, j)] → ArrayFeatureExtractor(x, [i, j])

    What: selects the columns of adjacent operands of the Concat at once.
    Why: measured for three and two columns: 0.55 (1,000 rows) to 0.87 (one row) of the time.
    Refuses when:
    1. no two adjacent operands are columns of one matrix at constant indices.
    2. an operand has other consumers: it would be extracted twice.
    """

    anchors = ("Concat",)
    near = ("ai.onnx.ml::ArrayFeatureExtractor",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if axis_of(g, node) != 1:
            return self.none(node, msg="the Concat is not along the columns")
        runs: list[list[Extraction | None]] = []
        for name in node.input:
            columns = extraction_of(g, name) if g.is_exclusive(name) else None  # (2)
            last = runs[-1][-1] if runs else None
            if columns is not None and last is not None and last.x == columns.x:
                runs[-1].append(columns)
            else:
                runs.append([columns])
        if len(runs) == len(node.input):  # (1)
            return self.none(node, msg="no two adjacent operands are columns of one matrix")
        extractors = [
            columns.node for run in runs if len(run) > 1 for columns in run if columns is not None
        ]
        return MatchResult(self, [*extractors, node], partial(self._joined, runs))

    def _joined(
        self, runs: list[list[Extraction | None]], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        names, index = [], 0
        for run in runs:
            extractions = [columns for columns in run if columns is not None]
            if len(extractions) > 1:
                indices = np.concatenate([columns.indices for columns in extractions])
                names.append(g.op.ArrayFeatureExtractor(extractions[0].x, indices, domain=DOMAIN))
            else:
                names.append(nodes[-1].input[index])
            index += len(run)
        result = g.op.Concat(*names, axis=1) if len(names) > 1 else names[0]
        return [*g.created, g.make_node("Identity", [result], nodes[-1].output)]

    _start = "agraph (float[a,4] x, float[a,2] z) => (float[a,5] y)"
    examples = Example.only(
        f"{_start} <int64[1] i = {{3}}, int64[2] j = {{0, 2}}> {{ "
        "p = ai.onnx.ml.ArrayFeatureExtractor(x, i) q = ai.onnx.ml.ArrayFeatureExtractor(x, j) "
        "y = Concat <axis = 1> (p, q, z) }",
        "<int64[3] i = {3, 0, 2}> { p = ai.onnx.ml.ArrayFeatureExtractor(x, i) "
        "y = Concat <axis = 1> (p, z) }",
    )
