from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import FLOATS, numpy_dtype
from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import is_moderate
from .._nodes import is_op
from .._shapes import broadcasts_to, may_be_empty, reshape_target
from ._groups import SharedHeads, shared_heads

_MAX_QUERIES: Final = 512
"""Maximum number of queries. With more queries, the rewrite was measured to be slower."""
_SWAP: Final = [0, 1, 3, 2]


class _Targets(NamedTuple):
    """Shape operands of the Reshapes of the first operand of the MatMul, and of the result."""

    rows: list[int]
    result: list[int]


class RepeatedHeadsPattern(PatternOptimization):
    """MatMul(q, Transpose(Gather(k, 0, 0, 1, 1))) → Reshape(MatMul(Reshape(q), Transpose(k)))

    What: the queries of all heads that share a head of keys become rows of one matrix, so the keys
    are not repeated. The same for the MatMul of weights and values, and for heads that Unsqueeze,
    Expand (or Tile) and Reshape repeat. Constant factors or divisors of the keys or the scores
    follow the MatMul.
    Why: saves a copy of keys or values for each query head, in each call. On one thread of
    onnxruntime's CPU provider, with 8 query heads and 2 key heads, one query takes 0.80 of the time
    of the attention with 17 keys, and 0.31 with 513. 16 queries and 64 keys take 0.82, 256 queries
    take 0.96, and 1024 queries 1.11.
    Refuses when:
    1. the second operand does not repeat heads of a tensor (batch, heads, length, size), or another
       node reads the repeated heads.
    2. batch or heads of the first operand differ from the second.
    3. there may be more than 512 queries. A symbolic number is accepted if the number of keys
       differs, as in a model with a KV cache: its calls have few queries.
    4. a factor is an integer, 0, or so small or large that scores may overflow. (It stays.)
    5. a new Reshape would not have a constant shape operand, or a dimension may be 0.
    """

    phase = "target"
    priority = 4  # after the operators of attention, before UnsqueezeExpandReshape and FusedMatMul
    exactness = "rounding"
    min_opset = 13
    providers = ("cpu",)
    anchors = ("MatMul",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        x, y = node.input
        source, chain = _source(g, y)
        shared = shared_heads(g, source)
        if shared is None or not g.is_exclusive(source):  # (1)
            return self.none(node, msg="the second operand does not repeat heads, or is read twice")
        shape, result = g.try_infer_shape(x), g.try_infer_shape(node.output[0])
        heads = g.get_shape(source)[1]
        if shape is None or result is None or shape[:2] != (shared.shape[0], heads):  # (2)
            return self.none(node, msg="the first operand does not have the same batch and heads")
        if not _has_few_rows(shape[2], shared.shape[2]):  # (3)
            return self.none(node, msg="there may be many queries, for which the rewrite is slower")
        if reason := may_be_empty(g, (*shape, *result)):  # (5)
            return self.none(node, msg=reason)
        targets = _targets(g, shape, result, shared.shape[1])
        if targets is None:  # (5)
            return self.none(node, msg="a new Reshape would not have a constant shape operand")
        scale = _scaling_node(g, node.output[0])
        write = partial(_write, shared, targets, chain)
        return MatchResult(self, [node, *([] if scale is None else [scale])], write)

    _start = "agraph (float[b,6,1,4] q, float[b,2,5,4] k) => (float[b,6,1,5] y)"
    _targets = "int64[4] n = {0, 2, 3, 4}, int64[4] m = {0, 6, 1, 5}"
    _weights = "agraph (float[b,6,3,5] w, float[b,2,5,4] v) => (float[b,6,3,4] y)"
    examples = Example.pairs(
        f"{_start} <int64[6] i = {{0, 0, 0, 1, 1, 1}}, float two = {{2}}> "
        "{ r = Gather <axis = 1> (k, i) p = Transpose <perm = [0, 1, 3, 2]> (r) s = MatMul(q, p) "
        "y = Div(s, two) }",
        f"<{_targets}, float two = {{2}}> {{ f = Reshape(q, n) "
        "p = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(f, p) d = Div(s, two) "
        "y = Reshape(d, m) }",
        f"{_weights} <int64[1] a = {{2}}, int64[5] e = {{1, 1, 3, 1, 1}}, "
        "int64[4] z = {0, 6, 5, 4}> { u = Unsqueeze(v, a) x = Expand(u, e) r = Reshape(x, z) "
        "y = MatMul(w, r) }",
        "<int64[4] n = {0, 2, 9, 5}, int64[4] m = {0, 6, 3, 4}> { f = Reshape(w, n) "
        "s = MatMul(f, v) y = Reshape(s, m) }",
    )


def _has_few_rows(queries: Dim, keys: Dim) -> bool:
    """Whether there are few queries, or, as in a model with a KV cache, not as many as keys."""
    return queries <= _MAX_QUERIES if isinstance(queries, int) else queries != keys


def _targets(g: GraphView, shape: Shape, result: Shape, groups: Any) -> _Targets | None:
    """The targets that make the query heads of a group rows, and split them again."""
    rows = shape[1] // groups * shape[2]
    grouped_shape, grouped_result = ((dims[0], groups, rows, dims[3]) for dims in (shape, result))
    rows_target = reshape_target(g, shape, grouped_shape)
    result_target = reshape_target(g, grouped_result, result)
    if rows_target is None or result_target is None:
        return None
    return _Targets(rows_target, result_target)


def _source(g: GraphView, name: str) -> tuple[str, list[Node]]:
    """The source of a tensor, and the nodes between them, last node first.

    The nodes are Transposes of the last two axes, and multiplications or divisions by a constant.
    No other node reads their results.
    """
    chain: list[Node] = []
    while (node := g.node_before(name)) is not None and g.is_exclusive(name):
        is_swap = is_op(node, "Transpose") and node.attribute.get("perm") == _SWAP
        operand = next((operand for operand in node.input if not g.is_constant(operand)), "")
        if not is_swap and (not operand or not _is_scaling(g, node, operand)):
            break
        chain.append(node)
        name = operand
    return name, chain


def _scaling_node(g: GraphView, name: str) -> Node | None:
    """The Mul or Div by a number that is the only consumer of a MatMul.

    It stays next to the MatMul, because onnxruntime fuses both.
    """
    node = g.next_node(name) if g.is_exclusive(name) else None
    return node if node is not None and _is_scaling(g, node, name) else None


def _is_scaling(g: GraphView, node: Node, name: str) -> bool:
    """Whether a node multiplies or divides a tensor by a constant number."""
    numbers = [operand for operand in node.input if operand != name]
    is_scale = is_op(node, "Mul") or (is_op(node, "Div") and node.input[0] == name)
    return is_scale and len(numbers) == 1 and _may_follow_mat_mul(g, numbers[0], name)


def _may_follow_mat_mul(g: GraphView, number: str, name: str) -> bool:
    """Whether a factor or divisor of an operand may scale the result of the MatMul instead.

    False for integers, whose quotients are rounded, for 0, and for numbers so small or large that
    the result may overflow.
    """
    factor, dtype = g.get_constant_scalar(number), g.try_infer_type(name)
    if not factor or dtype not in FLOATS or not is_moderate(factor, numpy_dtype(dtype)):
        return False  # (4)
    return broadcasts_to(g, number, name)


def _write(
    shared: SharedHeads, targets: _Targets, chain: list[Node], g: PatternRewriter, *nodes: Node
) -> list[Node]:
    keys = shared.with_four_axes(g)
    scales = [node for node in chain if node.op_type != "Transpose"]
    for _ in range(len(chain) - len(scales)):
        keys = g.op.Transpose(keys, perm=_SWAP)
    y = g.op.MatMul(g.op.Reshape(nodes[0].input[0], np.array(targets.rows)), keys)
    for scale in (*scales, *nodes[1:]):
        operands = [name if g.is_constant(name) else y for name in scale.input]
        y = getattr(g.op, scale.op_type)(*operands)
    target = g.make_initializer("", np.array(targets.result))
    return [*g.created, g.make_node("Reshape", [y, target], nodes[-1].output)]
