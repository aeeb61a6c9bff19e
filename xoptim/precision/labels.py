"""The origin of each element of an output: an operand of the Concats that join the output.

Each operand of a Concat gets a number. The operators that only move data then run on these numbers
in place of the values, so the result holds the origin of each element.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.protos import replace_items, standard_domain
from xoptim.operators.registry import Trait, operators_with
from xoptim.precision.calibration import Probe
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.runs.protos import tensor_array
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_JOINING: Final[Mapping[str, tuple[int, ...]]] = {
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
}
"""Operators that write one operand into another, with the indices of these two operands."""
_MOVING: Final = operators_with(Trait.MOVES) | {
    "DepthToSpace", "GatherElements", "GatherND", "Pad", "ReverseSequence", "SpaceToDepth",
}  # fmt: skip
_SCALING: Final = ("Add", "Cast", "CastLike", "Div", "Mul", "Sub")
"""Operators whose result keeps the origins of one operand if all other operands are constants."""
_MAX_OPERANDS: Final = 256


class JoinedOutput(NamedTuple):
    """An output, the tensors that it joins, and the nodes between them.

    Attributes:
        name: of the output.
        nodes: in the order of the graph.
        operands: names of the joined tensors.
    """

    name: str
    nodes: Sequence[NodeProto]
    operands: Sequence[str]


def joined_outputs(model: onnx.ModelProto) -> list[JoinedOutput]:
    """The outputs whose elements come from several tensors, through a Concat or a Scatter."""
    makers = {name: node for node in model.graph.node for name in node.output if name}
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {
        name for name, node in makers.items() if node.op_type == "Constant" and not node.domain
    }
    joined = (_joined(value.name, makers, constants) for value in model.graph.output)
    order = {id(node): index for index, node in enumerate(model.graph.node)}
    return [
        output._replace(nodes=sorted(output.nodes, key=lambda node: order[id(node)]))
        for output in joined
        if 1 < len(output.operands) <= _MAX_OPERANDS
    ]


def _joined(name: str, makers: Mapping[str, NodeProto], constants: set[str]) -> JoinedOutput:
    """An output, traced back through data movement to the tensors that it joins."""
    nodes: dict[int, NodeProto] = {}
    operands: dict[str, None] = {}
    stack = [name]
    while stack:
        tensor = stack.pop()
        node = makers.get(tensor)
        sources = () if node is None else _sources(node, constants)
        if node is None or not sources:
            operands[tensor] = None
        elif id(node) not in nodes:
            nodes[id(node)] = node
            stack += reversed(sources)
    return JoinedOutput(name, list(nodes.values()), list(operands))


def _sources(node: NodeProto, constants: set[str]) -> Sequence[str]:
    """The operands that the elements of a node's result come from; none if the node computes."""
    if standard_domain(node.domain):
        return ()
    if node.op_type == "Concat":
        return list(node.input)
    if node.op_type in _JOINING:
        return [node.input[index] for index in _JOINING[node.op_type]]
    if node.op_type in _MOVING:
        return node.input[:1]
    if node.op_type in _SCALING:
        names = [name for name in node.input if name not in constants]
        return names if len(names) == 1 else ()
    return ()


class OriginReader:
    """Reads the origins of the elements of outputs, for the shapes of a sample.

    Args:
        model: the model.
        folder: of its external data.
        outputs: some of its outputs.
        settings: of the sessions.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        outputs: Sequence[JoinedOutput],
        settings: SessionSettings,
    ) -> None:
        self._model, self._settings, self._outputs = model, settings, outputs
        tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        operands = {name for output in outputs for node in output.nodes for name in node.input}
        self._constants = {
            name: tensor_array(tensors[name], folder) for name in operands & tensors.keys()
        }
        results = {name for node in model.graph.node for name in node.output if name}
        self._probe = Probe(model, folder, operands & results, settings)

    def origins(self, feeds: Mapping[str, Value]) -> dict[str, np.ndarray]:
        """For each output an array of its shape, with the number of the operand of each element.

        Outputs for which the operators that move data do not run on these numbers are missing.
        """
        values = {**self._constants, **self._probe.run(feeds)}
        origins: dict[str, np.ndarray] = {}
        for output in self._outputs:
            try:
                origins[output.name] = self._origin(output, values)
            except (LoadError, RunError):
                continue
        return {name: array for name, array in origins.items() if _fits(array, values[name])}

    def _origin(self, output: JoinedOutput, values: Mapping[str, Value]) -> np.ndarray:
        numbers = {
            name: np.full(np.shape(values[name]), number, np.float32)  # type: ignore[arg-type]
            for number, name in enumerate(output.operands)
        }
        results = {name for node in output.nodes for name in node.output}
        nodes = [_on_numbers(node, results | numbers.keys()) for node in output.nodes]
        operands = {name for node in nodes for name in node.input if name}
        constants = {name: np.asarray(values[name]) for name in operands - results - numbers.keys()}
        graph = helper.make_graph(
            nodes,
            "origins",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in numbers],
            [helper.make_tensor_value_info(output.name, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        model = helper.make_model(
            graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version
        )
        result = Session(model, self._settings).run(numbers)[0]
        return np.asarray(result)


def _on_numbers(node: NodeProto, numbered: set[str]) -> NodeProto:
    """A copy of a node that moves the numbers of operands as the node moves their elements."""
    copy = NodeProto()
    copy.CopyFrom(node)
    if node.op_type in _SCALING:
        source = next(name for name in node.input if name in numbered)
        return helper.make_node("Identity", [source], node.output[:1])
    if node.op_type == "Pad":  # padding gets number 0, as if it came from the first operand
        copy.input[2:3] = [""] if len(copy.input) > 3 else []
        replace_items(copy.attribute, [item for item in copy.attribute if item.name != "value"])
    return copy


def _fits(origins: np.ndarray, value: Value) -> bool:
    return isinstance(value, np.ndarray) and origins.shape == value.shape


Group: TypeAlias = np.ndarray
"""Indices along an axis, in ascending order."""


def groups_along(origins: np.ndarray, axis: int) -> list[Group]:
    """The indices of an axis, grouped by the origins of the elements there, in order."""
    rows = np.moveaxis(origins, axis, 0)
    by_content: dict[bytes, list[int]] = {}
    for index, row in enumerate(rows):
        by_content.setdefault(np.ascontiguousarray(row).tobytes(), []).append(index)
    return [np.array(indices) for indices in by_content.values()]
