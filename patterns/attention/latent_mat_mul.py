"""Multi-head latent attention (DeepSeek): few queries multiply the latents instead of the keys."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from xoptim.facts.advice import Advice
from xoptim.facts.dims import Dim
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from ._latents import (
    Projection,
    Rows,
    are_probabilities,
    becomes_probabilities,
    example,
    has_bounded_weights,
    heads_shape,
    projection_of,
    rows_of,
    saves,
    shared_mat_mul,
    weights_of,
    with_axis,
)


class _Part(NamedTuple):
    """A range of the features of the keys.

    Attributes:
        shared: the tensor (batch, 1, size, length) that all heads share; empty for the features
            that are projected from latents.
        size: number of features.
    """

    shared: str
    size: int


class _Keys(NamedTuple):
    """The keys of attention.

    Attributes:
        projected: the features that are projected from latents.
        parts: all features, in order.
        scale: factor of the keys; empty for none.
        nodes: the nodes that compute the keys from the projection.
    """

    projected: Projection
    parts: Sequence[_Part]
    scale: str
    nodes: Sequence[Node]


class _Operand(NamedTuple):
    """The second operand of a MatMul.

    Attributes:
        projected: the part that is projected from latents.
        nodes: the nodes that compute the operand from the projection.
        width: columns of the first operand of the new MatMul; ``None`` if unchanged.
        length: columns of the result of the new MatMul.
        write: a function of the `Rows` that writes the new nodes.
    """

    projected: Projection
    nodes: Sequence[Node]
    width: int | None
    length: Dim
    write: Callable[..., list[Node]]


class _LatentMatMul(PatternOptimization):
    """A MatMul by an operand that is projected from latents, for few queries.

    Why: measured on two layers of DeepSeek-V3, in a decode step with a 512-token KV cache. The
    optimized model takes 0.16 of the export's time, and 0.37 without LatentKeys and LatentValues.
    """

    anchors = ("MatMul",)
    phase = "specialize"
    exactness = "rounding"
    providers = ("cpu",)
    radius = 8

    def operand(self, g: GraphView, node: Node) -> _Operand | str:
        """The second operand of a MatMul, or the reason why the pattern refuses."""
        raise NotImplementedError

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        operand = self.operand(g, node)
        if isinstance(operand, str):
            return self.none(node, msg=operand)
        shape = heads_shape(g, node.input[0], operand.projected)
        if shape is None:  # (1)
            return self.none(
                node, msg="the batch or the heads of the operands are not known to match"
            )
        if not saves(shape[2], operand.projected):  # (3)
            return self.none(
                node,
                msg=f"{shape[2]}, the number of queries, may be large ({Advice('assume')}), or "
                f"{operand.projected.length}, the number of keys, is small",
            )
        width = shape[3] if operand.width is None else operand.width
        rows = rows_of(g, shape, width, operand.length)
        if rows is None:  # (4)
            return self.none(node, msg="a dimension may be 0")
        if not has_bounded_weights(g, operand.projected):  # (1)
            return self.none(node, msg="a weight is infinite, NaN, or larger than 2^32")
        nodes = [operand.projected.transpose, *operand.nodes, node]
        return MatchResult(self, nodes, partial(operand.write, rows))


class LatentKeysPattern(_LatentMatMul):
    """MatMul(q, heads(MatMul(c, w))ᵀ) → MatMul(MatMul(q, wᵀ), cᵀ), for few queries

    What: projects the queries to the size of latents, instead of projecting the latents of each
    position to keys (multi-head latent attention of DeepSeek). Features that all heads share, such
    as features with rotary embeddings, are concatenated with the latents. A factor of the keys
    becomes a factor of the queries. The heads become rows of one matrix, as they share keys.
    Refuses when:
    1. not exactly one part of the keys is a projection by constant weights up to 2^32. Or another
       part is not shared by all heads, or another node reads the keys.
    2. the result does not go to Softmax. (With Softmax, an infinite element of a query makes all
       its probabilities NaN, whatever the order of sums.)
    3. there may be many queries: assume a bound of their number (``--assume 'seq == 1'``). Or there
       are few keys.
    4. a dimension may be 0.
    """

    near = ("Transpose", "Concat", "Mul")

    def operand(self, g: GraphView, node: Node) -> _Operand | str:
        keys = _keys_of(g, node.input[1])
        if keys is None:  # (1)
            return "the second operand is not a projection of latents"
        if not becomes_probabilities(g, node.output[0]):  # (2)
            return "the scores do not go to Softmax of the last axis"
        projected = keys.projected
        width = projected.rank + sum(part.size for part in keys.parts if part.shared)
        write = partial(_write_keys, keys)
        return _Operand(projected, keys.nodes, width, projected.length, write)

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


class LatentValuesPattern(_LatentMatMul):
    """MatMul(p, heads(MatMul(c, w))) → MatMul(MatMul(p, c), w), for few queries

    What: sums the latents, weighted with the probabilities of attention, and projects the sums. The
    model projects the latents of each position to values first (multi-head latent attention of
    DeepSeek). The heads become rows of one matrix, as they share the latents.
    Refuses when:
    1. the values are not a part of a projection by constant weights up to 2^32, or are read
       elsewhere.
    2. the first operand is not the result of Softmax: an infinite factor may become NaN in another
       order of sums.
    3. there may be many queries: assume a bound of their number (``--assume 'seq == 1'``). Or there
       are few keys.
    4. a dimension may be 0.
    """

    near = ("Transpose",)

    def operand(self, g: GraphView, node: Node) -> _Operand | str:
        is_weighted_sum = are_probabilities(g, node.input[0])  # (2)
        values = projection_of(g, node.input[1], [0, 2, 1, 3]) if is_weighted_sum else None
        if values is None:  # (1)
            return "the operands are not attention weights and a projection of latents"
        return _Operand(values, (), None, values.rank, partial(_write_values, values))

    _graph = partial(example, "float[2,2,1,t] p", "float[2,2,1,4]")
    examples = Example.only(
        _graph(
            "m = MatMul(c, w) h = Reshape(m, heads) k, v = Split <axis = 3> (h, sizes) "
            "f = Transpose <perm = [0, 2, 1, 3]> (v) d = Softmax(p) y = MatMul(d, f)"
        ),
        _graph(
            "a = Reshape(w, whole) b = Slice(a, two, six, two) "
            "v = Transpose <perm = [1, 0, 2]> (b) d = Softmax(p) r = Reshape(d, rows) "
            "l = Unsqueeze(c, one) m = MatMul(r, l) s = Reshape(m, back) y = MatMul(s, v)"
        ),
    )


def _keys_of(g: GraphView, name: str) -> _Keys | None:
    """The parts of the keys.

    ``None`` unless exactly one part is projected from latents, and all heads share each of the
    other parts.
    """
    nodes, scale = list[Node](), ""
    node = g.node_before(name)
    if is_op(node, "Mul") and g.is_exclusive(name):
        index = next((index for index in (0, 1) if _is_number(g, node.input[index])), None)
        if index is not None:
            nodes, scale, name = [node], node.input[index], node.input[1 - index]
    concat = g.node_before(name)
    names = [name]
    if is_op(concat, "Concat") and g.is_exclusive(name) and _is_of_features(g, concat):
        nodes, names = [concat, *nodes], [*concat.input]
    projection_by_name = {part: projection_of(g, part, [0, 2, 3, 1]) for part in names}
    projections = [
        projection for projection in projection_by_name.values() if projection is not None
    ]
    if len(projections) != 1:
        return None
    parts = list[_Part]()
    for part in names:
        shape = g.try_infer_shape(part)
        size = None if shape is None or len(shape) != 4 else shape[2]
        is_projected = projection_by_name[part] is not None
        shared = "" if is_projected else _shared(g, part, projections[0])
        if not isinstance(size, int) or shared is None:
            return None
        parts.append(_Part(shared, size))
    return _Keys(projections[0], parts, scale, nodes)


def _is_number(g: GraphView, name: str) -> bool:
    """Whether a tensor is a constant with one number, and adds no axes to the keys."""
    shape = g.static_shape(name)
    return g.is_constant(name) and shape is not None and len(shape) <= 4 and set(shape) <= {1}


def _is_of_features(g: GraphView, node: Node) -> bool:
    """Whether a Concat joins tensors of rank 4 along the third axis, the features."""
    return g.info(node.output[0]).rank == 4 and node.attribute.get("axis", 0) in (2, -2)


def _shared(g: GraphView, name: str, projected: Projection) -> str | None:
    """The tensor (batch, 1, size, length) that is expanded to all heads; ``None`` without one."""
    node = g.node_before(name)
    if not is_op(node, "Expand"):
        return None
    shape = g.try_infer_shape(node.input[0])
    if shape is None or len(shape) != 4:
        return None
    if (shape[0], shape[1], shape[3]) != (projected.batch, 1, projected.length):
        return None
    expanded_shape = projected.batch, projected.heads, shape[2], projected.length
    return node.input[0] if g.try_infer_shape(name) == expanded_shape else None


def _write_keys(keys: _Keys, rows: Rows, g: PatternRewriter, *nodes: Node) -> list[Node]:
    """The nodes that multiply queries by latents, and by the features that all heads share."""
    scores = nodes[-1]
    query_parts, start = list[str](), 0
    key_parts = list[str]()
    for part in keys.parts:
        features = scores.input[0]
        if len(keys.parts) > 1:
            features = g.op.Slice(features, [start], [start + part.size], [3])
        start += part.size
        if part.shared:
            key_parts.append(g.op.Transpose(part.shared, perm=[0, 1, 3, 2]))
        else:
            features = g.op.MatMul(features, weights_of(g, keys.projected, [1, 2, 0]))
            key_parts.append(with_axis(g, keys.projected))
        query_parts.append(features)
    query, latents = (
        names[0] if len(names) == 1 else g.op.Concat(*names, axis=3)
        for names in (query_parts, key_parts)
    )
    if keys.scale:
        query = g.op.Mul(query, keys.scale)
    transposed = g.op.Transpose(latents, perm=[0, 1, 3, 2])
    shared_mat_mul(g, query, rows, transposed, outputs=scores.output)
    return g.created


def _write_values(values: Projection, rows: Rows, g: PatternRewriter, *nodes: Node) -> list[Node]:
    """The nodes that multiply probabilities by latents, and project the sums."""
    sums = shared_mat_mul(g, nodes[-1].input[0], rows, with_axis(g, values))
    weights = weights_of(g, values, [1, 0, 2])
    return [*g.created, g.make_node("MatMul", [sums, weights], nodes[-1].output)]
