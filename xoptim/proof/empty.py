"""Operators with operands of size 0: which have a meaning, and which may fail in a runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xoptim.facts.dims import Dim
from xoptim.operators.registry import OperatorKey, Trait, operator_of
from xoptim.proof.calls import Call
from xoptim.proof.indices import Unproved
from xoptim.proof.tensors import Tensor

_ORT: Final = "com.microsoft"
_CONTROL: Final[frozenset[OperatorKey]] = frozenset((("", "If"), ("", "Loop")))
"""Operators whose bodies are read. ONNX Runtime crashes on a Scan without iterations."""
SUMS: Final[frozenset[OperatorKey]] = frozenset(
    (
        *(("", name) for name in ("MatMul", "ReduceL1", "ReduceL2", "ReduceSum")),
        *(("", name) for name in ("ReduceSumSquare", "Gemm")),
        *((_ORT, name) for name in ("FusedMatMul", "TransposeMatMul")),
    )
)
"""Operators that sum, where a sum of nothing is 0."""
JOINS: Final[frozenset[OperatorKey]] = frozenset(
    ("", name)
    for name in ("Concat", "ConstantOfShape", "Pad", "Shape", "Size", "SequenceConstruct")
)
"""Operators whose results may have elements although an operand is empty."""


def check_empty(call: Call, results: Sequence[Tensor], names: Sequence[str]) -> None:
    """Raise `Unproved` where an operator has no defined result for empty operands.

    Nodes that ONNX Runtime may refuse are added to ``call.case.fragile``.

    Args:
        call: the call.
        results: its results.
        names: the operands that are computed.
    """
    node = call.node
    key = node.domain, node.op_type
    if any(isinstance(size, int) and size < 0 for x in results for size in x.shape):
        raise Unproved("a negative size")
    pairs = zip(node.input, call.operands, strict=True)
    operands = [x for name, x in pairs if name in names and x is not None]
    if not any(_is_empty(x.shape) for x in (*operands, *call.captured)):
        return
    has_elements = any(name and not _is_empty(x.shape) for name, x in _named(call, results))
    mirrors = key == ("", "Pad") and call.attribute("mode", "constant") != "constant"
    if has_elements and (mirrors or key not in SUMS | JOINS | _CONTROL):
        raise Unproved(f"{node.op_type} of an empty tensor")
    if not (_takes_empty(key) or key in SUMS | JOINS):
        call.case.fragile.setdefault(f"{node.op_type} of an empty tensor", set()).add(id(node))


def _named(call: Call, results: Sequence[Tensor]) -> Sequence[tuple[str, Tensor]]:
    return [*zip(call.node.output, results, strict=False)]


def _is_empty(shape: Sequence[Dim]) -> bool:
    return 0 in shape


def _takes_empty(key: OperatorKey) -> bool:
    """Whether ONNX Runtime runs an operator on empty operands, whose results are empty."""
    elementwise = {Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.BROADCASTS_SECOND}
    return bool(operator_of(*key).traits & (elementwise | {Trait.TAKES_EMPTY}))
