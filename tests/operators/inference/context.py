"""A node as shape formulas see it, without a graph, and facts about the results of a whole
model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from xoptim.facts.assumptions import DEFAULTS
from xoptim.facts.attributes import decode_attribute
from xoptim.facts.dims import Dim, SymbolicDim, fresh
from xoptim.facts.dtypes import element_type
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.fallback import infer_with_onnx
from xoptim.operators.inference.types import type_proto_to_info
from xoptim.operators.registry import operator_of

Input = Info | np.ndarray | None
"""Facts about an input, or the value of a constant one, or nothing."""
Body = Callable[[Sequence[Info | None] | None], list[Info]]


def array_info(array: np.ndarray) -> Info:
    """Facts about a constant."""
    data = None
    if array.dtype in (np.int64, np.int32) and array.ndim < 2 and array.size <= 64:
        data = tuple(int(v) for v in array.ravel())
    return Info(element_type(array.dtype), array.shape, data)


class FakeContext:
    """Implements `xoptim.operators.protocols.NodeContext`."""

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[Input],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        opset: int = 21,
        num_outputs: int = 1,
        bodies: Mapping[str, Body] | None = None,
    ) -> None:
        self.op_type = op_type
        self.domain = domain
        self.opset = opset
        self.num_outputs = num_outputs
        self.inputs: Sequence[Info | None] = [
            array_info(x) if isinstance(x, np.ndarray) else x for x in inputs
        ]
        self._constants = {i: x for i, x in enumerate(inputs) if isinstance(x, np.ndarray)}
        self._attributes = dict(attributes or {})
        self._bodies = dict(bodies or {})

    def input(self, index: int) -> Info | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self._attributes.get(name)
        return default if value is None else value

    def constant(self, index: int) -> np.ndarray | None:
        return self._constants.get(index)

    def data(self, index: int) -> tuple[Dim, ...] | None:
        info = self.input(index)
        return None if info is None else info.data

    def ints(self, index: int) -> list[int] | None:
        data = self.data(index)
        if data is not None:
            numbers = [d for d in data if type(d) is int]
            return numbers if len(numbers) == len(data) else None
        array = self.constant(index)
        return (
            None
            if array is None or array.dtype.kind not in "iu"
            else [int(v) for v in array.ravel()]
        )

    def fresh(self, *, nonnegative: bool = True) -> SymbolicDim:
        return fresh(nonnegative=nonnegative)

    def assumes(self, word: str) -> bool:
        return word in DEFAULTS

    def body(self, name: str, inputs: Sequence[Info | None] | None = None) -> list[Info]:
        return self._bodies[name](inputs) if name in self._bodies else []


def infer(
    op_type: str,
    inputs: Sequence[Input],
    attributes: Mapping[str, Any] | None = None,
    *,
    domain: str = "",
    opset: int = 21,
    num_outputs: int = 1,
    bodies: Mapping[str, Body] | None = None,
) -> list[Info]:
    """Facts about each output of a node, by the formula of its operator, or as onnx infers them
    without one.
    """
    context = FakeContext(
        op_type,
        inputs,
        attributes,
        domain=domain,
        opset=opset,
        num_outputs=num_outputs,
        bodies=bodies,
    )
    formula = operator_of(domain, op_type).formula
    if formula is not None:
        results = [info or UNKNOWN for info in formula(context)]
    else:
        operands = [
            "" if info is None else f"i{index}" for index, info in enumerate(context.inputs)
        ]
        names = [f"o{index}" for index in range(num_outputs)]
        node = onnx.helper.make_node(op_type, operands, names, domain=domain, **(attributes or {}))
        results = [
            info or UNKNOWN
            for info in infer_with_onnx(node, opset, context.inputs, context.constant)
        ]
    return (results + [UNKNOWN] * num_outputs)[:num_outputs]


def infer_model(model: onnx.ModelProto) -> dict[str, Info]:
    """Facts about every result of a model without subgraphs."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    known: dict[str, Info] = {v.name: type_proto_to_info(v.type) for v in model.graph.input}
    known |= {name: array_info(array) for name, array in constants.items()}
    for node in model.graph.node:
        inputs: list[Input] = [
            constants.get(name, known.get(name)) if name else None for name in node.input
        ]
        context = FakeContext(
            node.op_type,
            inputs,
            {a.name: decode_attribute(a) for a in node.attribute},
            domain=node.domain,
            opset=opsets[node.domain],
            num_outputs=len(node.output),
        )
        formula = operator_of(node.domain, node.op_type).formula
        if formula is not None:
            results = list(formula(context))
        else:
            results = infer_with_onnx(node, context.opset, context.inputs, context.constant)
        for index, name in enumerate(node.output):
            known[name] = (results[index] if index < len(results) else None) or UNKNOWN
    return known
