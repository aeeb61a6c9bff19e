"""Attention: weighted means of values, the weights being a Softmax of products of queries and keys.

A position that a mask excludes has the weight 0. A row whose positions are all excluded is not
covered: its divisor is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from onnx import TensorProto

from xoptim.facts.dims import Dim, product
from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, applied, denotes, settled
from xoptim.proof.denotations.movement import joined, number_of, permuted, split_along
from xoptim.proof.denotations.sums import is_covered, masked_exponential, multiplied, real
from xoptim.proof.elements import ONE, ZERO, Element, function, inverse, of_dim
from xoptim.proof.indices import Unproved
from xoptim.proof.kinds import AT_MOST, LESS, MASKED, TANH
from xoptim.proof.laws import comparison, odd, root, within
from xoptim.proof.tensors import (
    Indices,
    Tensor,
    broadcast_at,
    elementwise,
    require_broadcast,
    require_equal,
    reshaped,
    total,
)

_HEADS_FIRST: Final = (0, 2, 1, 3)
ScoreChange: TypeAlias = Callable[[Indices, Element], Element]
"""Changes a score; its indices are the batch, the head, the query and the key."""


def heads_of(call: Call, x: Tensor, count: int) -> Tensor:
    """The heads ``(batch, head, position, feature)`` of ``(batch, position, head * feature)``."""
    if x.rank == 4:
        return x
    if x.rank != 3:
        raise Unproved("attention of another rank")
    size = x.shape[2] // count
    require_equal(size * count, x.shape[2], or_one=False)
    parts = reshaped(call.case, x, (x.shape[0], x.shape[1], count, size))
    return permuted(parts, _HEADS_FIRST)


def without_heads(call: Call, x: Tensor) -> Tensor:
    """The inverse of `heads_of`."""
    batch, heads, length, size = x.shape
    flat = (batch, length, heads * size)
    return reshaped(call.case, permuted(x, _HEADS_FIRST), flat)


@dataclass(frozen=True, slots=True)
class Heads:
    """The operands of attention with heads, and how scores are changed.

    Attributes:
        query: ``(batch, head, position, feature)``.
        key: the same, of the positions that are attended to; a head may be shared.
        value: the same.
        scale: of the scores.
        cap: scores are ``cap * tanh(score / cap)``; 0 for none.
        changes: applied to the scores in order; one that excludes a position returns an element
            whose exponential is 0.
        sink: a score per head, whose exponential is added to the sum of the exponentials.
        biases: tensors that broadcast to the scores.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: Element
    cap: Element = ZERO
    changes: Sequence[ScoreChange] = ()
    sink: Tensor | None = None
    biases: Sequence[Tensor] = ()


def attended(call: Call, heads: Heads) -> Tensor:
    """The weighted means of values, ``(batch, head, position, feature)``."""
    case, query = call.case, heads.query
    key, value = (_shared(call, x, query.shape[1]) for x in (heads.key, heads.value))
    length = key.shape[2]
    for x in (key, value):
        require_equal(x.shape[0], query.shape[0], or_one=False)
        require_equal(x.shape[2], length, or_one=False)
    scores = multiplied(case, query, permuted(key, (0, 1, 3, 2)))
    require_broadcast(heads.biases, scores.shape)
    if heads.sink is not None:
        require_equal(heads.sink.shape[0], query.shape[1], or_one=False)

    def weight(indices: Indices) -> Element:
        score = real(scores.at(indices)) * heads.scale
        if heads.cap is not ZERO:
            score = heads.cap * odd(TANH, score * inverse(heads.cap))
        for change in heads.changes:
            score = change(indices, score)
        return masked_exponential(score)

    weights = Tensor(scores.shape, query.dtype, weight)

    def read(indices: Indices) -> Element:
        *row, feature = indices
        divisor = total(case, length, lambda j: weights.at([*row, j]))
        if heads.sink is not None:
            divisor = divisor + masked_exponential(heads.sink.at([row[1]]))
        batch, head, _ = row
        summed = total(
            case,
            length,
            lambda j: weights.at([*row, j]) * real(value.at([batch, head, j, feature])),
        )
        return summed * inverse(divisor)

    return Tensor((*query.shape[:3], value.shape[3]), query.dtype, read)


