from collections.abc import Sequence
from functools import partial

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._shapes import axes_part, dynamic_sizes, find_run, measured_tensors, results_above

_Part = tuple[str, int, int] | list[int] | str
"""Consecutive axes of a tensor, numbers, or the name of a result with one element."""


class ShapeConcatPattern(PatternOptimization):
    """Where(Equal(Concat(...), -1), 1, Concat(...)), ... → Concat(Shape(t, i, j), numbers, ...)

    What: concatenates a vector of known dimensions from as few parts as possible. A part is a run
    of dimensions of a tensor, or a constant.
    Why: for ``expand(-1, ...)``, exporters write ten nodes to keep a dimension.
    Refuses when:
    1. an element is unknown, or no element is a symbol.
    2. an element is neither a dimension of an input, nor of a tensor whose Shape the chain reads,
       nor an intermediate result.
    3. the number of nodes would not decrease.
    """

    anchors = (
        "Shape",
        "Concat",
        "Where",
        "Mul",
        "Expand",
        "Gather",
        "Slice",
        "ScatterND",
        "Add",
        "Sub",
        "Cast",
        "Max",
        "Min",
    )
    min_opset = 15
    priority = 1  # after the removal of chains that nothing reads any longer
    radius = 6

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        sizes = dynamic_sizes(g, node.output[0])
        if sizes is None:  # (1)
            return self.none(
                node, msg="not a vector of known dimensions that includes a dynamic one"
            )
        tensors = [
            *g.given_tensors(dim for dim in sizes if not isinstance(dim, int)),
            *measured_tensors(g, node),
        ]
        single = {
            data[0]: name
            for name in results_above(g, node)
            if (data := g.info(name).data) and len(data) == 1 and g.info(name).dtype == 7
        }
        parts: list[_Part] = []
        remaining: Sequence[Dim] = sizes
        while remaining:
            part = _first_part(remaining, tensors) or single.get(remaining[0])
            if part is None:  # (2)
                return self.none(node, msg=f"{remaining[0]} is no dimension of a tensor")
            parts.append(part)
            remaining = remaining[_length(part) :]
        new_nodes = sum(not isinstance(part, list) for part in parts) + (len(parts) > 1)
        sources = {
            part if isinstance(part, str) else part[0]
            for part in parts
            if not isinstance(part, list)
        }
        if not _frees_more(g, node, sources, new_nodes):  # (3)
            return self.none(node, msg="the number of nodes would not decrease")
        return MatchResult(self, [node], partial(self._join, parts))

    def _join(self, parts: list[_Part], g: PatternRewriter, node: Node) -> list[Node]:
        names = []
        for part in parts:
            if isinstance(part, list):
                names.append(g.make_initializer("", part, source="sizes"))
            elif isinstance(part, str):
                names.append(g.op.Reshape(part, np.array([-1])) if g.get_rank(part) == 0 else part)
            else:
                names.append(
                    g.op.Shape(
                        part[0], **axes_part(g.get_shape(part[0]), part[1], part[2] - part[1])
                    )
                )
        joined = names[0] if len(names) == 1 else g.op.Concat(*names, axis=0)
        return [*g.created, g.make_node("Identity", [joined], node.output)]

    examples = Example.only(
        "agraph (float[b,4] z) => (int64[2] y) <int64 i = {0}, int64[1] k = {0}, "
        "int64[1] m = {-1}, int64[2] mm = {-1, -1}, int64[2] one = {1, 1}> { s = Shape(z) "
        "n = Gather(s, i) u = Unsqueeze(n, k) c = Concat <axis = 0> (u, m) e = Equal(c, mm) "
        "w = Where(e, one, c) y = Neg(w) }",
        "<int64[1] one = {1}> { s = Shape <end = 1> (z) w = Concat <axis = 0> (s, one) "
        "y = Neg(w) }",
    )


def _first_part(data: Sequence[Dim], tensors: Sequence[tuple[str, Shape]]) -> _Part | None:
    """The leading numbers of the data; otherwise the longest run of axes of a tensor that matches.

    ``None`` if there is neither.
    """
    numbers: list[int] = []
    for value in data:
        if not isinstance(value, int):
            break
        numbers.append(value)
    if numbers:
        return numbers
    best: tuple[str, int, int] | None = None
    for name, shape in tensors:
        for length in range(len(data), 0, -1):
            start = find_run(shape, data[:length])
            if start is not None and (best is None or length > best[2] - best[1]):
                best = (name, start, start + length)
    return best


def _length(part: _Part) -> int:
    return (
        1 if isinstance(part, str) else len(part) if isinstance(part, list) else part[2] - part[1]
    )


def _frees_more(g: GraphView, node: Node, sources: set[str], count: int) -> bool:
    """Whether more than ``count`` nodes become unused without ``node``.

    The tensors ``sources`` are still read.
    """
    unused = {node}
    pending = [node]
    while pending and len(unused) <= count:
        for name in pending.pop().input:
            producer = g.node_before(name) if name else None
            if producer is None or producer in unused:
                continue
            if all(
                result not in sources and g.is_used_only_by(result, *unused)
                for result in producer.output
            ):
                unused.add(producer)
                pending.append(producer)
    return len(unused) > count
