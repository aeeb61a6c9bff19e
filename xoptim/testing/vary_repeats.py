"""Operands that stand at several places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import ModelProto, NodeProto, ValueInfoProto
from onnx.defs import OpSchema

from xoptim.facts.schema import schema
from xoptim.testing.models import opset_of
from xoptim.testing.variant import Case, Variant, loosen

_OTHER = "near_miss_other"
_ANY_NUMBER = OpSchema.FormalParameterOption.Variadic


def inserted(case: Case) -> Iterator[Variant]:
    """Nodes with any number of operands get one more at each place: one that they have already, and another one.

    A search for the position of a repeated operand finds the wrong one: Concat(p, p, q), Concat(p, z, p, q).
    """
    for position, node in enumerate(case.model.graph.node):
        if not is_variadic(case.model, node):
            continue
        operands = list(node.input)
        found = {tuple(operands)}
        for place in range(len(operands) + 1):
            for name in dict.fromkeys((*operands, _OTHER)):
                yield from _variant(case, position, [*operands[:place], name, *operands[place:]], found)
        for name in dict.fromkeys(operands):
            yield from _variant(case, position, [name, _OTHER, *operands], found)
            yield from _variant(case, position, [*operands, _OTHER, name], found)
        yield from _variant(case, position, operands * 2, found)


def repeated(case: Case) -> Iterator[Variant]:
    """Each operand of a node in place of each other one of the same type."""
    for position, node in enumerate(case.model.graph.node):
        operands = list(node.input)
        found = {tuple(operands)}
        for place, old in enumerate(operands):
            for name in dict.fromkeys(operands):
                if name and old and case.dtype(name) and case.dtype(name) == case.dtype(old):
                    yield from _variant(case, position, [*operands[:place], name, *operands[place + 1 :]], found)


def is_variadic(model: ModelProto, node: NodeProto) -> bool:
    """Whether a node may have any number of operands."""
    found = schema(node.op_type, node.domain, opset_of(model, node.domain))
    return found is not None and bool(found.inputs) and found.inputs[-1].option == _ANY_NUMBER


def _variant(case: Case, position: int, operands: Sequence[str], found: set[tuple[str, ...]]) -> Iterator[Variant]:
    if tuple(operands) in found:
        return
    found.add(tuple(operands))
    model = case.copy()
    node = model.graph.node[position]
    # Nothing lies between a number and itself: onnxruntime's Concat leaves the column of an empty tensor unwritten, so that
    # GatherND reads whatever the memory held, in the original too.
    if node.op_type == "Range" and operands[0] == operands[1]:
        return
    if _OTHER in operands:
        like = case.types.get(node.input[0])
        if like is None or not like.HasField("tensor_type"):
            return
        model.graph.input.append(ValueInfoProto(name=_OTHER, type=like))
    node.input[:] = operands
    yield Variant(f"repeated: {node.op_type} {position} of {', '.join(operands)}", loosen(model))