def _shared(call: Call, x: Tensor, count: Dim) -> Tensor:
    """Keys or values for each of ``count`` heads; each one is repeated for consecutive heads."""
    if x.shape[1] == count:
        return x
    repeats = count // x.shape[1]
    require_equal(repeats * x.shape[1], count, or_one=False)

    def read(indices: Indices) -> Element:
        batch, head, *rest = indices
        quotient, _ = call.case.divided(head, repeats)
        return x.at([batch, quotient, *rest])

    return Tensor((x.shape[0], count, *x.shape[2:]), x.dtype, read)


def default_scale(size: Dim) -> Element:
    """``1 / sqrt(size)`` of heads of some size."""
    return root(inverse(of_dim(size)))


def _scale(call: Call, size: Dim) -> Element:
    """The factor of the scores of a node; the default is `default_scale` of the size of its heads.

    ONNX Runtime's operators use the default for 0 as well.
    """
    number = call.node.attribute.get("scale")
    if number is None or (number == 0 and call.node.domain):
        return default_scale(size)
    return number_of(call, call.dtype(), number)


def excluded(condition: Element, score: Element) -> Element:
    """A score where a condition of 0 or 1 holds; else an element whose exponential is 0."""
    if condition is ONE:
        return score
    return function(MASKED, args=[condition, score])


def _holds(call: Call, condition: Dim) -> Element:
    """1 where an expression is at least 0, else 0."""
    answer = call.case.is_at_least_zero(condition)
    return within(condition) if answer is None else of_dim(int(answer))


def causal(call: Call, shift: Dim) -> ScoreChange:
    """Exclude the keys after each query; ``shift`` keys precede the first query."""

    def change(indices: Indices, score: Element) -> Element:
        _, _, query, key = indices
        return excluded(_holds(call, query + shift - key), score)

    return change


def added(bias: Tensor, factor: Element = ONE) -> ScoreChange:
    """Add a bias, whose shape broadcasts to that of the scores."""

    def change(indices: Indices, score: Element) -> Element:
        return score + real(broadcast_at(bias, indices)) * factor

    return change


def masked(condition: Tensor) -> ScoreChange:
    """Exclude the keys for which a Boolean tensor is 0."""
    return lambda indices, score: excluded(broadcast_at(condition, indices), score)


