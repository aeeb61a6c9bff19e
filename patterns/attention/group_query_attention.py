import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.advice import Advice
from xoptim.facts.dims import Dim, upper_bound
from xoptim.facts.shapes import Shape
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Node,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array
from .._operators import ELEMENTWISE, STRETCHING
from .._shapes import may_be_empty
from ._causal import causal
from ._mask import MAX_DEPTH
from ._positions import Affine, positions_of

_MAX_POSITIONS: Final = 1 << 20
"""Largest number of positions for which cosines and sines are stored."""
_ATTRIBUTES: Final = frozenset(("scale", "softcap", "q_num_heads", "kv_num_heads"))
_MIN_RANK: Final = 2
"""Minimum rank of cosines and sines: ([batch,] positions, width)."""
_MOVEMENTS: Final = frozenset(("Unsqueeze", "Squeeze", "Transpose", "Concat", "Slice", "Identity"))
"""Operators that may move cosines and sines; `_at_all_positions` evaluates them."""


class GroupQueryAttentionPattern(EasyPatternOptimization):
    """Attention(RotaryEmbedding(q), RotaryEmbedding(k), v, mask, past_key, past_value) →
    com.microsoft.GroupQueryAttention(q, k, v, past_key, past_value, n, total, cos, sin)

    What: the operator with which onnxruntime-genai runs decoders. It applies rotary embeddings to
    queries and keys, appends to the KV cache, and hides later keys, so the mask is dropped. Rotary
    embeddings may be absent. The new cosines and sines cover all positions. A sliding window of the
    mask becomes local_window_size. The number of keys of each sequence is the sum of its row in an
    attention mask that is assumed to hold ones. Without such a mask, it is the length of the cache
    plus the number of queries.
    Why: 5 nodes fewer per layer, and about 20 fewer for mask and angles. Past and present keys may
    share a buffer (past_present_share_buffer), which no other operator supports. Otherwise the
    operator is no faster: six layers of a LLaMA take 0.97 to 1.06 of the time of Attention on one
    thread of onnxruntime's CPU provider.
    Refuses when:
    1. the operator does not split the heads, or a dimension may be 0. Or the head size is unknown,
       not a multiple of 8 (with a rotary embedding, of 16), or differs between keys and values.
    2. the number of keys is not known to be below 2^31 (with a rotary embedding, 2^20): assume a
       maximum length of the cache and of the input.
    3. the mask may hide keys that are neither later than the query nor outside a window: assume
       that the attention mask holds ones.
    4. there may be several sequences with several new tokens each and a cache, which the kernel
       refuses. Assume ``batch == 1 or seq == 1 or past == 0``, or one of the three, with the names
       of these dimensions in the model.
    5. positions do not start where the cache ends, or are inputs; or the width of cosines and sines
       is not a multiple of 8.
    6. an attribute is not one of scale, softcap and the numbers of heads, or not a positive number;
       or another node reads the scores.
    7. the type is not float32, or the provider has no kernel.
    """

    phase = "target"
    priority = 20
    exactness = "finite"
    min_opset = 23
    produces = ("com.microsoft",)
    tags = ("onnxruntime", "genai", "extra")
    kernels = {"com.microsoft::GroupQueryAttention": "q"}  # (7)
    operand_types = {"q": frozenset((TensorProto.FLOAT,))}  # (7)
    operand_ranks = {"q": 3, "k": 3, "v": 3, "past_key": 4, "past_value": 4}  # (1)
    derives: ClassVar[tuple[str, ...]] = ("operator_attributes", "tables", "ones_mask")

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        v: Symbol,
        mask: Optional,
        past_key: Symbol,
        past_value: Symbol,
    ) -> tuple[Symbol, Symbol, Symbol]:
        queries, keys = self.rotated(g, q, k)
        y, present_key, present_value = g.op.Attention(
            *(queries, keys, v, mask, past_key, past_value),
            outputs=3,  # (6)
            attributes=g.capture("attributes"),
        )
        return y, present_key, present_value

    def rotated(self, g: PatternBuilder, q: Symbol, k: Symbol) -> tuple[Symbol, Symbol]:
        """Queries and keys, with or without a rotary embedding."""
        if not g.option("rotates"):
            return q, k
        cos, sin = g.symbol("cos"), g.symbol("sin")
        queries = g.op.RotaryEmbedding(q, cos, sin, attributes=g.capture("rotation"))
        keys = g.op.RotaryEmbedding(k, cos, sin, attributes=g.capture("key_rotation"))
        return queries, keys

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[-1]
        scores = self._scores(g, m)
        if scores is None:  # (1)
            return self.none(
                node, msg="the heads are unknown, or the operator does not support their size"
            )
        batch, _, queries, total = scores
        past = g.get_shape(m.past_key)[2]
        if reason := may_be_empty(g, (batch, queries)):  # (1)
            return self.none(node, msg=reason)
        max_keys = upper_bound(total)
        if not isinstance(max_keys, int) or max_keys >= (
            _MAX_POSITIONS if m.rotates else 1 << 31
        ):  # (2)
            return self.none(
                node, msg=f"the number of keys, {total}, has no known limit ({Advice('assume')})"
            )
        visible_keys = causal(g, m.mask, scores, past)
        if visible_keys is None:  # (3)
            return self.none(
                node, msg="the mask may hide more than later keys: assume that it holds ones"
            )
        if not g.assumes_one_of((batch, 1), (queries, 1), (past, 0)):  # (4)
            return self.none(
                node,
                msg=f"not known: {batch} == 1, {queries} == 1 or {past} == 0 ({Advice('assume')})",
            )
        if not _supports(m.attributes):  # (6)
            return self.none(node, msg="GroupQueryAttention does not have one of the attributes")
        tables = self._tables(g, m, past, max_keys) if m.rotates else ()
        if tables is None:  # (5)
            return self.none(node, msg="the cosines and sines are not known for all positions")
        ones_mask = next(
            (
                name
                for name, shape in g.given_tensors([total])
                if shape == (batch, total) and g.assumes("ones", name)
            ),
            "",
        )
        attributes = _operator_attributes(m, visible_keys.window)
        return m.derive(operator_attributes=attributes, tables=tables, ones_mask=ones_mask)

    @staticmethod
    def _scores(g: GraphView, m: Match) -> Shape | None:
        """The shape (batch, heads, queries, keys) of the scores.

        ``None`` where a shape is unknown, or the kernel does not support it.
        """
        heads, groups = (m.attributes.get(name) for name in ("q_num_heads", "kv_num_heads"))
        shapes = [g.try_infer_shape(name) for name in (m.q, m.k, m.v, m.past_key, m.past_value)]
        if not heads or not groups or None in shapes:
            return None
        queries, keys, values, past, past_values = (shape or () for shape in shapes)
        size = past[3]
        if not isinstance(size, int) or size % (16 if m.rotates else 8) or past != past_values:
            return None
        batch, length, _ = queries
        merged = (batch, length, groups * size)
        if queries[2] != heads * size or keys != merged or values != merged:
            return None
        return (batch, heads, length, past[2] + length) if past[:2] == (batch, groups) else None

    @staticmethod
    def _tables(g: GraphView, m: Match, past: Dim, rows: int) -> tuple[Array, ...] | None:
        """The cosines and sines of all positions."""
        rotation, size = dict(m.rotation), g.get_shape(m.past_key)[3]
        rotary_size = rotation.get("rotary_embedding_dim", 0) or size
        if not isinstance(rotary_size, int) or rotary_size % 16:
            return None
        key_rotation = {**rotation, "num_heads": m.attributes["kv_num_heads"]}
        if rotation.get("num_heads") != m.attributes["q_num_heads"] or (
            key_rotation != m.key_rotation
        ):
            return None
        tables = [_table(g, name, past, rows, rotary_size // 2) for name in (m.cos, m.sin)]
        arrays = tuple(table for table in tables if table is not None)
        return arrays if len(arrays) == len(tables) else None

    def apply_pattern(
        self, g: PatternRewriter, q: str, k: str, v: str, past_key: str, past_value: str, **m: Any
    ) -> tuple[str, str, str]:
        if m["ones_mask"]:
            ones = g.op.Cast(m["ones_mask"], to=TensorProto.INT32)
            total = g.op.Cast(g.op.Shape(m["ones_mask"], start=1, end=2), to=TensorProto.INT32)
            seqlens_k = g.op.Sub(g.op.ReduceSum(ones, axes=[1], keepdims=0), np.int32(1))
        else:
            length = g.op.Add(g.op.Shape(past_key, start=2, end=3), g.op.Shape(q, start=1, end=2))
            total = g.op.Cast(length, to=TensorProto.INT32)
            seqlens_k = g.op.Expand(g.op.Sub(total, np.int32(1)), g.op.Shape(q, start=0, end=1))
        tables = [g.make_initializer("", table, source="rotations") for table in m["tables"]]
        y, key, value = g.op.GroupQueryAttention(
            *(q, k, v, past_key, past_value, seqlens_k, total, *self.extra_operands(g, tables, m)),
            domain="com.microsoft",
            outputs=3,
            **m["operator_attributes"],
        )
        return y, key, value

    def extra_operands(
        self, g: PatternRewriter, tables: Sequence[str], m: Mapping[str, Any]
    ) -> Sequence[str | Array | None]:
        """The operands after the numbers of keys: cosines and sines."""
        return tables

    _start = (
        "agraph (float[b,1,16] q, float[b,1,8] k, float[b,1,8] v, float[b,1,5,8] e, "
        "float[b,1,5,8] f) => (float[b,1,16] y, float[b,1,6,8] i, float[b,1,6,8] j)"
    )
    _heads = "q_num_heads = 2, kv_num_heads = 1"
    _operator = (
        "int32[1] t = {6}, int32[1] l = {5}> { s = Shape <start = 0, end = 1> (q) n = Expand(l, s) "
        "y, i, j = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1"
    )
    examples: ClassVar[Sequence[Example]] = Example.pairs(
        f"{_start} {{ y, i, j = Attention <{_heads}> (q, k, v, , e, f) }}",
        f"<{_operator}> (q, k, v, e, f, n, t) }}",
        f"{_start} <float[1,6] m = {{-1e38, -1e38, -1e38, -1e38, 0, 0}}> {{ "
        f"y, i, j = Attention <{_heads}, scale = 0.5> (q, k, v, m, e, f) }}",
        f"<{_operator}, scale = 0.5, local_window_size = 2> (q, k, v, e, f, n, t) }}",
        opset=23,
    )


def _supports(attributes: Mapping[str, Any]) -> bool:
    """Whether GroupQueryAttention has these attributes, with the same meaning of their values.

    A scale of 0 has another meaning: GroupQueryAttention then uses its default.
    """
    numbers = [attributes.get("scale", 1.0), attributes.get("softcap", 0.0) or 1.0]
    return set(attributes) <= _ATTRIBUTES and all(0 < number < math.inf for number in numbers)


def _operator_attributes(m: Match, window: int) -> dict[str, Any]:
    source = m.attributes
    attributes = {"num_heads": source["q_num_heads"], "kv_num_heads": source["kv_num_heads"]}
    attributes |= {name: source[name] for name in ("scale", "softcap") if name in source}
    if window > 0:
        attributes["local_window_size"] = window
    if m.rotates:
        attributes["do_rotary"] = 1
    if m.rotates and m.rotation.get("interleaved"):
        attributes["rotary_interleaved"] = 1
    return attributes


def _table(g: GraphView, name: str, past: Dim, rows: int, width: int) -> Array | None:
    """Cosines or sines of shape (rows, width) for the positions from 0 on.

    The model computes ``name`` for the positions from ``past`` on. ``None`` where its values do not
    follow from the positions alone.
    """
    shape = g.try_infer_shape(name)
    if shape is None or len(shape) < _MIN_RANK:
        return None
    array = _at_all_positions(g, name, past, rows, shape[-2])
    if array is None or array.shape[-2:] != (rows, width) or array.size != rows * width:
        return None
    return np.ascontiguousarray(array.reshape(rows, width))


def _at_all_positions(
    g: GraphView, name: str, past: Dim, rows: int, length: Dim, depth: int = MAX_DEPTH
) -> Array | None:
    """A tensor of the model, evaluated for the positions 0 to ``rows`` - 1 of a single sequence.

    The model computes it for ``length`` positions from ``past`` on. ``None`` where the tensor
    depends on more than the positions.
    """
    if g.is_constant(name):
        return g.get_computed_constant(name)
    positions = positions_of(g, name)
    if positions is not None:
        if any(g.get_shape(name)[axis] != length for axis in positions.steps):
            return None  # a Slice dropped some positions
        return _all_positions(positions, len(g.get_shape(name)), past, rows)
    node = g.node_before(name)
    if node is None or node.domain or not depth:
        return None
    if node.op_type == "Expand":
        return _at_all_positions(g, node.input[0], past, rows, length, depth - 1)
    is_outer_product = (
        node.op_type == "MatMul" and (g.try_infer_shape(node.input[0]) or (0,))[-1] == 1
    )
    if node.op_type not in ELEMENTWISE | STRETCHING | _MOVEMENTS and not is_outer_product:
        return None
    arrays = [
        _at_all_positions(g, operand, past, rows, length, depth - 1) for operand in node.input
    ]
    operands = [array for array in arrays if array is not None]
    if len(operands) < len(arrays):
        return None
    results = g.evaluate(node, operands)
    if not results or (
        node.op_type == "Slice" and not _keeps_positions(g, node, operands, results[0])
    ):
        return None
    return results[0]


def _keeps_positions(g: GraphView, node: Node, operands: Sequence[Array], result: Array) -> bool:
    """Whether a Slice keeps all positions in order.

    ``operands`` and ``result`` have a row for every position, unlike the model. So an axis whose
    size differs from the model's must keep its size. Other axes may be cut.
    """
    shape = g.try_infer_shape(node.input[0])
    if shape is None or len(shape) != result.ndim:
        return False
    if any(np.not_equal(step, 1).any() for step in operands[4:]):
        return False
    sizes = zip(operands[0].shape, result.shape, shape, strict=True)
    return all(size in (result_size, model_size) for size, result_size, model_size in sizes)


def _all_positions(positions: Affine, rank: int, past: Dim, rows: int) -> Array | None:
    """``rows`` positions from 0 on, instead of the positions from ``past`` on."""
    if positions.start != past or list(positions.steps.values()) != [1]:
        return None
    shape = [1] * rank
    shape[next(iter(positions.steps))] = rows
    return np.arange(rows, dtype=np.int64).reshape(shape)
