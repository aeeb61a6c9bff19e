"""Models whose matrix multiplications of uint8 by int8 are exact on CPUs without VNNI.

There, onnxruntime adds two products in 16 bits (``vpmaddubsw``), and sums saturate: up to half of a
value is lost, although ONNX defines exact integers. The kernels for uint8 by uint8 are exact on
every CPU. Verification therefore runs the same numbers as uint8: 128 is added to int8 operands and
to their zero points.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.lazy import lazy_module
from xoptim.facts.protos import every_node, own_graphs, standard_domain
from xoptim.verification.runs.protos import inferred_graph

ort = lazy_module("onnxruntime")

_MIDDLE: Final = 128
"""Added to int8 to make it uint8."""
_MAX_READ_BYTES: Final = 8192  # of a constant that inference may read


class _Factor(NamedTuple):
    """An operand of int8 that a kernel multiplies by one of uint8.

    Attributes:
        signed: position of the operand.
        zero: position of its zero point.
        unsigned: position of the other operand, ``None`` where the kernel quantizes it.
    """

    signed: int
    zero: int
    unsigned: int | None


_FACTORS: Final[Mapping[tuple[str, str], tuple[_Factor, ...]]] = {
    ("", "MatMulInteger"): (_Factor(1, 3, 0),),
    ("", "QLinearMatMul"): (_Factor(3, 5, 0),),
    ("", "QLinearConv"): (_Factor(3, 5, 0),),
    ("", "ConvInteger"): (_Factor(0, 2, 1),),
    ("com.microsoft", "MatMulIntegerToFloat"): (_Factor(1, 5, 0),),
    ("com.microsoft", "DynamicQuantizeMatMul"): (_Factor(1, 3, None),),
    ("com.microsoft", "QGemm"): (_Factor(3, 5, 0),),
    ("com.microsoft", "QAttention"): (_Factor(1, 7, 0),),
    ("com.microsoft", "DynamicQuantizeLSTM"): (_Factor(1, 9, None), _Factor(2, 11, None)),
}
"""The operands that kernels without VNNI multiply inexactly, measured in onnxruntime 1.32."""


@cache
def saturates() -> bool:
    """Whether onnxruntime's kernels saturate on this CPU."""
    ends = [
        helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 2]),
        helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1]),
    ]
    weights = numpy_helper.from_array(np.full((2, 1), 127, np.int8), "b")
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    graph = helper.make_graph([node], "pair", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"a": np.full((1, 2), 255, np.uint8)})
    return int(result[0, 0]) != 2 * 255 * 127


def has_inexact(model: onnx.ModelProto) -> bool:
    """Whether a model has an operator that may saturate."""
    nodes = every_node([*model.graph.node, *(n for f in model.functions for n in f.node)])
    return any((standard_domain(node.domain), node.op_type) in _FACTORS for node in nodes)


def with_exact_integers(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which operands of int8 are uint8 where kernels may saturate; operands whose types
    are not known stay.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    inferred = inferred_graph(model, _MAX_READ_BYTES) or model.graph
    _Widening().widen(copy.graph, inferred, {})
    return copy


class _Widening:
    """Replaces operands of int8; each name is replaced once in a graph."""

    def __init__(self) -> None:
        self._serial = 0

    def widen(
        self, graph: GraphProto, inferred: GraphProto, outer: Mapping[str, TensorProto | int]
    ) -> None:
        """Change a graph and its subgraphs.

        Args:
            graph: is changed.
            inferred: the same graph with the types of its results.
            outer: element types, or small constants, of the outer values that it can read.
        """
        types = {**outer, **_types(graph, inferred)}
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
        del graph.node[:]
        replaced = dict[str, str]()
        for node, typed in zip(nodes, inferred.node, strict=True):
            for body, typed_body in zip(own_graphs(node), own_graphs(typed), strict=True):
                self.widen(body, typed_body, types)
            for factor in _FACTORS.get((standard_domain(node.domain), node.op_type), ()):
                if _is_inexact(node, factor, types):
                    self._replace(graph, node, factor, replaced, types)
            graph.node.append(node)

    def _replace(
        self,
        graph: GraphProto,
        node: NodeProto,
        factor: _Factor,
        replaced: dict[str, str],
        types: Mapping[str, TensorProto | int],
    ) -> None:
        node.input.extend([""] * (factor.zero + 1 - len(node.input)))
        for place in (factor.signed, factor.zero):
            name = node.input[place]
            if name not in replaced or not name:
                replaced[name] = self._moved(graph, name, types.get(name))
            node.input[place] = replaced[name]

    def _moved(self, graph: GraphProto, name: str, value: TensorProto | int | None) -> str:
        """The name of an operand plus 128, or of 128 for an absent zero point."""
        self._serial += 1
        result = f"exact {self._serial}"
        if not name or isinstance(value, TensorProto):
            numbers = np.zeros((), np.int64)
            if isinstance(value, TensorProto):
                numbers = numpy_helper.to_array(value).astype(np.int64)
            array = np.asarray(numbers + _MIDDLE).astype(np.uint8)
            graph.initializer.append(numpy_helper.from_array(array, result))
            return result
        middle = numpy_helper.from_array(np.array(_MIDDLE, np.int32), f"{result} middle")
        graph.initializer.append(middle)
        graph.node.extend(
            (
                helper.make_node("Cast", [name], [f"{result} wide"], to=TensorProto.INT32),
                helper.make_node("Add", [f"{result} wide", middle.name], [f"{result} sum"]),
                helper.make_node("Cast", [f"{result} sum"], [result], to=TensorProto.UINT8),
            )
        )
        return result


def _types(graph: GraphProto, inferred: GraphProto) -> dict[str, TensorProto | int]:
    """The element types of the values that a graph defines; small constants as they are."""
    values = (*graph.input, *graph.value_info, *inferred.value_info, *graph.output)
    types: dict[str, TensorProto | int] = {
        value.name: value.type.tensor_type.elem_type for value in values
    }
    for tensor in graph.initializer:
        is_small = len(tensor.raw_data) + 4 * len(tensor.int32_data) <= _MAX_READ_BYTES
        is_stored = is_small and tensor.data_location != TensorProto.EXTERNAL
        types[tensor.name] = tensor if is_stored else tensor.data_type
    overridable = {value.name for value in graph.input}
    return {
        name: value.data_type if isinstance(value, TensorProto) and name in overridable else value
        for name, value in types.items()
    }


def _is_inexact(node: NodeProto, factor: _Factor, types: Mapping[str, TensorProto | int]) -> bool:
    """Whether a node multiplies uint8 by int8."""
    if len(node.input) <= factor.signed or _type(node, factor.signed, types) != TensorProto.INT8:
        return False
    unsigned = factor.unsigned
    return unsigned is None or _type(node, unsigned, types) == TensorProto.UINT8


def _type(node: NodeProto, place: int, types: Mapping[str, TensorProto | int]) -> int:
    value = types.get(node.input[place], TensorProto.UNDEFINED)
    return value.data_type if isinstance(value, TensorProto) else value