@denotes("Attention")
def attention(call: Call) -> list[Tensor] | None:
    """Attention of the standard: grouped heads, a cache, a mask, a causal mask and a cap."""
    positions = [place for place in (0, 1, 2, 4, 5) if call.has(place)]
    names = call.node.output
    if not is_covered(call, *positions) or not is_float(call.dtype()):
        return None
    windows = [call.attribute(f"{side}_window_size", -1) for side in ("left", "right")]
    # operand 6 is nonpad_kv_seqlen, output 3 is qk_matmul_output
    if call.has(6) or any(names[3:]) or any(window not in (-1, None) for window in windows):
        return None
    counts = [call.attribute(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    query, key, value = (heads_of(call, call.operand(k), n or 1) for k, n in enumerate(counts))
    past: Dim = 0
    if call.has(4):
        past = call.operand(4).shape[2]
        key = joined(call, [call.operand(4), key], 2)
        value = joined(call, [call.operand(5), value], 2)
    changes = [causal(call, past)] if call.attribute("is_causal", 0) else []
    biases = [call.operand(3)] if call.has(3) else []
    changes = [*map(_mask_of, biases), *changes]
    heads = Heads(
        query,
        key,
        value,
        _scale(call, query.shape[3]),
        number_of(call, call.dtype(), call.attribute("softcap", 0.0) or 0.0),
        changes,
        biases=biases,
    )
    result = attended(call, heads)
    if call.operand(0).rank == 3:
        result = without_heads(call, result)
    return [result, key, value][: len(names)]


def _mask_of(mask: Tensor) -> ScoreChange:
    return masked(mask) if mask.dtype == TensorProto.BOOL else added(mask)


@denotes("MultiHeadAttention", domain="com.microsoft")
def multi_head_attention(call: Call) -> list[Tensor] | None:
    """Attention of ONNX Runtime: biases, a mask of keys, a bias of the scores, and a cache."""
    positions = [place for place in (0, 1, 2, 3, 5, 6, 7) if call.has(place)]
    # operands 8 and 9 are past_sequence_length and cache_indirection
    is_known = call.has(1) and call.has(2) and not any(map(call.has, (8, 9)))
    if not is_known or not is_covered(call, *positions) or any(call.node.output[3:]):
        return None
    count = call.attribute("num_heads")
    parts = [call.operand(place) for place in range(3)]
    if call.has(3):
        if any(x.rank != 3 for x in parts):
            return None
        sizes = [x.shape[2] for x in parts]
        biases = split_along(call.operand(3), 0, sizes)
        parts = [_sum(x, bias) for x, bias in zip(parts, biases, strict=True)]
    query, key, value = (heads_of(call, x, count) for x in parts)
    past: Dim = 0
    if call.has(6) and call.has(7):
        past = call.operand(6).shape[2]
        key = joined(call, [call.operand(6), key], 2)
        value = joined(call, [call.operand(7), value], 2)
    result = _biased(call, (query, key, value), past, call.operand(4) if call.has(4) else None)
    return None if result is None else [result, key, value][: len(call.node.output)]


def _biased(
    call: Call, parts: tuple[Tensor, Tensor, Tensor], past: Dim, mask: Tensor | None
) -> Tensor | None:
    """Attention with a mask of keys, the bias of the scores in operand 5, and a causal mask."""
    query, key, value = parts
    if mask is not None and mask.rank != 2:
        return None
    biases = [call.operand(5)] if call.has(5) else []
    changes = [] if mask is None else [_filtered(call, mask, key)]
    changes += map(added, biases)
    if call.attribute("unidirectional", 0):
        changes.append(causal(call, past))
    scale = _scale(call, query.shape[3])
    heads = Heads(query, key, value, scale, changes=changes, biases=biases)
    return without_heads(call, attended(call, heads))


def _sum(x: Tensor, bias: Tensor) -> Tensor:
    require_equal(bias.shape[-1], x.shape[-1], or_one=False)
    return elementwise(lambda a, b: real(a + b), [x, bias], x.shape, x.dtype)


def _filtered(call: Call, mask: Tensor, key: Tensor) -> ScoreChange:
    """Add a negative number to the scores of keys whose mask, ``(batch, key)``, is 0."""
    require_equal(mask.shape[0], key.shape[0], or_one=False)
    require_equal(mask.shape[1], key.shape[2], or_one=False)
    filler = number_of(call, call.dtype(), call.attribute("mask_filter_value", -10000.0))

    def change(indices: Indices, score: Element) -> Element:
        batch, _, _, key = indices
        kept = comparison(LESS, mask.dtype, ZERO, mask.at([batch, key]))
        return score + (ONE - kept) * filler

    return change


@denotes("Attention", domain="com.microsoft")
def contrib_attention(call: Call) -> list[Tensor] | None:
    """Attention of ONNX Runtime with the projections of queries, keys and values."""
    positions = [place for place in (0, 1, 2, 5) if call.has(place)]
    # operands 4 and 6 are past and past_sequence_length
    if any(map(call.has, (4, 6))) or not is_covered(call, *positions) or any(call.node.output[1:]):
        return None
    if call.attribute("do_rotary", 0):
        return None
    count = call.attribute("num_heads")
    x = multiplied(call.case, call.operand(0), call.operand(1))
    x = _sum(x, call.operand(2)) if call.has(2) else x
    sizes: Sequence[Dim] | None = call.attribute("qkv_hidden_sizes") or None
    if sizes is None:
        width = x.shape[2] // 3
        require_equal(width * 3, x.shape[2], or_one=False)
        sizes = [width] * 3
    query, key, value = (heads_of(call, part, count) for part in split_along(x, 2, sizes))
    result = _biased(call, (query, key, value), 0, call.operand(3) if call.has(3) else None)
    return None if result is None else [result]


@denotes("GroupQueryAttention", domain="com.microsoft")
def group_query_attention(call: Call) -> list[Tensor] | None:
    """Causal attention of ONNX Runtime with shared heads and a cache without gaps."""
    settings = ("do_rotary", "qk_output", "kv_cache_bit_width", "sliding_window_cache")
    # of the operands after total_sequence_length (6), only head_sink (11) is read
    unsupported_operands = [
        place for place in range(7, len(call.operands)) if place != 11 and call.has(place)
    ]
    if (
        unsupported_operands
        or any(call.attribute(name, 0) for name in settings)
        or any(call.node.output[3:])
    ):
        return None
    query, key, value = _queries_keys_values(call)
    reads_reals = is_float(call.dtype()) and not call.case.is_exact
    if not reads_reals or call.attribute("causal", 1) != 1:
        return _unpacked(call)
    past: Dim = 0
    if call.has(3):
        past = call.operand(3).shape[2]
        key = joined(call, [call.operand(3), key], 2)
        value = joined(call, [call.operand(4), value], 2)
    if not _is_full(call, key.shape[0], key.shape[2], has_cache=call.has(3)):
        return _unpacked(call)
    window = call.attribute("local_window_size", -1)
    changes = [causal(call, past)]
    if window > 0:
        changes.append(
            lambda indices, score: excluded(_is_near(call, indices, past, window), score)
        )
    if not call.has(3):
        changes.append(_within_length(call))
    sink = call.operand(11) if call.has(11) else None
    if sink is None and call.attribute("smooth_softmax", 0) == 1:
        sink = Tensor((query.shape[1],), query.dtype, lambda _: ZERO)
    cap = number_of(call, call.dtype(), call.attribute("softcap", 0.0) or 0.0)
    heads = Heads(query, key, value, _scale(call, query.shape[3]), cap, changes, sink)
    result = without_heads(call, attended(call, heads))
    return [result, key, value][: len(call.node.output)]


def _queries_keys_values(call: Call) -> list[Tensor]:
    """The heads of the first three operands, which may be packed into one."""
    count, kv_count = call.attribute("num_heads"), call.attribute("kv_num_heads")
    counts = (count, kv_count, kv_count)
    return [heads_of(call, x, n) for x, n in zip(_first_operands(call), counts, strict=True)]


def _first_operands(call: Call) -> list[Tensor]:
    count, kv_count = call.attribute("num_heads"), call.attribute("kv_num_heads")
    if call.has(1):
        return [call.operand(place) for place in range(3)]
    x = call.operand(0)
    size = x.shape[2] // (count + 2 * kv_count)
    return split_along(x, 2, [count * size, kv_count * size, kv_count * size])


def _unpacked(call: Call) -> list[Tensor]:
    """The results as an uninterpreted function of the unpacked operands."""
    return applied(replace(call, operands=[*_first_operands(call), *call.operands[3:]]))


def _is_full(call: Call, batch: Dim, length: Dim, *, has_cache: bool) -> bool:
    """Whether total_sequence_length (operand 6) is ``length``, the number of keys.

    With a cache, seqlens_k (operand 5) has to be ``length - 1`` for each sequence as well.
    """
    lengths = call.operand(5)
    if call.dims(6) != [length] or product(lengths.shape) != batch:
        return False
    last = lengths.at([call.case.index(size) for size in lengths.shape])
    return not has_cache or last is of_dim(length - 1)


def _is_near(call: Call, indices: Indices, past: Dim, window: int) -> Element:
    _, _, query, key = indices
    return _holds(call, key - (query + past - window + 1))


def _within_length(call: Call) -> ScoreChange:
    """Exclude the keys after the last position of each sequence."""
    lengths = call.operand(5)

    def change(indices: Indices, score: Element) -> Element:
        batch, _, _, key = indices
        last = settled(lengths.at([batch, *[0] * (lengths.rank - 1)]), lengths.dtype)
        return excluded(comparison(AT_MOST, lengths.dtype, of_dim(key), last), score)

    return change
