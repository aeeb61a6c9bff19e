"""Operators that are computed in float16, and which of their operands and results are float16."""

from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.operators import convertible_places, has_kernel
from xoptim.match import GraphView, Node, PatternRewriter
from xoptim.match.quantization import MASK
from xoptim.operators.registry import OPERATORS, Trait

from .._folding import Array, constant
from .._nodes import is_op

SUMS: Final = (
    "Attention",
    "Conv",
    "ConvTranspose",
    "Einsum",
    "Gemm",
    "MatMul",
    "com.microsoft::Attention",
    "com.microsoft::FusedMatMul",
    "com.microsoft::MultiHeadAttention",
)
"""The expensive operators. Operators around them are computed in float16 for their sake."""
OTHERS: Final = tuple(
    sorted(
        f"{domain}::{op_type}" if domain else op_type
        for (domain, op_type), operator in OPERATORS.items()
        if Trait.KEEPS_FLOAT16 in operator.traits
    )
)
"""Operators that are computed in float16 around `SUMS`.

Excluded are operators that overflow or lose digits of small numbers (Exp, Pow, Reciprocal, Sqrt),
or amplify errors (Sin and Cos of large angles, Log). Operators that count (CumSum, Range) or are
discontinuous (Floor) are excluded as well.
"""
LARGEST: Final = 2.0**15
"""Largest magnitude of a tensor that becomes float16, whose limit is 65504."""
_MASKING: Final = ("Add", "Mul", "Sub", "Where")
_MASKED = 2.0**14
"""The number that replaces those of a mask: Softmax still gives 0, and the sum of two is finite."""
_SMALLEST_NORMAL = 2.0**-14
"""The smallest normal float16 number; smaller numbers have fewer digits.

This matters for constants without larger numbers, such as an epsilon that prevents division by 0.
"""
_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16)


class Float16Places(NamedTuple):
    """The indices of the operands and results of a node that change their type."""

    operands: tuple[int, ...]
    results: tuple[int, ...]


def float16_places(g: GraphView, node: Node) -> Float16Places | None:
    """The float32 operands and results of a node that can be float16.

    ``None`` if there is no such operand, a result cannot change, or there is no float16 kernel.
    """
    counts = len(node.input), len(node.output)
    free = convertible_places(node.op_type, node.domain, node.opset, counts, _TYPES)
    operands, results = (
        [
            index
            for index, name in enumerate(names)
            if name and g.try_infer_type(name) == TensorProto.FLOAT
        ]
        for names in (node.input, node.output)
    )
    operands = [index for index in operands if index in free[0]]
    if not operands or not free[1].issuperset(results):
        return None
    if has_kernel(g.provider, node.domain, node.op_type, TensorProto.FLOAT16, node.opset) is False:
        return None
    return Float16Places(tuple(operands), tuple(results))


def float16_of(g: GraphView, name: str) -> str | Array | None:
    """A float16 tensor or constant that is equal to a float32 tensor, or ``None``.

    It is the operand of a Cast from float16, or a constant without loss of digits.
    """
    node = g.node_before(name)
    if is_op(node, "Cast") and g.try_infer_type(node.input[0]) == TensorProto.FLOAT16:
        return node.input[0]
    if not g.is_constant(name):
        return None
    numbers = constant(g, name)
    with np.errstate(over="ignore"):
        half = numbers.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), numbers, equal_nan=True) else None


def fits(g: GraphView, name: str, reader: Node) -> bool:
    """Whether a tensor may be rounded to float16.

    False for constants out of range, and for integers that a Cast converts to float32.
    """
    node = g.node_before(name)
    if is_op(node, "Cast") and g.try_infer_type(node.input[0]) not in (
        *_TYPES,
        TensorProto.BOOL,
        TensorProto.DOUBLE,
    ):
        return False
    return not g.is_constant(name) or _is_held(constant(g, name), reader)


def _is_held(numbers: Array, reader: Node) -> bool:
    """Whether a constant, except the numbers of a mask, is in the range of float16."""
    largest = _magnitude(numbers)
    if largest >= MASK:
        magnitudes = np.abs(numbers)
        if not is_op(reader, *_MASKING) and (magnitudes[np.isfinite(magnitudes)] >= MASK).any():
            return False
        largest = magnitudes.max(initial=0, where=magnitudes < MASK)  # without infinities
    return bool(largest == 0 or _SMALLEST_NORMAL <= largest <= LARGEST)  # False for NaN


def _magnitude(numbers: Array) -> float:
    """The largest magnitude, or NaN if a number is NaN. (`numpy.abs` would copy large tensors.)"""
    return float(max(numbers.max(), -numbers.min())) if numbers.size else 0.0


def rounded(numbers: Array) -> Array:
    """A constant in float16; the numbers of a mask become 16384."""
    if _magnitude(numbers) < MASK:
        return numbers.astype(np.float16)
    is_masked = np.isfinite(numbers) & (np.abs(numbers) >= MASK)
    return np.where(is_masked, np.copysign(_MASKED, numbers), numbers).astype(np.float16)


def is_square(node: Node) -> bool:
    """Whether a node squares a tensor, which doubles the exponents."""
    return is_op(node, "Mul") and node.input[0] == node.input[1]


def is_read_in_float16(g: GraphView, name: str) -> bool:
    """Whether all consumers of a result are Casts to float16."""
    consumers = g.next_nodes(name)
    is_inside = bool(consumers) and not g.is_output(name) and not g.is_used_by_subgraph(name)
    return is_inside and all(
        is_op(consumer, "Cast") and consumer.get_attribute("to") == TensorProto.FLOAT16
        for consumer in consumers
    )


def recreated(g: PatternRewriter, node: Node, operands: list[str], results: list[str]) -> Node:
    """The same operator with other operands and results. It keeps its node name, for reports."""
    copy = g.make_node(node.op_type, operands, results, domain=node.domain, **node.attribute)
    copy.name = node.name
    return copy
