from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from ._latents import (
    Projection,
    Rows,
    becomes_probabilities,
    example,
    heads_shape,
    projection_of,
    rows_of,
    saves,
    shared_product,
    weights_of,
    with_axis,
)


class _Part(NamedTuple):
    """Some features of the keys.

    Attributes:
        shared: what all heads share, of shape (batch, 1, size, length); empty for the projection.
        size: number of features.
    """

    shared: str
    size: int


class _Keys(NamedTuple):
    """The keys of attention.

    Attributes:
        projected: those that are projected from latents.
        parts: all features, in order.
        scale: a number that the keys are multiplied by; empty for none.
        nodes: that make the keys, after the projection.
    """

    projected: Projection
    parts: Sequence[_Part]
    scale: str
    nodes: Sequence[Node]


class LatentKeysPattern(PatternOptimization):
    """MatMul(q, heads(MatMul(c, w))ᵀ) → MatMul(MatMul(q, wᵀ), cᵀ), for few queries

    What: projects the queries to latents, in place of the latents of each position to keys
    (multi-head latent attention of DeepSeek). Other features of the keys, such as those with
    rotary embeddings, stay next to the latents, if all heads share them. A factor of the keys
    becomes one of the queries. Heads are rows of one matrix, as they share the keys.
    Why: with LatentValues, a DeepSeek-V3 of two layers takes 0.16 of the time of the export for one
    token after 512, and 0.37 without both.
    Refuses when:
    1. no part of the keys is a projection by constant weights, or heads have other parts of their
       own, or something else reads the keys.
    2. the result does not go to Softmax, by which infinite scores become NaN in any order of sums.
    3. there may be many queries: assume a bound of their number (``--assume 'seq == 1'``).
    4. an axis may be empty.
    """

    anchors = ("MatMul",)
    phase = "specialize"
    exactness = "rounding"
    providers = ("cpu",)
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        keys = _keys_of(g, node.input[1])
        if keys is None:  # (1)
            return self.none(node, msg="the second operand is not a projection of latents")
        if not becomes_probabilities(g, node.output[0]):  # (2)
            return self.none(node, msg="the scores do not go to Softmax of the last axis")
        projected = keys.projected
        shape = heads_shape(g, node.input[0], projected)
        if shape is None:  # (1)
            return self.none(node, msg="the first operand has other sequences or heads")
        if not saves(shape[2], projected):  # (3)
            return self.none(
                node, msg=f"{shape[2]}, the number of queries, may be large (--assume)"
            )
        width = projected.rank + sum(part.size for part in keys.parts if part.shared)
        rows = rows_of(g, shape, width, projected.length)
        if rows is None:  # (4)
            return self.none(node, msg="a dimension may be 0")
        nodes = [projected.transpose, *keys.nodes, node]
        return MatchResult(self, nodes, partial(_written, keys, rows))

    _shared_part = (
        "x = Slice(c, zero, two, two) x1 = Transpose <perm = [0, 2, 1]> (x) r = Unsqueeze(x1, one)"
    )
    _graph = partial(example, "float[2,2,1,6] q", "float[2,2,1,t]")
    examples = Example.only(
        _graph(
            f"{_shared_part} m = MatMul(c, w) h = Reshape(m, heads) "
            "v, k = Split <axis = 3> (h, sizes) f = Transpose <perm = [0, 2, 3, 1]> (k) "
            "e = Expand(r, copies) j = Concat <axis = 2> (f, e) s = Mul(j, half) "
            "z = MatMul(q, s) y = Softmax(z)"
        ),
        _graph(
            f"{_shared_part} a = Reshape(w, whole) b = Slice(a, two, six, two) "
            "k = Transpose <perm = [1, 2, 0]> (b) f = Slice(q, zero, four, three) "
            "n = MatMul(f, k) g = Slice(q, four, six, three) u = Concat <axis = 3> (n, g) "
            "s = Mul(u, half) l = Unsqueeze(c, one) v = Transpose <perm = [0, 1, 3, 2]> (r) "
            "d = Concat <axis = 3> (l, v) e = Transpose <perm = [0, 1, 3, 2]> (d) "
            "o = Reshape(s, joined) m = MatMul(o, e) z = Reshape(m, scores) y = Softmax(z)"
        ),
    )


def _keys_of(g: GraphView, name: str) -> _Keys | None:
    """The parts of the keys; ``None`` unless one is projected, and all heads share the others."""
    nodes, scale = list[Node](), ""
    node = g.node_before(name)
    if is_op(node, "Mul") and g.is_exclusive(name):
        place = next((place for place in (0, 1) if _is_number(g, node.input[place])), None)
        if place is not None:
            nodes, scale, name = [node], node.input[place], node.input[1 - place]
    joined = g.node_before(name)
    names = [name]
    if is_op(joined, "Concat") and g.is_exclusive(name) and _is_of_features(g, joined):
        nodes, names = [joined, *nodes], [*joined.input]
    projections = {each: projection_of(g, each, [0, 2, 3, 1]) for each in names}
    projected = [each for each in projections.values() if each is not None]
    if len(projected) != 1:
        return None
    parts = list[_Part]()
    for each in names:
        shape = g.try_infer_shape(each)
        size = None if shape is None or len(shape) != 4 else shape[2]
        shared = "" if projections[each] is not None else _shared(g, each, projected[0])
        if not isinstance(size, int) or shared is None:
            return None
        parts.append(_Part(shared, size))
    return _Keys(projected[0], parts, scale, nodes)


def _is_number(g: GraphView, name: str) -> bool:
    """Whether a constant is one number that leaves the rank of the keys."""
    shape = g.static_shape(name)
    return g.is_constant(name) and shape is not None and len(shape) <= 4 and set(shape) <= {1}


def _is_of_features(g: GraphView, node: Node) -> bool:
    """Whether a Concat joins tensors of rank 4 along the last axis but one."""
    return g.info(node.output[0]).rank == 4 and node.attribute.get("axis", 0) in (2, -2)


def _shared(g: GraphView, name: str, projected: Projection) -> str | None:
    """The tensor (batch, 1, size, length) that is expanded to all heads; ``None`` for others."""
    node = g.node_before(name)
    if not is_op(node, "Expand"):
        return None
    before, after = g.try_infer_shape(node.input[0]), g.try_infer_shape(name)
    if before is None or len(before) != 4:
        return None
    if (before[0], before[1], before[3]) != (projected.batch, 1, projected.length):
        return None
    heads = projected.batch, projected.heads, before[2], projected.length
    return node.input[0] if after == heads else None


def _written(keys: _Keys, rows: Rows, g: PatternRewriter, *nodes: Node) -> list[Node]:
    scores = nodes[-1]
    queries, start = list[str](), 0
    shared = list[str]()
    for part in keys.parts:
        own = scores.input[0]
        if len(keys.parts) > 1:
            own = g.op.Slice(own, [start], [start + part.size], [3])
        start += part.size
        if part.shared:
            shared.append(g.op.Transpose(part.shared, perm=[0, 1, 3, 2]))
        else:
            own = g.op.MatMul(own, weights_of(g, keys.projected, [1, 2, 0]))
            shared.append(with_axis(g, keys.projected))
        queries.append(own)
    query, latents = (
        names[0] if len(names) == 1 else g.op.Concat(*names, axis=3) for names in (queries, shared)
    )
    if keys.scale:
        query = g.op.Mul(query, keys.scale)
    transposed = g.op.Transpose(latents, perm=[0, 1, 3, 2])
    shared_product(g, query, rows, transposed, outputs=scores.output)
    return g.created
